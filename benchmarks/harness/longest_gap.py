"""How long the event loop of an agent of 40 MB is held up by the start of a child, in another thread of its process.

The measure is the longest wait between two turns of a task that is always ready, with an agent's priority. Of many
tries the shortest counts: the other thread has no priority, and on a busy machine it waits with what it holds. Run as a
program it prints three numbers, in milliseconds: with a thread that sleeps, that reads a manifest in a child, and that
forks as the start of a pod does.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jettison.agent.pods.manifest_reader import ManifestReader
from jettison.agent.self_protection import go_first
from jettison.runtimes.linux.processes import fork_quietly

_TRIES = 40
_MEGABYTES = 40.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Gaps(NamedTuple):
    """Milliseconds: of a loop that nothing holds up, beside a manifest that is read, and beside a fork."""

    nothing: float
    reading: float
    fork: float


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


async def _gaps() -> Gaps:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "a.yaml")
        path.write_text("kind: Pod\nmetadata: {name: a}\n")
        works: list[Callable[[], object]] = [lambda: time.sleep(0.05), lambda: _read(path), _fork]
        return Gaps(*[min([await _gap(work) for _ in range(_TRIES)]) for work in works])


def _ballast() -> list[str]:
    """Small objects, as an agent has them, until the process is as large as one."""
    found: list[str] = []
    while int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE < _MEGABYTES * 1e6:
        found += [f"{number} of a thousand" for number in range(1000)]
    return found


if __name__ == "__main__":
    ballast = _ballast()
    go_first()
    print(*asyncio.run(_gaps()))
    del ballast
