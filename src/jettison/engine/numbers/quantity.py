"""Kubernetes quantities: `100Mi`, `1500m`, `2e3`; exact values, canonical text, and Go's integer views.

A quantity is an integer times a power of ten, never finer than 10⁻⁹. Kubernetes keeps small ones in a 64-bit integer
and the rest in big decimals. The two forms agree on value and text but not on what `Value()` answers beyond 64 bits
(`12E` answers 0, `8Ei` is capped, others wrap), and that answer decides rankings and preemptions. So the form is
remembered here as well: `is_big`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from jettison.errors import QuantityError

NANO = 10**9

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_WRONG = "unable to parse quantity's suffix"
NUMBER_WRONG = "unable to parse numeric part of quantity"

# Go would spend minutes and gigabytes to compare 1e2000000000 with 1; there is no 10⁴⁰⁹⁶ of anything.
EXPONENT_LIMIT = 4096
# Nor writes it with so many characters; Python needs half a minute to read a million digits, and 5 ms for these.
LENGTH_LIMIT = 16384


class Format(Enum):
    """How a quantity prints; the names are Kubernetes'."""

    BINARY = "BinarySI"
    DECIMAL = "DecimalSI"
    EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = ["", *_BINARY_SUFFIXES]

_SCANNER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)

_INT64_MAX = 2**63 - 1
_INT64_DIGITS = 18


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """`unscaled` × 10^`scale`. Build one with `parse`, `binary` or `decimal`."""

    unscaled: int
    scale: int = 0
    format: Format = Format.DECIMAL
    is_big: bool = False
    # Kubernetes prints some parsed quantities as they were written ("+5Mi", "1E3"); arithmetic forgets it.
    spelling: str | None = None

    @property
    def nanos(self) -> int:
        """The exact value in units of 10⁻⁹."""
        return self.unscaled * int(10 ** (self.scale + 9))

    @property
    def value(self) -> int:
        """Rounded away from zero to an integer; what Go's `Value()` answers, beyond 64 bits too."""
        return _int64_at(self, 0)

    @property
    def milli(self) -> int:
        """In thousandths, rounded away from zero; what Go's `MilliValue()` answers, beyond 64 bits too."""
        return _int64_at(self, -3)

    def fits_int64(self, scale: int = 0) -> bool:
        """Whether the integer view at 10^`scale` is the truth and not what is left of it in 64 bits."""
        return -(-abs(self.nanos) // int(10 ** (9 + scale))) <= _INT64_MAX

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def in_form_of(self, other: Quantity) -> Quantity:
        """Itself after Go has compared it with `other`: a comparison with a big decimal leaves a big decimal."""
        if self.is_big or not other.is_big:
            return self
        return Quantity(self.unscaled, self.scale, self.format, is_big=True, spelling=self.spelling)

    def __bool__(self) -> bool:
        return self.unscaled != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __add__(self, other: Quantity) -> Quantity:
        return _sum(self, other, other.unscaled)

    def __sub__(self, other: Quantity) -> Quantity:
        # Go negates a 64-bit integer in place, and -2⁶³ (a threshold of NaN%) stays what it is.
        negated = -other.unscaled if self.is_big or other.is_big else wrapped(-other.unscaled)
        return _sum(self, other, negated)

    def __neg__(self) -> Quantity:
        return Quantity(-self.unscaled, self.scale, self.format, self.is_big)

    def __str__(self) -> str:
        return self.spelling or canonical(self)


ZERO = Quantity(0)


def binary(number: int) -> Quantity:
    """A measured number of bytes; prints with Ki, Mi, Gi."""
    return Quantity(number, 0, Format.BINARY)


def decimal(number: int) -> Quantity:
    """A counted number of things; prints with k, M, G."""
    return Quantity(number, 0, Format.DECIMAL)


def binary_text(number: int) -> str:
    """`str(binary(number))`, without the detour: a message about 10,000 pods has 20,000 of these."""
    if -1024 < number < 1024 or number == -(2**63):
        return canonical(binary(number))
    return _binary_text(number)


def parse(text: str) -> Quantity:
    """The quantity that `text` spells, or a QuantityError with Kubernetes' words."""
    known = _KNOWN.get(text)
    if known is not None:
        return known
    quantity = _parse(text)
    if len(text) <= 32:
        if len(_KNOWN) >= 4096:
            _KNOWN.clear()
        _KNOWN[text] = quantity
    return quantity


def parse_field(text: str) -> Quantity:
    """The quantity in a field of a Kubernetes document, where spaces around it do not count; elsewhere they do."""
    return parse(text.strip(_SPACES))


# What Go takes for a space, without tabs and line ends: JSON spells those with a backslash, and Kubernetes reads the
# spelling.
_SPACES = " \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

# A node's pods spell the same few requests; a dictionary answers in a third of lru_cache's time.
_KNOWN: dict[str, Quantity] = {}


def _parse(text: str) -> Quantity:
    if len(text) > LENGTH_LIMIT:
        raise QuantityError(f"quantity of {len(text)} characters is too long, at most {LENGTH_LIMIT} are supported")
    match = _SCANNER.fullmatch(text)
    if match is None or not text:
        raise QuantityError(FORMAT_WRONG)
    sign, whole, fraction, suffix = match.groups()
    fraction = fraction or ""
    if text == "0":
        return ZERO
    exponent, format_ = _interpret(suffix)
    whole_digits = whole.lstrip("0") or "0"
    small = _small(sign, whole_digits, fraction, exponent, format_)
    if small is not None:
        keeps = _keeps_spelling(small, whole_digits + fraction, format_)
        return Quantity(small[0], small[1], format_, spelling=text if keeps else None)
    if not whole and not fraction:
        raise QuantityError(NUMBER_WRONG)
    return _big(sign, whole + fraction, len(fraction), exponent, format_)


def _interpret(suffix: str) -> tuple[int, Format]:
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix], Format.DECIMAL
    if suffix in _BINARY_SUFFIXES:
        return _BINARY_SUFFIXES[suffix], Format.BINARY
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(suffix) > 40:
        raise QuantityError(SUFFIX_WRONG)
    number = int(match[1])
    if not -(2**63) <= number < 2**63:
        raise QuantityError(SUFFIX_WRONG)
    exponent = (number + 2**31) % 2**32 - 2**31  # upstream cuts the exponent to 32 bits: 1e4294967299 is 1000
    if exponent > EXPONENT_LIMIT:
        raise QuantityError(f"quantity exponent `{number}` is out of range, at most {EXPONENT_LIMIT} is supported")
    return exponent, Format.EXPONENT


