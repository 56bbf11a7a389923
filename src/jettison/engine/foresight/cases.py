"""One decision as a value that can be run again: what it was made from, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Decision, Evict, Nothing, Outcome, Reclaim, decide, give_up_reclaim
from jettison.engine.node.pressure import History
from jettison.engine.node.ranking import Ranking, disk_usage
from jettison.engine.node.signals import ROWS, TABLE, Reclaimable, Resource, Signal
from jettison.engine.node.snapshot import NodeStats, PodUsage, Reading, Snapshot
from jettison.engine.node.thresholds import Threshold
from jettison.engine.pods.pod import Pod
from jettison.values import frozen


@frozen
class Case:
    """Everything that one step was decided by."""

    policy: Policy
    history: History
    snapshot: Snapshot
    # The node after a reclaim. Where it is None, a reclaim counts as one that did not suffice.
    after: Snapshot | None = None
    # Uids of pods that were on their way out already: the next one in the order goes in their place.
    going: frozenset[str] = frozenset()

    def pod(self, uid: str) -> Pod | None:
        """The pod of the snapshot with this uid."""
        return next((each for each in self.snapshot.pods if each.uid == uid), None)

    def with_pod(self, pod: Pod) -> Case:
        """The same with another pod in the place of the one with its uid."""
        return self.changed(
            lambda seen: replace(seen, pods=[pod if each.uid == pod.uid else each for each in seen.pods])
        )

    def with_usage(self, pod: Pod, usage: PodUsage) -> Case:
        """The same, had the pod used so much instead: what it used less, the node has more of."""
        before = self.snapshot.usages.get(pod.uid, PodUsage())
        relief = {
            row.signal: (amount_of(pod, before, row.signal, self.snapshot) or 0)
            - (amount_of(pod, usage, row.signal, self.snapshot) or 0)
            for row in TABLE
        }
        return self.changed(
            lambda seen: replace(seen, node=relieved(seen.node, relief), usages={**seen.usages, pod.uid: usage})
        )

    def changed(self, change: Callable[[Snapshot], Snapshot]) -> Case:
        """The same with both of its snapshots changed."""
        after = None if self.after is None else change(self.after)
        return replace(self, snapshot=change(self.snapshot), after=after)


@frozen
class Consequence:
    """What comes of a case: the pods that are told to end, and by what."""

    pods: tuple[Pod, ...] = ()
    # None where no pod goes, or where pods go for limits of their own.
    starved: Threshold | None = None
    reading: Reading | None = None
    ranking: Ranking | None = None
    # What is freed first.
    reclaim: tuple[Reclaimable, ...] = ()
    # Why no pod goes.
    why: str = ""

    # Uids of pods that could as well have gone: Kubernetes leaves the order of pods with equal keys to chance.
    rivals: frozenset[str] = frozenset()

    def takes(self, uid: str) -> bool:
        """Whether this pod goes."""
        return any(pod.uid == uid for pod in self.pods)

    def spares(self, uid: str) -> bool:
        """Whether it stays, and not by chance."""
        return not self.takes(uid) and uid not in self.rivals

    def takes_surely(self, uid: str) -> bool:
        """Whether it goes, and not by chance."""
        return self.takes(uid) and not self.rivals


def play(case: Case) -> Consequence:
    """Decide it, and after a reclaim decide it again, as an agent does."""
    first, last = _outcomes(case)
    found = _choice(last.decision, case)
    return replace(found, reclaim=first.decision.what) if isinstance(first.decision, Reclaim) else found


def remembered(case: Case) -> History:
    """What the next step is decided by."""
    return _outcomes(case)[1].history


def _outcomes(case: Case) -> tuple[Outcome, Outcome]:
    """Of the first look and of the last, which is the same where nothing was reclaimed."""
    first = decide(case.policy, case.history, case.snapshot)
    if not isinstance(first.decision, Reclaim):
        return first, first
    if case.after is None:
        return first, give_up_reclaim(first.history)
    return first, decide(case.policy, first.history, case.after)


def _choice(decision: Decision, case: Case) -> Consequence:
    if isinstance(decision, Nothing):
        return Consequence(why=decision.why)
    assert isinstance(decision, Evict)
    orders = (order.pod for order in decision.evictions if order.pod.uid not in case.going)
    pods = tuple(orders) if not decision.at_most_one else tuple(pod for pod in (next(orders, None),) if pod is not None)
    why = "" if pods else "every pod that could go is on its way out already"
    rivals = frozenset(_rivals(decision, pods[0], case)) if decision.at_most_one and pods else frozenset()
    return Consequence(pods, decision.starved, decision.reading, decision.ranking, why=why, rivals=rivals)


def _rivals(decision: Evict, victim: Pod, case: Case) -> Iterator[str]:
    """Those that may go and differ from the victim in nothing but their names."""
    entries = () if decision.ranking is None else decision.ranking.entries
    keys = next((keys[:-1] for keys, pod, _ in entries if pod is victim), None)
    for others, pod, _ in entries:
        if others[:-1] == keys and pod is not victim and not pod.is_critical and pod.uid not in case.going:
            yield pod.uid


def amount_of(pod: Pod, usage: PodUsage | None, signal: Signal, snapshot: Snapshot) -> int | None:
    """What of this signal's resource the pod holds, and would give back with its end; None without statistics."""
    row = ROWS[signal]
    if usage is None:
        return None
    if row.resource is Resource.PIDS:
        return usage.processes
    if row.parts is None:
        return usage.working_set
    return disk_usage(pod, usage, row.parts[snapshot.layout.disks], int(row.resource is Resource.INODES))


def relieved(node: NodeStats, relief: Mapping[Signal, int]) -> NodeStats:
    """The node with so much more of each signal available; its capacities stay."""
    changed: dict[str, Any] = {}
    memory, pods = node.memory, node.pods_memory
    if memory is not None and (more := relief.get(Signal.MEMORY_AVAILABLE, 0)):
        changed["memory"] = memory._replace(
            available=_add(memory.available, more), working_set=_add(memory.working_set, -more)
        )
    if pods is not None and (more := relief.get(Signal.ALLOCATABLE_MEMORY_AVAILABLE, 0)):
        changed["pods_memory"] = pods._replace(
            available=_add(pods.available, more), working_set=_add(pods.working_set, -more)
        )
    for name, (available, inodes_free) in _FILESYSTEMS.items():
        stats = getattr(node, name)
        more, inodes = relief.get(available, 0), relief.get(inodes_free, 0)
        if stats is not None and (more or inodes):
            changed[name] = stats._replace(
                available=_add(stats.available, more), inodes_free=_add(stats.inodes_free, inodes)
            )
    processes = node.processes
    if processes is not None and (more := relief.get(Signal.PID_AVAILABLE, 0)):
        changed["processes"] = processes._replace(current=_add(processes.current, -more))
    return node._replace(**changed) if changed else node


_FILESYSTEMS = {
    "fs": (Signal.NODEFS_AVAILABLE, Signal.NODEFS_INODES_FREE),
    "image_fs": (Signal.IMAGEFS_AVAILABLE, Signal.IMAGEFS_INODES_FREE),
    "container_fs": (Signal.CONTAINERFS_AVAILABLE, Signal.CONTAINERFS_INODES_FREE),
}


def _add(number: int | None, more: int) -> int | None:
    return None if number is None else number + more
