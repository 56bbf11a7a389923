"""Guarding what others started: real containers of Docker and Podman, and real cgroups, under real memory pressure."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jettison import events
from jettison.agent.journal.reading import read_journal
from jettison.clock import SystemClock
from jettison.engine import Policy
from jettison.events import Fact
from jettison.node.cluster_settings import GuardSettings
from jettison.node.guard import Guard
from jettison.node.settings import NodeSettings
from jettison.runtimes.adopted.container_engine import ContainerEngine
from jettison.runtimes.adopted.rules import GuardRules
from jettison.runtimes.adopted.rules_file import parse_rules, shipped_rules
from jettison.runtimes.adopted.settings import AdoptedSettings
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.machine.stats_reader import StatsReader
from tests.janitor import fresh_name
from tests.live import engines
from tests.live.conftest import without_guest
from tests.live.debian import GuestUnavailableError
from tests.live.engines import Engine

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for cgroups and container engines"),
    pytest.mark.timeout(600),
]

MI = 2**20
# Of a node of 200 MiB: what a container of busybox takes by itself is under 2 MiB.
MEMORY, LINE = 200 * MI, "50Mi"
PATIENCE = 60.0


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    try:
        engines.programs()
    except GuestUnavailableError as error:
        without_guest(str(error), os.environ, is_root=True)
    with engines.running(request.param, tmp_path_factory.mktemp("e")) as found:
        yield found


@pytest.fixture(autouse=True)
def _cleared(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "engine" in request.fixturenames:
        request.getfixturevalue("engine").clear()


def holding(mebibytes: int) -> list[str]:
    """A command that takes this much memory and waits: its `dd` has read that much and writes it into a full pipe."""
    return ["/bin/sh", "-c", f"dd if=/dev/zero bs={mebibytes}M count=1 | sleep 3600"]


@dataclass
class Told:
    """A sink that keeps everything."""

    facts: list[Fact] = field(default_factory=list)

    def take(self, fact: Fact, time_ns: int) -> None:
        self.facts.append(fact)

    def evicted(self) -> list[str]:
        return [fact.eviction.pod.name for fact in self.facts if isinstance(fact, events.PodEvicted)]


@asynccontextmanager
async def guarding(
    path: Path,
    cgroup: str,
    *sockets: Path,
    rules: GuardRules | None = None,
    enforces: bool = True,
    name: str = "",
    most: int = 10,
) -> AsyncIterator[tuple[Guard, Told]]:
    """A node of 200 MiB, which is that cgroup."""
    told = Told()
    config = {
        "evictionHard": {"memory.available": LINE},
        "enforceNodeAllocatable": ["none"],
        "evictionPressureTransitionPeriod": "1s",
    }
    node = NodeSettings(name or fresh_name(), path / "state", policy=Policy.of(config), is_dry_run=not enforces)
    (path / "state").mkdir(exist_ok=True)
    adopted = AdoptedSettings(
        node.node_name,
        path / "state",
        node.node_state / "stopping.json",
        sockets,
        rules or GuardRules(),
        shipped_rules(),
        cgroup,
        MEMORY,
        most,
    )
    async with Guard(GuardSettings(node, adopted), told) as guard:
        yield guard, told


async def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited for {what}"
        await asyncio.sleep(0.02)


def test_the_leak_is_stopped_by_its_engine_and_the_rest_lives(engine: Engine, tmp_path: Path) -> None:
    """The protected database uses more; the leak's restart policy does not bring it back; nothing is removed."""
    engine.run("database", holding(90), "--label", "jettison.dev/protect=true")
    engine.run("web", ["/bin/sleep", "3600"], "--label", "com.docker.compose.project=shop")

    async def scenario() -> None:
        async with guarding(tmp_path, engine.cgroup, engine.socket) as (guard, told):
            engine.run("leak", holding(80), "--restart=always")
            await until(lambda: told.evicted() == ["leak"], "the eviction of the leak")
            names = {str(each.pod): (each.phase, each.reason) for each in guard.statuses()}
            assert names[f"{engine.kind}/leak"] == ("Failed", "Evicted")
            assert names["shop/web"] == ("Running", "")
            await asyncio.sleep(1)  # in which a restart policy would have brought it back
            assert engine.states() == {"database": "Up", "web": "Up", "leak": "Exited"}
            assert told.evicted() == ["leak"]

    asyncio.run(scenario())


