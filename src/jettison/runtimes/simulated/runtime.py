"""The runtime of one simulated node: what an agent observes there, and what its orders do.

It never suspends an agent's step, so a step can be driven by hand (`coroutine.send(None)`), without an event loop. The
kernel's OOM killer is here as well: when memory is gone it takes the process with the highest badness, as Linux does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence

from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.config.policy import Policy
from jettison.engine.lifecycle import events as life_events
from jettison.engine.lifecycle.phases import ContainerStatus, verdict
from jettison.engine.lifecycle.state import PodLife
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.signals import Reclaimable
from jettison.engine.node.snapshot import PodUsage, Snapshot
from jettison.engine.pods.oom_scores import oom_score_adjustments
from jettison.engine.pods.pod import FAILED, Pod
from jettison.errors import ObservationError, PodGone, StillRunning
from jettison.events import Emit
from jettison.runtimes.protocol import Alarm, EndingPod, PodManifest, PodStatus, Reclaimed
from jettison.runtimes.simulated.agenda import Agenda
from jettison.runtimes.simulated.curves import Curve
from jettison.runtimes.simulated.machine import MEMORY, Machine, MachineSize, Usages
from jettison.runtimes.simulated.pods import PodProgram, SimulatedPod

ALARM_NS = 2 * 10**6
"""From the crossing of a line to the agent that looks: what an alarm of the kernel takes on a host."""


class _Pause:
    """Suspends what waits here, with and without an event loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class SimulatedRuntime:
    """One node. `wake` is called when an alarm has rung."""

    def __init__(
        self,
        size: MachineSize,
        policy: Policy,
        agenda: Agenda,
        emit: Emit,
        program: Callable[[PodManifest], PodProgram] = lambda _: PodProgram(),
        system: Mapping[int, Curve] | None = None,
    ) -> None:
        self.agenda = agenda
        self.machine_model = Machine(size, agenda, system)
        self.machine_model.crossed = self._crossed
        self.machine_model.exhausted = self._exhausted
        self.machine_model.use(policy)
        self.wake: Callable[[], None] = lambda: None
        # Called with a pod whose life has changed.
        self.changed: Callable[[SimulatedPod], None] = lambda _: None
        self.rings = True
        # Why nothing can be measured; empty while it can. And whether only pods cannot.
        self.blindness = ""
        self.hides_pods = False
        self._emit = emit
        self._program = program
        self._pods: dict[str, SimulatedPod] = {}
        # Those of them whose eviction is not told to its end.
        self._ending: dict[str, SimulatedPod] = {}
        self._rejected: dict[str, PodStatus] = {}
        self._alarms: list[Alarm] = []
        self._active: tuple[Pod, ...] | None = ()
        self._kill_delay_ns = 0
        self._is_down = False

    def use(self, policy: Policy) -> None:
        """Watch for these thresholds from now on."""
        self.machine_model.use(policy)

    # What an agent asks for.

    async def observe(self) -> Snapshot:
        """This moment."""
        if self.blindness:
            raise ObservationError(self.blindness)
        if self._active is None:
            self._active = tuple(each.pod for each in self._pods.values() if each.life.verdict is None)
        now_ns = self.agenda.clock.stamp.steady_ns
        tracks = {} if self.hides_pods else self.machine_model.tracks.copy()
        usages: Mapping[str, PodUsage] = Usages(tracks, self.agenda.now_ns)
        model = self.machine_model
        return Snapshot(now_ns, model.stats(now_ns), self._active, usages, model.size.layout)

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        """Dead containers and unused images, at once."""
        containers = images = freed = 0
        model = self.machine_model
        if Reclaimable.CONTAINERS in order.what:
            containers = len(model.dead)
            freed += sum(model.exhume(uid) for uid in list(model.dead))
        if Reclaimable.IMAGES in order.what and model.unused_images:
            images = 1
            freed += model.free_images()
        return Reclaimed(containers, images, freed)

    def end(self, order: Eviction) -> None:
        """Raises PodGone for one that is unknown or has ended."""
        pod = self._pods.get(order.pod.uid)
        if pod is None or pod.life.verdict is not None:
            raise PodGone(f"there is no pod `{order.pod}`")
        pod.feed(life_events.ToldToEnd, order, order.grace_seconds, order.is_at_once)

    async def evict(self, order: Eviction) -> None:
        """Waits, in virtual time, which others let pass."""
        self.end(order)
        pod = self._pods[order.pod.uid]
        while pod.life.verdict is None:
            if pod.pod.uid not in self._pods:
                raise StillRunning(f"`{order.pod}` was forgotten before it had ended")
            await _Pause()

    def endings(self) -> Sequence[EndingPod]:
        """Those whose eviction was begun and not told to its end."""
        if not self._ending:
            return ()
        found = []
        for pod in self._ending.values():
            ending = pod.life.ending
            if ending is not None and ending.order is not None:
                times = ending.ordered_monotonic_ns, ending.began_monotonic_ns, pod.life.stopped_monotonic_ns
                found.append(EndingPod(ending.order, *times))
        return found

    def told(self, uid: str) -> None:
        """It is no ending any more."""
        if uid in self._pods:
            self._pods[uid].feed(life_events.EvictionTold)

    def is_finished(self, uid: str) -> bool:
        """Nothing is left of it."""
        pod = self._pods.get(uid)
        return pod is None or pod.life.is_cleaned

    async def alarms(self) -> AsyncIterator[Alarm]:
        """For an agent in an event loop; a simulation takes them with `next_alarm`."""
        while True:
            while not self._alarms:
                await _Pause()
            yield self._alarms.pop(0)

    def next_alarm(self) -> Alarm | None:
        """The first that has rung since the last call; one look answers them all."""
        if not self._alarms:
            return None
        alarm, self._alarms = self._alarms[0], []
        return alarm

    # Pods that it runs.

    async def start(self, manifest: PodManifest) -> None:
        """Begins now, in virtual time."""
        self.admit(manifest)
        pod = self._pods[manifest.pod.uid]
        while not pod.life.has_begun:
            await _Pause()

    def admit(self, manifest: PodManifest) -> SimulatedPod:
        """The same without waiting."""
        pod = SimulatedPod(
            manifest.pod,
            self._program(manifest),
            self.machine_model,
            self.agenda,
            self._emit,
            lambda: self._has_changed(manifest.pod.uid),
        )
        pod.kill_delay_ns, pod.is_runtime_down = self._kill_delay_ns, self._is_down
        self._pods[manifest.pod.uid] = pod
        pod.feed(life_events.Asked)
        return pod

    async def add(self, manifest: PodManifest) -> None:
        """A simulated pod has one container, and nothing to be debugged."""

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        """The pod is no longer wanted."""
        self.delete(uid, grace_seconds)

    def delete(self, uid: str, grace_seconds: int | None = None) -> None:
        """The same without waiting: it is forgotten once it has ended."""
        self._rejected.pop(uid, None)
        pod = self._pods.get(uid)
        if pod is not None:
            pod.feed(life_events.ToldToEnd, None, grace_seconds, False, True)

    def is_found(self, uid: str) -> bool:  # noqa: ARG002  nothing is lost here
        """Never."""
        return False

    async def reject(self, manifest: PodManifest, reason: str, message: str) -> None:
        """It stays Failed for all to see."""
        self._rejected[manifest.pod.uid] = PodStatus(manifest.pod, FAILED, reason, message)

    def statuses(self) -> Sequence[PodStatus]:
        """All pods, rejected ones last."""
        return [*(_status(each.life) for each in self._pods.values()), *self._rejected.values()]

    def machine(self) -> MachineCapacity:
        """What there is."""
        return self.machine_model.size.capacity()

    def pod(self, uid: str) -> SimulatedPod | None:
        """One of them."""
        return self._pods.get(uid)

    def slow_kills(self, delay_ns: int) -> None:
        """From now on a kill takes so long: a process in an uninterruptible call."""
        self._kill_delay_ns = delay_ns
        for pod in self._pods.values():
            pod.kill_delay_ns = delay_ns

    def take_down(self, *, is_down: bool) -> None:
        """The container runtime starts nothing while it is down."""
        self._is_down = is_down
        for pod in self._pods.values():
            pod.is_runtime_down = is_down

    # What happens by itself.

    def _has_changed(self, uid: str) -> None:
        self._active = None
        pod = self._pods[uid]
        life = pod.life
        is_untold = life.ending is not None and life.ending.is_untold
        if is_untold:
            self._ending[uid] = pod
        else:
            self._ending.pop(uid, None)
        if life.verdict is not None:
            self.machine_model.hide_pod(uid)
            if is_untold:
                self._ring("pods")
        if life.is_cleaned and life.is_unwanted and not is_untold:
            pod.forget()
            del self._pods[uid]
        self.changed(pod)

    def _crossed(self) -> None:
        if self.rings:
            raised_ns = self.agenda.clock.monotonic_ns()
            self.agenda.after(ALARM_NS, lambda: self._ring("memcg", raised_ns))

    def _ring(self, source: str, raised_ns: int | None = None) -> None:
        self._alarms.append(Alarm(source, self.agenda.clock.monotonic_ns() if raised_ns is None else raised_ns))
        self.wake()

    def _exhausted(self) -> None:
        """The kernel kills until there is memory again: the process with the highest badness first."""
        model = self.machine_model
        capacity = model.size.memory
        while model.used(MEMORY) > capacity:
            victim = self._worst(capacity)
            if victim is None:
                return
            victim.kill_for_memory()

    def _worst(self, capacity: int) -> SimulatedPod | None:
        """Linux: pages used, in thousandths of what there is, and the adjustment."""
        best: tuple[int, SimulatedPod] | None = None
        now_ns = self.agenda.now_ns
        for uid, (usage, container, _) in self.machine_model.tracks.items():
            pod = self._pods.get(uid)
            memory = usage.memory.at(now_ns)
            if pod is None or not pod.is_running or memory <= 0:
                continue
            adjustment = oom_score_adjustments(pod.pod, capacity).get(container, 0)
            badness = memory + adjustment * capacity // 1000
            if best is None or badness > best[0]:
                best = badness, pod
        return None if best is None else best[1]


def _status(life: PodLife) -> PodStatus:
    its = verdict(life)
    containers = tuple(
        ContainerStatus(each.name, each.state, each.reason, each.message, each.exit_code, each.started_ns)
        for each in life.containers
    )
    return PodStatus(
        life.pod,
        its.phase,
        its.reason,
        its.message,
        its.conditions,
        containers,
        life.started_ns,
        life.is_ending,
    )
