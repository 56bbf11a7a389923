"""YAML in requests and answers. Few clients send it, so it is read safely rather than fast."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from jettison.apiserver.connections.limits import MOST_BODY_BYTES
from jettison.manifests.files.plain_files import plain_text
from jettison.manifests.files.plain_yaml import load_documents


def parse_yaml(body: bytes) -> Any:
    """The first document as a JSON value, or an InputError."""
    return next(iter(load_documents(plain_text(body, "yaml"), "yaml", most=MOST_BODY_BYTES)), None)


# Writing. By hand because of what it costs: 5,000 pods take 0.6 seconds, with PyYAML 11 and with libyaml still 4.
# Whatever might be taken for a number, a date or a `no` is quoted, so that no reader gets it wrong.
_PLAIN: Final = re.compile(r"[A-Za-z/](?: ?[A-Za-z0-9_./:@=+-])*", re.ASCII)
# YAML 1.1 takes these for something else than a text, in any case of their letters.
_WORDS: Final = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null"))
# Allowed in a text of JSON; in YAML they break lines or are not allowed at all.
_SPECIAL: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def yaml_of(body: bytes) -> bytes:
    """A JSON document as YAML, its keys sorted as Kubernetes sorts them."""
    return ("\n".join(_lines(msgspec.json.decode(body), "")) + "\n").encode()


def _lines(value: Any, indent: str) -> Iterator[str]:
    deeper = f"{indent}  "
    if isinstance(value, dict) and value:
        for key in sorted(value):
            inner = value[key]
            if isinstance(inner, dict | list) and inner:
                yield f"{indent}{_text(key)}:"
                yield from _lines(inner, deeper if isinstance(inner, dict) else indent)
            else:
                yield f"{indent}{_text(key)}: {_scalar(inner)}"
    elif isinstance(value, list) and value:
        for each in value:
            lines = _lines(each, deeper)
            yield f"{indent}- {next(lines).removeprefix(deeper)}"
            yield from lines
    else:
        yield f"{indent}{_scalar(value)}"


def _scalar(value: Any) -> str:
    return _text(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text(value: str) -> str:
    is_plain = _PLAIN.fullmatch(value) and not value.endswith(":") and ": " not in value
    if is_plain and value.lower() not in _WORDS:
        return value
    quoted = msgspec.json.encode(value).decode()
    return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
