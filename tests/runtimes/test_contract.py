"""What every runtime must do, whatever it is made of, and the scripted double of the agent's tests with them.

A runtime is a `Subject`: how it is opened, and how it gets a pod that behaves in one of three ways. The contract knows
neither commands nor images, so a runtime of containers needs a class like `HostSubject` and one line in `SUBJECTS`.
Subjects that need a server take it elsewhere: in `tests/live/test_container_contract.py`, in
`tests/live/test_guard_containerd.py` and in `test_relief_contract.py`, which names the clauses that relief cannot keep.
`test_contract_catches.py` shows for each of these tests a fault that it finds.
"""

from __future__ import annotations

import asyncio
import enum
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from jettison.clock import Clock, SystemClock
from jettison.engine.node.decide import Nothing, Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.signals import Reclaimable, Signal, readings
from jettison.engine.node.snapshot import Reading
from jettison.engine.pods.pod import Pod
from jettison.errors import PodGone
from jettison.manifests.pods import pod_from
from jettison.runtimes.host.runtime import HostRuntime
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.protocol import Hosting, PodManifest, PodStatus
from jettison.runtimes.simulated.agenda import Agenda
from jettison.runtimes.simulated.curves import Constant, Ramp
from jettison.runtimes.simulated.machine import PIDS, MachineSize
from jettison.runtimes.simulated.pods import PodProgram
from jettison.runtimes.simulated.runtime import SimulatedRuntime
from tests.agent.scripted_runtime import ScriptedHost
from tests.builders import MI, policy, sharing
from tests.janitor import fresh_name

# The line that memory crosses in the test of alarms.
SCARCE = 32 * MI
RULES = policy({"memory.available": "32Mi"}, guards_allocatable=True)
MESSAGE = "The node was low on resource: memory. "
SOURCES = {"memcg", "psi", "poll", "close", "oom", "pods"}


class Behaviour(enum.Enum):
    """Of a pod's only container, `c`."""

    CALM = "runs until it is told to end"
    DEAF = "runs on when it is told to end"
    HUNGRY = "takes nearly all of the node's memory, and keeps it"


class Subject(Protocol):
    """A runtime that takes the contract."""

    # Seconds for anything that must come: generous, unless it is known not to come.
    patience: float

    def opened(self, tmp_path: Path) -> AbstractAsyncContextManager[Hosting]:
        """A node of its own, gone afterwards with all that runs on it."""

    async def run(self, runtime: Hosting, name: str, behaviour: Behaviour) -> Pod:
        """A pod of this name, started and in the midst of its behaviour."""

    def clock(self, runtime: Hosting) -> Clock:
        """The one that the runtime goes by."""


def manifest(name: str, command: list[str], shared: Path | None = None) -> PodManifest:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "c", "command": command}]},
    }
    if shared is not None:
        sharing(document, shared)
    return PodManifest(pod_from(document), document, "test")


@dataclass
class HostSubject:
    """A node of 128 MiB on this machine."""

    uses_cgroups: bool
    patience: float = 60.0

    @asynccontextmanager
    async def opened(self, tmp_path: Path) -> AsyncIterator[Hosting]:
        name = fresh_name()
        self._ready = tmp_path / "ready"
        settings = HostSettings(
            name, tmp_path / "state", tmp_path / "node", f"jettison-{name}", 128 * MI, 200, self.uses_cgroups
        )
        runtime = await HostRuntime.open(settings, RULES, SystemClock(), lambda _fact: None)
        try:
            yield runtime
        finally:
            for status in runtime.statuses():
                await runtime.stop(status.pod.uid, 0)
            await until(self, lambda: all(runtime.is_finished(status.pod.uid) for status in runtime.statuses()))
            await runtime.close()

    async def run(self, runtime: Hosting, name: str, behaviour: Behaviour) -> Pod:
        commands = {
            # Without `touch`, which would be a second process for a moment after the file is there.
            Behaviour.CALM: ["sh", "-c", ": > shared/ready; exec sleep 600"],
            Behaviour.DEAF: ["sh", "-c", "trap '' TERM; touch shared/ready; exec sleep 600"],
            # The file comes first: the alarm may ring before all of it is taken.
            Behaviour.HUNGRY: [
                str(Path(sys.executable).resolve()),
                *("-I", "-S", "-c"),
                "import time; open('shared/ready', 'w'); held = bytearray(b'x') * (104 << 20); time.sleep(600)",
            ],
        }
        wanted = manifest(name, commands[behaviour], self._ready.parent)
        await runtime.start(wanted)
        await until(self, lambda: phase_of(runtime, wanted.pod) == "Running" and self._ready.exists())
        return wanted.pod

    def clock(self, runtime: Hosting) -> Clock:
        return SystemClock()


