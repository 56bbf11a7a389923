"""A runtime in virtual time: it carries effects out on processes that exist only as numbers, and needs no sleep.

Its agent can be killed after any effect, as SIGKILL would do it: what was saved is all that the next one knows, and
the processes live on. Every call of `advance` is made twice, and must give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jettison.engine.lifecycle import effects, events
from jettison.engine.lifecycle.facts import LifeFact
from jettison.engine.lifecycle.life import advance
from jettison.engine.lifecycle.rules import SECOND_NS, ProbeKind, RestartPolicy
from jettison.engine.lifecycle.state import ContainerLife, PodLife, Trouble, new_life
from tests.builders import pod as make_pod


class At(NamedTuple):
    """A moment of a machine whose clocks agree."""

    wall_ns: int
    monotonic_ns: int


def at(seconds: float) -> At:
    """So many seconds after the beginning."""
    return At(round(seconds * SECOND_NS), round(seconds * SECOND_NS))


@dataclass(frozen=True)
class ProbeSpec:
    """As a document has it."""

    kind: ProbeKind
    initial_delay: int = 0
    period: int = 10
    successes: int = 1
    failures: int = 3
    grace: int | None = None


@dataclass(frozen=True)
class Spec:
    """One container."""

    name: str = "c"
    probes: tuple[ProbeSpec, ...] = ()
    post_start: object | None = None
    pre_stop: object | None = None
    is_init: bool = False
    is_sidecar: bool = False
    is_ephemeral: bool = False


@dataclass(frozen=True)
class PodSpec:
    """One pod."""

    containers: tuple[Spec, ...] = (Spec(),)
    init_containers: tuple[Spec, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    grace_seconds: int = 30
    deadline_seconds: int | None = None
    ephemeral_containers: tuple[Spec, ...] = ()


def init(name: str = "i") -> Spec:
    """Runs to its end."""
    return Spec(name, is_init=True)


def sidecar(name: str = "s", *probes: ProbeSpec) -> Spec:
    """Is kept running."""
    return Spec(name, probes, is_init=True, is_sidecar=True)


def ephemeral(name: str = "e") -> Spec:
    """Added for debugging."""
    return Spec(name, is_ephemeral=True)


@dataclass(frozen=True)
class Program:
    """What a container does: `lasts` seconds by itself, or without end; `obeys` SIGTERM after so many, or never."""

    lasts: float | None = None
    code: int = 0
    obeys: float | None = 0.0
    # None: it cannot be started.
    starts_in: float | None = 0.0
    # By kind; None where the question cannot be asked.
    answers: Callable[[ProbeKind, float], bool | None] = lambda _kind, _age: True
    hook: float = 0.0
    # How many seconds what it leaves behind takes to be removed.
    leaves: float = 0.0
    hook_failure: str = ""


@dataclass
class Process:
    """One that runs."""

    started_ns: int
    ends_ns: int | None
    code: int
    term_ns: int | None = None
    kill_ns: int | None = None


@dataclass
class World:
    """One pod on a virtual machine."""

    spec: PodSpec = field(default_factory=PodSpec)
    programs: dict[str, Program] = field(default_factory=dict)
    now_ns: int = 0
    set_up_troubles: list[Trouble] = field(default_factory=list)
    # By container, what its next starts lack.
    start_troubles: dict[str, list[Trouble]] = field(default_factory=dict)
    # Kill the agent after so many more effects; None: never.
    crash_in: int | None = None

    def __post_init__(self) -> None:
        pod = make_pod("p")
        self.life: PodLife = new_life(pod, self.spec, self.now)
        self.saved: PodLife = self.life
        self.processes: dict[str, Process] = {}
        self.remains: set[str] = set()
        self.born: set[str] = set()
        # What will happen, and when; an entry of an agent that died does not count.
        self.agenda: list[tuple[int, int, events.Event]] = []
        self.wake_ns: int | None = None
        self.agents = 0
        self.number = 0
        self.done: list[tuple[int, effects.Effect]] = []
        # The effects of each event.
        self.turns: list[list[effects.Effect]] = []
        self.facts: list[LifeFact] = []

    @property
    def now(self) -> At:
        """By both clocks."""
        return At(self.now_ns, self.now_ns)

    def program(self, name: str) -> Program:
        """What the container does."""
        return self.programs.get(name, Program())

    def container(self, name: str = "c") -> ContainerLife:
        """As the life has it."""
        return next(each for each in self.life.containers if each.name == name)

    def feed(self, event: events.Event) -> bool:
        """Advance, and carry out; False when the agent was killed meanwhile."""
        found = advance(self.life, event)
        assert advance(self.life, event) == found, "the same event gave another answer"
        self.life, wanted = found
        self.turns.append(wanted)
        for effect in wanted:
            if self.crash_in is not None:
                self.crash_in -= 1
                if self.crash_in < 0:
                    self.crash()
                    return False
            self.done.append((self.now_ns, effect))
            self.carry_out(effect)
        return True

    def carry_out(self, effect: effects.Effect) -> None:
        """As a runtime would."""
        match effect:
            case effects.SetUp():
                trouble = self.set_up_troubles.pop(0) if self.set_up_troubles else None
                if trouble is not None:
                    self.soon(0.5, lambda now: events.SetUpFailed(now, trouble, self.spec))
                else:
                    self.soon(0.5, lambda now: events.SetUpDone(now, self.spec))
            case effects.CancelSetUp():
                self.forget(events.SetUpDone, events.SetUpFailed)
                self.soon(0, events.SetUpCancelled)
            case effects.Start(name):
                self.start(name)
            case effects.CancelStart(name):
                if name not in self.processes:
                    self.forget(events.Started, events.NotStarted, events.StartHindered, container=name)
                    self.soon(0, lambda now: events.StartCancelled(now, name))
            case effects.Signal(name):
                self.signal(name)
            case effects.Kill(name):
                self.kill(name)
            case effects.Remove(name):
                self.soon(self.program(name).leaves, lambda now: events.Removed(now, name))
            case effects.RunHook(name, run, hook):
                why = self.program(name).hook_failure
                self.soon(self.program(name).hook, lambda now: events.HookDone(now, name, run, hook, why))
            case effects.Probe(name, run, kind):
                process = self.processes.get(name)
                age = 0.0 if process is None else (self.now_ns - process.started_ns) / SECOND_NS
                answer = self.program(name).answers(kind, age)
                self.soon(0.01, lambda now: events.ProbeAnswered(now, name, run, kind, answer, "because"))
            case effects.CleanUp():
                self.soon(0.1, events.CleanedUp)
            case _:
                self.note(effect)

    def note(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Save(life):
                self.saved = life
            case effects.Say(fact):
                self.facts.append(fact)
            case effects.WakeAt(wake_ns):
                self.wake_ns = wake_ns

    def start(self, name: str) -> None:
        program = self.program(name)
        self.remains.add(name)
        if troubles := self.start_troubles.get(name):
            trouble = troubles.pop(0)
            self.soon(program.starts_in or 0, lambda now: events.StartHindered(now, name, trouble))
        elif program.starts_in is None:
            self.soon(0.1, lambda now: events.NotStarted(now, name, "no such program"))
        else:
            self.soon(program.starts_in, lambda now: events.Started(now, name))

    def signal(self, name: str) -> None:
        process, obeys = self.processes.get(name), self.program(name).obeys
        if process is None:
            return
        process.term_ns = self.now_ns if process.term_ns is None else process.term_ns
        if obeys is not None:
            ends_ns = self.now_ns + round(obeys * SECOND_NS)
            if process.ends_ns is None or ends_ns < process.ends_ns:
                process.ends_ns, process.code = ends_ns, 143

    def kill(self, name: str) -> None:
        process = self.processes.get(name)
        if process is not None:
            process.kill_ns = process.ends_ns = self.now_ns
            process.code = 137

    def soon(self, seconds: float, make: Callable[[At], events.Event]) -> None:
        due_ns = self.now_ns + round(seconds * SECOND_NS)
        self.number += 1
        self.agenda.append((due_ns, self.number, make(At(due_ns, due_ns))))

    def forget(self, *kinds: type[events.Event], container: str = "") -> None:
        self.agenda = [
            each
            for each in self.agenda
            if not isinstance(each[2], kinds) or container not in ("", getattr(each[2], "container", ""))
        ]

    def next_ns(self) -> int | None:
        """When something happens next."""
        due = [each[0] for each in self.agenda]
        due += [each.ends_ns for each in self.processes.values() if each.ends_ns is not None]
        due += [] if self.wake_ns is None else [self.wake_ns]
        return min(due, default=None)

    def happen(self) -> None:
        """The next thing, at its moment."""
        next_ns = self.next_ns()
        assert next_ns is not None
        self.now_ns = max(self.now_ns, next_ns)
        for name, process in self.processes.items():
            if process.ends_ns is not None and process.ends_ns <= self.now_ns:
                del self.processes[name]
                self.feed(events.Exited(self.now, name, process.code))
                return
        self.agenda.sort(key=lambda each: each[:2])
        if self.agenda and self.agenda[0][0] <= self.now_ns:
            event = self.agenda.pop(0)[2]
            if isinstance(event, events.Started):
                program = self.program(event.container)
                ends_ns = None if program.lasts is None else self.now_ns + round(program.lasts * SECOND_NS)
                self.processes[event.container] = Process(self.now_ns, ends_ns, program.code)
                self.born.add(event.container)
            if isinstance(event, events.SetUpDone | events.SetUpFailed):
                event = replace(event, rules=self.spec)
            if isinstance(event, events.Removed):
                self.remains.discard(event.container)
                self.born.discard(event.container)
            self.feed(event)
            return
        self.wake_ns = None
        self.feed(events.TimePassed(self.now))

    def pass_seconds(self, seconds: float) -> None:
        """Let happen what happens meanwhile."""
        until_ns, count = self.now_ns + round(seconds * SECOND_NS), 0
        while (next_ns := self.next_ns()) is not None and next_ns <= until_ns:
            self.happen()
            count += 1
            assert count < 20_000, "something happens again and again"
        self.now_ns = max(self.now_ns, until_ns)

    def ask(self) -> World:
        """Let the pod run."""
        self.feed(events.Asked(self.now))
        return self

    def add(self, *specs: Spec) -> None:
        """The document has these ephemeral containers as well."""
        self.spec = replace(self.spec, ephemeral_containers=(*self.spec.ephemeral_containers, *specs))
        self.feed(events.Added(self.now, self.spec))

    def end(self, **how: object) -> None:
        """Tell it to end."""
        self.feed(events.ToldToEnd(self.now, **how))  # type: ignore[arg-type]

    def crash(self) -> None:
        """SIGKILL to the agent, and another one comes up: only what was saved and what runs is left."""
        self.agents += 1
        self.crash_in = None
        self.agenda, self.wake_ns = [], None
        self.life = self.saved = saved_part(self.saved)
        found = tuple(
            events.FoundContainer(
                each.name, each.name in self.processes, each.name in self.born, each.name in self.remains
            )
            for each in self.life.containers
        )
        self.feed(events.Found(self.now, found))
        # Whatever is on record, a source says again what the document has.
        self.feed(events.Added(self.now, self.spec))

    def effects_of(self, kind: type[effects.Effect]) -> list[tuple[float, effects.Effect]]:
        """Of one kind, with the second at which each was asked for."""
        return [(when / SECOND_NS, each) for when, each in self.done if isinstance(each, kind)]

    def starts(self) -> list[tuple[float, str]]:
        """Which container was started when."""
        return [(when / SECOND_NS, each.container) for when, each in self.done if isinstance(each, effects.Start)]


def saved_part(life: PodLife) -> PodLife:
    """What a record keeps of a life."""
    containers = tuple(
        each._replace(
            has_processes=False,
            is_ready=False,
            is_hook_running=False,
            is_post_start_running=False,
            kill_monotonic_ns=None,
            is_back_off_said=False,
            before=None,
            trouble=None,
            start_pause=0,
            start_again_ns=None,
        )
        for each in life.containers
    )
    return life._replace(
        containers=containers,
        set_up="waiting",
        trouble=None,
        set_up_pause=0,
        set_up_again_ns=None,
        probes=(),
        stopped_monotonic_ns=None,
        untold=(),
        wake_at_ns=None,
    )
