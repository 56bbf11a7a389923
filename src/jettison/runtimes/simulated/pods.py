"""One pod in virtual time: `engine/lifecycle` driven on programs that exist only as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NamedTuple

from jettison.engine.lifecycle import effects, events
from jettison.engine.lifecycle.life import advance
from jettison.engine.lifecycle.rules import SECOND_NS, ProbeRules, RestartPolicy
from jettison.engine.lifecycle.state import PodLife, new_life
from jettison.engine.pods.pod import Pod
from jettison.events import Emit, OutOfMemoryKill
from jettison.runtimes.simulated.agenda import Agenda, Entry, stamp
from jettison.runtimes.simulated.curves import NANO, Curve
from jettison.runtimes.simulated.machine import PARTS, Machine, PodTracks, Track
from jettison.values import frozen

TERMINATED, KILLED = 143, 137
"""Exit codes: 128 and the number of the signal."""

_CLEAN_UP_NS = 50 * 10**6
"""What a host takes for volumes, directories and a cgroup."""


_NEVER_NS = 2**62
"""Later than the end of any scenario."""

_MEMORY, _PROCESSES = PARTS.index("memory"), PARTS.index("processes")


class _ContainerRules(NamedTuple):
    """Of the only container."""

    name: str
    probes: tuple[ProbeRules, ...] = ()
    post_start: None = None
    pre_stop: None = None
    is_init: bool = False
    is_sidecar: bool = False
    is_ephemeral: bool = False


class _PodRules(NamedTuple):
    containers: tuple[_ContainerRules, ...]
    init_containers: tuple[_ContainerRules, ...]
    restart_policy: RestartPolicy
    grace_seconds: int
    deadline_seconds: int | None = None
    ephemeral_containers: tuple[_ContainerRules, ...] = ()


@frozen
class PodProgram:
    """What a pod's program does; times are nanoseconds."""

    # By part of `PARTS`; what is not named is not used.
    usage: Mapping[str, Curve] = field(default_factory=dict)
    starts_in_ns: int = 200 * 10**6
    # From SIGTERM to its end; None: it does not listen.
    obeys_in_ns: int | None = 0
    # By itself; None: never.
    lasts_ns: int | None = None
    exit_code: int = 0
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    # The kernel kills it there.
    memory_limit: int | None = None
    # From its end until nothing of it is left.
    clean_up_ns: int = _CLEAN_UP_NS


