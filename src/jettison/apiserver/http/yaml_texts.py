"""YAML from strangers: hardly a client sends it, so it is read carefully rather than fast."""

from __future__ import annotations

from typing import Any

from jettison.apiserver.connections.limits import MOST_BODY_BYTES
from jettison.manifests.files.plain_files import plain_text
from jettison.manifests.files.plain_yaml import load_documents


def parse_yaml(body: bytes) -> Any:
    """The first document as a JSON value, or an InputError."""
    return next(iter(load_documents(plain_text(body, "yaml"), "yaml", most=MOST_BODY_BYTES)), None)