@dataclass
class ScriptedSubject:
    """The double that the agent's own logic is tested with."""

    made: Callable[[], ScriptedHost] = ScriptedHost
    patience: float = 60.0

    @asynccontextmanager
    async def opened(self, tmp_path: Path) -> AsyncIterator[Hosting]:
        yield self.made()

    async def run(self, runtime: Hosting, name: str, behaviour: Behaviour) -> Pod:
        assert isinstance(runtime, ScriptedHost)
        wanted = manifest(name, ["scripted"])
        await runtime.start(wanted)
        if behaviour is Behaviour.DEAF:
            runtime.deaf.add(wanted.pod.uid)
        if behaviour is Behaviour.HUNGRY:
            runtime.available = SCARCE - MI
            runtime.ring("memcg")
        return wanted.pod

    def clock(self, runtime: Hosting) -> Clock:
        assert isinstance(runtime, ScriptedHost)
        return runtime.clock


@dataclass
class SimulatedSubject:
    """A node of numbers, whose time passes fifty times as fast as ours."""

    patience: float = 60.0

    @asynccontextmanager
    async def opened(self, tmp_path: Path) -> AsyncIterator[Hosting]:
        agenda = Agenda()
        size = MachineSize("n1", memory=128 * MI)
        self.usage: dict[str, PodProgram] = {}
        runtime = SimulatedRuntime(
            size, RULES, agenda, lambda _fact: None, lambda wanted: self.usage[wanted.pod.name], {PIDS: Constant(10)}
        )
        passing = asyncio.create_task(self._pass(agenda))
        try:
            yield runtime
        finally:
            passing.cancel()
            await asyncio.wait([passing])

    async def _pass(self, agenda: Agenda) -> None:
        while True:
            agenda.run_until(agenda.now_ns + 50 * 10**6)
            await asyncio.sleep(0.001)

    async def run(self, runtime: Hosting, name: str, behaviour: Behaviour) -> Pod:
        usage = {"memory": Ramp(MI, 104 * MI, 10**9)} if behaviour is Behaviour.HUNGRY else {"memory": Constant(MI)}
        obeys_ns = None if behaviour is Behaviour.DEAF else 10**6
        self.usage[name] = PodProgram(usage, obeys_in_ns=obeys_ns)
        wanted = manifest(name, ["simulated"])
        await runtime.start(wanted)
        await until(self, lambda: phase_of(runtime, wanted.pod) == "Running")
        return wanted.pod

    def clock(self, runtime: Hosting) -> Clock:
        assert isinstance(runtime, SimulatedRuntime)
        return runtime.agenda.clock


SUBJECTS = [
    pytest.param(
        HostSubject(uses_cgroups=True),
        id="host with cgroups",
        marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make cgroups"),
    ),
    pytest.param(HostSubject(uses_cgroups=False), id="host with process groups"),
    pytest.param(SimulatedSubject(), id="simulated node"),
    pytest.param(ScriptedSubject(), id="scripted double"),
]

Scenario = Callable[[Subject, Hosting], Awaitable[None]]
CONTRACT: dict[str, Callable[[Subject, Path], None]] = {}
# What also holds for a runtime that starts nothing: it finds, measures and ends what others started.
GUARDING_CONTRACT: dict[str, Callable[[Subject, Path], None]] = {}


def contract(scenario: Scenario) -> Callable[[Subject, Path], None]:
    """A test that every subject takes, in an event loop and on a node of its own."""
    taken = hosting_contract(scenario)
    name = getattr(scenario, "__name__", "")
    GUARDING_CONTRACT[name] = CONTRACT[name]
    return taken


def hosting_contract(scenario: Scenario) -> Callable[[Subject, Path], None]:
    """The same for those that start pods."""

    async def on_a_node(subject: Subject, tmp_path: Path) -> None:
        async with subject.opened(tmp_path) as runtime:
            await scenario(subject, runtime)

    def taken(subject: Subject, tmp_path: Path) -> None:
        asyncio.run(on_a_node(subject, tmp_path))

    name = getattr(scenario, "__name__", "")
    taken.__name__, taken.__doc__ = name, scenario.__doc__
    CONTRACT[name] = taken
    marked: Callable[[Subject, Path], None] = pytest.mark.parametrize("subject", SUBJECTS)(taken)
    return marked


