"""Amounts of bytes, inodes and processes for people: short, signed, or with the number itself."""

from __future__ import annotations

from jettison.engine.node.signals import Resource
from jettison.engine.numbers.quantity import NANO, Quantity

_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES = (Resource.MEMORY, Resource.EPHEMERAL_STORAGE)


def whole(quantity: Quantity) -> int:
    """Rounded up. `Quantity.value` would be Go's answer, which beyond 64 bits is not the truth."""
    return -(-quantity.nanos // NANO)


def short(amount: int | Quantity, resource: Resource) -> str:
    """Bytes in the largest unit with one decimal at most (`921.6Mi`, `1Gi`), everything else as it is."""
    number = amount if isinstance(amount, int) else whole(amount)
    if resource not in _BYTES or abs(number) < 1024:
        return _digits(number)
    if abs(number) >= 1024**7:
        return f"{'-' if number < 0 else ''}over 1024Ei"
    power = 1
    while power < len(_UNITS) and abs(number) >= 1023.95 * 1024**power:
        power += 1
    unit = 1024**power
    text = str(number // unit) if number % unit == 0 else f"{number / unit:.1f}"
    return text + _UNITS[power - 1]


def signed(amount: Quantity, resource: Resource) -> str:
    """`short` with a sign, for differences."""
    text = short(amount, resource)
    return f"+{text}" if amount.sign > 0 else text


def precise(amount: int | Quantity, resource: Resource) -> str:
    """`short`, and the number itself where `short` had to round: `9.9Gi (10630044057)`."""
    text = short(amount, resource)
    number = amount if isinstance(amount, int) else whole(amount)
    return f"{text} ({_digits(number)})" if "." in text or text.endswith("over 1024Ei") else text


def _digits(number: int) -> str:
    return str(number) if abs(number) < 10**30 else "over 10^30"
