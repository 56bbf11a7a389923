"""Nodes and their taints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.validation.mistakes import Mistake, duplicate, forbidden, invalid, required, unsupported
from jettison.apiserver.validation.resources import NOT_NEGATIVE
from jettison.engine.labels import label_key_complaints, label_value_complaints
from jettison.engine.quantity import parse

Json = dict[str, Any]

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UPDATE_RULE: Final = (
    "node updates may only change labels, taints, or capacity (or configSource, if the DynamicKubeletConfig feature "
    "gate is enabled)"
)


def validate_node(node: Json) -> Iterator[Mistake]:
    """Kubernetes says `metadata.taints`, though they are in the spec."""
    seen: dict[str, set[str]] = {}
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        yield from _validate_taint(taint, f"metadata.taints[{index}]", seen)


def validate_node_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Of the spec only taints, the schedulable mark and a first provider id may change."""
    for key in ("capacity", "allocatable"):
        yield from _validate_amounts(new["status"].get(key) or {}, f"status.{key}")
    yield from validate_node(new)
    free = {"taints", "unschedulable", "configSource"}
    for key in ("providerID", "podCIDR", "podCIDRs"):
        if not old["spec"].get(key):
            free.add(key)
    fixed = [{k: v for k, v in spec.items() if k not in free} for spec in (new["spec"], old["spec"])]
    if fixed[0] != fixed[1]:
        yield forbidden("spec", _UPDATE_RULE)


def validate_node_status(new: Json, old: Json) -> Iterator[Mistake]:
    """Amounts only: the status of a condition may be anything."""
    del old
    for key in ("capacity", "allocatable"):
        yield from _validate_amounts(new["status"].get(key) or {}, f"status.{key}")


def _validate_amounts(amounts: dict[str, str], field: str) -> Iterator[Mistake]:
    for name, amount in amounts.items():
        if parse(amount).sign < 0:
            yield invalid(f"{field}.{name}", amount, NOT_NEGATIVE)


def _validate_taint(taint: Json, field: str, seen: dict[str, set[str]]) -> Iterator[Mistake]:
    key, effect = taint["key"], taint["effect"]
    yield from (invalid(f"{field}.key", key, why) for why in label_key_complaints(key))
    yield from (
        invalid(f"{field}.value", taint["value"], why) for why in label_value_complaints(taint.get("value", ""))
    )
    if not effect:
        yield required(f"{field}.effect", "taint effect must be specified")
    elif effect not in EFFECTS:
        yield unsupported(f"{field}.effect", effect, EFFECTS)
    if key in seen.setdefault(effect, set()):
        shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": taint.get("timeAdded")}
        yield duplicate(field, shown, "taints must be unique by key and effect pair")
    seen[effect].add(key)
