"""PriorityClasses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, required, unsupported
from jettison.manifests.files.documents import SYSTEM_CLASSES

Json = dict[str, Any]

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_POLICIES: Final = ("Never", "PreemptLowerPriority")


def validate_priority_class(value: Json) -> Iterator[Mistake]:
    """Names that begin with `system-` are for the two built-in classes, values above a milliard too."""
    name = value["metadata"].get("name", "")
    if name.startswith("system-"):
        if why := _system_complaint(name, value):
            reserved = "priority class names with 'system-' prefix are reserved for system use only"
            yield forbidden("metadata.name", f"{reserved}. error: {why}")
    elif value["value"] > HIGHEST_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    policy = value.get("preemptionPolicy")
    if policy == "":
        yield required("preemptionPolicy")
    elif policy not in (None, *_POLICIES):
        yield unsupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))


def validate_priority_class_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Value and policy are for ever: pods carry copies."""
    if new["value"] != old["value"]:
        yield forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable")


def _system_complaint(name: str, value: Json) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if value["value"] != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    if value.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""
