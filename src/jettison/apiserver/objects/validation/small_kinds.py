"""Events, leases, revisions, priority classes, namespaces and nodes: kinds with few rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

from jettison.apiserver.objects.validation.addresses import validate_network, validate_network_pair
from jettison.apiserver.objects.validation.go_values import go_field
from jettison.apiserver.objects.validation.metadata import (
    subdomain_name,
    validate_finalizer_name,
    validate_known_metadata,
    validate_known_metadata_update,
)
from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, forbidden, invalid, required, unsupported
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE, is_whole
from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints
from jettison.engine.numbers.quantity import parse
from jettison.engine.numbers.strconv import quote
from jettison.manifests.files.documents import SYSTEM_CLASSES

Json = dict[str, Any]

_IMMUTABLE: Final = "field is immutable"
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")

_LONGEST_FEATURE: Final = 253
_FEATURE: Final = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*", re.ASCII)
_FEATURE_RULE: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_event(event: Json) -> Iterator[Mistake]:
    """An event lives where its object does; what is in no namespace has its events in `default`."""
    yield from _validate_event(event, "reportingComponent")


def validate_new_event(event: Json) -> Iterator[Mistake]:
    """One that came through events.k8s.io, which knows no old-fashioned events."""
    yield from _validate_event(event, "reportingController")
    yield from validate_known_metadata(event["metadata"], subdomain_name)
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
    yield from validate_known_metadata_update(new["metadata"], old["metadata"])
    if new.get("series") != old.get("series"):
        yield from _validate_series(new)
    for key in _FIXED:
        if (new.get(key) or None) != (old.get(key) or None):
            field = "reportingController" if key == "reportingComponent" else key
            yield invalid(field, go_field("Event", key, new), _IMMUTABLE)


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
    elif policy not in (None, *_PREEMPTION_POLICIES):
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


def validate_namespace(namespace: Json) -> Iterator[Mistake]:
    """Its own finalizers must say which program they belong to."""
    # Upstream names the list here, and below the element.
    for each in namespace["spec"].get("finalizers") or ():
        yield from _validate_finalizer(each, "spec.finalizers")


def validate_namespace_update(new: Json, old: Json) -> Iterator[Mistake]:
    """As a new one."""
    del old
    for index, each in enumerate(new["spec"].get("finalizers") or ()):
        yield from _validate_finalizer(each, f"spec.finalizers[{index}]")


def _validate_finalizer(name: str, field: str) -> Iterator[Mistake]:
    yield from (invalid(field, name, why) for why in label_key_complaints(name))
    yield from validate_finalizer_name(name, field)


def validate_namespace_status(new: Json, old: Json) -> Iterator[Mistake]:
    """The phase follows from whether it is being deleted."""
    is_ending = any("deletionTimestamp" in each["metadata"] for each in (new, old))
    phase = new["status"].get("phase", "")
    wanted = "Terminating" if is_ending else "Active"
    if phase != wanted:
        is_empty = "is not empty" if is_ending else "is empty"
        yield invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` {is_empty}")


def validate_node(node: Json) -> Iterator[Mistake]:
    """Kubernetes says `metadata.taints`, though they are in the spec."""
    seen: dict[str, set[str]] = {}
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        yield from _validate_taint(taint, f"metadata.taints[{index}]", seen)
    yield from _validate_offer(node["status"])
    swap = ((node["status"].get("nodeInfo") or {}).get("swap") or {}).get("capacity", 1)
    if swap <= 0:
        yield invalid("metadata.nodeSwapStatus.capacity", swap, "must be greater than zero")
    yield from _validate_features(node["status"])
    networks = _networks(node["spec"])
    for index, network in enumerate(networks):
        yield from validate_network(network, f"spec.podCIDRs[{index}]")
    yield from validate_network_pair(networks, "spec.podCIDRs")


def validate_node_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Of the spec only taints, the schedulable mark and a first provider id may change.

    Kubernetes looks at a changed node first as if it were new, and so complains of a taint twice.
    """
    yield from validate_known_metadata(new["metadata"], subdomain_name)
    yield from validate_node(new)
    yield from validate_node_status(new, old)
    networks, former = _networks(new["spec"]), _networks(old["spec"])
    if former:
        differing = 1 if len(networks) != len(former) else sum(a != b for a, b in zip(networks, former, strict=True))
        why = 'node updates may not change podCIDR except from "" to valid'
        yield from (forbidden("spec.podCIDRs", why) for _ in range(differing))
    if old["spec"].get("providerID", "") not in ("", new["spec"].get("providerID", "")):
        why = 'node updates may not change providerID except from "" to valid'
        yield forbidden("spec.providerID", why)
    seen: dict[str, set[str]] = {}
    for index, taint in enumerate(new["spec"].get("taints") or ()):
        yield from _validate_taint(taint, f"metadata.taints[{index}]", seen)
    if new["spec"].get("externalID", "") != old["spec"].get("externalID", ""):
        yield forbidden("spec.externalID", "may not be updated")


def validate_node_status(new: Json, old: Json) -> Iterator[Mistake]:
    """Amounts and addresses only: the status of a condition may be anything."""
    yield from validate_known_metadata_update(new["metadata"], old["metadata"])
    yield from _validate_offer(new["status"])
    yield from _validate_features(new["status"])
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(new["status"].get("addresses") or ()):
        pair = address.get("type", ""), address.get("address", "")
        if pair in seen:
            yield duplicate(f"status.addresses[{index}]", {"Type": pair[0], "Address": pair[1]})
        seen.add(pair)


def _validate_features(status: Json) -> Iterator[Mistake]:
    """What its kubelet can do, in order."""
    features = status.get("declaredFeatures") or []
    for index, (name, following) in enumerate(zip_longest(features, features[1:])):
        where = f"status.declaredFeatures[{index}]"
        if len(name.encode("utf-8", "replace")) > _LONGEST_FEATURE:
            why = f"must be no more than {_LONGEST_FEATURE} characters"
            yield invalid(where, name, f"invalid feature name {quote(name)}: {why}")
        elif not _FEATURE.fullmatch(name):
            yield invalid(where, name, f"invalid feature name {quote(name)}: {_FEATURE_RULE}")
        after = f"status.declaredFeatures[{index + 1}]"
        if name == following:
            yield duplicate(after, name)
        elif following is not None and name > following:
            yield invalid(after, following, "list must be sorted alphabetically")


def _validate_offer(status: Json) -> Iterator[Mistake]:
    for key in ("capacity", "allocatable"):
        for name, amount in (status.get(key) or {}).items():
            if parse(amount).sign < 0:
                yield invalid(f"status.{key}.{name}", amount, NOT_NEGATIVE)
            if is_whole(name) and parse(amount).milli % 1000:
                yield invalid(f"status.{key}.{name}", amount, "must be an integer")


def _networks(spec: Json) -> list[str]:
    return spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])


def _validate_taint(taint: Json, field: str, seen: dict[str, set[str]]) -> Iterator[Mistake]:
    key, effect = taint["key"], taint["effect"]
    yield from (invalid(f"{field}.key", key, why) for why in label_key_complaints(key))
    yield from (
        invalid(f"{field}.value", taint["value"], why) for why in label_value_complaints(taint.get("value", ""))
    )
    if not effect:
        yield required(f"{field}.effect")
    elif effect not in EFFECTS:
        yield unsupported(f"{field}.effect", effect, EFFECTS)
    if key in seen.setdefault(effect, set()):
        shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": taint.get("timeAdded")}
        yield duplicate(field, shown, "taints must be unique by key and effect pair")
    seen[effect].add(key)