def eviction(pod: Pod, grace_seconds: int | None = 1) -> Eviction:
    return Eviction(pod, MESSAGE, grace_seconds, "memory.available")


async def until(subject: Subject, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(subject.patience):
        while not holds():
            await asyncio.sleep(0.01)


def status_of(runtime: Hosting, pod: Pod) -> PodStatus | None:
    return next((status for status in runtime.statuses() if status.pod.uid == pod.uid), None)


def phase_of(runtime: Hosting, pod: Pod) -> str:
    status = status_of(runtime, pod)
    return "" if status is None else status.phase


def is_ending(runtime: Hosting, pod: Pod) -> bool:
    status = status_of(runtime, pod)
    return status is not None and status.is_ending


@contract
async def test_an_empty_node_can_be_observed(subject: Subject, runtime: Hosting) -> None:
    snapshot = await runtime.observe()
    found = readings(snapshot.node)
    for signal in (Signal.MEMORY_AVAILABLE, Signal.PID_AVAILABLE):
        assert 0 < found[signal].available <= found[signal].capacity
    assert not snapshot.pods
    assert not snapshot.usages


@contract
async def test_the_disk_of_a_node_can_be_observed(subject: Subject, runtime: Hosting) -> None:
    found = readings((await runtime.observe()).node)[Signal.NODEFS_AVAILABLE]
    assert 0 < found.available <= found.capacity


@contract
async def test_the_memory_of_a_node_is_that_of_its_machine(subject: Subject, runtime: Hosting) -> None:
    found = readings((await runtime.observe()).node)
    assert found[Signal.MEMORY_AVAILABLE].capacity == runtime.machine().memory


@contract
async def test_a_started_pod_runs_and_is_measured(subject: Subject, runtime: Hosting) -> None:
    pod = await subject.run(runtime, "a", Behaviour.CALM)
    assert phase_of(runtime, pod) == "Running"
    snapshot = await runtime.observe()
    assert [each.uid for each in snapshot.pods] == [pod.uid]
    usage = snapshot.usages[pod.uid]
    assert usage.processes == 1
    assert usage.working_set is not None
    assert not runtime.is_finished(pod.uid)


@contract
async def test_the_containers_of_a_pod_are_measured(subject: Subject, runtime: Hosting) -> None:
    pod = await subject.run(runtime, "a", Behaviour.CALM)
    usage = (await runtime.observe()).usages[pod.uid]
    assert [container.name for container in usage.containers] == ["c"]


@contract
async def test_an_eviction_returns_when_the_pod_has_ended(subject: Subject, runtime: Hosting) -> None:
    pod = await subject.run(runtime, "a", Behaviour.CALM)
    await runtime.evict(eviction(pod))
    assert pod.uid not in (await runtime.observe()).usages
    await until(subject, lambda: runtime.is_finished(pod.uid))
    assert not (await runtime.observe()).pods


@contract
async def test_an_evicted_pod_stays_for_all_to_see(subject: Subject, runtime: Hosting) -> None:
    pod = await subject.run(runtime, "a", Behaviour.CALM)
    await runtime.evict(eviction(pod))
    await until(subject, lambda: runtime.is_finished(pod.uid))
    status = status_of(runtime, pod)
    assert status is not None
    assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", MESSAGE)


@contract
async def test_an_eviction_is_an_ending_until_it_is_told(subject: Subject, runtime: Hosting) -> None:
    """After a restart the next agent asks for these: what was told twice would be on record twice."""
    pod = await subject.run(runtime, "a", Behaviour.CALM)
    assert list(runtime.endings()) == []
    order = eviction(pod)
    await runtime.evict(order)
    (found,) = runtime.endings()
    assert (found.eviction.pod.uid, found.eviction.message) == (pod.uid, MESSAGE)
    assert found.stopped_ns is not None
    assert found.began_ns <= found.ordered_ns <= found.stopped_ns
    runtime.told(pod.uid)
    assert list(runtime.endings()) == []


@contract
async def test_a_pod_that_was_told_to_end_is_an_ending_at_once(subject: Subject, runtime: Hosting) -> None:
    """The next decision is made without waiting, and must know of it."""
    pod = await subject.run(runtime, "a", Behaviour.DEAF)
    runtime.end(eviction(pod, 3600))
    (found,) = runtime.endings()
    assert (found.eviction.pod.uid, found.stopped_ns) == (pod.uid, None)


@contract
async def test_a_pod_that_was_told_to_end_can_be_told_to_hurry(subject: Subject, runtime: Hosting) -> None:
    pod = await subject.run(runtime, "a", Behaviour.DEAF)
    runtime.end(eviction(pod, 3600))
    (first,) = runtime.endings()
    runtime.end(eviction(pod, 1))
    (second,) = runtime.endings()
    assert (second.eviction.grace_seconds, second.began_ns) == (1, first.began_ns)
    await until(subject, lambda: runtime.endings()[0].stopped_ns is not None)


@contract
async def test_a_pod_that_is_not_there_cannot_be_evicted(subject: Subject, runtime: Hosting) -> None:
    with pytest.raises(PodGone):
        await runtime.evict(eviction(manifest("a", ["true"]).pod))
    pod = await subject.run(runtime, "a", Behaviour.CALM)
    await runtime.evict(eviction(pod))
    await until(subject, lambda: runtime.is_finished(pod.uid))
    with pytest.raises(PodGone):
        await runtime.evict(eviction(pod))


@contract
async def test_a_second_eviction_shortens_the_grace_of_the_first(subject: Subject, runtime: Hosting) -> None:
    """From an hour to a second: both return long before the hour is over."""
    pod = await subject.run(runtime, "a", Behaviour.DEAF)
    first = asyncio.create_task(runtime.evict(eviction(pod, 3600)))
    await until(subject, lambda: is_ending(runtime, pod) or first.done())
    assert not first.done(), "a deaf pod has ended before its grace period"
    async with asyncio.timeout(subject.patience):
        await runtime.evict(eviction(pod, 1))
        await first


@hosting_contract
async def test_a_pod_is_finished_when_it_is_gone_or_unknown_and_not_before(subject: Subject, runtime: Hosting) -> None:
    assert runtime.is_finished("unknown")
    pod = await subject.run(runtime, "a", Behaviour.CALM)
    assert not runtime.is_finished(pod.uid)
    await runtime.stop(pod.uid, 1)
    await until(subject, lambda: runtime.is_finished(pod.uid))


@hosting_contract
async def test_a_pod_that_was_stopped_is_forgotten(subject: Subject, runtime: Hosting) -> None:
    pod = await subject.run(runtime, "a", Behaviour.CALM)
    await runtime.stop(pod.uid, 1)
    await until(subject, lambda: runtime.is_finished(pod.uid))
    assert status_of(runtime, pod) is None
    assert not (await runtime.observe()).pods


@hosting_contract
async def test_a_rejected_pod_is_remembered_as_failed(subject: Subject, runtime: Hosting) -> None:
    wanted = manifest("a", ["true"])
    await runtime.reject(wanted, "Evicted", "The node had condition: [MemoryPressure]. ")
    status = status_of(runtime, wanted.pod)
    assert status is not None
    assert (status.phase, status.reason) == ("Failed", "Evicted")
    assert status.message == "The node had condition: [MemoryPressure]. "
    assert not (await runtime.observe()).pods
    assert runtime.is_finished(wanted.pod.uid)


@contract
async def test_a_calm_node_raises_no_alarm(subject: Subject, runtime: Hosting) -> None:
    """An alarm that never rests would keep the loop busy: none comes in the fifth of a second after a look."""
    await runtime.observe()
    waiting = asyncio.ensure_future(anext(runtime.alarms()))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    waiting.cancel()
    await asyncio.wait([waiting])


@contract
async def test_an_alarm_rings_when_memory_runs_out(subject: Subject, runtime: Hosting) -> None:
    """Later ones may follow, for example for a pod that has started: a look after one of them shows the shortage."""
    before = await runtime.observe()
    assert readings(before.node)[Signal.MEMORY_AVAILABLE].available > SCARCE
    began_ns = subject.clock(runtime).monotonic_ns()
    await subject.run(runtime, "a", Behaviour.HUNGRY)
    async with asyncio.timeout(subject.patience):
        async for alarm in runtime.alarms():
            assert alarm.source in SOURCES
            assert began_ns <= alarm.raised_ns <= subject.clock(runtime).monotonic_ns()
            found = readings((await runtime.observe()).node)[Signal.MEMORY_AVAILABLE]
            if found.available < SCARCE:
                return
    pytest.fail("the alarms came to an end")


@contract
async def test_a_reclaim_with_nothing_to_free_frees_nothing(subject: Subject, runtime: Hosting) -> None:
    starved = policy({"nodefs.available": "10%"}).thresholds[0]
    order = Reclaim((Reclaimable.CONTAINERS, Reclaimable.IMAGES), starved, Reading(0, 1, 1), Nothing(""), ())
    done = await runtime.reclaim(order)
    assert (done.containers, done.images, done.freed_bytes, done.errors) == (0, 0, 0, ())