def test_a_guarded_container_is_measured_as_a_pod_of_our_own(engine: Engine, tmp_path: Path) -> None:
    """Its network, where it has one of its own; and the engine is a system container, as a runtime is to a kubelet."""
    engine.run("web", ["/bin/sleep", "3600"])
    engine.order("run", "-d", "--name", "own", "--net=none", f"--cgroup-parent=/{engine.cgroup}", engines.IMAGE)

    async def scenario() -> None:
        async with guarding(tmp_path, engine.cgroup, engine.socket, enforces=False) as (guard, _):
            await until(lambda: {each.pod.name for each in guard.statuses()} == {"web", "own"}, "both")
            found = StatsReader(discover(), SystemClock()).read(guard.runtime.subject())
            names = {status.pod.uid: status.pod.name for status in guard.statuses()}
            networks = {names[uid]: each.network for uid, each in found.pods.items()}
            assert networks["web"] is None
            assert networks["own"] is not None
            assert set(found.system) == {"kubelet", "runtime"}
            memory = found.system["runtime"].counters.memory
            assert memory is not None
            assert memory.rss is not None
            assert memory.rss > 2**20

    asyncio.run(scenario())


def test_an_observer_tells_what_it_would_do_and_touches_nothing(engine: Engine, tmp_path: Path) -> None:
    """The default."""

    async def scenario() -> None:
        async with guarding(tmp_path, engine.cgroup, engine.socket, enforces=False) as (guard, told):
            engine.run("leak", holding(170))
            await until(lambda: bool(guard.agent.history.conditions), "memory pressure")
            records = [record.data for record in read_journal(guard.settings.node_state / "journal")]
            assert any(b'"leak"' in data and b'"evict' in data for data in records)
            assert told.evicted() == []
            assert engine.states() == {"leak": "Up"}

    asyncio.run(scenario())


def test_a_stop_that_a_hanging_engine_does_not_carry_out_is_finished_through_the_cgroup(
    engine: Engine, tmp_path: Path
) -> None:
    """And the node goes on deciding meanwhile."""
    if engine.kind == "podman":
        pytest.skip("the same code; one engine that hangs is enough")

    async def scenario() -> None:
        async with guarding(tmp_path, engine.cgroup, engine.socket) as (guard, told):
            engine.run("growing", ["/bin/sh", "-c", f"trap : TERM; sleep 2; {holding(170)[-1]}"])
            await until(lambda: any(each.pod.name == "growing" for each in guard.statuses()), "the container")
            assert f'jettison_container_runtime_up{{runtime="{engine.socket}"}} 1\n' in guard.metrics.text()
            engine.hold()
            try:
                await until(lambda: told.evicted() == ["growing"], "the eviction")
                silent = f'jettison_container_runtime_up{{runtime="{engine.socket}"}} 0\n'
                await until(lambda: silent in guard.metrics.text(), "its silence to be shown")
            finally:
                engine.go_on()

    asyncio.run(scenario())


@contextmanager
def cgroup_of(*names: str) -> Iterator[str]:
    """A cgroup with these below it, in the memory hierarchy alone, as a user makes them by hand."""
    memory = discover().holding("memory")
    assert memory is not None
    if memory.is_unified:
        pytest.skip("needs the memory controller of version 1")
    top = memory.mount_point / f"jettison-{fresh_name()}"
    for name in names:
        (top / name).mkdir(parents=True)
    try:
        yield top.name
    finally:
        for each in (*(top / name for name in names), top):
            for pid in (each / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        for each in (*(top / name for name in names), top):
            while True:
                try:
                    each.rmdir()
                    break
                except OSError:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)


def run_in(cgroup: str, name: str, program: str) -> subprocess.Popen[bytes]:
    memory = discover().holding("memory")
    assert memory is not None
    entrance = memory.mount_point / cgroup / name / "cgroup.procs"
    enter = f"open({str(entrance)!r}, 'w').write('0'); "
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", f"import signal, time; {enter}{program}"])
    deadline = time.monotonic() + PATIENCE
    while str(process.pid) not in entrance.read_text().split():
        assert time.monotonic() < deadline, "the process has not entered its cgroup"
        time.sleep(0.005)
    return process


