"""How a Deployment wants to be rolled out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.amounts import is_nothing, validate_amount, validate_share
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, unsupported
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE

Json = dict[str, Any]

_RECREATE: Final = "Recreate"
_ROLLING: Final = "RollingUpdate"
_LIMITS: Final = "spec.strategy.rollingUpdate"


def validate_strategy(strategy: Json) -> Iterator[Mistake]:
    """The strategy with its limits."""
    limits: Any = strategy.get("rollingUpdate")
    if strategy["type"] == _ROLLING:
        yield from _validate_limits(limits)
    elif strategy["type"] != _RECREATE:
        shown = {"Type": strategy["type"], "RollingUpdate": None}
        if limits is not None:
            shown["RollingUpdate"] = {
                "MaxUnavailable": limits.get("maxUnavailable", 0),
                "MaxSurge": limits.get("maxSurge", 0),
            }
        yield unsupported("spec.strategy", shown, (_RECREATE, _ROLLING))
    elif limits is not None:
        yield forbidden(_LIMITS, f"may not be specified when strategy `type` is '{_RECREATE}'")


def validate_deadline(spec: Json) -> Iterator[Mistake]:
    """One that can be met."""
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is None:
        return
    if deadline < 0:
        yield invalid("spec.progressDeadlineSeconds", deadline, NOT_NEGATIVE)
    if deadline <= spec.get("minReadySeconds", 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _validate_limits(limits: Json) -> Iterator[Mistake]:
    """Not both 0: no pod could ever be replaced."""
    unavailable, surge = limits["maxUnavailable"], limits["maxSurge"]
    yield from validate_amount(unavailable, f"{_LIMITS}.maxUnavailable")
    yield from validate_amount(surge, f"{_LIMITS}.maxSurge")
    if is_nothing(unavailable) and is_nothing(surge):
        yield invalid(f"{_LIMITS}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from validate_share(unavailable, f"{_LIMITS}.maxUnavailable")
