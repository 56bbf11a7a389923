"""The fields of every kind, as Kubernetes 1.36 has them, from `kinds.txt`: to read by, and to find typing mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, Final

from jettison.values import frozen

_FIELD = re.compile(
    r"(?P<name>\w+):(?P<shape>(?:\[\]|\{\})*)(?P<base>\w+)(?P<marks>[*!=~]*)(?:@(?P<key>\w*))?(?:%(?P<keys>[\w,]*))?"
)
SCALARS: Final = frozenset(
    ("any", "bool", "bytes", "float64", "int32", "int64", "intOrString", "microtime", "quantity", "string", "time")
)


@frozen
class Type:
    """`shape` is `[]` or `{}` per level of list or map, outermost first; `base` a scalar or the name of a struct."""

    shape: tuple[str, ...]
    base: str

    @property
    def element(self) -> Type:
        """What the list or map holds."""
        return Type(self.shape[1:], self.base)

    @property
    def is_struct(self) -> bool:
        """Whether its fields are listed."""
        return not self.shape and self.base not in SCALARS

    def __str__(self) -> str:
        """As Go calls it in a complaint about a document."""
        spelled = {
            "time": "v1.Time",
            "microtime": "v1.MicroTime",
            "bytes": "[]uint8",
            "quantity": "resource.Quantity",
            "intOrString": "int32",
        }
        base = spelled.get(self.base, self.base if self.base in SCALARS else f"v1.{self.base}")
        return "".join("[]" if each == "[]" else "map[string]" for each in self.shape) + base


@frozen
class Field:
    """One field of a struct."""

    name: str
    type: Type
    # A zero value differs from none.
    is_pointer: bool
    # Written even when empty.
    is_always_written: bool
    # How a strategic merge patch treats it: None replaces a list, "" merges a set of strings, else the key to merge by.
    merge_key: str | None
    is_replaced: bool
    # How server-side apply treats a list: None takes it as one value, () as a set, else these keys name its elements.
    keys: tuple[str, ...] | None
    # Whether server-side apply takes a map as one value.
    is_atomic: bool


@frozen
class Struct:
    """A Go struct."""

    name: str
    # Whether server-side apply takes it as one value.
    is_atomic: bool = False
    fields: dict[str, Field] = field(default_factory=dict)


@cache
def structs() -> dict[str, Struct]:
    """All of them, by name. 6 ms, once."""
    found: dict[str, Struct] = {}
    current = Struct("")
    text = Path(__file__).with_name("kinds.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("  "):
            for match in _FIELD.finditer(line):
                current.fields[match["name"]] = _field(match)
        elif line and not line.startswith("#"):
            name = line.removesuffix(" ~")
            current = found[name] = Struct(name, is_atomic=name != line)
    return found


def unknown_fields(kind: str, document: Mapping[str, Any]) -> Iterator[tuple[str, Iterable[str]]]:
    """The path of every field that the kind does not have, and what could stand there instead.

    What is of another shape than it should be is passed over: whatever reads it says so.
    """
    rest = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
    return _unknown(Type((), kind), rest, "")


def _unknown(wanted: Type, value: object, path: str) -> Iterator[tuple[str, Iterable[str]]]:
    if wanted.is_struct and isinstance(value, Mapping):
        fields = structs()[wanted.base].fields
        for key, item in value.items():
            where = f"{path}.{key}" if path else str(key)
            if key in fields:
                yield from _unknown(fields[key].type, item, where)
            else:
                yield where, fields
    elif wanted.shape[:1] == ("[]",) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(wanted.element, item, f"{path}[{index}]")
    elif wanted.shape[:1] == ("{}",) and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unknown(wanted.element, item, f"{path}[{key}]")


def _field(match: re.Match[str]) -> Field:
    shape = tuple(re.findall(r"\[\]|\{\}", match["shape"]))
    marks, keys = match["marks"], match["keys"]
    return Field(
        match["name"], Type(shape, match["base"]), "*" in marks, "!" in marks, match["key"], "=" in marks,
        None if keys is None else tuple(filter(None, keys.split(","))), "~" in marks,
    )  # fmt: skip
