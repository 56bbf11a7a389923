"""Bearer tokens: the file that lists them with their users and roles, and the kubeconfigs that carry them.

    {"tokens": [{"token": "…", "user": "admin", "role": "admin"}, …]}

The file holds the tokens themselves and not their hashes, because the kubeconfigs beside it are written from it at
every start; both are mode 0600. An operator may add lines; they count from the next start on.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from jettison.apiserver.access.roles import ROLES
from jettison.apiserver.storage.private_files import read_private, write_private
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import decode

_TOKEN_BYTES = 32
# No blank: it would end the token in the header that carries it.
_TOKEN = re.compile(r"[!-~]+")
# Long enough that guessing is hopeless even at the rate of a loopback interface; ours have 43 characters.
_SHORTEST = 16


class TokenEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    token: str
    user: str
    role: str
    groups: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[TokenEntry, ...] = ()


_DECODER = msgspec.json.Decoder(_File)


def ensure_tokens(path: Path, wanted: Mapping[str, str]) -> tuple[TokenEntry, ...]:
    """All entries of the file, after a new token was added for each user of `wanted` (user: role) without one."""
    found = _read(path)
    known = {entry.user for entry in found}
    made = tuple(
        TokenEntry(secrets.token_urlsafe(_TOKEN_BYTES), user, role)
        for user, role in wanted.items()
        if user not in known
    )
    if made:
        write_private(path, msgspec.json.format(msgspec.json.encode(_File((*found, *made))), indent=2) + b"\n")
    return (*found, *made)


def _read(path: Path) -> tuple[TokenEntry, ...]:
    content = read_private(path)
    if content is None:
        return ()
    try:
        entries = decode(_DECODER, content, "JSON").tokens
    except ManifestError as error:
        raise InputError(f"`{path}` is not a file of tokens: {error}") from error
    _check(path, entries)
    return entries


def _check(path: Path, entries: Iterable[TokenEntry]) -> None:
    seen = set()
    for entry in entries:
        if entry.role not in ROLES:
            raise InputError(f"`{path}`: user `{entry.user}` has the role `{entry.role}`, expected {', '.join(ROLES)}")
        if not entry.user:
            raise InputError(f"`{path}`: a token has no user")
        if len(entry.token) < _SHORTEST or not _TOKEN.fullmatch(entry.token):
            raise InputError(f"`{path}`: the token of `{entry.user}` must be {_SHORTEST} printable characters or more")
        if entry.token in seen:
            raise InputError(f"`{path}`: the token of `{entry.user}` is that of another user, too")
        seen.add(entry.token)


# Kubeconfig files, one per user: all that kubectl and every client library need.
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
    """Mode 0600, because the token is in it; kubectl warns about anything wider."""
    document = kubeconfig(url, authority_pem, user, token)
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode(), is_remade=True)