class SimulatedPod:
    """Turns effects into things that will happen, and what happens into events."""

    def __init__(
        self,
        pod: Pod,
        program: PodProgram,
        machine: Machine,
        agenda: Agenda,
        say: Emit,
        changed: Callable[[], None],
    ) -> None:
        self.pod = pod
        self.program = program
        self._machine = machine
        self._agenda = agenda
        self._say = say
        self._changed = changed
        name = pod.containers[0].name if pod.containers else "main"
        grace = 30 if pod.grace_seconds is None else pod.grace_seconds
        rules = _PodRules((_ContainerRules(name),), (), program.restart_policy, grace)
        self._rules = rules
        self.container = name
        self._volume = next((each.name for each in pod.volumes if each.is_local), "")
        self.life: PodLife = new_life(pod, rules, stamp(agenda.now_ns))
        self._wake: Entry | None = None
        self._pending: Entry | None = None
        self._end: Entry | None = None
        self._bend: Entry | None = None
        # By part of `PARTS`: its line, and until when that holds.
        self._tracks: list[Track] = []
        self._ends_ns: list[int] = []
        self._curves = [(PARTS.index(part), curve) for part, curve in program.usage.items()]
        self._began_ns: int | None = None
        # Added to every kill, and to every start: what a fault does.
        self.kill_delay_ns = 0
        self.is_runtime_down = False

    @property
    def is_running(self) -> bool:
        """A process of it exists."""
        return self._began_ns is not None

    def feed(self, make: Callable[..., events.Event], *values: object) -> None:
        """Something happened now."""
        self.life, wanted = advance(self.life, make(self._agenda.clock.stamp, *values))
        for effect in wanted:
            self._carry_out(effect)
        self._changed()

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.SetUp():
                self._soon(0, events.SetUpDone, self._rules)
            case effects.CancelSetUp():
                self._soon(0, events.SetUpCancelled)
            case effects.Start(name):
                self._start(name)
            case effects.CancelStart(name):
                if not self.is_running:
                    self._soon(0, events.StartCancelled, name)
            case effects.Signal():
                if self.program.obeys_in_ns is not None:
                    self._end_in(self.program.obeys_in_ns, TERMINATED)
            case effects.Kill():
                self._end_in(self.kill_delay_ns, KILLED)
            case effects.Remove(name):
                self._agenda.after(0, lambda: self.feed(events.Removed, name))
            case effects.CleanUp(is_all):
                self._agenda.after(self.program.clean_up_ns, lambda: self._clean_up(is_all=is_all))
            case effects.WakeAt(wake_ns):
                self._agenda.cancel(self._wake)
                offset_ns = stamp(0).monotonic_ns
                self._wake = None if wake_ns is None else self._agenda.at(wake_ns - offset_ns, self._time_passed)
            case effects.Say(fact):
                self._say(fact)
            case _:
                # No disk to save to; and it has neither hooks nor probes.
                pass

    def _time_passed(self) -> None:
        self._wake = None
        self.feed(events.TimePassed)

    def _soon(self, delay_ns: int, make: Callable[..., events.Event], *values: object) -> None:
        """Takes the place of what was about to happen."""
        self._agenda.cancel(self._pending)
        self._pending = self._agenda.after(delay_ns, lambda: self.feed(make, *values))

    def _start(self, name: str) -> None:
        if self.is_runtime_down:
            self._soon(SECOND_NS, events.NotStarted, name, "the container runtime does not answer")
            return
        self._agenda.cancel(self._pending)
        self._pending = self._agenda.after(self.program.starts_in_ns, lambda: self._started(name))

    def _started(self, name: str) -> None:
        self._began_ns = self._agenda.now_ns
        self._tracks = [Track()] * len(PARTS)
        self._tracks[_PROCESSES] = Track(NANO)
        self._ends_ns = [_NEVER_NS] * len(PARTS)
        for part, _ in self._curves:
            self._ends_ns[part] = 0
        self._follow()
        if self.program.lasts_ns is not None:
            self._end_in(self.program.lasts_ns, self.program.exit_code)
        self.feed(events.Started, name)

    def _follow(self) -> None:
        """Use what the curves say, until one of them bends."""
        self._bend = None
        if self._began_ns is None:
            return
        now_ns = self._agenda.now_ns
        for part, curve in self._curves:
            if self._ends_ns[part] > now_ns:
                continue
            nanos, rate, length_ns = curve.piece(now_ns - self._began_ns)
            self._tracks[part] = Track(nanos - rate * now_ns, rate)
            bends_ns = _NEVER_NS if length_ns is None else length_ns
            if part == _MEMORY and self.program.memory_limit is not None:
                left = (self.program.memory_limit + 1) * NANO - nanos
                if left <= 0:
                    self.kill_for_memory()
                    return
                if rate > 0:
                    bends_ns = min(bends_ns, -(-left // rate))
            self._ends_ns[part] = now_ns + max(bends_ns, 1)
        self._machine.set_pod(self.pod.uid, PodTracks(*self._tracks), self.container, self._volume)
        next_ns = min(self._ends_ns)
        if next_ns < _NEVER_NS:
            self._bend = self._agenda.at(next_ns, self._follow)

    def kill_for_memory(self) -> None:
        """By the kernel, which takes the memory back at once; no signal can be answered. At the container's limit, or
        because the node has none left.
        """
        self._say(OutOfMemoryKill(self.pod, self.container, 1))
        known = self._machine.tracks.get(self.pod.uid)
        if known is not None:
            self._machine.set_pod(self.pod.uid, known[0]._replace(memory=Track()), self.container, self._volume)
        self._agenda.cancel(self._bend)
        self._bend = None
        self._end_in(0, KILLED, is_oom=True)

    def _end_in(self, delay_ns: int, code: int, *, is_oom: bool = False) -> None:
        """The earliest end counts."""
        if self._began_ns is None:
            return
        due_ns = self._agenda.now_ns + delay_ns
        if self._end is not None and self._end[0] <= due_ns:
            return
        self._agenda.cancel(self._end)
        self._end = self._agenda.at(due_ns, lambda: self._ended(code, is_oom=is_oom))

    def _ended(self, code: int, *, is_oom: bool) -> None:
        self._end = None
        self._agenda.cancel(self._bend)
        self._bend, self._began_ns = None, None
        self._leave_files()
        self.feed(events.Exited, self.container, code, is_oom)

    def _leave_files(self) -> None:
        """What it wrote outlives a container: logs and volumes with the pod, its own layer as a dead container's."""
        known = self._machine.tracks.get(self.pod.uid)
        if known is None:
            return
        now_ns, usage = self._agenda.now_ns, known[0]
        self._machine.bury(self.pod.uid, usage.rootfs.at(now_ns))
        logs, volume = (Track(each.at(now_ns) * 10**9) for each in (usage.logs, usage.volume))
        self._machine.set_pod(self.pod.uid, PodTracks(logs=logs, volume=volume), self.container, self._volume)

    def _clean_up(self, *, is_all: bool) -> None:
        """What a pod that ended by itself has written stays until room is short."""
        if is_all:
            self._machine.exhume(self.pod.uid)
        self._machine.set_pod(self.pod.uid, None)
        self.feed(events.CleanedUp)

    def forget(self) -> None:
        """Nothing more happens to it."""
        for entry in (self._wake, self._pending, self._end, self._bend):
            self._agenda.cancel(entry)
        self._machine.exhume(self.pod.uid)
        self._machine.set_pod(self.pod.uid, None)
