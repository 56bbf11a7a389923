"""ConfigMaps, Secrets and the service accounts of pods."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.schema import found_kind
from jettison.apiserver.objects.validation.metadata import subdomain_name, validate_known_metadata
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, required, too_long
from jettison.errors import InputError

Json = dict[str, Any]

MOST_BYTES: Final = 1024 * 1024
"""All values of a ConfigMap or Secret together, as in Kubernetes."""

OPAQUE: Final = "Opaque"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ENFORCE_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"

_LONGEST_KEY: Final = 253
_KEY: Final = "[-._a-zA-Z0-9]+"
_KEY_COMPLAINT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_KEY}')"
)
_FIXED: Final = "field is immutable when `immutable` is set"

_DOCKER_KEYS: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def key_complaints(key: str) -> Iterator[str]:
    """What may be a key of a ConfigMap or Secret: it becomes a file's name."""
    if len(key.encode("utf-8", "replace")) > _LONGEST_KEY:
        yield f"must be no more than {_LONGEST_KEY} characters"
    if not re.fullmatch(_KEY, key):
        yield _KEY_COMPLAINT
    if key == ".":
        yield "must not be '.'"
    elif key == "..":
        yield "must not be '..'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def validate_config_map(value: Json) -> Iterator[Mistake]:
    """Keys, and all values together."""
    data, binary = value.get("data") or {}, value.get("binaryData") or {}
    for key in sorted(data):
        yield from (invalid(f"data[{key}]", key, why) for why in key_complaints(key))
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in sorted(binary):
        yield from (invalid(f"binaryData[{key}]", key, why) for why in key_complaints(key))
    if sum(map(_text_size, data.values())) + sum(map(_decoded_size, binary.values())) > MOST_BYTES:
        # A path without a name, as Go prints it: the whole object is meant.
        yield too_long("[]", MOST_BYTES)


def validate_config_map_update(new: Json, old: Json) -> Iterator[Mistake]:
    """One that says so never changes again."""
    yield from _immutable(new, old, ("data", "binaryData"))
    yield from validate_known_metadata(new["metadata"], subdomain_name)
    yield from validate_config_map(new)


def validate_secret(value: Json) -> Iterator[Mistake]:
    """Keys, all values together, and the keys that its type asks for."""
    data = value.get("data") or {}
    for key in sorted(data):
        yield from (invalid(f"data[{key}]", key, why) for why in key_complaints(key))
    if sum(map(_decoded_size, data.values())) > MOST_BYTES:
        yield too_long("data", MOST_BYTES)
    kind = value.get("type", "")
    if kind in _DOCKER_KEYS:
        yield from _docker_mistakes(data, _DOCKER_KEYS[kind])
    elif kind == "kubernetes.io/service-account-token":
        if not (value["metadata"].get("annotations") or {}).get(ACCOUNT_NAME):
            yield required(f"metadata.annotations[{ACCOUNT_NAME}]")
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            yield from (required(f"data[{key}]") for key in ("username", "password"))
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            yield required("data[ssh-privatekey]")
    elif kind == "kubernetes.io/tls":
        yield from (required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data)


def validate_secret_update(new: Json, old: Json) -> Iterator[Mistake]:
    """The type stays, and of an immutable one everything."""
    if new.get("type", "") != old.get("type", ""):
        yield invalid("type", new.get("type", ""), "field is immutable")
    yield from _immutable(new, old, ("data",))
    yield from validate_known_metadata(new["metadata"], subdomain_name)
    yield from validate_secret(new)


def _immutable(new: Json, old: Json, fields: tuple[str, ...]) -> Iterator[Mistake]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _FIXED)
    yield from (forbidden(key, _FIXED) for key in fields if (new.get(key) or {}) != (old.get(key) or {}))


def _docker_mistakes(data: Json, key: str) -> Iterator[Mistake]:
    if key not in data:
        yield required(f"data[{key}]")
        return
    # Not before: how bodies are read depends on the kinds, of which these rules are a part.
    from jettison.apiserver.http.texts import parse_json  # noqa: PLC0415

    try:
        content = parse_json(base64.b64decode(data[key]))
        if not isinstance(content, dict | None):
            kind = found_kind(content)
            raise InputError(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
    except InputError as error:
        yield invalid(f"data[{key}]", "<secret contents redacted>", str(error))


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _decoded_size(text: str) -> int:
    """Of base64, which was read before and so is well formed."""
    return len(text) // 4 * 3 - text.count("=", -2)


def default_config_map(value: Json) -> None:
    """Kubernetes fills in an empty map, and then does not write it."""
    if not value.get("data"):
        value.pop("data", None)


def default_secret(value: Json) -> None:
    """`stringData` is for writing only: it goes over `data`."""
    texts = value.pop("stringData", None)
    if texts:
        added = {key: base64.b64encode(text.encode("utf-8", "surrogatepass")).decode() for key, text in texts.items()}
        value["data"] = {**(value.get("data") or {}), **added}
    if not value.get("type"):
        value["type"] = OPAQUE


def default_account(value: Json) -> None:
    """Of the secrets that an account names, only the names are kept."""
    if value.get("secrets"):
        value["secrets"] = [{"name": each["name"]} if each.get("name") else {} for each in value["secrets"]]


def warn_secret(secret: Json) -> Iterator[str]:
    """Of a certificate and its key, where one is none at all."""
    if secret.get("type") != "kubernetes.io/tls":
        return
    data = secret.get("data") or {}
    for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in base64.b64decode(data.get(key) or ""):
            yield f"tls: failed to find any PEM data in {what} input"
            return


def warn_changed_account(new: Json, old: Json) -> Iterator[str]:
    """Where the annotation is new."""
    if ENFORCE_MOUNTABLE not in (old["metadata"].get("annotations") or {}):
        yield from warn_account(new)


def warn_account(value: Json) -> Iterator[str]:
    """An annotation that does nothing here, and is on its way out there."""
    if ENFORCE_MOUNTABLE in (value["metadata"].get("annotations") or {}):
        why = "prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{ENFORCE_MOUNTABLE}]: deprecated in v1.32+; {why}"
