"""PodDisruptionBudgets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.go_values import go_value
from jettison.apiserver.objects.validation.metadata import validate_selector
from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, invalid, required, too_long, unsupported
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE, validate_amount, validate_share
from jettison.engine.labels.syntax import label_key_complaints

Json = dict[str, Any]

_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_REASON: Final = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_LONGEST_REASON: Final = 1024
_LONGEST_MESSAGE: Final = 32 * 1024


def validate_budget(budget: Json, *, takes_any_value: bool = False) -> Iterator[Mistake]:
    """The spec. Neither number given is fine, and is a budget that never allows anything."""
    spec = budget["spec"]
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", _as_go(spec), "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            yield from validate_amount(spec[key], f"spec.{key}")
            yield from validate_share(spec[key], f"spec.{key}")
    yield from validate_selector(spec.get("selector") or {}, "spec.selector", takes_any_value=takes_any_value)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        yield unsupported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES)


def validate_budget_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Everything may change. A selector that was wrong before may have values that no label has."""
    was_wrong = any(validate_selector(old["spec"].get("selector") or {}, ""))
    yield from validate_budget(new, takes_any_value=was_wrong)


def validate_budget_status(new: Json, old: Json) -> Iterator[Mistake]:
    """What the disruption controller writes, or any client that may write the status."""
    del old
    status = new["status"]
    seen: set[str] = set()
    for index, condition in enumerate(status.get("conditions") or ()):
        yield from _validate_condition(condition, f"status.conditions[{index}]", seen)
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        if status[key] < 0:
            yield invalid(f"status.{key}", status[key], NOT_NEGATIVE)


def _validate_condition(condition: Json, field: str, seen: set[str]) -> Iterator[Mistake]:
    kind = condition["type"]
    if kind in seen:
        yield duplicate(f"{field}.type", kind)
    yield from (invalid(f"{field}.type", kind, why) for why in label_key_complaints(kind))
    seen.add(kind)
    if condition["status"] not in ("True", "False", "Unknown"):
        yield unsupported(f"{field}.status", condition["status"], ("False", "True", "Unknown"))
    if condition.get("observedGeneration", 0) < 0:
        why = "must be greater than or equal to zero"
        yield invalid(f"{field}.observedGeneration", condition["observedGeneration"], why)
    if condition["lastTransitionTime"] is None:
        yield required(f"{field}.lastTransitionTime")
    reason = condition["reason"]
    if not reason:
        yield required(f"{field}.reason")
    elif not re.fullmatch(_REASON, reason):
        yield invalid(f"{field}.reason", reason, _REASON_RULE)
    if len(reason.encode()) > _LONGEST_REASON:
        yield too_long(f"{field}.reason", _LONGEST_REASON)
    if len(condition["message"].encode()) > _LONGEST_MESSAGE:
        yield too_long(f"{field}.message", _LONGEST_MESSAGE)


def _as_go(spec: Json) -> Json:
    """The spec as Go prints its own value: names of Go's fields, null for what is absent."""
    return {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": go_value("LabelSelector", spec.get("selector")),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }
