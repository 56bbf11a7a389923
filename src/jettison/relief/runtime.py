"""A kubelet's node as a runtime: measured through its cgroups, its pods known from the API, evicted through the API.

A look takes a millisecond and asks no server. To end a pod is to create an Eviction: budgets hold, and the pod has its
own grace period. The API answers later than the agent can wait; a refusal is told as an ending
that was withdrawn, and that pod is no candidate for a while. In its place goes the next one in the kubelet's order that
frees as much as is missing and a tenth of the threshold more: a small pod beside a leak would go for nothing. A server
that fails has refused no pod: nothing is asked of it for some seconds, and no other pod goes for its failure.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jettison import events
from jettison.clock import Clock
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import EVICTED, Eviction, kill_wait
from jettison.engine.node.signals import Signal, readings
from jettison.engine.node.snapshot import Layout, MemoryStats, NodeStats, PodUsage, ProcessStats, Snapshot
from jettison.engine.node.thresholds import Threshold
from jettison.engine.pods.pod import RUNNING, Pod, Qos
from jettison.errors import (
    ApiError,
    EvictionRefused,
    InputError,
    ManifestError,
    NotFound,
    ObservationError,
    PodGone,
    RuntimeFailure,
    StillRunning,
)
from jettison.events import Emit
from jettison.manifests.pod_view import has_ended
from jettison.manifests.pods import pod_from
from jettison.runtimes.adopted.back_off import StopBackOff
from jettison.runtimes.kube.answers import causes, has_cause
from jettison.runtimes.kube.cache import Cache, Change
from jettison.runtimes.kube.client import DeleteOptions, Document, KubeClient
from jettison.runtimes.linux import proc
from jettison.runtimes.linux.cgroups.mounts import Hierarchy, discover
from jettison.runtimes.linux.cgroups.names import PLAIN, CgroupNames
from jettison.runtimes.linux.cgroups.usage import UsageReader
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.machine.alarms import MemoryAlarms, Wakeups, Watched
from jettison.runtimes.machine.background_tasks import BackgroundTasks
from jettison.runtimes.machine.level_watch import LevelWatch
from jettison.runtimes.machine.outlook import MemoryPair
from jettison.runtimes.protocol import Alarm, EndingPod, PodStatus, Reclaimed
from jettison.runtimes.stats import KUBELET, NodeSubject, PodSubject, StatsSubject
from jettison.values import frozen

OOM_KILLED: Final = "OOMKilled"
_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
_BUDGET: Final = "DisruptionBudget"
_REFUSED_SECONDS: Final = 10
"""How long a pod that a budget has refused is no candidate: kubectl asks again after five seconds."""
_LONGEST_REFUSAL_SECONDS: Final = 300
_FAILED_SECONDS: Final = 5
"""How long nothing is asked of a server that has failed."""
_TWO_BUDGETS: Final = "PodDisruptionBudget"
"""Is in the text of the only 500 that is about the pod: it has more than one of them."""
_ANSWER_SECONDS: Final = 30.0
_MARGIN: Final = 10
_NANO: Final = 10**9
_CLASSES: Final[Mapping[str, str]] = {Qos.BURSTABLE: "burstable", Qos.BEST_EFFORT: "besteffort"}
# With the cgroupfs driver and with systemd's.
_DRIVERS: Final = (PLAIN, CgroupNames(are_slices=True))


@dataclass(slots=True)
class _Ending:
    """A pod whose eviction was asked for. Times are on the monotonic clock."""

    order: Eviction
    began_ns: int
    stopped_ns: int | None = None
    withdrawn: str = ""


@frozen
class KubeletNode:
    """What is measured: a node of an API on this machine."""

    name: str
    memory: int
    # Below the roots of the hierarchies; empty is the root itself.
    within: str = ""
    cgroup_root: str = ""


class ReliefRuntime:
    """Made by `open`. `may_act` says whether this process is the one that relieves the node."""

    def __init__(
        self,
        node: KubeletNode,
        policy: Policy,
        client: KubeClient,
        pods: Cache,
        clock: Clock,
        emit: Emit,
        most_a_minute: int,
    ) -> None:
        self._node = node
        self._policy = policy
        self._client = client
        self._pods = pods
        self._clock = clock
        self._emit = emit
        mounts = discover()
        memory = mounts.holding("memory")
        if memory is None:
            raise InputError("cannot relieve: the memory controller of cgroups is not mounted")
        self._memory_tree: Hierarchy = memory
        self._reader = UsageReader(mounts)
        self._host = proc.Machine()
        self._wakeups = Wakeups(clock)
        self._pool = ThreadPoolExecutor(1, "jettison-alarm")
        kubepods = kubepods_of(memory.mount_point, node.cgroup_root)
        where = Watched(pressure=PROC / "pressure" / "memory")
        if kubepods is not None and not memory.is_unified:
            # The root's counter is late by up to half a second, that of all pods is exact.
            where = Watched(pods=memory.mount_point / kubepods)
        self._kubepods = kubepods
        self._alarms = MemoryAlarms(policy.thresholds, self._memory_pair, self._wakeups, clock, self._pool, where)
        self._levels = LevelWatch(policy.thresholds, self._numbers, self._wakeups, clock)
        self._background = BackgroundTasks(emit, "the relief of a node")
        self._back_off = StopBackOff(most_a_minute)
        self._endings: dict[str, _Ending] = {}
        # Until when a pod is no candidate because a budget refused its eviction.
        self._refused: dict[str, int] = {}
        # Until when there is no candidate because the server failed.
        self._failed_until_ns = 0
        self._known: dict[str, tuple[Document, Pod]] = {}
        self._cgroups: dict[str, str] = {}
        self.may_act = True
        self.lacks: tuple[str, ...] = self._alarms.open()
        pods.listen(self._pod_changed)

    async def close(self) -> None:
        """Let go of everything. Evictions that were granted go on."""
        await self._background.cancel()
        self._levels.close()
        await self._alarms.close()
        self._reader.close()
        self._host.close()
        self._pool.shutdown()

    def use(self, policy: Policy) -> None:
        """Watch for these thresholds from now on."""
        self._policy = policy
        self._alarms.use(policy.thresholds)
        self._levels.use(policy.thresholds)

    async def observe(self) -> Snapshot:
        """One consistent instant; a pod that a budget protects now is not in it."""
        # The first look waits for the pods: a node under pressure without any would be told of as one.
        await self._pods.listed()
        pair = self._memory_pair()
        node = self._numbers()._replace(memory=pair.node)
        pods = list(self._active())
        usages = {pod.uid: self._usage(pod) for pod in pods}
        candidates = self._candidates(pods, usages, node)
        self._alarms.observed(pair)
        self._levels.observed(node)
        return Snapshot(self._clock.steady_ns(), node, candidates, usages, Layout())

    async def reclaim(self, order: Reclaim) -> Reclaimed:  # noqa: ARG002  what a kubelet can free it frees itself
        """Nothing."""
        return Reclaimed()

    def end(self, order: Eviction) -> None:
        """Ask for the pod's eviction. Raises PodGone and EvictionRefused; a refusal of the API comes later."""
        uid = order.pod.uid
        if self.is_finished(uid):
            # One that has ended may be in the API still; an eviction would delete what is left to read of it.
            raise PodGone(f"there is no `{order.pod}` to be evicted")
        known = self._endings.get(uid)
        if known is not None and not known.withdrawn:
            return
        if not self.may_act:
            raise EvictionRefused(f"another process holds the lease of node `{self._node.name}`, and acts")
        now_ns = self._clock.monotonic_ns()
        if self._back_off.is_open(now_ns):
            most = self._back_off.most_a_minute
            raise EvictionRefused(f"{most} pods were evicted within a minute, and no more are: look at this node")
        self._back_off.stopped(str(order.pod), now_ns)
        self._endings[uid] = _Ending(order, now_ns)
        self._background.begin(self._ask(order.pod))

    async def evict(self, order: Eviction) -> None:
        """The same; returns when it has ended. A refusal of the API is an EvictionRefused. Raises StillRunning, too."""
        self.end(order)
        ending = self._endings[order.pod.uid]
        seconds = kill_wait(None, order.pod.grace_seconds)
        try:
            async with asyncio.timeout(seconds):
                while not self.is_finished(order.pod.uid):
                    if ending.withdrawn:
                        raise EvictionRefused(ending.withdrawn)
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise StillRunning(f"`{order.pod}` has not ended within {seconds} s") from None

    def endings(self) -> Sequence[EndingPod]:
        """Evictions that were asked for and not told to their end."""
        return [
            EndingPod(each.order, each.began_ns, each.began_ns, each.stopped_ns, each.withdrawn)
            for each in self._endings.values()
        ]

    def told(self, uid: str) -> None:
        """All of it is on record."""
        self._endings.pop(uid, None)

    def is_finished(self, uid: str) -> bool:
        """Whether the API no longer shows it running."""
        known = self._known.get(uid)
        return known is None or has_ended(known[0])

    def alarms(self) -> AsyncIterator[Alarm]:
        """Memory, process ids, and pods that came or ended."""
        return self._wakeups.alarms()

    def statuses(self) -> Sequence[PodStatus]:
        """As the API shows them."""
        found = []
        for document, pod in self._known.values():
            status = document.get("status") or {}
            phase, reason = str(status.get("phase") or "Pending"), str(status.get("reason") or "")
            message = str(status.get("message") or "")
            found.append(PodStatus(pod, phase, reason, message, is_ending=pod.uid in self._endings, document=document))
        return found

    def subject(self) -> NodeSubject:
        """What there is to measure in detail."""
        own = StatsSubject(None, (os.getpid(),))
        pods = [PodSubject(pod.uid, StatsSubject(self._cgroup(pod)), {}) for pod in self._active()]
        return NodeSubject(StatsSubject(self._node.within), {KUBELET: own}, pods)

    @property
    def memory_alarm(self) -> str:
        """How a shortage of memory is noticed, in words."""
        return self._alarms.source

    def count(self) -> int:
        """How many pods run."""
        return sum(1 for _ in self._active())

    # What is known of pods.

    def _pod_changed(self, change: Change) -> None:
        uid, old = _uid_of(change.newest), change.old
        if old is not None and _uid_of(old) != uid:
            # Deleted and created anew under its name while the API could not be watched.
            self._forget(_uid_of(old))
            old = None
        if change.new is None:
            self._forget(uid)
            return
        if change.is_resync:
            return
        try:
            pod = pod_from(change.new)
        except ManifestError as error:
            self._emit(events.ActionFailed("read a pod of the API", str(error)))
            return
        self._known[uid] = change.new, pod
        if old is not None:
            self._notice_end(pod, old, change.new)
        if has_ended(change.new):
            self._stopped(uid)

    def _notice_end(self, pod: Pod, old: Document, new: Document) -> None:
        """What the kubelet or the kernel did, for the score. What was so when we came proves nothing."""
        status = new.get("status") or {}
        was_running = (old.get("status") or {}).get("phase") == RUNNING
        if was_running and has_ended(new) and status.get("reason") == EVICTED:
            self._emit(events.PodEndSeen(pod, EVICTED, str(status.get("message") or "")))
        killed = _oom_kills(new) - _oom_kills(old)
        for container, _ in sorted(killed):
            self._emit(events.PodEndSeen(pod, OOM_KILLED, f"container {container} was killed for want of memory"))

    def _forget(self, uid: str) -> None:
        self._stopped(uid)
        self._known.pop(uid, None)
        self._refused.pop(uid, None)
        if (cgroup := self._cgroups.pop(uid, None)) is not None:
            self._reader.forget(cgroup)

    def _stopped(self, uid: str) -> None:
        ending = self._endings.get(uid)
        if ending is not None and ending.stopped_ns is None:
            ending.stopped_ns = self._clock.monotonic_ns()
            self._wakeups.ring("pods")

    def _active(self) -> Sequence[Pod]:
        return [pod for document, pod in self._known.values() if not has_ended(document)]

    def _candidates(self, pods: Sequence[Pod], usages: Mapping[str, PodUsage], node: NodeStats) -> Sequence[Pod]:
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._failed_until_ns:
            return []
        self._refused = {uid: until for uid, until in self._refused.items() if until > now_ns}
        if not self._refused:
            return pods
        others = [pod for pod in pods if pod.uid not in self._refused]
        missing = _missing(self._policy.thresholds, node)
        return [pod for pod in others if all(_frees(signal, usages[pod.uid]) >= need for signal, need in missing)]

    # What is asked of the API.

    async def _ask(self, pod: Pod) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._client.evict(pod.name, pod.namespace, DeleteOptions(uid=pod.uid), notice=_not_again)
        except NotFound:
            self._forget(pod.uid)
        except ApiError as error:
            self._withdraw(pod, error)
        except (ManifestError, RuntimeFailure, TimeoutError) as error:
            self._wait(pod, _FAILED_SECONDS, str(error) or f"no answer within {_ANSWER_SECONDS:g} s")

    def _withdraw(self, pod: Pod, error: ApiError) -> None:
        details = error.details or {}
        seconds = details.get("retryAfterSeconds")
        asked = seconds if isinstance(seconds, int) else 0
        if is_failure(error):
            self._wait(pod, min(max(asked, _FAILED_SECONDS), _LONGEST_REFUSAL_SECONDS), str(error))
            return
        pause = min(max(asked, _REFUSED_SECONDS), _LONGEST_REFUSAL_SECONDS)
        # Which budget, and what it lacks.
        why = f"a budget refuses it: {causes(error).rstrip('.')}" if error.code == _TOO_MANY else str(error)
        self._refused[pod.uid] = self._clock.monotonic_ns() + pause * _NANO
        self._give_up(pod, f"{why}; it is no candidate for {pause} s, and the next one that frees enough is")

    def _wait(self, pod: Pod, seconds: int, why: str) -> None:
        self._failed_until_ns = self._clock.monotonic_ns() + seconds * _NANO
        self._give_up(pod, f"{why}; nothing is asked of the API for {seconds} s")
        self._background.begin(self._look_after(seconds))

    async def _look_after(self, seconds: int) -> None:
        await asyncio.sleep(seconds)
        self._wakeups.ring("pods")

    def _give_up(self, pod: Pod, why: str) -> None:
        ending = self._endings.get(pod.uid)
        if ending is not None:
            ending.withdrawn = why
        self._wakeups.ring("pods")

    # What is measured.

    def _memory_pair(self) -> MemoryPair:
        found = self._reader.memory(self._node.within)
        if found is None:
            raise ObservationError(f"cannot measure memory: cgroup `{self._node.within}` is gone")
        now_ns = self._clock.steady_ns()
        whole = MemoryStats(now_ns, self._node.memory - found.working_set, found.usage, found.working_set)
        pods = None if self._kubepods is None else self._reader.memory(self._kubepods)
        if pods is None:
            return MemoryPair(whole, None)
        return MemoryPair(whole, MemoryStats(now_ns, None, pods.usage, pods.working_set))

    def _numbers(self) -> NodeStats:
        processes = ProcessStats(self._clock.steady_ns(), self._host.most_tasks(), self._host.tasks())
        return NodeStats(self._node.name, processes=processes)

    def _usage(self, pod: Pod) -> PodUsage:
        cgroup = self._cgroup(pod)
        memory = None if cgroup is None else self._reader.memory(cgroup)
        tasks = None if cgroup is None else self._reader.tasks(cgroup)
        return PodUsage(None if memory is None else memory.working_set, tasks)

    def _cgroup(self, pod: Pod) -> str | None:
        known = self._cgroups.get(pod.uid)
        if known is not None and (self._memory_tree.mount_point / known).is_dir():
            return known
        self._cgroups.pop(pod.uid, None)
        for name in pod_cgroups(self._node.cgroup_root, pod.qos, pod.uid):
            if (self._memory_tree.mount_point / name).is_dir():
                self._cgroups[pod.uid] = name
                return name
        return None


