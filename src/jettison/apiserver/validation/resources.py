"""Quantities that containers and nodes ask for and offer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.validation.mistakes import Mistake, invalid, required
from jettison.engine.labels import label_key_complaints
from jettison.engine.quantity import parse

Json = dict[str, Any]

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def validate_requirements(resources: Json, field: str) -> Iterator[Mistake]:
    """A container's requests and limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _validate_amount(name, amount, f"{field}.limits")
    for name, amount in requests.items():
        yield from _validate_amount(name, amount, f"{field}.requests")
        if name in limits and parse(limits[name]) < parse(amount):
            yield invalid(f"{field}.requests", amount, f"must be less than or equal to {name} limit of {limits[name]}")
        elif name not in limits and not _is_overcommittable(name):
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")


def fractional_bytes(resources: Json, field: str) -> Iterator[str]:
    """Warnings: a thousandth of a byte is taken, but nobody means it."""
    for part in ("limits", "requests"):
        for name in ("ephemeral-storage", "memory"):
            amount = (resources.get(part) or {}).get(name)
            if amount is not None and parse(amount).milli % 1000:
                yield f'{field}.{part}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'


def _validate_amount(name: str, amount: str, field: str) -> Iterator[Mistake]:
    yield from validate_resource_name(name, field)
    if parse(amount).sign < 0:
        yield invalid(f"{field}[{name}]", amount, NOT_NEGATIVE)


def validate_resource_name(name: str, field: str) -> Iterator[Mistake]:
    """Either one of the standard ones or a name with a prefix."""
    if name in _STANDARD or name.startswith("hugepages-"):
        return
    for why in label_key_complaints(name):
        yield invalid(field, name, why)
    if "/" not in name:
        yield invalid(field, name, "must be a standard resource type or fully qualified")
        yield invalid(field, name, "must be a standard resource for containers")


def _is_overcommittable(name: str) -> bool:
    return name in _STANDARD