def test_bare_cgroups_go_by_the_rules_of_the_operator(tmp_path: Path) -> None:
    """Of two that hold as much the one of lower priority goes, though it is deaf to SIGTERM."""
    rules = "rules: [{match: {name: important}, priority: 100}]\n"
    hold = "held = bytearray(b'x') * (80 << 20); time.sleep(3600)"
    with cgroup_of("important", "deaf") as cgroup:
        important = run_in(cgroup, "important", hold)
        deaf = run_in(cgroup, "deaf", f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {hold}")
        found = parse_rules(f"{rules}cgroups: ['{cgroup}/*']", "r")

        async def scenario() -> None:
            async with guarding(tmp_path, cgroup, rules=found) as (_, told):
                await until(lambda: told.evicted() == ["deaf"], "the eviction")

        asyncio.run(scenario())
        assert (deaf.wait(PATIENCE), important.poll()) == (-signal.SIGKILL, None)
        important.kill()
        important.wait()


def test_a_process_that_is_no_container_is_not_taken_for_one(tmp_path: Path) -> None:
    """Whatever an engine says of its number: its cgroup is not named after the container, and all in it would go."""
    container = "ab" * 32
    with cgroup_of("session", container) as cgroup:
        session, boxed = (run_in(cgroup, name, "time.sleep(3600)") for name in ("session", container))

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked = [*(await reader.readuntil(b"\r\n\r\n")).split()[1].decode().split("/"), ""]
            pids = {"1" * 64: session.pid, "2" * 64: 1, "3" * 64: os.getpid(), "4" * 64: 2**63, container: boxed.pid}
            state = {"State": {"Running": True, "Pid": pids.get(asked[2], 0)}}
            found = [{"Id": each} for each in pids] if asked[2] == "json" else state
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps({} if asked[1] == "version" else found).encode())
            writer.close()

        async def scenario() -> list[str]:
            async with await asyncio.start_unix_server(serve, tmp_path / "e.sock"):
                memory = discover().holding("memory")
                assert memory is not None
                found = await ContainerEngine(tmp_path / "e.sock", memory, frozenset({0})).running()
                return [each.cgroup for each in found]

        assert asyncio.run(scenario()) == [f"{cgroup}/{container}"]
        for each in (session, boxed):
            each.kill()
            each.wait()


def test_a_workload_that_is_dead_has_ended_though_its_parent_has_not_noticed(tmp_path: Path) -> None:
    """Until it is reaped, which an engine under load takes a while for, the pids controller counts it on."""
    mounts, top = discover(), f"jettison-{fresh_name()}"
    place = Cgroup(mounts, f"{top}/leak")
    place.create()
    entrances = [str(each) for each in place.entrances]
    enter = f"[open(each, 'w').write('0') for each in {entrances!r}]"
    hold = "held = bytearray(b'x') * (170 << 20); time.sleep(3600)"
    leak = subprocess.Popen([sys.executable, "-I", "-S", "-c", f"import time; {enter}; {hold}"])
    pids = place.directory("pids")
    assert pids is not None

    async def scenario() -> None:
        async with guarding(tmp_path, top, rules=parse_rules(f"cgroups: ['{top}/*']", "r")) as (guard, told):
            await until(lambda: told.evicted() == ["leak"], "the eviction")
            assert (pids / "pids.current").read_text().strip() == "1"
            assert [(each.phase, each.reason) for each in guard.statuses()] == [("Failed", "Evicted")]
            assert not (await guard.runtime.observe()).pods

    try:
        asyncio.run(scenario())
    finally:
        leak.kill()
        leak.wait()
        deadline = time.monotonic() + PATIENCE
        while not Cgroup(mounts, top).remove():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_one_that_comes_back_is_left_alone_for_a_while_and_nothing_goes_in_its_place(tmp_path: Path) -> None:
    """A supervisor that starts it again would otherwise have it stopped again and again, or an innocent one."""
    rules = "rules: []\ncgroups: ['{cgroup}/*']"
    hold = "held = bytearray(b'x') * (170 << 20); time.sleep(3600)"
    with cgroup_of("leak", "innocent") as cgroup:
        innocent = run_in(cgroup, "innocent", "time.sleep(3600)")

        async def scenario() -> None:
            found = parse_rules(rules.format(cgroup=cgroup), "r")
            async with guarding(tmp_path, cgroup, rules=found) as (_, told):
                first = run_in(cgroup, "leak", hold)
                await until(lambda: told.evicted() == ["leak"], "the first eviction")
                await asyncio.to_thread(first.wait, PATIENCE)
                again = run_in(cgroup, "leak", hold)
                refusals = [fact for fact in told.facts if isinstance(fact, events.ActionFailed)]
                await until(lambda: any("came back" in each.why for each in _failed(told)), "the refusal")
                assert refusals == []
                assert (again.poll(), innocent.poll(), told.evicted()) == (None, None, ["leak"])
                again.kill()
                again.wait()

        asyncio.run(scenario())
        innocent.kill()
        innocent.wait()


