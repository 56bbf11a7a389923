"""YAML from strangers: only what JSON can say comes out, and no more of it than went in.

Hardly a client sends YAML, so it is read carefully rather than fast: libyaml crashes the process on deep nests, and
aliases make gigabytes of kilobytes.
"""

from __future__ import annotations

import math
from typing import Any, Final

import yaml

from jettison.apiserver.limits import MOST_BODY_BYTES
from jettison.errors import InputError
from jettison.manifests.plain_yaml import PlainLoader, look_through

_INT64: Final = 2**63
_UINT64: Final = 2**64


def parse_yaml(body: bytes) -> Any:
    """The first document as a JSON value, or an InputError."""
    try:
        text = body.decode("utf-8")
        look_through(text, "yaml")
        value = next(yaml.load_all(text, Loader=PlainLoader), None)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"yaml: {' '.join(str(error).split())}") from error
    return _Copy().of(value)


class _Copy:
    """Builds the JSON value, and keeps count: an alias is a copy of what it stands for."""

    def __init__(self) -> None:
        self._left = MOST_BODY_BYTES

    def of(self, value: object) -> Any:
        self._spend(1)
        match value:
            case None | bool():
                return value
            case str():
                self._spend(len(value))
                return value
            case int() if -_INT64 <= value < _UINT64:
                return value
            case float() if math.isfinite(value):
                return value
            case list():
                return [self.of(each) for each in value]
            case dict():
                return {self._key(key): self.of(each) for key, each in value.items()}
            case _:
                raise InputError(f"yaml: a {type(value).__name__} cannot be said in JSON")

    def _key(self, key: object) -> str:
        """`1: a` and `yes: b` are texts in JSON."""
        if not isinstance(key, str | int | float):
            raise InputError(f"yaml: a {type(key).__name__} cannot be a key")
        text = str(key).lower() if isinstance(key, bool) else str(key)
        self._spend(len(text))
        return text

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise InputError(f"yaml: the document stands for more than {MOST_BODY_BYTES} bytes")
