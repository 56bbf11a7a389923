"""The node lifecycle controller: from heartbeats to conditions, from conditions to taints.

A silent node's conditions become Unknown, and its pods stop being ready, so that budgets and services do not count on
them. It is tainted, as is one that says itself that it is not ready: NoSchedule at once, NoExecute at one node every
ten seconds, because a mistake made about one node is smaller than one made about all. While no node at all is ready no
pod is evicted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from jettison.clock import Clock
from jettison.controllers.machinery.event_recorder import WARNING, subject_of
from jettison.controllers.machinery.objects import condition_of, keys_by_node, with_conditions
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings, repeat
from jettison.engine.node.event_correlation import Subject
from jettison.engine.scheduling.placement import NO_EXECUTE, NO_SCHEDULE
from jettison.errors import NotFound
from jettison.manifests.pod_view import node_name_of
from jettison.manifests.times import parse_time, time_text
from jettison.runtimes.kube.cache import Change, Key
from jettison.runtimes.kube.client import Document, PatchType
from jettison.runtimes.kube.kinds import LEASES, NODE_LEASES, NODES, PODS

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

SOURCE: Final = "node-controller"
LOOK_SECONDS: Final = 5.0

_SECOND_NS: Final = 10**9

SILENCE_NS: Final = 50 * 10**9
STARTUP_SILENCE_NS: Final = 60 * 10**9
"""For a node that has never posted a status."""

_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_STOPPED: Final = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
_NEVER: Final = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")


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


class NodeLifecycleController:
    """One worker: the rate of NoExecute taints is one for the whole cluster."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._nodes = around.caches.of(NODES)
        self._pods = around.caches.of(PODS)
        self._leases = around.caches.of(LEASES, NODE_LEASES)
        self._by_node = self._pods.index(keys_by_node)
        self._heartbeats = Heartbeats(around.clock)
        # The nodes that were looked at, by name and with their uids.
        self._registered: dict[str, str] = {}
        # Nodes that were given up and whose pods were not told yet; pods that got onto a node since it was looked at.
        self._untold: set[str] = set()
        self._arrived: dict[str, set[Key]] = {}
        self._last_taint_ns: int | None = None
        self._reconciler: Reconciler[str] = Reconciler("node lifecycle", self._reconcile)
        self._reconciler.follow(self._nodes, lambda change: (change.newest["metadata"]["name"],))
        self._reconciler.follow(self._pods, self._placed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reconciler.run())
            group.create_task(repeat("node lifecycle", LOOK_SECONDS, self._look))

    async def _look(self) -> None:
        """Silence is no event, so all nodes are checked every few seconds."""
        for node in self._nodes:
            self._reconciler.queue.add(node["metadata"]["name"])

    def _placed(self, change: Change) -> Iterable[str]:
        """A pod that got onto a node which is not ready is not ready either, whatever it was told before."""
        if change.new is None or change.keeps_spec or not change.differs(node_name_of):
            return ()
        name = node_name_of(change.new)
        if name not in self._registered:
            return ()
        self._arrived.setdefault(name, set()).add(change.key)
        return (name,)

    async def _reconcile(self, name: str) -> None:
        node = self._nodes.get(("", name))
        if node is None:
            self._remove(name)
            return
        self._register(node)
        try:
            if await self._is_given_up(node):
                return  # the watch brings it back with its new conditions
            await self._taint(node)
        except NotFound:
            return
        await self._tell_pods(node)

    def _register(self, node: Document) -> None:
        """What was begun before a restart is gone on with: the pods of a node that was given up are told."""
        name = node["metadata"]["name"]
        if name in self._registered:
            return
        self._registered[name] = node["metadata"]["uid"]
        self._tell(node["metadata"]["uid"], name, "RegisteredNode", f"event: Registered Node {name} in Controller")
        if (condition_of(node, "Ready") or {}).get("reason") == _STOPPED[0]:
            self._untold.add(name)

    def _remove(self, name: str) -> None:
        self._heartbeats.forget(name)
        self._untold.discard(name)
        self._arrived.pop(name, None)
        uid = self._registered.pop(name, None)
        if uid is not None:
            self._tell(uid, name, "RemovingNode", f"event: Removing Node {name} from Controller")

    def _tell(self, uid: str, name: str, reason: str, what: str) -> None:
        self._around.events.tell(SOURCE, Subject("Node", name, "", uid), reason, f"Node {name} {what}")

    async def _is_given_up(self, node: Document) -> bool:
        lease = self._leases.get((NODE_LEASES, node["metadata"]["name"]))
        if not self._heartbeats.is_silent(node, lease):
            return False
        changed = unknown_conditions(node, self._around.clock.now_ns())
        if changed:
            whole = {"apiVersion": "v1", "kind": "Node", **with_conditions(node, *changed)}
            await self._around.client.replace(NODES, whole, "status")
            if is_ready(node):
                name = node["metadata"]["name"]
                self._untold.add(name)
                self._tell(node["metadata"]["uid"], name, "NodeNotReady", "status is now: NodeNotReady")
        return bool(changed)

    async def _taint(self, node: Document) -> None:
        old = (node.get("spec") or {}).get("taints") or []
        borne = taint_keys(node, NO_EXECUTE, NO_EXECUTE_KEYS)
        no_execute = self._no_execute(node, borne)
        new = with_taints(node, no_schedule_keys(node), no_execute, time_text(self._around.clock.now_ns()))
        if new == old:
            return
        metadata = node["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"taints": new or None}}
        await self._around.client.patch(NODES, metadata["name"], body, how=PatchType.MERGE)
        if no_execute and not borne:
            self._last_taint_ns = self._around.clock.monotonic_ns()

    def _no_execute(self, node: Document, borne: frozenset[str]) -> frozenset[str]:
        """Which of the two it shall bear. One takes the place of the other at once; the first one has to wait."""
        if condition_of(node, "Ready") is None:
            return borne
        key = no_execute_key(node)
        outage = Outage.NONE if key is None else outage_of(self._nodes)
        if key is None or outage is Outage.FULL:
            return frozenset()
        if not borne:
            rate = taints_per_second(outage, sum(1 for _ in self._nodes))
            seconds = self._wait_seconds(rate)
            if seconds is None:
                return borne
            if seconds > 0:
                self._reconciler.queue.add_after(node["metadata"]["name"], seconds)
                return borne
        return frozenset((key,))

    def _wait_seconds(self, rate: float) -> float | None:
        """Until the next node may lose its pods; None: not before the outage is over."""
        if not rate:
            return None
        if self._last_taint_ns is None:
            return 0.0
        return 1 / rate - (self._around.clock.monotonic_ns() - self._last_taint_ns) / _SECOND_NS

    async def _tell_pods(self, node: Document) -> None:
        """Once, when a ready node is given up: that they are not ready. A kubelet that lives contradicts, and is right.

        A node that says itself that it is not ready keeps the word about its pods; only what gets onto it is told.
        """
        name = node["metadata"]["name"]
        arrived = tuple(self._arrived.get(name, ()))
        if condition_of(node, "Ready") is not None and not is_ready(node):
            for key in self._by_node.values(name) if name in self._untold else arrived:
                await self._mark(key)
        self._untold.discard(name)
        if left := self._arrived.pop(name, set()).difference(arrived):
            self._arrived[name] = left

    async def _mark(self, key: Key) -> None:
        pod = self._pods.get(key)
        ready = None if pod is None else condition_of(pod, "Ready")
        if pod is None or ready is None or ready.get("status") != "True":
            return
        now = time_text(self._around.clock.now_ns())
        changed = with_conditions(pod, {**ready, "status": "False", "lastTransitionTime": now})
        try:
            await self._around.client.replace(PODS, {"apiVersion": "v1", "kind": "Pod", **changed}, "status")
        except NotFound:
            return
        self._around.events.tell(SOURCE, subject_of("Pod", pod), "NodeNotReady", "Node is not ready", WARNING)


class _Sign(NamedTuple):
    """What a heartbeat changes, and when we saw it change: by our clock, whatever the node's says."""

    uid: str
    posted: str | None
    renewed: str | None
    seen_ns: int


class Heartbeats:
    """The last sign of life of every node: a status or a lease that moved."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._signs: dict[str, _Sign] = {}

    def is_silent(self, node: Document, lease: Document | None) -> bool:
        """Whether neither its status nor its lease has moved for too long."""
        metadata = node["metadata"]
        ready = condition_of(node, "Ready")
        posted = None if ready is None else ready.get("lastHeartbeatTime") or ""
        renewed = None if lease is None else (lease.get("spec") or {}).get("renewTime")
        now_ns = self._clock.monotonic_ns()
        sign = self._signs.get(metadata["name"])
        if sign is None or sign[:3] != (metadata["uid"], posted, renewed):
            is_new = sign is None or sign.uid != metadata["uid"]
            never_ns = self._age_ns(node) if is_new and ready is None else 0
            sign = self._signs[metadata["name"]] = _Sign(metadata["uid"], posted, renewed, now_ns - never_ns)
        return now_ns - sign.seen_ns > (STARTUP_SILENCE_NS if ready is None else SILENCE_NS)

    def forget(self, name: str) -> None:
        """It is no node any more."""
        self._signs.pop(name, None)

    def _age_ns(self, node: Document) -> int:
        return self._clock.now_ns() - parse_time(node["metadata"]["creationTimestamp"])


def unknown_conditions(node: Document, now_ns: int) -> list[Document]:
    """The conditions that change when nothing is known any more; empty where that has been said already."""
    now = time_text(now_ns)
    changed = []
    for kind in _CONDITIONS:
        known = condition_of(node, kind)
        if known is not None and known.get("status") == "Unknown":
            continue
        reason, message = _NEVER if known is None else _STOPPED
        heartbeat = {"lastHeartbeatTime": node["metadata"]["creationTimestamp"]} if known is None else known
        said = {"type": kind, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": now}
        changed.append({**heartbeat, **said})
    return changed
