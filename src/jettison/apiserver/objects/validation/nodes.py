"""Nodes and their taints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, forbidden, invalid, required, unsupported
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE, is_whole
from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints
from jettison.engine.numbers.quantity import parse

Json = dict[str, Any]

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_node(node: Json) -> Iterator[Mistake]:
    """Kubernetes says `metadata.taints`, though they are in the spec."""
    seen: dict[str, set[str]] = {}
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        yield from _validate_taint(taint, f"metadata.taints[{index}]", seen)
    yield from _validate_offer(node["status"])


def validate_node_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Of the spec only taints, the schedulable mark and a first provider id may change.

    Kubernetes looks at a changed node first as if it were new, and so complains of a taint twice.
    """
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
    del old
    yield from _validate_offer(new["status"])
    seen = []
    for index, address in enumerate(new["status"].get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            yield duplicate(f"status.addresses[{index}]", shown)
        seen.append(address)


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
