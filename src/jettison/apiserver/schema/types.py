"""The fields of every kind, from `kinds.txt`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final

_FIELD = re.compile(r"(?P<name>\w+):(?P<shape>(?:\[\]|\{\})*)(?P<base>\w+)(?P<marks>[*!=]*)(?:@(?P<key>\w*))?")
SCALARS: Final = frozenset(
    ("any", "bool", "float64", "int32", "int64", "intOrString", "microtime", "quantity", "string", "time")
)


@dataclass(frozen=True, slots=True)
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
            "quantity": "resource.Quantity",
            "intOrString": "int32",
        }
        base = spelled.get(self.base, self.base if self.base in SCALARS else f"v1.{self.base}")
        return "".join("[]" if each == "[]" else "map[string]" for each in self.shape) + base


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Struct:
    """A Go struct."""

    name: str
    fields: dict[str, Field] = field(default_factory=dict)


@cache
def structs() -> dict[str, Struct]:
    """All of them, by name. 6 ms, once."""
    found: dict[str, Struct] = {}
    current = Struct("")
    text = files(__package__).joinpath("kinds.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("  "):
            for match in _FIELD.finditer(line):
                current.fields[match["name"]] = _field(match)
        elif line and not line.startswith("#"):
            current = found[line] = Struct(line)
    return found


def _field(match: re.Match[str]) -> Field:
    shape = tuple(re.findall(r"\[\]|\{\}", match["shape"]))
    marks = match["marks"]
    return Field(
        match["name"], Type(shape, match["base"]), "*" in marks, "!" in marks, match["key"], "=" in marks
    )  # fmt: skip
