"""Percentages as the kubelet computes them: Go's float syntax, 32-bit floats, truncation.

The 32 bits matter: 10 % of 100Gi is 10737418400 bytes and not …8240, and a threshold is met or not by that difference.
"""

from __future__ import annotations

import math
import re
import struct

from jettison.engine.numbers.strconv import quote
from jettison.errors import InputError

_DIGITS = r"[0-9](?:_?[0-9])*"
_HEX = r"[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_DECIMAL_FLOAT = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_HEX_FLOAT = re.compile(rf"[+-]?0[xX]_?(?:{_HEX}(?:\.(?:{_HEX})?)?|\.{_HEX})[pP][+-]?{_DIGITS}", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.ASCII | re.IGNORECASE)

_INT64_MIN = -(2**63)


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
