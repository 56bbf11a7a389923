"""Kubeconfig files, one per user: all that kubectl and every client library need to come in."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from jettison.apiserver.storage.private_files import write_private

_CLUSTER = "jettison"


def kubeconfig(url: str, authority_pem: bytes, user: str, token: str) -> dict[str, Any]:
    """The document. The certificate is embedded, so that the file works wherever it is copied to."""
    authority = base64.b64encode(authority_pem).decode("ascii")
    context = f"{user}@{_CLUSTER}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _CLUSTER, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": _CLUSTER, "user": user}}],
        "current-context": context,
    }


def write_kubeconfig(path: Path, url: str, authority_pem: bytes, user: str, token: str) -> None:
    """Mode 0600: kubectl warns about anything wider, with reason, for the token is in it."""
    document = kubeconfig(url, authority_pem, user, token)
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode(), is_remade=True)
