"""Go durations: `1h30m`, `90.5s`, `-2µs`; parsed to integer nanoseconds and printed as Go prints them.

Every period in a KubeletConfiguration is such a text, and its error messages reach the operator verbatim.
"""

from __future__ import annotations

import re

from jettison.errors import DurationError

SECOND_NS = 10**9
MINUTE_NS = 60 * SECOND_NS

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # U+00B5, the micro sign
    "μs": 10**3,  # U+03BC, the Greek letter
    "ms": 10**6,
    "s": SECOND_NS,
    "m": MINUTE_NS,
    "h": 60 * MINUTE_NS,
}

_TERM = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^0-9.]*)", re.ASCII | re.DOTALL)
_LIMIT = 2**63


def parse_duration(text: str) -> int:
    """Nanoseconds, or a DurationError with Go's words."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    total = 0
    position = 0
    while position < len(rest):
        match = _TERM.match(rest, position)
        if match is None or match.end() == position:
            raise DurationError(f"time: invalid duration {_quote(text)}")
        total += _term(match, text)
        if total > _LIMIT:
            raise DurationError(f"time: invalid duration {_quote(text)}")
        position = match.end()
    if text[0] == "-":
        return -total
    if total == _LIMIT:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    return total


def _term(match: re.Match[str], text: str) -> int:
    whole, _point, fraction, unit_text = match.groups()
    significant = whole.lstrip("0") or "0"
    # More than 19 digits cannot fit into 64 bits; checked first because int() refuses texts beyond 4300 digits.
    if (not whole and not fraction) or len(significant) > 19 or int(significant) > _LIMIT:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    if not unit_text:
        raise DurationError(f"time: missing unit in duration {_quote(text)}")
    unit = _UNITS.get(unit_text)
    if unit is None:
        raise DurationError(f"time: unknown unit {_quote(unit_text)} in duration {_quote(text)}")
    number = int(significant)
    if number > _LIMIT // unit:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    number = number * unit + _fraction(fraction or "", unit)
    if number > _LIMIT:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    return number


def _fraction(digits: str, unit: int) -> int:
    """Go adds the fraction in 64-bit floats and drops digits once they no longer fit into 64 bits."""
    number = 0
    scale = 1.0
    for digit in digits:
        longer = number * 10 + int(digit)
        if number > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        number = longer
        scale *= 10
    return int(float(number) * (float(unit) / scale)) if number else 0


def _quote(text: str) -> str:
    out = []
    for character in text:
        if character in '"\\':
            out.append("\\" + character)
        elif " " <= character < "\x80":
            out.append(character)
        else:
            out.extend(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return '"' + "".join(out) + '"'


def duration_text(nanoseconds: int) -> str:
    """As Go prints it: `1h30m0s`, `1.5s`, `250ms`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    left = abs(nanoseconds)
    if left < SECOND_NS:
        size, unit = (1, "ns") if left < 10**3 else (10**3, "µs") if left < 10**6 else (10**6, "ms")
        return f"{sign}{_decimal(left, size)}{unit}"
    minutes, seconds = divmod(left, MINUTE_NS)
    hours, minutes = divmod(minutes, 60)
    prefix = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{prefix}{_decimal(seconds, SECOND_NS)}s"


def _decimal(number: int, size: int) -> str:
    whole, rest = divmod(number, size)
    digits = str(size + rest)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
