"""How long the event loop of an agent is held up by the worst manifest: 32 containers with probes, hooks and long words
that start, are asked, crash, are told to end and are killed, each together.

The processor time of the busiest round of the loop in each of these, beside the same of a pod with one container and
of one for which all is done at once, as agents did it at first. With `busy` instead how long the longest round took,
with records on a disk to which a process writes and for which it waits without end; at once, the loop waits as well.

The best of several tries is what the code takes, because each does the same and a machine only adds to it. How much it
adds the tries of a loop that does nothing but count tell: by how much the busiest of its rounds, which are all alike,
exceeds the middle one. Run as a program it prints the best and the middle one of all tries, in milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the pods are those of the tests

from benchmarks.harness.longest_gap import MEMORY, Rounds, like_an_agent
from jettison import events
from jettison.engine.lifecycle import effects
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.volumes.pod_directories import HostServices
from jettison.runtimes.machine.background_tasks import LoopTurns
from jettison.runtimes.protocol import PodManifest
from tests.runtimes.host.nodes import node, settings
from tests.runtimes.host.scenes import Scene, container, ending_all, eviction, manifest, opened

TRIES, BUSY_TRIES = 9, 3
_CROWD, _INITS = 32, 4
_LONG_WORD = "x" * 6000
PHASES = ("start", "probes", "crash", "told", "killed")
_ASKED_SECONDS = 2.5
# As many rounds as the probes of the crowd take, each of 0.15 ms.
_COUNTING_ROUNDS, _COUNTED = 500, 900
_MACHINE = "machine"
_HOG = """
import os, sys
while True:
    descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for _ in range(64):
        os.write(descriptor, bytes(1 << 20))
        os.fsync(descriptor)
    os.close(descriptor)
"""


class Held(NamedTuple):
    """Milliseconds in one phase, the best and the middle of all tries: of one container, of 32, and of 32 at once."""

    one: tuple[float, float]
    crowd: tuple[float, float]
    at_once: tuple[float, float]


class Measured(NamedTuple):
    """By phase; and what the machine adds to the busiest round of a loop that does nothing but count."""

    phases: dict[str, Held]
    machine: tuple[float, float]


def measure(*, is_disk_busy: bool = False) -> Measured:
    """In a process of its own, which has the size of an agent."""
    root = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-m", "benchmarks.harness.crowded_pod", *(["busy"] if is_disk_busy else [])]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    found, machine = dict[str, Held](), (0.0, 0.0)
    for line in done.stdout.splitlines():
        phase, *numbers = line.split()
        values = list(map(float, numbers))
        if phase == _MACHINE:
            machine = values[0], values[1]
        else:
            found[phase] = Held((values[0], values[1]), (values[2], values[3]), (values[4], values[5]))
    return Measured(found, machine)


def crowded(count: int, name: str) -> PodManifest:
    """As much as a manifest may ask for, with so many containers."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 100, "timeoutSeconds": 30}
    hooks = {each: {"exec": {"command": ["true"]}} for each in ("postStart", "preStop")}
    more = {"livenessProbe": probe, "readinessProbe": probe, "lifecycle": hooks}
    inits = min(_INITS, count - 1)
    words = ["sh", "-c", "exec sleep 600", _LONG_WORD]
    regular = [container(words, f"c{each}", **more) for each in range(count - inits)]
    return manifest(*regular, name=name, initContainers=[container(["true"], f"i{each}") for each in range(inits)])


class Counted(Rounds):
    """By what counts."""

    def __init__(self, *, is_disk_busy: bool) -> None:
        super().__init__()
        self._is_disk_busy = is_disk_busy

    @property
    def most(self) -> float:
        """Seconds."""
        return self.longest if self._is_disk_busy else self.busiest

    def forget(self) -> None:
        """From now on."""
        self.longest = self.busiest = 0.0


class _NoTurns(LoopTurns):
    """All in the same round."""

    __slots__ = ()

    def soon(self, step: Callable[[], object], *, is_urgent: bool = False) -> None:  # noqa: ARG002
        asyncio.get_running_loop().call_soon(step)

    async def next(self) -> None:
        return


