"""Events, leases, revisions and priority classes: kinds with few rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, required, unsupported
from jettison.engine.labels.syntax import label_key_complaints
from jettison.manifests.files.documents import SYSTEM_CLASSES

Json = dict[str, Any]

_IMMUTABLE: Final = "field is immutable"
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def validate_event(event: Json) -> Iterator[Mistake]:
    """An event lives where its object does; what is in no namespace has its events in `default`."""
    yield from _validate_event(event, "reportingComponent")


def validate_new_event(event: Json) -> Iterator[Mistake]:
    """One that came through events.k8s.io, which knows no old-fashioned events."""
    yield from _validate_event(event, "reportingController")
    yield from _validate_series(event)
    if not event.get("eventTime"):
        yield required("eventTime")
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {kind}")
    source = event.get("source") or {}
    for key, value in (
        ("firstTimestamp", event.get("firstTimestamp")),
        ("lastTimestamp", event.get("lastTimestamp")),
        ("count", event.get("count")),
        ("source", source.get("component") or source.get("host")),
    ):
        if value:
            yield invalid(key, "", "needs to be unset")


def validate_new_event_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Only the series may go on."""
    yield from _validate_event(new, "reportingController")
    if new.get("series") != old.get("series"):
        yield from _validate_series(new)
    for key in _FIXED:
        if (new.get(key) or None) != (old.get(key) or None):
            yield invalid("reportingController" if key == "reportingComponent" else key, new.get(key), _IMMUTABLE)


def _validate_event(event: Json, controller_field: str) -> Iterator[Mistake]:
    where, namespace = event["involvedObject"].get("namespace", ""), event["metadata"].get("namespace", "")
    mismatch = invalid("involvedObject.namespace", where, "does not match event.namespace")
    if not event.get("eventTime"):
        if (where or "default") != namespace:
            yield mismatch
        return
    if not where and namespace not in ("default", "kube-system"):
        yield mismatch
    controller = event.get("reportingComponent", "")
    if not controller:
        yield required(controller_field)
    yield from (invalid(controller_field, controller, why) for why in label_key_complaints(controller))
    for key, is_needed, most in (
        ("reportingInstance", True, 128),
        ("action", True, 128),
        ("reason", True, 128),
        ("message", False, 1024),
    ):
        text = event.get(key, "")
        if is_needed and not text:
            yield required(key)
        if len(text.encode("utf-8", "replace")) > most:
            yield invalid(key, "", f"can have at most {most} characters")


def _validate_series(event: Json) -> Iterator[Mistake]:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def validate_event_update(new: Json, old: Json) -> Iterator[Mistake]:
    """As a new one: a repeat changes count and time."""
    del old
    yield from validate_event(new)


def validate_lease(lease: Json) -> Iterator[Mistake]:
    """Times must be positive."""
    spec = lease["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")
    if (strategy := spec.get("strategy")) is not None and strategy != "OldestEmulationVersion":
        yield unsupported("spec.strategy", strategy, ("OldestEmulationVersion",))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        yield forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


def validate_lease_update(new: Json, old: Json) -> Iterator[Mistake]:
    """As a new one: the holder may change."""
    del old
    yield from validate_lease(new)


def validate_revision(revision: Json) -> Iterator[Mistake]:
    """A new one; its data is a patch, so it has to be an object."""
    yield from _revision_number(revision)
    data = revision.get("data")
    if data is None:
        yield required("data", "data is mandatory")
    elif not isinstance(data, dict):
        yield required("data", "data must be a valid JSON object")


def validate_revision_update(new: Json, old: Json) -> Iterator[Mistake]:
    """A rollback needs the data as it was; only the number may change."""
    yield from _revision_number(new)
    if new.get("data") != old.get("data"):
        yield invalid("data", new.get("data"), "field is immutable")


def _revision_number(revision: Json) -> Iterator[Mistake]:
    if revision.get("revision", 0) < 0:
        yield invalid("revision", revision["revision"], "must be greater than or equal to 0")


# PriorityClasses.
HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_POLICIES: Final = ("Never", "PreemptLowerPriority")


def validate_priority_class(value: Json) -> Iterator[Mistake]:
    """Names that begin with `system-` are for the two built-in classes, and so are values above 1,000,000,000."""
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
    """Value and policy are immutable: pods carry copies."""
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
