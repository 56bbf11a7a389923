"""Real processes in real places: how they are started, what they inherit, how they end."""

from __future__ import annotations

import asyncio
import marshal
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from jettison.errors import StartError, WriteError
from jettison.runtimes.host.cgroups.places import CgroupPlace, Place
from jettison.runtimes.host.processes import processes
from jettison.runtimes.host.processes.becoming import HEADER
from jettison.runtimes.host.processes.forking import HERE
from jettison.runtimes.host.processes.orders import Launch, StartOrder
from jettison.runtimes.host.processes.processes import Forking, Process
from jettison.runtimes.host.processes.starter import Starter
from jettison.runtimes.host.specs.security import SecuritySpec
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.processes import read_process
from jettison.runtimes.machine.background_tasks import LoopTurns, staffed_pool
from tests.runtimes.host.nodes import descriptors, is_alive, needs_root, node, settings
from tests.runtimes.host.scenes import until

pytestmark = needs_root

PATH = {"PATH": "/usr/bin:/bin"}
ROOT = Path("/")


class Ways:
    """To start processes: in a place, by forks of this process or of a starter."""

    def __init__(self, place: Place, forking: Forking) -> None:
        self.place = place
        self.forking = forking

    async def spawn(self, launch: Launch, note: Callable[[int, int], None] = lambda _pid, _ticks: None) -> Process:
        return await processes.spawn(launch, self.place, note, self.forking)

    async def run(self, launch: Launch) -> int | None:
        return await processes.run(launch, self.place, self.forking)


@pytest.fixture(params=["here", "starter"])
def has_starter(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "starter")


def play(tmp_path: Path, has_starter: bool, scenario: Callable[[Ways], Awaitable[None]]) -> None:
    """In the place of a container, on a node of its own; afterwards nothing and no descriptor is left."""

    async def run() -> None:
        with node(settings(tmp_path)) as made, staffed_pool(1, "test") as pool:
            # Without a watch for kills by the kernel, which has descriptors of its own.
            place = CgroupPlace(Cgroup(made.cgroup_parent.mounts, f"{made.kubepods.name}/place"), Limits())
            place.create()
            starter = Starter(pool, LoopTurns())
            before = descriptors()
            async with asyncio.timeout(60):
                await scenario(Ways(place, starter if has_starter else HERE))
                await starter.close()
                await until(lambda: descriptors() == before)

    asyncio.run(run())


def sh(script: str) -> Launch:
    return Launch(["sh", "-c", script], PATH, ROOT)


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_exit_codes(tmp_path: Path, has_starter: bool, script: str, code: int) -> None:
    async def scenario(ways: Ways) -> None:
        process = await ways.spawn(sh(script))
        assert await process.exited == code

    play(tmp_path, has_starter, scenario)


def test_nothing_foreign_runs_before_it_is_noted_and_it_is_in_its_place_by_then(
    tmp_path: Path, has_starter: bool
) -> None:
    mark = tmp_path / "mark"

    async def scenario(ways: Ways) -> None:
        noted: list[tuple[int, int]] = []

        def note(pid: int, ticks: int) -> None:
            time.sleep(0.05)
            assert not mark.exists()
            assert ways.place.processes() == {pid}
            noted.append((pid, ticks))

        process = await ways.spawn(sh(f"touch {mark}; sleep 60"), note)
        assert noted == [(process.pid, process.start_ticks)]
        found = read_process(process.pid)
        assert found is not None
        assert found.start_ticks == process.start_ticks
        assert found.session == process.pid
        await until(mark.exists)
        process.signal(signal.SIGKILL)
        assert await process.exited == 137
        process.signal(signal.SIGKILL)

    play(tmp_path, has_starter, scenario)


def test_what_cannot_be_noted_does_not_run(tmp_path: Path, has_starter: bool) -> None:
    mark = tmp_path / "mark"

    async def scenario(ways: Ways) -> None:
        def note(_pid: int, _ticks: int) -> None:
            raise WriteError("the disk is full")

        with pytest.raises(WriteError, match="the disk is full"):
            await ways.spawn(sh(f"touch {mark}"), note)
        await until(lambda: not ways.place.processes())
        await asyncio.sleep(0.05)
        assert not mark.exists()

    play(tmp_path, has_starter, scenario)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["no-such-program"], "cannot start `no-such-program`: no such file or directory"),
        (["/no/such/program"], "no such file or directory"),
        (["/etc/passwd"], "permission denied"),
        (["/"], "permission denied"),
        (["sh", "x" * 3_000_000], "argument list too long"),
        (["./script"], "exec format error"),
    ],
)
def test_what_cannot_be_started_says_why(tmp_path: Path, has_starter: bool, command: list[str], why: str) -> None:
    (tmp_path / "script").write_text("echo no interpreter is named here")
    (tmp_path / "script").chmod(0o755)

    async def scenario(ways: Ways) -> None:
        with pytest.raises(StartError, match=why):
            await ways.spawn(Launch(command, PATH, tmp_path))
        await until(lambda: not ways.place.processes())

    play(tmp_path, has_starter, scenario)


