"""How long the event loop of an agent of 40 MB is held up by the start of a child, or of a pod.

With an agent's priority. First the longest wait between two turns of a task that is always ready, beside a work in
another thread: one that sleeps, one that reads a manifest in a child, one that forks this process. Of many tries the
shortest counts, because on a busy machine a thread without priority waits with what it holds.

Then the longest round of the loop while pods start, with everything from their documents to their records: with one
container and with 32, each by the process that starts containers and, for comparison, by forks of this process, as
agents did at first. The best and the middle one of several starts count. Run as a program it prints all these numbers,
in milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the pods are those of the tests

from jettison import events
from jettison.agent.pods.manifest_reader import ManifestReader
from jettison.agent.self_protection import freeze_garbage_collector, go_first
from jettison.runtimes.host.processes.forking import HERE
from jettison.runtimes.linux.processes import fork_quietly
from tests.runtimes.host.nodes import node, settings
from tests.runtimes.host.scenes import Scene, container, ending_all, manifest, opened

_TRIES, _STARTS, _CROWDS = 40, 15, 3
_CROWD = 32
_MEGABYTES = 40.0
MEMORY = "/dev/shm"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Gaps(NamedTuple):
    """Milliseconds: of a loop that nothing holds up, beside a manifest that is read, and beside a fork; then of pods
    that start, the best and the middle one of several, by the process that starts containers and by forks.
    """

    nothing: float
    reading: float
    fork: float
    start: float
    middle_start: float
    forked_start: float
    middle_forked_start: float
    crowd: float
    middle_crowd: float
    forked_crowd: float
    middle_forked_crowd: float


def measure() -> Gaps:
    """In a process of its own, which has the size of an agent."""
    root = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-m", "benchmarks.harness.longest_gap"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    return Gaps(*map(float, done.stdout.split()))


def _read(path: Path) -> None:
    with ManifestReader() as reader:
        reader.read(str(path), path.name)


def _fork() -> None:
    pid = fork_quietly()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


async def _gap(work: Callable[[], object]) -> float:
    longest = 0.0
    working = asyncio.create_task(asyncio.to_thread(work))
    while not working.done():
        began = time.perf_counter()
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter() - began)
    working.result()
    return 1000 * longest


class Rounds:
    """Of the loop that runs: how long the longest took, from the moment in which it woke up; and the processor time of
    the busiest, in which what waits for a processor does not count.
    """

    def __init__(self) -> None:
        self.longest = self.busiest = 0.0
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]  # noqa: SLF001
        self._select, selector.select = selector.select, self.select
        self._woke, self._used = time.perf_counter(), time.thread_time()

    def select(self, timeout: float | None) -> object:
        self.longest = max(self.longest, time.perf_counter() - self._woke)
        self.busiest = max(self.busiest, time.thread_time() - self._used)
        found = self._select(timeout)
        self._woke, self._used = time.perf_counter(), time.thread_time()
        return found


async def _beside_threads() -> list[float]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "a.yaml")
        path.write_text("kind: Pod\nmetadata: {name: a}\n")
        works: list[Callable[[], object]] = [lambda: time.sleep(0.05), lambda: _read(path), _fork]
        return [min([await _gap(work) for _ in range(_TRIES)]) for work in works]


async def _of_starts() -> list[float]:
    # In memory: to append a record may wait for a disk that others write to, whatever starts a process.
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory, node(settings(Path(directory))) as made:
        async with opened(made.settings, made.kubepods) as scene, ending_all(scene):
            rounds, starter, found = Rounds(), scene.services.starter, list[float]()
            for containers, tries in ((1, _STARTS), (_CROWD, _CROWDS)):
                for forking in (starter, HERE):
                    object.__setattr__(scene.services, "starter", forking)
                    gaps = [await _start(scene, rounds, containers, number) for number in range(tries + 1)]
                    # Not the first, with which the process that starts containers begins.
                    found += [min(gaps[1:]), statistics.median(gaps[1:])]
            object.__setattr__(scene.services, "starter", starter)
            return found


async def _start(scene: Scene, rounds: Rounds, containers: int, number: int) -> float:
    pod = manifest(*(container(["sleep", "600"], f"c{each}") for each in range(containers)), name=f"p{number}")
    await asyncio.sleep(0.1)
    rounds.longest = 0.0
    await scene.supervisor.start(pod)
    while len(scene.said(events.ContainerStarted)) < containers:
        await asyncio.sleep(0.01)
    found = 1000 * rounds.longest
    await scene.supervisor.stop(pod.pod.uid, 0)
    scene.facts.clear()
    return found


def _ballast() -> list[str]:
    """Small objects, as an agent has them, until the process is as large as one."""
    found: list[str] = []
    while int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE < _MEGABYTES * 1e6:
        found += [f"{number} of a thousand" for number in range(1000)]
    return found


@contextmanager
def like_an_agent() -> Iterator[None]:
    """In size, in priority and in how threads take turns."""
    ballast = _ballast()
    freeze_garbage_collector()
    go_first()
    sys.setswitchinterval(0.0005)
    yield
    del ballast


if __name__ == "__main__":
    with like_an_agent():
        print(*asyncio.run(_beside_threads()), *asyncio.run(_of_starts()))