def _small(sign: str, whole: str, fraction: str, exponent: int, format_: Format) -> tuple[int, int] | None:
    """Number and scale if Kubernetes would hold this quantity in a 64-bit integer, else None."""
    if format_ is Format.BINARY:
        if fraction or 15 - len(whole) - exponent * 3 // 10 - 1 < 0:
            return None
        number, scale = int(whole) << exponent, 0
        if number > _INT64_MAX:
            return None
    else:
        scale = exponent - len(fraction)
        if len(whole) + len(fraction) > _INT64_DIGITS or scale < -9:
            return None
        number = int(whole + fraction)
    return (-number if sign == "-" else number), scale


def _keeps_spelling(small: tuple[int, int], digits: str, format_: Format) -> bool:
    if format_ is Format.BINARY:
        return int(digits) % 8 != 0
    return small[1] % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")


def _big(sign: str, digits: str, places: int, exponent: int, format_: Format) -> Quantity:
    number = _from_digits(digits)
    scale = -places
    if format_ is Format.BINARY:
        number <<= exponent
    else:
        scale += exponent
    if number:
        number = _round_up(number, scale, len(digits))
        scale = -9
    else:
        scale = 0
    if format_ is Format.BINARY:
        if number > _INT64_MAX * NANO:
            number, scale = _INT64_MAX, 0
        elif 0 < number < NANO:
            format_ = Format.DECIMAL
    return Quantity(-number if sign == "-" else number, scale, format_, is_big=True)