@pytest.mark.parametrize("data", [marshal.dumps({"command": ("true",)}), b"\xff", b""])
def test_an_order_of_another_version_is_refused_with_what_to_do(
    tmp_path: Path, has_starter: bool, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package was upgraded under an agent that runs: the process from which it starts others is of the new one."""
    order = StartOrder(struct.pack(HEADER, len(data)) + data, ())
    monkeypatch.setattr(processes, "order_of", lambda _launch, _door: order)

    async def scenario(ways: Ways) -> None:
        with pytest.raises(StartError, match="restart the agent: Jettison was replaced while it runs"):
            await ways.spawn(sh("exit 0"))

    play(tmp_path, has_starter, scenario)


def test_a_directory_that_is_not_there_is_told(tmp_path: Path, has_starter: bool) -> None:
    async def scenario(ways: Ways) -> None:
        with pytest.raises(StartError, match="no such file"):
            await ways.spawn(Launch(["true"], PATH, tmp_path / "missing"))

    play(tmp_path, has_starter, scenario)


def test_a_place_that_is_gone_is_told(tmp_path: Path, has_starter: bool) -> None:
    async def scenario(ways: Ways) -> None:
        ways.place.remove()
        with pytest.raises(StartError, match="no way into cgroup"):
            await ways.spawn(sh("true"))

    play(tmp_path, has_starter, scenario)


def test_what_a_process_inherits(tmp_path: Path, has_starter: bool) -> None:
    program = """
import os, signal
print(sorted(os.listdir('/proc/self/fd')))
print(os.getcwd(), oct(os.umask(0)))
print([n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN and n not in (13, 25)])
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
print(dict(os.environ))
print(repr(os.read(0, 10)))
"""
    output = tmp_path / "output"

    async def scenario(ways: Ways) -> None:
        inherited = os.open("/dev/null", os.O_RDONLY)
        os.set_inheritable(inherited, True)
        before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        processes.seal_descriptors()
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
        try:
            launch = Launch([sys.executable, "-I", "-c", program], {"A": "1"}, tmp_path, descriptor)
            process = await ways.spawn(launch)
            assert await process.exited == 0
        finally:
            signal.signal(signal.SIGUSR2, before)
            os.close(descriptor)
            os.close(inherited)

    play(tmp_path, has_starter, scenario)
    fds, place, ignored, blocked, environment, stdin = output.read_text().splitlines()
    assert fds == "['0', '1', '2', '3']"  # the last one is the listing's own
    assert place == f"{tmp_path} 0o22"
    assert ignored == "[]"
    assert blocked == "set()"
    assert environment == "{'A': '1'}" or environment == "{'A': '1', 'LC_CTYPE': 'C.UTF-8'}"
    assert stdin == "b''"


def test_another_user(tmp_path: Path, has_starter: bool) -> None:
    output = tmp_path / "output"

    async def scenario(ways: Ways) -> None:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
        launch = Launch(["id"], PATH, ROOT, descriptor, SecuritySpec(12345, 23456))
        process = await ways.spawn(launch)
        os.close(descriptor)
        assert await process.exited == 0

    play(tmp_path, has_starter, scenario)
    assert output.read_text().strip() == "uid=12345 gid=23456 groups=23456"


def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path, has_starter: bool) -> None:
    mark = tmp_path / "mark"

    async def scenario(ways: Ways) -> None:
        for steps in range(12):
            starting = asyncio.create_task(ways.spawn(sh(f"sleep 0.2; touch {mark}")))
            for _ in range(steps):
                await asyncio.sleep(0.001)
            if starting.done():
                starting.result().signal(signal.SIGKILL)
                continue
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        await until(lambda: not ways.place.processes())
        await asyncio.sleep(0.3)
        assert not mark.exists()

    play(tmp_path, has_starter, scenario)


def test_a_command_that_is_cancelled_takes_its_group_with_it(tmp_path: Path, has_starter: bool) -> None:
    async def scenario(ways: Ways) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await ways.run(sh("sleep 60 & sleep 60"))
        await until(lambda: not ways.place.processes())
        assert await ways.run(sh("exit 4")) == 4

    play(tmp_path, has_starter, scenario)


def test_without_descriptors_nothing_starts_and_nothing_leaks(tmp_path: Path, has_starter: bool) -> None:
    async def scenario(ways: Ways) -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        outcomes = set()
        for spare in range(16):
            # The limit is one of numbers, and some below the highest may be free.
            free = os.dup(0)
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, limits[1]))
            try:
                process = await ways.spawn(sh("exec sleep 60"))
                process.signal(signal.SIGKILL)
                await process.exited
                outcomes.add("started")
            except StartError as failure:
                outcomes.add(str(failure).rpartition(": ")[2])
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            await until(lambda: not ways.place.processes())
        assert "started" in outcomes
        assert "too many open files" in outcomes

    play(tmp_path, has_starter, scenario)


def test_no_signal_of_a_child_is_taken_for_ours(tmp_path: Path, has_starter: bool) -> None:
    """Python's handler in the child would write into the pipe by which our loop learns of its own signals."""

    async def scenario(ways: Ways) -> None:
        heard: list[str] = []
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, heard.append, "TERM")
        try:

            def note(pid: int, _ticks: int) -> None:
                os.kill(pid, signal.SIGTERM)

            process = await ways.spawn(sh("sleep 60"), note)
            assert await process.exited == 143
            await asyncio.sleep(0.02)
            assert not heard
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    play(tmp_path, has_starter, scenario)


