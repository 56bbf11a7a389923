"""The process from which containers are forked: what it is, and that its death at any moment loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from jettison.errors import StartError
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.places import FamilyPlace
from jettison.runtimes.host.processes import closing, processes, starter
from jettison.runtimes.host.processes.orders import Launch, Layer, MountPlan, MountPoint
from jettison.runtimes.host.processes.processes import Process
from jettison.runtimes.host.processes.starter import Starter
from jettison.runtimes.host.specs.security import SecuritySpec
from jettison.runtimes.linux.processes import read_process, read_processes
from jettison.runtimes.machine.background_tasks import LoopTurns, staffed_pool
from tests.runtimes.host.nodes import is_alive, needs_root
from tests.runtimes.host.scenes import until

PATH = {"PATH": "/usr/bin:/bin"}
ROOT = Path("/")


def sh(script: str, output: int | None = None, **launch: object) -> Launch:
    return Launch(["sh", "-c", script], PATH, ROOT, output, **launch)  # type: ignore[arg-type]


def play(scenario: Callable[[Starter], Awaitable[None]], idle_seconds: float = 30) -> None:
    async def run() -> None:
        with staffed_pool(1, "test") as pool:
            made = Starter(pool, LoopTurns(), idle_seconds)
            async with asyncio.timeout(90):
                await scenario(made)
                await made.close()

    asyncio.run(run())


async def spawn(made: Starter, launch: Launch, birth_seconds: float = 60) -> Process:
    place = FamilyPlace(Families("test"), "pod1/c")
    return await processes.spawn(launch, place, lambda _pid, _ticks: None, made, birth_seconds=birth_seconds)


def modules(statement: str) -> set[str]:
    """What an interpreter loads for it beyond what it always has."""
    program = (
        f"import sys; had = set(sys.modules); sys.path[:] = sys.argv[1:]\n{statement}\nprint(*set(sys.modules) - had)"
    )
    words = [sys.executable, "-I", "-S", "-c", program, *sys.path]
    return set(subprocess.run(words, capture_output=True, check=True, text=True).stdout.split())


def test_it_loads_next_to_nothing() -> None:
    """Each of these would be a quarter of it, or more."""
    loaded = modules("import jettison.runtimes.host.processes.starter_child")
    heavy = {"asyncio", "dataclasses", "inspect", "msgspec", "pathlib", "re", "socket", "threading", "typing"}
    assert not loaded & heavy
    assert {each for each in loaded if each.startswith("jettison.")} == {
        "jettison.runtimes",
        "jettison.runtimes.host",
        "jettison.runtimes.host.processes",
        "jettison.runtimes.host.processes.becoming",
        "jettison.runtimes.host.processes.closing",
        "jettison.runtimes.host.processes.confinement",
        "jettison.runtimes.host.processes.layering",
        "jettison.runtimes.host.processes.mounting",
        "jettison.runtimes.host.processes.starter_child",
        "jettison.runtimes.host.processes.system_calls",
        "jettison.runtimes.linux",
        "jettison.runtimes.linux.files",
        "jettison.runtimes.linux.files.kernel_texts",
    }


@needs_root
def test_nothing_is_loaded_between_birth_and_exec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sees by then may be a pod's own files: with everything that a start may take, and with what fails."""
    refuse = (
        "class Refuse:\n    def find_spec(self, name, path, target=None): raise SystemError(name)\n"
        "from jettison.runtimes.host.processes.starter_child import main\n"
        "sys.meta_path.insert(0, Refuse()); main(3)"
    )
    monkeypatch.setattr(starter, "_BEGIN", refuse)
    for name in ("staging", "volume", "layer", "pods"):
        (tmp_path / name).mkdir()
    layer = Layer(str(tmp_path / "layer"), str(tmp_path / "pods"))
    point = MountPoint(str(tmp_path / "volume"), "/missing/below")
    confined = SecuritySpec(
        65534, capabilities=0, has_no_new_privileges=True, seccomp=b"\x06\x00\x00\x00\x00\x00\xff\x7f"
    )

    async def scenario(made: Starter) -> None:
        plan = MountPlan((point,), str(tmp_path / "staging"), layer=layer)
        process = await spawn(
            made, sh("test -d /missing/below && exit 5", security=confined, mounts=plan, descriptors=99)
        )
        assert await process.exited == 5
        sealed = MountPlan((point,), str(tmp_path / "staging"), closing.ALL)
        process = await spawn(made, sh("touch /x || exit 6", mounts=sealed))
        assert await process.exited == 6
        gone = MountPlan((MountPoint(str(tmp_path / "gone"), "/missing/below"),), str(tmp_path / "staging"))
        with pytest.raises(StartError, match="volumes: /missing/below: no such file or directory"):
            await spawn(made, sh("true", mounts=gone))
        with pytest.raises(StartError, match="workingDir `/no/such`: no such file or directory"):
            await spawn(made, Launch(["true"], PATH, Path("/no/such")))
        with pytest.raises(StartError, match="cannot enter process `1`: it has ended"):
            await spawn(made, sh("true", inside=(1, 1)))

    play(scenario)


def test_what_it_forks_is_ours_and_has_nothing_of_it(tmp_path: Path) -> None:
    program = """
import os, signal
print(os.getppid(), os.getsid(0) == os.getpid(), sorted(map(int, os.listdir('/proc/self/fd'))))
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), os.sched_getscheduler(0), dict(os.environ).get('A'))
print([n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN and n not in (13, 25)])
"""
    output = tmp_path / "output"

    async def scenario(made: Starter) -> None:
        processes.seal_descriptors()
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
        try:
            launch = Launch([sys.executable, "-I", "-c", program], {"A": "1"}, tmp_path, descriptor)
            process = await spawn(made, launch)
            assert await process.exited == 0
        finally:
            os.close(descriptor)

    play(scenario)
    first, second, ignored = output.read_text().splitlines()
    assert first == f"{os.getpid()} True [0, 1, 2, 3]"  # the last one is the listing's own
    assert second == "set() 0 1"
    assert ignored == "[]"


