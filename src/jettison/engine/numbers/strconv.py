"""How Go reads a number and quotes a text, where that shows in Kubernetes' answers.

Kubernetes' error texts quote what they complain about with Go's `%q`, and its integers are 64 bits wide. A percentage
has Go's float syntax, 32 bits and is truncated, and the 32 bits matter: 10 % of 100Gi is 10737418400 bytes and not
…8240, and a threshold is met or not by that difference. Quantities and durations have grammars and quotes of their own.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Final

from jettison.errors import InputError

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
UINT64_MAX: Final = 2**64 - 1
_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}

_DIGITS = r"[0-9](?:_?[0-9])*"
_HEX = r"[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_DECIMAL_FLOAT = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_HEX_FLOAT = re.compile(rf"[+-]?0[xX]_?(?:{_HEX}(?:\.(?:{_HEX})?)?|\.{_HEX})[pP][+-]?{_DIGITS}", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.ASCII | re.IGNORECASE)

_INT64_MIN = -(2**63)


def parse_int64(text: str) -> int | None:
    """The number that Go's ParseInt(text, 10, 64) reads, or None where it fails.

    A plus sign and leading zeros are fine; spaces, underscores and digits of other scripts, all of which
    Python's int() takes, are not.
    """
    try:
        return atoi(text)
    except InputError:
        return None


def atoi(text: str) -> int:
    """Go's Atoi, with its error texts.

    Which of its two errors it reports is the surprise. Go reads from the left, so `99999999999999999999x` is
    out of range (twenty nines overflow 64 unsigned bits before the `x` is seen), `9999999999999999999x` with
    one nine less is bad syntax.
    """
    magnitude = _magnitude(text[1:] if text.startswith(("+", "-")) else text, UINT64_MAX)
    if magnitude is None:
        raise InputError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    number = -magnitude if text.startswith("-") else magnitude
    if not INT64_MIN <= number <= INT64_MAX:
        raise InputError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return number


def parse_uint(text: str, most: int = UINT64_MAX) -> int:
    """Go's ParseUint(text, 10, …), with its error texts and the surprise of `atoi`."""
    number = _magnitude(text, most)
    if number is None or number > most:
        why = "invalid syntax" if number is None else "value out of range"
        raise InputError(f"strconv.ParseUint: parsing {quote(text)}: {why}")
    return number


def _magnitude(text: str, most: int) -> int | None:
    """The number in the text, or one above `most` where its digits exceed that; None for what is no number before."""
    rest = text.lstrip("0123456789")
    digits = text.removesuffix(rest)
    significant = digits.lstrip("0")
    # Never convert a long run of digits: Python refuses more than 4300 of them with an error of its own.
    number = int(significant or "0") if len(significant) <= len(str(most)) else most + 1
    return None if number <= most and (rest or not digits) else number


def quote(text: str) -> str:
    """Go's `%q`: double quotes, and an escape for whatever cannot be printed.

    Half of a surrogate pair has no place in UTF-8. Go's JSON decoder turns it into U+FFFD long before
    anything is printed, so the same is done here.
    """
    return f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if 0xD800 <= code < 0xE000:
        return "\N{REPLACEMENT CHARACTER}"
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_percentage(text: str) -> float:
    """`10%` → 0.1 as a 32-bit float, or an InputError with Go's words. Every trailing `%` is dropped, not only one."""
    number = text.rstrip("%")
    if _SPECIAL.fullmatch(number):
        special = float(number)
        return math.nan if math.isnan(special) else special  # one NaN, so that equal policies compare equal
    if not (_DECIMAL_FLOAT.fullmatch(number) or _HEX_FLOAT.fullmatch(number)):
        raise InputError(f"strconv.ParseFloat: parsing {quote(number)}: invalid syntax")
    value = _nearest_float32(number.replace("_", ""))
    if value is None:
        raise InputError(f"strconv.ParseFloat: parsing {quote(number)}: value out of range")
    return _float32(value / 100.0)


def fraction_of(fraction: float, capacity: int) -> int:
    """`fraction` of `capacity`, truncated; what does not fit becomes the smallest 64-bit integer, as on amd64."""
    try:
        product = float(capacity) * fraction
    except OverflowError:
        return _INT64_MIN
    return int(product) if abs(product) < 2.0**63 else _INT64_MIN


def _nearest_float32(number: str) -> float | None:
    if "x" in number or "X" in number:
        try:
            return _float32(float.fromhex(number))
        except OverflowError:
            return None
    double = float(number)
    try:
        single = _float32(double)
    except OverflowError:
        return None
    if single == double or math.isinf(double):
        return None if math.isinf(double) else single
    # Rounding twice (text to 64 bits to 32 bits) goes wrong only when the 64-bit value lies exactly between two
    # 32-bit ones and the text does not; then the text decides. Long texts are cut: a tie needs fewer digits.
    from fractions import Fraction  # noqa: PLC0415  only here, and it costs more to import than the engine's own code

    neighbour = _neighbour(single, double)
    if neighbour is not None and len(number) <= 1000 and Fraction(double) * 2 == Fraction(single) + Fraction(neighbour):
        exact = Fraction(number)
        if exact != Fraction(double):
            return max(single, neighbour) if exact > Fraction(double) else min(single, neighbour)
    return single


def _neighbour(single: float, towards: float) -> float | None:
    (bits,) = struct.unpack("<i", struct.pack("<f", single))
    step = 1 if (towards > single) == (single >= 0) else -1
    try:
        (value,) = struct.unpack("<f", struct.pack("<i", bits + step))
    except struct.error:
        return None
    return float(value) if math.isfinite(value) else None


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def count_cpus(text: str) -> int:
    """How many different CPUs `text` names, or an InputError with Kubernetes' words."""
    if not text:
        return 0
    ranges = sorted(_range(piece) for piece in text.split(","))
    # Counted range by range: `0-9999999999` must not be walked.
    count, counted_to = 0, None
    for start, end in ranges:
        if counted_to is not None and start <= counted_to:
            start = counted_to + 1
        if start <= end:
            count += end - start + 1
            counted_to = end
    return count


def _range(piece: str) -> tuple[int, int]:
    first, dash, last = piece.partition("-")
    start = atoi(first)
    end = atoi(last) if dash else start
    if start > end:
        raise InputError(f"invalid range {quote(piece)} ({start} > {end})")
    return start, end
