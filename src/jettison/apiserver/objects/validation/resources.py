"""Quantities that containers and nodes ask for and offer, and numbers that may also be percentages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, required
from jettison.engine.labels.syntax import label_key_complaints
from jettison.engine.numbers.quantity import parse

Json = dict[str, Any]

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED: Final = frozenset({"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"})


def validate_requirements(resources: Json, field: str) -> Iterator[Mistake]:
    """A container's requests and limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _validate_amount(name, amount, f"{field}.limits")
    for name, amount in requests.items():
        yield from _validate_amount(name, amount, f"{field}.requests")
        if name in limits:
            limit, wanted = parse(limits[name]), parse(amount)
            if not _is_overcommittable(name) and wanted != limit:
                yield invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limits[name]}")
            elif limit < wanted:
                why = f"must be less than or equal to {name} limit of {limits[name]}"
                yield invalid(f"{field}.requests", amount, why)
        elif not _is_overcommittable(name):
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")


def fractional_bytes(resources: Json, field: str) -> Iterator[str]:
    """Warnings: a thousandth of a byte is accepted, and is a mistake."""
    for part in ("limits", "requests"):
        for name in ("ephemeral-storage", "memory"):
            amount = (resources.get(part) or {}).get(name)
            if amount is not None and parse(amount).milli % 1000:
                yield f'{field}.{part}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'


def _validate_amount(name: str, amount: str, field: str) -> Iterator[Mistake]:
    yield from validate_resource_name(name, f"{field}[{name}]")
    if parse(amount).sign < 0:
        yield invalid(f"{field}[{name}]", amount, NOT_NEGATIVE)
    if is_whole(name) and parse(amount).milli % 1000:
        yield invalid(f"{field}[{name}]", amount, "must be an integer")


def validate_resource_name(name: str, field: str) -> Iterator[Mistake]:
    """Either one of the standard ones or a name with a prefix."""
    if name in _STANDARD or name.startswith("hugepages-"):
        return
    complaints = list(label_key_complaints(name))
    yield from (invalid(field, name, why) for why in complaints)
    if "/" not in name:
        if not complaints and name not in _COUNTED and name != "storage":
            yield invalid(field, name, "must be a standard resource type or fully qualified")
        yield invalid(field, name, "must be a standard resource for containers")


def is_whole(name: str) -> bool:
    """Whether it is counted in whole numbers."""
    return name in _COUNTED or ("/" in name and "kubernetes.io/" not in name)


def _is_overcommittable(name: str) -> bool:
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")


# Numbers that may also be percentages, as budgets and rollouts have them.
_PERCENT: Final = re.compile(r"[0-9]+%")
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def validate_amount(amount: int | str, field: str) -> Iterator[Mistake]:
    """Not negative, or a percentage, which may be above 100."""
    if isinstance(amount, int):
        if amount < 0:
            yield invalid(field, amount, NOT_NEGATIVE)
    elif not _PERCENT.fullmatch(amount):
        yield invalid(field, amount, _PERCENT_RULE)


def validate_share(amount: int | str, field: str) -> Iterator[Mistake]:
    """A percentage of at most 100; numbers are not checked."""
    if not isinstance(amount, str) or not _PERCENT.fullmatch(amount):
        return
    # By its length first: a million digits are a text, and slow to read as a number.
    if len(amount.lstrip("0")) > len("100%") or int(amount[:-1]) > 100:
        yield invalid(field, amount, "must not be greater than 100%")


def is_nothing(amount: int | str) -> bool:
    """Whether it is none at all; a text that is no percentage counts as none, as upstream has it."""
    if isinstance(amount, int):
        return amount == 0
    return not _PERCENT.fullmatch(amount) or not amount[:-1].strip("0")
