"""Fields of objects that nobody vouches for: a status may hold anything, and a table must be drawn all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]


def _at(value: object, path: str) -> object:
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def part(value: Json, path: str) -> Json:
    """The object there, or an empty one."""
    found = _at(value, path)
    return found if isinstance(found, Mapping) else {}


def parts(value: Json, path: str) -> list[Json]:
    """The objects of the list there, whatever else it holds left out."""
    found = _at(value, path)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def text(value: Json, path: str) -> str:
    """The text there, or an empty one."""
    found = _at(value, path)
    return found if isinstance(found, str) else ""


def number(value: Json, path: str, default: int = 0) -> int:
    """The whole number there, or the default."""
    found = _at(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def is_true(value: Json, path: str) -> bool:
    """Whether the field says so."""
    return _at(value, path) is True


def holds_condition(value: Json, kind: str) -> bool:
    """Whether the first status condition of this type is True."""
    found = next((each for each in parts(value, "status.conditions") if each.get("type") == kind), {})
    return found.get("status") == "True"
