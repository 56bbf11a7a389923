"""The values of ConfigMaps and Secrets, out of their documents: bytes by key."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jettison.errors import ManifestError, kind_in_words
from jettison.manifests.files.decoding import shortened

KINDS: Final = ("ConfigMap", "Secret")

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)


class Values(NamedTuple):
    """`binary` are those of a ConfigMap that may be no text."""

    data: dict[str, bytes]
    binary: dict[str, bytes]


def object_values(document: Mapping[str, Any], most_bytes: int) -> Values:
    """All of them. Raises ManifestError for what a keeper of such objects would have refused."""
    kind = document["kind"]
    if kind == "Secret":
        found = Values({**_decoded(document, "data"), **_texts(document, "stringData")}, {})
    else:
        found = Values(_texts(document, "data"), _decoded(document, "binaryData"))
    size = sum(map(len, (*found.data.values(), *found.binary.values())))
    if size > most_bytes:
        raise ManifestError(f"{size} bytes of values, at most {most_bytes} are allowed")
    return found


def identity(document: Mapping[str, Any]) -> tuple[str, str, str]:
    """Kind, namespace and name. Raises ManifestError."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        raise ManifestError(f"a {document['kind']} has no metadata.name")
    namespace = metadata.get("namespace")
    return document["kind"], namespace if isinstance(namespace, str) and namespace else "default", name


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, str]:
    part = document.get(key) or {}
    if not isinstance(part, Mapping):
        raise ManifestError(f"{key} is {kind_in_words(part)}, expected a map")
    for name, value in part.items():
        _check_key(name, key)
        if value is not None and not isinstance(value, str):
            kind = kind_in_words(value)
            raise ManifestError(f"{key}[{shortened(name)}] is {kind}, expected a text: put it in quotes")
    return {name: value or "" for name, value in part.items()}


def is_key(name: str) -> bool:
    """Whether an object may have such a key. It becomes a file's name, so one with a slash would be another file."""
    return _KEY.fullmatch(name) is not None and name != "." and not name.startswith("..")


def _check_key(name: object, where: str) -> None:
    if not isinstance(name, str) or not is_key(name):
        shown = shortened(ascii(name).strip("'"))
        raise ManifestError(f"{where}: key `{shown}` is not made of letters, digits, `-`, `_` and `.`")


def _texts(document: Mapping[str, Any], key: str) -> dict[str, bytes]:
    return {name: value.encode("utf-8", "surrogateescape") for name, value in _part(document, key).items()}


def _decoded(document: Mapping[str, Any], key: str) -> dict[str, bytes]:
    found = {}
    for name, value in _part(document, key).items():
        try:
            found[name] = binascii.a2b_base64(value.replace("\n", "").replace("\r", ""), strict_mode=True)
        except (binascii.Error, ValueError) as error:
            raise ManifestError(f"{key}[{shortened(name)}] is not base64; `stringData` takes plain text") from error
    return found
