from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.places import Place, ProcessGroups
from jettison.runtimes.host.processes.becoming import enter
from tests.builders import GI, pod
from tests.runtimes.host.nodes import SLEEPS, is_alive, needs_root, node, python, reap, running, settings

MakePlace = Callable[[Path], AbstractContextManager[Place]]

# A double fork into a session of its own: its parent is the kernel's first process.
DAEMON = python("""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
""")
# Each child becomes the parent of the next, for half a minute: one that gets away must not run without end.
RUNNER = python("""
if os.fork() == 0:
    end = time.monotonic() + 30
    while time.monotonic() < end and os.fork() == 0:
        time.sleep(0.001)
    os._exit(0)
""")


@contextmanager
def cgroup_place(tmp_path: Path) -> Iterator[Place]:
    with node(settings(tmp_path)) as made:
        yield made.kubepods.of_container(pod(), "c")
        made.oom.close()


@contextmanager
def family_place(tmp_path: Path) -> Iterator[Place]:
    yield ProcessGroups(Families(f"{tmp_path}"), GI, lowest_score=0).of_container(pod(), "c")


both = pytest.mark.parametrize(
    "make", [pytest.param(cgroup_place, marks=needs_root, id="cgroup"), pytest.param(family_place, id="family")]
)


@both
def test_a_process_goes_in_and_is_found(make: MakePlace, tmp_path: Path) -> None:
    async def scenario() -> None:
        with make(tmp_path) as place:
            place.create()
            assert place.processes() == frozenset()
            with running(place, SLEEPS) as pid:
                assert place.processes() == {pid}
                assert os.getsid(pid) == pid
                assert place.exists
                assert not place.remove()
            assert place.processes() == frozenset()

    asyncio.run(scenario())


@both
@pytest.mark.parametrize("program", [DAEMON, RUNNER], ids=["daemon", "runner"])
def test_nothing_survives(make: MakePlace, program: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        with make(tmp_path) as place:
            place.create()
            with running(place, program) as pid:
                assert len(place.processes()) >= 2
                assert await place.empty(timeout=10) == frozenset()
                assert not is_alive(pid)
                assert place.processes() == frozenset()
                await until_removed(place)

    asyncio.run(scenario())


@both
def test_a_place_is_the_same_again_after_its_removal(make: MakePlace, tmp_path: Path) -> None:
    async def scenario() -> None:
        with make(tmp_path) as place:
            for _ in range(2):
                place.create()
                with running(place, SLEEPS) as pid:
                    assert place.processes() == {pid}
                await until_removed(place)
                assert not place.exists

    asyncio.run(scenario())


@both
def test_a_process_that_does_not_die_in_time_is_named(make: MakePlace, tmp_path: Path) -> None:
    async def scenario() -> None:
        with make(tmp_path) as place:
            place.create()
            with running(place, SLEEPS) as pid:
                # Right after the signal a process is still there; with no time at all there is no second look.
                assert await place.empty(timeout=0) <= {pid}
                assert await place.empty(timeout=10) == frozenset()

    asyncio.run(scenario())


@both
def test_the_oom_score_is_set_before_the_program_runs(make: MakePlace, tmp_path: Path) -> None:
    async def scenario() -> None:
        with make(tmp_path) as place:
            place.create()
            with running(place, SLEEPS) as pid:
                assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"

    asyncio.run(scenario())


def test_a_refused_oom_score_is_no_reason_not_to_run() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            enter((), -1000)
            os._exit(7)
        finally:
            os._exit(1)
    assert reap(pid) == 7


def test_a_door_to_nowhere_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no way into cgroup"):
        enter((str(tmp_path / "gone" / "cgroup.procs"),), None)


def test_a_signal_to_the_group_of_the_agent_does_not_reach_a_pod(tmp_path: Path) -> None:
    with family_place(tmp_path) as place, running(place, SLEEPS) as pid:
        assert os.getpgid(pid) == pid != os.getpgid(0)
        os.killpg(pid, signal.SIGCONT)


async def until_removed(place: Place) -> None:
    async with asyncio.timeout(30):
        while not place.remove():
            await asyncio.sleep(0.002)
