"""What table cells are made of: fields that may hold anything (a status is not validated), and ages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import ManifestError
from jettison.manifests.times import parse_time

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


# Ages, in the few characters that kubectl has for them: `42s`, `5m3s`, `7h12m`, `3d4h`, `2y17d`.
UNKNOWN = "<unknown>"


def age(timestamp: str, now_ns: int) -> str:
    """Since a time as objects carry it; `<unknown>` without one."""
    if not timestamp:
        return UNKNOWN
    try:
        return short_duration(now_ns - parse_time(timestamp))
    except ManifestError:
        return UNKNOWN


def between(start: str, end: str, now_ns: int) -> str:
    """From start to end, or till now while there is no end; empty before the start."""
    try:
        begun = parse_time(start) if start else None
        ended = parse_time(end) if end else now_ns
    except ManifestError:
        return UNKNOWN
    return "" if begun is None else short_duration(ended - begun)


def short_duration(nanoseconds: int) -> str:
    """Two units while the second one matters: minutes have seconds below ten, hours have minutes below eight."""
    # A clock may be a second ahead.
    if nanoseconds <= -2 * SECOND_NS:
        return "<invalid>"
    seconds = max(nanoseconds // SECOND_NS, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    steps = (
        (seconds < 120, (seconds, "s"), None),
        (minutes < 10, (minutes, "m"), (seconds % 60, "s")),
        (minutes < 180, (minutes, "m"), None),
        (hours < 8, (hours, "h"), (minutes % 60, "m")),
        (hours < 48, (hours, "h"), None),
        (days < 8, (days, "d"), (hours % 24, "h")),
        (years < 2, (days, "d"), None),
        (years < 8, (years, "y"), (days % 365, "d")),
    )
    first, second = next(((first, second) for fits, first, second in steps if fits), ((years, "y"), None))
    shown = f"{first[0]}{first[1]}"
    return f"{shown}{second[0]}{second[1]}" if second and second[0] else shown
