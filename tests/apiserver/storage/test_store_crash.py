"""kill -9 at any moment: what was acknowledged is there, and nothing is there by half."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jettison.apiserver.objects.resources import LEASES
from jettison.apiserver.storage.store import Store
from tests.apiserver.storage.write_load import WRITERS

ROUNDS = 40
Acknowledged = dict[int, tuple[int, int]]


class Load:
    """The process that starts the writers."""

    def __init__(self, process: subprocess.Popen[bytes], moment: random.Random) -> None:
        self._process = process
        self._moment = moment

    def run_until_killed(self, folder: Path) -> Acknowledged:
        """Let them write for a while; the last acknowledged turn of each writer, and its version."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%s\n" % bytes(folder))
        self._process.stdin.flush()
        acknowledged: Acknowledged = {}
        pid = None
        # None at all: it dies while it opens the store, which is when it looks through what the last one left.
        left = self._moment.choice((0, self._moment.randrange(1, 150)))
        while pid is None or left > 0:
            words = self._line()
            if words[0] == "started":
                pid = int(words[1])
            else:
                note(acknowledged, words)
                left -= 1
        # Not only right after a word: in the middle of a commit, too.
        time.sleep(self._moment.uniform(0, 0.004))
        os.kill(pid, signal.SIGKILL)
        # Whatever it said before it died counts.
        while (words := self._line())[0] != "ended":
            note(acknowledged, words)
        assert int(words[1]) == -signal.SIGKILL
        return acknowledged

    def _line(self) -> list[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.endswith(b"\n"), "the load has ended by itself"
        return line.decode().split()


def note(acknowledged: Acknowledged, words: list[str]) -> None:
    writer, turn, version = map(int, words)
    acknowledged[writer] = (turn, version)


@contextmanager
def loading(moment: random.Random) -> Iterator[Load]:
    script = Path(__file__).with_name("write_load.py")
    with subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Load(process, moment)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


async def check(folder: Path, acknowledged: Acknowledged) -> int:
    store = Store(folder, history=200)
    for writer in range(WRITERS):
        pair = [store.get(LEASES, "x", f"{side}-{writer}") for side in ("left", "right")]
        turns = {None if each is None else each.object["turn"] for each in pair}
        assert len(turns) == 1, "two objects that were written together are seen apart"
        (turn,) = turns
        passing = store.get(LEASES, "x", f"passing-{writer}")
        if turn is not None:
            assert (passing is not None) == (turn % 3 == 0), "an object is there that was removed together with a write"
        if writer in acknowledged:
            assert turn is not None
            assert turn >= acknowledged[writer][0], "an acknowledged write is lost"
            assert store.version >= acknowledged[writer][1]
    version = store.version
    await store.close()
    return version


def test_acknowledged_writes_survive_sigkill(tmp_path: Path) -> None:
    versions = [0]
    written = 0
    with loading(random.Random(4)) as load:
        for _ in range(ROUNDS):
            acknowledged = load.run_until_killed(tmp_path)
            written += len(acknowledged)
            assert all(version > versions[-1] for _, version in acknowledged.values()), "a version was given out twice"
            versions.append(asyncio.run(check(tmp_path, acknowledged)))
    assert versions == sorted(versions), "durable writes are gone"
    assert written > 2 * ROUNDS
