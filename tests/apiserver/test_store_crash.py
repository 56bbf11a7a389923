"""kill -9 at any moment: what was acknowledged is there, and nothing is there by half."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

from jettison.apiserver.resources import LEASES
from jettison.apiserver.store import Store
from tests.apiserver.write_load import WRITERS

ROUNDS = 20


def run_until_killed(folder: Path, moment: random.Random) -> dict[int, tuple[int, int]]:
    """Let the load run for a while; the last acknowledged turn of each writer, and its version."""
    script = Path(__file__).with_name("write_load.py")
    process = subprocess.Popen([sys.executable, script, folder], stdout=subprocess.PIPE)
    acknowledged: dict[int, tuple[int, int]] = {}
    assert process.stdout is not None
    lines = iter(process.stdout.readline, b"")
    for _, line in zip(range(moment.randrange(1, 120)), lines, strict=False):
        writer, turn, version = map(int, line.split())
        acknowledged[writer] = (turn, version)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    # Whatever it said before it died counts; a line cut short was not said.
    for line in rest.splitlines(keepends=True):
        if line.endswith(b"\n"):
            writer, turn, version = map(int, line.split())
            acknowledged[writer] = (turn, version)
    assert process.returncode == -signal.SIGKILL
    return acknowledged


async def check(folder: Path, acknowledged: dict[int, tuple[int, int]]) -> int:
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
    moment = random.Random(4)
    versions = [0]
    for _ in range(ROUNDS):
        acknowledged = run_until_killed(tmp_path, moment)
        versions.append(asyncio.run(check(tmp_path, acknowledged)))
    assert versions == sorted(set(versions)), "a version was given out twice"