def test_the_breaker_leaves_the_rest_alone_and_says_so(tmp_path: Path) -> None:
    """Two of three would have to go; one stop a minute is allowed."""
    hold = "held = bytearray(b'x') * (80 << 20); time.sleep(3600)"
    with cgroup_of("a", "b", "c") as cgroup:
        processes = [run_in(cgroup, name, hold) for name in "abc"]
        found = parse_rules(f"cgroups: ['{cgroup}/*']", "r")

        async def scenario() -> None:
            async with guarding(tmp_path, cgroup, rules=found, most=1) as (_, told):

                def refusals() -> list[str]:
                    return [fact.why for fact in told.facts if isinstance(fact, events.ActionFailed)]

                await until(lambda: any("stopped within a minute" in why for why in refusals()), "the alert")
                await asyncio.sleep(1)
                assert len(told.evicted()) == 1

        asyncio.run(scenario())
        assert sum(each.poll() is None for each in processes) == 2
        for each in processes:
            each.kill()
            each.wait()


def test_an_agent_that_comes_back_goes_on_with_what_was_begun(tmp_path: Path) -> None:
    """It takes no second victim meanwhile, kills when the time is over, and tells of the end."""
    hold = "signal.signal(signal.SIGTERM, signal.SIG_IGN); held = bytearray(b'x') * (85 << 20); time.sleep(3600)"
    with cgroup_of("first", "second") as cgroup:
        found = parse_rules(f"cgroups: ['{cgroup}/*']\nrules: [{{match: {{name: second}}, priority: 1}}]", "r")
        processes = [run_in(cgroup, name, hold) for name in ("first", "second")]

        async def scenario() -> None:
            async with guarding(tmp_path, cgroup, rules=found, name="again") as (_, told):
                await until(lambda: _started(told) == ["first"], "the order")
            async with guarding(tmp_path, cgroup, rules=found, name="again") as (_, told):
                await until(lambda: told.evicted() == ["first"], "the end")
                assert _started(told) == []

        asyncio.run(scenario())
        assert (processes[0].wait(PATIENCE), processes[1].poll()) == (-signal.SIGKILL, None)
        processes[1].kill()
        processes[1].wait()


def _started(told: Told) -> list[str]:
    return [fact.eviction.pod.name for fact in told.facts if isinstance(fact, events.EvictionStarted)]


def _failed(told: Told) -> list[events.ActionFailed]:
    return [fact for fact in told.facts if isinstance(fact, events.ActionFailed)]


def test_the_command_guards_and_tells_what_it_guards(tmp_path: Path) -> None:
    """As a user runs it: in the foreground, with a rule file, and asked by the other commands."""
    rules = tmp_path / "rules.yaml"
    jettison = shutil.which("jettison", path=str(Path(sys.executable).parent)) or "jettison"
    state = ("--state-dir", str(tmp_path / "state"), "--node-name", fresh_name())
    with cgroup_of("job") as cgroup:
        job = run_in(cgroup, "job", "time.sleep(3600)")
        rules.write_text(f"cgroups: ['{cgroup}/*']\nrules: [{{match: {{name: job}}, requests: {{memory: 16Mi}}}}]\n")
        words = [jettison, "guard", "--rules", str(rules), "--within", cgroup, "--node-memory", "200Mi", *state]
        with subprocess.Popen([*words, "--eviction-hard", "memory.available<50Mi"], stdout=subprocess.PIPE) as guard:
            assert guard.stdout is not None
            greeting = b"".join(iter(guard.stdout.readline, b"  pods     1 of cgroup; 0 protected; it only observes: "
                                     b"--enforce makes it act\n"))  # fmt: skip
            assert b"is ready" in greeting
            pods = subprocess.run([jettison, "pods", *state], capture_output=True, text=True, timeout=60, check=True)
            assert pods.stdout.splitlines()[1].split()[:4] == ["cgroup", "job", "1/1", "Running"]
            disks = subprocess.run([jettison, "disks", *state], capture_output=True, text=True, timeout=60, check=True)
            assert disks.stdout.startswith("nodefs")
            down = subprocess.run([jettison, "down", *state], capture_output=True, text=True, timeout=60, check=True)
            assert "is down" in down.stdout
            assert guard.wait(PATIENCE) == 0
        assert job.poll() is None
        job.kill()
        job.wait()