def test_it_is_deaf_and_ends_when_it_has_had_nothing_to_do() -> None:
    async def scenario(made: Starter) -> None:
        assert made.pid == 0
        assert await (await spawn(made, sh("exit 3"))).exited == 3
        first = made.pid
        assert Path(f"/proc/{first}/comm").read_text() == "jettison-start\n"
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(first, number)
        assert await (await spawn(made, sh("exit 4"))).exited == 4
        assert made.pid == first
        await until(lambda: made.pid == 0, seconds=30)
        # Reaped as well.
        await until(lambda: read_process(first) is None, seconds=30)
        assert await (await spawn(made, sh("exit 5"))).exited == 5
        assert made.pid not in (0, first)

    play(scenario, idle_seconds=1.0)


def test_its_death_costs_no_process_and_no_exit_code() -> None:
    async def scenario(made: Starter) -> None:
        lasting = await spawn(made, sh("sleep 0.5; exit 7"))
        first = made.pid
        os.kill(first, signal.SIGKILL)
        assert await (await spawn(made, sh("exit 3"))).exited == 3
        assert made.pid != first
        assert await lasting.exited == 7

    play(scenario)


def test_an_order_that_it_did_not_live_to_carry_out_is_given_to_the_next(tmp_path: Path) -> None:
    async def scenario(made: Starter) -> None:
        assert await (await spawn(made, sh("true"))).exited == 0
        first = made.pid
        os.kill(first, signal.SIGSTOP)
        orders = [asyncio.create_task(spawn(made, sh(f"echo {number} >> {tmp_path}/done"))) for number in range(40)]
        await asyncio.sleep(0.3)
        assert not any(each.done() for each in orders)
        os.kill(first, signal.SIGKILL)
        for each in await asyncio.gather(*orders):
            assert await each.exited == 0
        assert made.pid not in (0, first)

    play(scenario)
    assert sorted(map(int, (tmp_path / "done").read_text().split())) == list(range(40))


def test_one_that_hangs_is_replaced() -> None:
    async def scenario(made: Starter) -> None:
        assert await (await spawn(made, sh("true"))).exited == 0
        first = made.pid
        os.kill(first, signal.SIGSTOP)
        orders = await asyncio.gather(*(spawn(made, sh(f"exit {number}"), 2) for number in range(5)))
        assert [await each.exited for each in orders] == list(range(5))
        assert made.pid not in (0, first)

    play(scenario)


def test_hundreds_of_orders_at_once() -> None:
    async def scenario(made: Starter) -> None:
        started = await asyncio.gather(*(spawn(made, sh(f"exit {number % 100}")) for number in range(300)))
        assert [await each.exited for each in started] == [number % 100 for number in range(300)]

    play(scenario)


def test_an_order_that_is_taken_back_leaves_no_process(tmp_path: Path) -> None:
    async def scenario(made: Starter) -> None:
        assert await (await spawn(made, sh("true"))).exited == 0
        await asyncio.sleep(0)
        before = _children()
        os.kill(made.pid, signal.SIGSTOP)
        order = asyncio.create_task(spawn(made, sh(f"touch {tmp_path}/done")))
        await asyncio.sleep(0.2)
        order.cancel()
        with pytest.raises(asyncio.CancelledError):
            await order
        os.kill(made.pid, signal.SIGCONT)
        # The child of it is born all the same, and reaped.
        assert await (await spawn(made, sh("true"))).exited == 0
        await until(lambda: _children() == before, seconds=30)
        assert not (tmp_path / "done").exists()

    play(scenario)


def _children() -> set[int]:
    return {process.pid for process in read_processes() if process.parent == os.getpid()}


def test_without_an_interpreter_nothing_starts_and_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(made: Starter) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", "/no/such/python")
            with pytest.raises(
                StartError, match=r"cannot start `sh`: no process to start containers from: no such file"
            ):
                await spawn(made, sh("true"))
        assert await (await spawn(made, sh("exit 3"))).exited == 3

    play(scenario)


def test_one_that_cannot_begin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "_BEGIN", "raise SystemExit(1)")

    async def scenario(made: Starter) -> None:
        with pytest.raises(StartError, match="cannot start `sh`: "):
            await spawn(made, sh("true"))

    play(scenario)


def test_it_ends_with_an_agent_that_is_killed_and_so_does_what_has_not_begun(tmp_path: Path) -> None:
    program = f"""
import asyncio, os, signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.places import FamilyPlace
from jettison.runtimes.host.processes.orders import Launch
from jettison.runtimes.host.processes.processes import spawn
from jettison.runtimes.host.processes.starter import Starter
from jettison.runtimes.machine.background_tasks import LoopTurns

async def main():
    starter = Starter(ThreadPoolExecutor(1), LoopTurns())
    def note(pid, ticks):
        print(starter.pid, pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    place = FamilyPlace(Families("test"), "pod1/c")
    await spawn(Launch(["touch", "{tmp_path}/mark"], {PATH!r}, Path("/")), place, note, starter)

asyncio.run(main())
"""
    agent = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert agent.returncode == -signal.SIGKILL, agent.stderr
    deadline = time.monotonic() + 30
    for pid in map(int, agent.stdout.split()):
        while is_alive(pid):
            assert time.monotonic() < deadline, "it outlived the agent"
            time.sleep(0.01)
    assert not (tmp_path / "mark").exists()