def orphan(script: str) -> int:
    """A process whose parent is not this one."""
    starter = (
        "import os, sys; print(os.posix_spawn('/bin/sh', ['sh', '-c', 'exec >/dev/null 2>&1; ' + sys.argv[1]], {}))"
    )
    made = subprocess.run([sys.executable, "-c", starter, script], capture_output=True, check=True, text=True)
    return int(made.stdout)


def start_ticks(pid: int) -> int:
    found = read_process(pid)
    assert found is not None
    return found.start_ticks


@pytest.mark.parametrize(("script", "code"), [("sleep 0.3; exit 5", 5), ("sleep 0.3; kill -9 $$", 137)])
def test_an_adopted_process_is_watched_and_its_end_is_known(script: str, code: int) -> None:
    async def run() -> None:
        pid = orphan(script)
        process = processes.adopt(pid, start_ticks(pid))
        assert process is not None
        assert await process.exited == code

    asyncio.run(run())


def test_an_adopted_process_can_be_signalled_and_let_go(tmp_path: Path) -> None:
    async def run() -> None:
        pid = orphan("sleep 60")
        before = descriptors()
        process = processes.adopt(pid, start_ticks(pid))
        assert process is not None
        process.close()
        assert descriptors() == before
        assert is_alive(pid)
        process = processes.adopt(pid, start_ticks(pid))
        assert process is not None
        process.signal(signal.SIGTERM)
        assert await process.exited == 143

    asyncio.run(run())


def test_a_number_that_was_given_to_another_process_is_not_adopted() -> None:
    async def run() -> None:
        pid = orphan("sleep 60")
        try:
            assert processes.adopt(pid, start_ticks(pid) + 1) is None
            assert processes.adopt(2**22 + 1, 1) is None
        finally:
            os.kill(pid, signal.SIGKILL)

    asyncio.run(run())


def test_an_agent_that_dies_before_it_has_noted_leaves_no_process(tmp_path: Path) -> None:
    """It is killed between the fork and the note, for which this test holds it up."""
    mark = tmp_path / "mark"
    program = f"""
import asyncio, os, signal, sys
from pathlib import Path
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.places import FamilyPlace
from jettison.runtimes.host.processes.forking import HERE
from jettison.runtimes.host.processes.orders import Launch, StartOrder
from jettison.runtimes.host.processes.processes import Forking, Process
from jettison.runtimes.host.processes.starter import Starter
from jettison.runtimes.host.processes.processes import spawn

def note(pid, ticks):
    print(pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

place = FamilyPlace(Families("test"), "pod1/c")
asyncio.run(spawn(Launch(["touch", {str(mark)!r}], {PATH!r}, Path("/")), place, note))
"""
    agent = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert agent.returncode == -signal.SIGKILL, agent.stderr
    until_dead(int(agent.stdout))
    assert not mark.exists()


def until_dead(pid: int) -> None:
    """Its descriptors are closed before it is off the list of processes, on a busy machine long before."""
    deadline = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.01)


@pytest.mark.parametrize("security", ["SecuritySpec()", pytest.param("SecuritySpec(user=65534)", marks=needs_root)])
def test_a_command_in_a_container_ends_with_what_asked_for_it_also_with_kill_9(tmp_path: Path, security: str) -> None:
    """The process that serves kubectl may be killed; what it ran for clients would otherwise run until its pod ends."""
    program = f"""
import asyncio, os, signal
from pathlib import Path
from jettison.runtimes.host.cgroups.places import Door
from jettison.runtimes.host.processes.forking import HERE
from jettison.runtimes.host.processes.orders import Launch, StartOrder
from jettison.runtimes.host.processes.processes import Forking, Process
from jettison.runtimes.host.processes.starter import Starter
from jettison.runtimes.host.processes.processes import Entrance, enter
from jettison.runtimes.host.specs.security import SecuritySpec

async def main():
    launch = Launch((), {{"PATH": "/usr/bin:/bin"}}, Path("/"), security={security})
    entrance = Entrance("main", launch, Door((), None))
    process = await enter(entrance, ["sleep", "600"], (0, 1, 2), has_terminal=False)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    # The command has the output, too: it ends when both have.
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    until_dead(int(done.stdout))


def test_a_long_command_does_not_fill_the_message(tmp_path: Path, has_starter: bool) -> None:
    async def scenario(ways: Ways) -> None:
        with pytest.raises(StartError) as caught:
            await ways.spawn(Launch(["/" + "x" * 100_000], PATH, ROOT))
        assert len(str(caught.value)) < 200

    play(tmp_path, has_starter, scenario)
