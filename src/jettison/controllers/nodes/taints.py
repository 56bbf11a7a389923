"""Which taints a node must bear, and how fast nodes may lose their pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum, auto
from typing import Final

from jettison.controllers.machinery.object_state import condition_of
from jettison.engine.scheduling.placement import NO_EXECUTE, NO_SCHEDULE
from jettison.runtimes.kube.client import Document

_PREFIX: Final = "node.kubernetes.io/"
NOT_READY: Final = f"{_PREFIX}not-ready"
UNREACHABLE: Final = f"{_PREFIX}unreachable"
UNSCHEDULABLE: Final = f"{_PREFIX}unschedulable"
_UNCOUNTED_LABEL: Final = f"{_PREFIX}exclude-disruption"

_BY_CONDITION: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): f"{_PREFIX}memory-pressure",
    ("DiskPressure", "True"): f"{_PREFIX}disk-pressure",
    ("PIDPressure", "True"): f"{_PREFIX}pid-pressure",
    ("NetworkUnavailable", "True"): f"{_PREFIX}network-unavailable",
}
NO_SCHEDULE_KEYS: Final = frozenset((*_BY_CONDITION.values(), UNSCHEDULABLE))
NO_EXECUTE_KEYS: Final = frozenset((NOT_READY, UNREACHABLE))

TAINTS_PER_SECOND: Final = 0.1
SLOW_TAINTS_PER_SECOND: Final = 0.01
_LARGE_CLUSTER: Final = 50
_UNHEALTHY_SHARE: Final = 0.55
_FEW: Final = 2


class Outage(Enum):
    """How much of the cluster is down. One zone is all there is here."""

    NONE = auto()
    PARTIAL = auto()
    # Then it is more likely that we are cut off than that all nodes died: no pod is evicted.
    FULL = auto()


def outage_of(nodes: Iterable[Document]) -> Outage:
    """Partial from 55 % of the nodes and more than two."""
    states = [is_ready(node) for node in nodes if _UNCOUNTED_LABEL not in (node["metadata"].get("labels") or {})]
    down = states.count(False)
    if down and down == len(states):
        return Outage.FULL
    return Outage.PARTIAL if down > _FEW and down / len(states) >= _UNHEALTHY_SHARE else Outage.NONE


def taints_per_second(outage: Outage, nodes: int) -> float:
    """How many nodes may get a NoExecute taint; large clusters go slowly in an outage, small ones stop."""
    if outage is Outage.NONE:
        return TAINTS_PER_SECOND
    return SLOW_TAINTS_PER_SECOND if outage is Outage.PARTIAL and nodes > _LARGE_CLUSTER else 0.0


def is_ready(node: Document) -> bool:
    """A node that has not said so is not."""
    ready = condition_of(node, "Ready")
    return ready is not None and ready.get("status") == "True"


def no_schedule_keys(node: Document) -> frozenset[str]:
    """From its conditions and from being cordoned. Surprise: a node without any condition is free of taints."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    keys = {_BY_CONDITION.get((each.get("type", ""), each.get("status", ""))) for each in conditions}
    if (node.get("spec") or {}).get("unschedulable"):
        keys.add(UNSCHEDULABLE)
    return frozenset(key for key in keys if key is not None)


def no_execute_key(node: Document) -> str | None:
    """The one that its Ready condition asks for."""
    ready = condition_of(node, "Ready")
    return None if ready is None else _BY_CONDITION.get(("Ready", ready.get("status", "")))


def taint_keys(node: Document, effect: str, managed: Collection[str]) -> frozenset[str]:
    """Which of these it bears."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return frozenset(each["key"] for each in taints if each.get("effect") == effect and each.get("key") in managed)


def with_taints(node: Document, no_schedule: Collection[str], no_execute: Collection[str], now: str) -> list[Document]:
    """Its taints with exactly these of the ones that are ours; others', and their order, stay."""
    wanted = {NO_SCHEDULE: set(no_schedule), NO_EXECUTE: set(no_execute)}
    managed = {NO_SCHEDULE: NO_SCHEDULE_KEYS, NO_EXECUTE: NO_EXECUTE_KEYS}
    taints: list[Document] = []
    for taint in (node.get("spec") or {}).get("taints") or ():
        effect, key = taint.get("effect"), taint.get("key")
        if key not in managed.get(effect, ()):
            taints.append(taint)
        elif key in wanted[effect]:
            wanted[effect].discard(key)
            taints.append(taint)
    added = [(key, effect) for effect, keys in wanted.items() for key in sorted(keys)]
    return [*taints, *({"key": key, "effect": effect, "timeAdded": now} for key, effect in added)]