def _round_up(number: int, scale: int, digits: int) -> int:
    """`number` × 10^`scale` in units of 10⁻⁹, rounded away from zero: a small request is never zero."""
    shift = scale + 9
    if shift >= 0:
        return number * int(10**shift)
    if -shift > digits + 1:
        return 1  # far below 10⁻⁹; the division would only build a power of ten with billions of digits
    return -(-number // int(10**-shift))


def _sum(left: Quantity, right: Quantity, addend: int) -> Quantity:
    format_ = left.format if left.unscaled else right.format
    is_big = left.is_big or right.is_big
    if not is_big:
        if addend == 0:
            return Quantity(left.unscaled, left.scale, format_)
        if left.unscaled == 0:
            return Quantity(addend, right.scale, format_)
    scale = min(left.scale, right.scale)
    one = left.unscaled * int(10 ** (left.scale - scale))
    two = addend * int(10 ** (right.scale - scale))
    total = one + two
    fits = max(abs(one), abs(two), abs(total)) <= _INT64_MAX
    return Quantity(total, scale, format_, is_big or not fits)


def rounded_up(quantity: Quantity, scale: int) -> Quantity:
    """The quantity in whole units of 10^`scale`, rounded away from zero; itself where it is no finer than that."""
    if quantity.scale >= scale:
        return quantity
    unit = int(10 ** (scale - quantity.scale))
    size = -(-abs(quantity.unscaled) // unit)
    return Quantity(size if quantity.unscaled >= 0 else -size, scale, quantity.format, quantity.is_big)


def canonical(quantity: Quantity) -> str:
    """Kubernetes' canonical text, regardless of how the quantity was written."""
    number = quantity.unscaled
    if number == 0:
        return "0"
    format_ = quantity.format
    if format_ is Format.BINARY:
        nanos = quantity.nanos
        whole, rest = divmod(nanos, NANO)
        # Upstream cannot negate -2⁶³ and so finds no power of 1024 in it, unless it came from a sum.
        is_stuck = whole == -(2**63) and not quantity.is_big
        if rest == 0 and abs(whole) >= 1024 and not is_stuck:
            return _binary_text(whole)
        format_ = Format.DECIMAL
    digits = _digits(number)
    kept = digits.rstrip("0")
    exponent = quantity.scale + len(digits) - len(kept)
    kept += "0" * (exponent % 3)
    exponent -= exponent % 3
    if format_ is Format.EXPONENT:
        return kept + (f"e{exponent}" if exponent else "")
    # 10²¹ and above have no suffix, and upstream then prints none: 1000E becomes "1".
    return kept + _DECIMAL_NAMES.get(exponent, "")


def _binary_text(number: int) -> str:
    power = 0
    while number % 1024 == 0:
        number //= 1024
        power += 1
    return _digits(number) + (_BINARY_NAMES[power] if power < len(_BINARY_NAMES) else "")


# Python refuses to convert more than 4300 digits at once, for fear of taking long; in pieces it is quick enough.
_PIECE = 4000
_PIECE_END = 10**_PIECE


def _from_digits(digits: str) -> int:
    number = 0
    for start in range(0, len(digits), _PIECE):
        piece = digits[start : start + _PIECE]
        number = number * int(10 ** len(piece)) + int(piece)
    return number


def _digits(number: int) -> str:
    sign, left, pieces = ("-" if number < 0 else ""), abs(number), []
    while left >= _PIECE_END:
        left, piece = divmod(left, _PIECE_END)
        pieces.append(f"{piece:0{_PIECE}d}")
    return sign + str(left) + "".join(reversed(pieces))


def wrapped(number: int) -> int:
    """What is left of a number in 64 bits with a sign, as Go has it."""
    return (number + 2**63) % 2**64 - 2**63


def _int64_at(quantity: Quantity, scale: int) -> int:
    """The quantity in units of 10^`scale`, rounded away from zero, as a 64-bit integer the way Go computes it."""
    return (_big_int64 if quantity.is_big else _small_int64)(quantity.unscaled, quantity.scale - scale)


def _small_int64(number: int, shift: int) -> int:
    if shift < 0:
        magnitude = -(-abs(number) // int(10**-shift))
        return magnitude if number >= 0 else -magnitude
    product = number * int(10**shift)
    if -_INT64_MAX <= product <= _INT64_MAX:
        return product
    # Some scales are one multiplication that wraps; the others are a loop that gives up with 0.
    return wrapped(product) if shift in (1, 2, 3, 6, 9) else 0


def _big_int64(number: int, shift: int) -> int:
    low = wrapped(abs(number)) if number >= 0 else wrapped(-wrapped(abs(number)))
    if shift >= 0:
        return wrapped(low * int(10**shift))
    divisor = int(10**-shift)
    if number < _INT64_MAX:
        quotient = abs(low) // divisor
        quotient = quotient if low >= 0 else -quotient
        return quotient + (1 if low % divisor else 0)
    return wrapped(-(-number // divisor))