def _not_again(error: ApiError, _: int) -> None:
    """The client would wait as the server asks, and ask again; meanwhile another pod could go."""
    raise error


def is_failure(error: ApiError) -> bool:
    """Whether the answer is about the server, which is busy or broken, and not about the pod."""
    if error.code == _TOO_MANY:
        return not has_cause(error, _BUDGET)
    return error.code >= _SERVER_ERROR and _TWO_BUDGETS not in error.message


def _uid_of(document: Document) -> str:
    return str(document["metadata"].get("uid") or "")


def _oom_kills(document: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Each by its container and when it ended."""
    found = set()
    for status in (document.get("status") or {}).get("containerStatuses") or ():
        for state in (status.get("state") or {}, status.get("lastState") or {}):
            ended = state.get("terminated") or {}
            if ended.get("reason") == OOM_KILLED:
                found.add((str(status.get("name") or ""), str(ended.get("finishedAt") or "")))
    return found


def _missing(thresholds: Sequence[Threshold], node: NodeStats) -> list[tuple[Signal, int]]:
    """What a pod must free for each crossed threshold, so that it is not crossed again at once."""
    found = readings(node)
    missing = []
    for each in thresholds:
        reading = found.get(each.signal)
        if reading is not None and each.is_crossed(reading):
            amount = each.quantity(reading.capacity).value
            missing.append((each.signal, amount - reading.available + amount // _MARGIN))
    return missing


def _frees(signal: Signal, usage: PodUsage) -> int:
    return (usage.processes if signal is Signal.PID_AVAILABLE else usage.working_set) or 0


def pod_cgroups(root: str, qos: str, uid: str) -> Iterator[str]:
    """Where a kubelet may keep a pod; `root` is its cgroupRoot, without slashes."""
    for names in _DRIVERS:
        place = _kubepods(names, root)
        if (kind := _CLASSES.get(qos)) is not None:
            place = names.child(place, kind)
        yield names.child(place, f"pod{uid}")


def kubepods_of(mount: Path, root: str) -> str | None:
    """The cgroup of all pods, where the kubelet has made it."""
    found = (_kubepods(names, root) for names in _DRIVERS)
    return next((name for name in found if (mount / name).is_dir()), None)


def _kubepods(names: CgroupNames, root: str) -> str:
    return "/".join(part for part in (root, names.top("kubepods")) if part)
