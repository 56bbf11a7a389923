"""Quantities that are to be read again: a text that brings back the very same quantity, not only as much.

What a quantity prints is not always what it was read from: `0.5Ki` prints as `512`, which reads back as a decimal
number and makes every sum with it print differently; `1000E` even prints as `1`, as it does upstream. Whoever stores a
pod to decide about it again needs the same sums and the same messages.
"""

from __future__ import annotations

from decimal import Decimal

from jettison.engine.numbers.quantity import EXPONENT_LIMIT, LENGTH_LIMIT, Format, Quantity, canonical, parse
from jettison.errors import QuantityError

_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_LARGEST_BINARY = (2**63 - 1, 0)
_BEYOND_LARGEST = "8Ei"


def exact_text(quantity: Quantity) -> str:
    """For any quantity that `parse` made; short and familiar wherever that is enough."""
    if quantity.spelling is not None:
        return quantity.spelling
    text = canonical(quantity)
    try:
        is_exact = _is_same(parse(text), quantity)
    except QuantityError:  # canonical exponents may be beyond what is read
        is_exact = False
    if is_exact:
        return text
    text = (_big_text if quantity.is_big else _small_text)(quantity, abs(quantity.unscaled))
    if len(text) >= LENGTH_LIMIT:
        text = f"1e{EXPONENT_LIMIT}"  # sixteen thousand digits: more than anything there is, and so is this
    return f"-{text}" if quantity.unscaled < 0 else text


def _is_same(one: Quantity, other: Quantity) -> bool:
    return (one.unscaled, one.scale, one.format, one.is_big) == (
        other.unscaled,
        other.scale,
        other.format,
        other.is_big,
    ) and str(one) == str(other)


def _small_text(quantity: Quantity, number: int) -> str:
    scale = quantity.scale
    if quantity.format is Format.BINARY:
        return f"{number}Ki"  # only zero gets here: everything else prints exactly
    if quantity.format is Format.EXPONENT:
        # `5e0` would be remembered as it is written; behind a point the digits are not.
        return f"0.{number}e{len(str(number))}" if scale == 0 and number % 1000 else f"{number}e{scale}"
    places = -scale % 3
    return _with_point(str(number), places) + _DECIMAL_SUFFIXES[scale + places]


def _big_text(quantity: Quantity, number: int) -> str:
    """A binary quantity is read as a big one if it has a point, others if they have more than nine digits behind it."""
    if quantity.format is Format.BINARY:
        if (number, quantity.scale) == _LARGEST_BINARY:
            return _BEYOND_LARGEST
        text = canonical(quantity).lstrip("-")
        if text.endswith("i"):
            return f"{text[:-2]}.0{text[-2:]}"
        return _with_point(_digits(number * 5**10), 19) + "Ki"
    return _with_point(_digits(number) + "0", 10) + ("e0" if quantity.format is Format.EXPONENT else "")


def _with_point(digits: str, places: int) -> str:
    if places == 0:
        return digits
    digits = digits.rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


def _digits(number: int) -> str:
    return format(Decimal(number), "f")  # str() refuses more than 4300 digits
