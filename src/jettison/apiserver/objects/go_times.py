"""What Go says of a text that is no time: which part of the layout it could not find, or which number is too large."""

from __future__ import annotations

import calendar
import re
from typing import Final

LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"

# Each part of a layout: what stands before it, its name there, what it looks like, and what a number must stay below.
_PARTS: Final = (
    ("", "2006", r"[0-9]{4}", "", 10000),
    ("-", "01", r"[0-9]{2}", "month", 13),
    ("-", "02", r"[0-9]{2}", "", 100),
    ("T", "15", r"[0-9]{1,2}", "hour", 24),
    (":", "04", r"[0-9]{2}", "minute", 60),
    (":", "05", r"[0-9]{2}", "second", 60),
)
_FRACTION: Final = re.compile(r"[.,][0-9]+")
_MICROS: Final = re.compile(r"[.,][0-9]{6}")
_ZONE: Final = re.compile(r"Z|[+-]([0-9]{2}):([0-9]{2})")
_MOST_ZONE: Final = (("hour", 24), ("minute", 60))


def time_complaint(text: str, layout: str = LAYOUT) -> str:
    """Why Go cannot read it; empty if it can. `layout` is one of the two above."""
    rest, numbers = text, []
    for before, name, pattern, unit, limit in _PARTS:
        if not rest.startswith(before):
            return _unfound(text, layout, rest, before)
        rest = rest.removeprefix(before)
        found = re.match(pattern, rest)
        if found is None:
            return _unfound(text, layout, rest, name)
        numbers.append(int(found[0]))
        if unit and (numbers[-1] >= limit or (unit == "month" and not numbers[-1])):
            return f"parsing time {_quoted(text)}: {unit} out of range"
        rest = rest[found.end() :]
    fraction = (_MICROS if layout == MICRO_LAYOUT else _FRACTION).match(rest)
    if fraction is None and layout == MICRO_LAYOUT:
        return _unfound(text, layout, rest, ".000000")
    return _rest_complaint(text, layout, rest[fraction.end() :] if fraction else rest, numbers)


def _rest_complaint(text: str, layout: str, rest: str, numbers: list[int]) -> str:
    zone = _ZONE.match(rest)
    if zone is None:
        return _unfound(text, layout, rest, "Z07:00")
    for number, (unit, most) in zip(zone.groups(), _MOST_ZONE, strict=True):
        if number and int(number) > most:
            return f"parsing time {_quoted(text)}: time zone offset {unit} out of range"
    if extra := rest[zone.end() :]:
        return f"parsing time {_quoted(text)}: extra text: {_quoted(extra)}"
    year, month, day = numbers[:3]
    # Every 400 years are alike, and Go knows the year 0.
    if not 1 <= day <= calendar.monthrange(year % 400 + 2000, month)[1]:
        return f"parsing time {_quoted(text)}: day out of range"
    return ""


def _unfound(text: str, layout: str, rest: str, part: str) -> str:
    return f'parsing time {_quoted(text)} as "{layout}": cannot parse {_quoted(rest)} as "{part}"'


def _quoted(text: str) -> str:
    """As the package that reads times quotes: bytes that are not printable ASCII as numbers."""
    shown = (
        f"\\x{each:02x}" if each < 0x20 or each >= 0x80 else f"\\{chr(each)}" if each in b'"\\' else chr(each)
        for each in text.encode("utf-8", "surrogatepass")
    )
    return f'"{"".join(shown)}"'