class _Here(Executor):
    """A thread that is none: what it is given is done by the caller."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **options))
        except OSError as error:
            done.set_exception(error)
        return done


def _kill_all(pids: list[int]) -> None:
    for each in pids:
        os.kill(each, signal.SIGKILL)


@contextmanager
def _at_once(scene: Scene) -> Iterator[None]:
    """As if nothing were done in slices and nothing by threads."""
    services, kill, most = scene.services, HostServices.kill, effects.MOST_AT_ONCE
    turns, writer, killing = services.turns, scene.files._writer, _Here()  # noqa: SLF001

    def kill_here(self: HostServices, place: Place) -> Any:
        return self._aside(killing, place, place.kill)

    changes = {"turns": _NoTurns()}
    try:
        for name, value in changes.items():
            object.__setattr__(services, name, value)
        services.starter._turns = services.turns  # noqa: SLF001
        scene.files._writer = _Here()  # type: ignore[assignment]  # noqa: SLF001
        effects.MOST_AT_ONCE = 1000
        HostServices.kill = kill_here  # type: ignore[method-assign]
        yield
    finally:
        object.__setattr__(services, "turns", turns)
        services.starter._turns = turns  # noqa: SLF001
        scene.files._writer = writer  # noqa: SLF001
        effects.MOST_AT_ONCE = most
        HostServices.kill = kill  # type: ignore[method-assign]


async def _held(scene: Scene, rounds: Counted, count: int, name: str) -> dict[str, float]:
    """Milliseconds of the round that counts in each phase of one pod's life."""
    pod, found = crowded(count, name), dict[str, float]()
    running = [f"c{each}" for each in range(count - min(_INITS, count - 1))]

    async def phase(what: str, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.01)
        found[what] = 1000 * rounds.most
        await asyncio.sleep(0.1)
        rounds.forget()

    await asyncio.sleep(0.1)
    rounds.forget()
    await scene.supervisor.start(pod)
    await phase("start", lambda: len(scene.said(events.ContainerStarted)) == count)
    until = asyncio.get_running_loop().time() + _ASKED_SECONDS
    await phase("probes", lambda: asyncio.get_running_loop().time() >= until)
    pids = [scene.pid(each, name) for each in running]
    await asyncio.sleep(0)
    rounds.forget()
    # By a thread: what it takes to kill them is not the agent's.
    await asyncio.to_thread(_kill_all, pids)
    await phase("crash", lambda: len(scene.said(events.ContainerStarted)) == count + len(running))
    worker = scene.supervisor.end(eviction(pod.pod, 600))
    await phase("told", worker.cleaned.done)
    scene.facts.clear()
    await scene.supervisor.stop(pod.pod.uid, 0)
    await scene.supervisor.start(pod)
    await phase("again", lambda: len(scene.said(events.ContainerStarted)) == count)
    worker = scene.supervisor.end(replace(eviction(pod.pod, 1), is_at_once=True))
    await phase("killed", worker.cleaned.done)
    await scene.supervisor.stop(pod.pod.uid, 0)
    scene.facts.clear()
    return found


async def _added(rounds: Counted) -> float:
    """Milliseconds that the machine adds to the busiest of many rounds that are all alike."""
    used = list[float]()
    await asyncio.sleep(0.1)
    rounds.forget()
    for _ in range(_COUNTING_ROUNDS):
        began = time.thread_time()
        _ = {number: str(number) for number in range(_COUNTED)}
        used.append(time.thread_time() - began)
        await asyncio.sleep(_ASKED_SECONDS / _COUNTING_ROUNDS)
    return 1000 * (rounds.most - statistics.median(used))


async def _run(*, is_disk_busy: bool) -> None:
    where = None if is_disk_busy else MEMORY
    with tempfile.TemporaryDirectory(dir=where) as directory, node(settings(Path(directory))) as made:
        async with opened(made.settings, made.kubepods) as scene, ending_all(scene):
            rounds = Counted(is_disk_busy=is_disk_busy)
            # Not the first, with which the process that starts containers begins.
            await _held(scene, rounds, 1, "first")
            one, crowd, whole, added = [], [], [], []
            for number in range(BUSY_TRIES if is_disk_busy else TRIES):
                one.append(await _held(scene, rounds, 1, f"one-{number}"))
                crowd.append(await _held(scene, rounds, _CROWD, f"crowd-{number}"))
                added.append(await _added(rounds))
                with _at_once(scene):
                    whole.append(await _held(scene, rounds, _CROWD, f"whole-{number}"))
    for phase in PHASES:
        columns = [[each[phase] for each in tries] for tries in (one, crowd, whole)]
        print(phase, *map(_best_and_middle, columns))
    print(_MACHINE, _best_and_middle(added))


def _best_and_middle(tries: list[float]) -> str:
    return f"{min(tries):.3f} {statistics.median(tries):.3f}"


@contextmanager
def _hogging(is_wanted: bool) -> Iterator[None]:
    """Another process writes to the disk on which the records are."""
    if not is_wanted:
        yield
        return
    with tempfile.NamedTemporaryFile() as file, subprocess.Popen([sys.executable, "-c", _HOG, file.name]) as hog:
        try:
            yield
        finally:
            hog.kill()


if __name__ == "__main__":
    is_busy = "busy" in sys.argv[1:]
    with like_an_agent(), _hogging(is_busy):
        asyncio.run(_run(is_disk_busy=is_busy))
