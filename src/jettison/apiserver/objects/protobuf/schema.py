"""The numbers that fields travel under, from `numbers.txt`; what they hold is known to `objects/schema`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

INLINE = "+"
"""Begins the name of a struct whose fields are its parent's in JSON and a message of their own here."""

_STRUCTS = {("events.k8s.io/v1", "Event"): "EventsV1Event"}


def struct_of(api_version: str, kind: str) -> str:
    """The struct that describes a kind: two of them share the name Event."""
    return _STRUCTS.get((api_version, kind), kind)


@cache
def numbers() -> Mapping[str, Mapping[int, str]]:
    """Per struct, the field behind each number."""
    found: dict[str, dict[int, str]] = {}
    current: dict[int, str] = {}
    for line in files(__package__).joinpath("numbers.txt").read_text("ascii").splitlines():
        if line.startswith("  "):
            pairs = (each.partition(":") for each in line.split())
            current.update({int(number): name for name, _, number in pairs})
        elif line and not line.startswith("#"):
            current = found[line] = {}
    return found
