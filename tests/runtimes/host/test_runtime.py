from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Evict, Nothing, Reclaim, decide
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Reclaimable
from jettison.engine.node.snapshot import Reading
from jettison.errors import WriteError
from jettison.events import (
    CollectionFailed,
    ContainerBackOff,
    Fact,
    LimitsEnforced,
    LimitsRefused,
    OutOfMemoryKill,
    ReclaimFinished,
)
from jettison.manifests.pods import pod_from
from jettison.runtimes.host.runtime import HostRuntime
from jettison.runtimes.host.settings import HostPace, HostSettings
from jettison.runtimes.protocol import Alarm, PodManifest
from tests.builders import MI, policy
from tests.runtimes.host.nodes import is_alive, needs_memory_events, needs_root, settings

pytestmark = needs_root

T = TypeVar("T")

RULES = policy({"memory.available": "48Mi"}, guards_allocatable=True)

PYTHON = ["python3", "-I", "-S", "-c"]
# 1 MiB every 5 ms, without end.
LEAK = [*PYTHON, "import time\nkept = []\nwhile True:\n kept.append(bytearray(1 << 20))\n time.sleep(0.005)"]
SLEEPS = ["sleep", "60"]


def manifest(name: str, command: list[str], *, restart: str = "Never", **container: Any) -> PodManifest:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "command": command, **container}], "restartPolicy": restart},
    }
    return PodManifest(pod_from(document), document, "test")


class Scene:
    def __init__(self, runtime: HostRuntime, facts: list[Fact]) -> None:
        self.runtime = runtime
        self.facts = facts

    async def heard(self, *sources: str) -> Alarm:
        async with asyncio.timeout(30):
            async for alarm in self.runtime.alarms():
                if alarm.source in sources:
                    return alarm
        raise AssertionError

    def said(self, kind: type[T]) -> list[T]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def pid(self, name: str) -> int:
        (found,) = [each for each in self.runtime._supervisor.active() if each.manifest.pod.uid == name]
        return found.containers[0].pid


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def opened(own: HostSettings, rules: Policy = RULES) -> AsyncIterator[Scene]:
    facts: list[Fact] = []
    runtime = await HostRuntime.open(own, rules, SystemClock(), facts.append)
    try:
        yield Scene(runtime, facts)
    finally:
        for status in runtime.statuses():
            await runtime.stop(status.pod.uid, 0)
        await runtime.close()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{own.cgroup_name}"))


def test_a_leak_is_noticed_and_evicted_and_its_neighbour_lives(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(settings(tmp_path)) as scene:
            runtime = scene.runtime
            await runtime.start(manifest("quiet", SLEEPS))
            await runtime.start(manifest("leak", LEAK))
            await runtime.observe()
            await scene.heard("memcg", "poll")
            decision = decide(RULES, History(), await runtime.observe()).decision
            assert isinstance(decision, Evict)
            order = decision.evictions[0]
            assert order.pod.name == "leak"
            quiet, leak = scene.pid("quiet"), scene.pid("leak")
            await runtime.evict(order)
            assert not is_alive(leak)
            await until(lambda: runtime.is_finished("leak"))
            assert is_alive(quiet)
            after = await runtime.observe()
            assert [pod.name for pod in after.pods] == ["quiet"]
            assert after.node.memory is not None
            assert after.node.memory.available is not None
            assert after.node.memory.available > 96 * MI
            assert not any(isinstance(fact, OutOfMemoryKill) for fact in scene.facts)

    asyncio.run(scenario())


def test_another_agent_does_not_get_the_directories_of_this_one(tmp_path: Path) -> None:
    """Whatever the two nodes are called: it would remove the directories of pods of which it has no record."""

    async def scenario() -> None:
        own = replace(settings(tmp_path), uses_cgroups=False)
        other = replace(own, node_name="other", state_dir=tmp_path / "other", cgroup_name=f"{own.cgroup_name}-b")
        async with opened(own) as scene:
            await scene.runtime.start(manifest("a", SLEEPS))
            with pytest.raises(WriteError, match="in use by another agent: each node takes a --node-dir of its own"):
                await HostRuntime.open(other, RULES, SystemClock(), print)
            assert own.pod_dir("a").is_dir()
        async with opened(other):
            assert not own.pod_dir("a").exists()

    asyncio.run(scenario())


def test_a_pod_in_back_off_is_ranked_by_what_it_uses(tmp_path: Path) -> None:
    """It has no running container; a pod without any usage would be the first to go, whatever the others use."""

    async def scenario() -> None:
        async with opened(settings(tmp_path)) as scene:
            runtime = scene.runtime
            await runtime.start(manifest("looping", ["false"], restart="Always"))
            await until(lambda: bool(scene.said(ContainerBackOff)))
            await runtime.observe()
            await runtime.start(manifest("large", [*PYTHON, "import time; k = b'x' * (90 << 20); time.sleep(60)"]))
            await scene.heard("memcg", "poll")
            snapshot = await runtime.observe()
            assert snapshot.usages["looping"].containers == []
            decision = decide(RULES, History(), snapshot).decision
            assert isinstance(decision, Evict)
            assert [order.pod.name for order in decision.evictions] == ["large", "looping"]

    asyncio.run(scenario())


def test_pods_outlive_the_runtime_and_the_next_one_finds_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        own = settings(tmp_path)
        first = await HostRuntime.open(own, RULES, SystemClock(), lambda _fact: None)
        await first.start(manifest("a", SLEEPS))
        (pid,) = [each.containers[0].pid for each in first._supervisor.active()]
        await first.close()
        assert is_alive(pid)
        async with opened(own) as scene:
            assert scene.pid("a") == pid
            snapshot = await scene.runtime.observe()
            assert snapshot.usages["a"].processes == 1
        assert not is_alive(pid)

    asyncio.run(scenario())


def test_the_kernels_kill_is_told_and_rings(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(settings(tmp_path)) as scene:
            greedy = manifest("greedy", LEAK, resources={"limits": {"memory": "16Mi"}})
            await scene.runtime.start(greedy)
            assert (await scene.heard("oom", "pods")).source
            await until(lambda: any(isinstance(fact, OutOfMemoryKill) for fact in scene.facts))
            (kill,) = [fact for fact in scene.facts if isinstance(fact, OutOfMemoryKill)]
            assert kill.pod is not None
            assert (kill.pod.name, kill.container, kill.kills) == ("greedy", "c", 1)
            await until(lambda: scene.runtime.statuses()[0].phase == "Failed")
            assert scene.runtime.statuses()[0].containers[0].reason == "OOMKilled"

    asyncio.run(scenario())


def test_a_starved_disk_gets_back_what_finished_pods_left(tmp_path: Path) -> None:
    write = ["sh", "-c", "head -c 2000000 /dev/zero > file; echo said"]

    async def scenario() -> None:
        async with opened(settings(tmp_path)) as scene:
            await scene.runtime.start(manifest("done", write))
            await until(lambda: scene.runtime.is_finished("done"))
            logs = scene.runtime.settings.logs_dir
            assert list(logs.glob("*_done/c/0.log"))
            starved = policy({"nodefs.available": "10%"}).thresholds[0]
            order = Reclaim((Reclaimable.CONTAINERS, Reclaimable.IMAGES), starved, Reading(0, 1, 1), Nothing(""), ())
            done = await scene.runtime.reclaim(order)
            assert (done.containers, done.errors) == (1, ())
            assert not list(logs.glob("*_done/c/0.log"))
            assert (await scene.runtime.reclaim(order)).containers == 0

    asyncio.run(scenario())


def test_what_has_no_owner_is_collected_from_time_to_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(settings(tmp_path, pace=HostPace(collection=0.05))) as scene:
            stray = scene.runtime.settings.logs_dir / "default_gone_gone/c/0.log"
            stray.parent.mkdir(parents=True)
            stray.write_bytes(b"x")
            await until(lambda: any(isinstance(fact, ReclaimFinished) for fact in scene.facts))
            (done,) = [fact for fact in scene.facts if isinstance(fact, ReclaimFinished)]
            assert (done.containers, done.errors) == (1, ())
            assert not stray.parents[1].exists()

    asyncio.run(scenario())


def test_what_cannot_be_collected_is_said(tmp_path: Path, small_disk: Path) -> None:
    stray = small_disk / "logs/default_gone_gone/c/0.log"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"x")
    (small_disk / "pods").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)

    async def scenario() -> None:
        async with opened(replace(settings(tmp_path, pace=HostPace(collection=0.05)), node_dir=small_disk)) as scene:
            await until(lambda: bool(scene.said(CollectionFailed)))
            failed = scene.said(CollectionFailed)[0]
            assert failed.what is Reclaimable.CONTAINERS
            assert failed.why.startswith(f"cannot remove `{stray}`: read-only file system")
            assert not scene.said(ReclaimFinished)

    asyncio.run(scenario())


@needs_memory_events
def test_what_the_pods_may_use_is_enforced_as_soon_as_it_can_be(tmp_path: Path) -> None:
    """An agent comes back to a node that is to be smaller than what runs there."""
    own = settings(tmp_path, pace=HostPace(enforcement=0.05))
    pods = f"{own.node_cgroup}/kubepods"
    usage = Path("/sys/fs/cgroup/memory") / pods / "memory.usage_in_bytes"

    async def scenario() -> None:
        facts: list[Fact] = []
        first = await HostRuntime.open(own, RULES, SystemClock(), facts.append)
        await first.start(manifest("a", [*PYTHON, "import time; kept = b'x' * (40 << 20); time.sleep(60)"]))
        await until(lambda: int(usage.read_text()) > 40 * MI)
        await first.close()
        assert [fact for fact in facts if isinstance(fact, LimitsEnforced)] == [LimitsEnforced(pods)]
        assert not any(isinstance(fact, LimitsRefused) for fact in facts)
        async with opened(replace(own, node_memory=16 * MI)) as scene:
            await until(lambda: bool(scene.said(LimitsRefused)))
            refused = scene.said(LimitsRefused)[0]
            assert (refused.cgroup, "device or resource busy" in refused.why) == (pods, True)
            assert not scene.said(LimitsEnforced)
            await scene.runtime.stop("a", 0)
            await until(lambda: bool(scene.said(LimitsEnforced)))

    asyncio.run(scenario())


def test_what_is_asked_for_weighs_and_what_is_reported_can_be_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(settings(tmp_path)) as scene:
            asks = {"requests": {"cpu": "500m"}}
            for name in ("a", "b"):
                await scene.runtime.start(manifest(name, SLEEPS, resources=asks))
            await scene.runtime.observe()
            shares = list(
                Path("/sys/fs/cgroup").glob(f"*/{scene.runtime.settings.cgroup_name}/kubepods/burstable/cpu.*")
            )
            found = {path.name: path.read_text() for path in shares if path.name in ("cpu.shares", "cpu.weight")}
            assert found in ({"cpu.shares": "1024\n"}, {"cpu.weight": "100\n"})

    asyncio.run(scenario())


def test_a_directory_that_cannot_be_measured_is_complained_about_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(settings(tmp_path, disk_period=0.01)) as scene:
            await scene.runtime.start(manifest("a", SLEEPS))
            (logs,) = (path for path in scene.runtime.settings.logs_dir.glob("*/c"))
            shutil.rmtree(logs)
            logs.symlink_to(logs)
            for _ in range(20):
                await scene.runtime.observe()
                await asyncio.sleep(0.01)
            complaints = [fact for fact in scene.facts if "measure" in getattr(fact, "what", "")]
            assert len(complaints) == 1
            logs.unlink()

    asyncio.run(scenario())


def test_a_node_directory_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    own = settings(tmp_path)
    own.pods_dir.write_text("in the way")
    with pytest.raises(WriteError, match=r"cannot create `.*pods`"):
        asyncio.run(HostRuntime.open(own, RULES, SystemClock(), lambda _fact: None))


@needs_root
def test_a_start_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    """At whichever of its waits: no cgroup, and no process in one."""

    async def cancelled_after(turns: int, own: HostSettings) -> bool:
        opening = asyncio.create_task(HostRuntime.open(own, RULES, SystemClock(), lambda _fact: None))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        if opening.cancelled():
            return True
        await opening.result().close()
        return False

    async def scenario() -> None:
        turns = 0
        while await cancelled_after(turns, own := settings(tmp_path)):
            assert not list(Path("/sys/fs/cgroup").glob(f"*/{own.cgroup_name}*"))
            turns = 2 * turns + 1
        # It waits for the process that it starts and kills, at least.
        assert turns > 2

    asyncio.run(scenario())


def test_of_a_smaller_node_everything_is_the_nodes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(settings(tmp_path, node_pids=64)) as scene:
            machine = scene.runtime.machine()
            assert (machine.memory, machine.pids) == (128 * MI, 64)
            snapshot = await scene.runtime.observe()
            assert snapshot.node.processes is not None
            assert snapshot.node.processes.maximum == 64
            assert snapshot.node.name == scene.runtime.settings.node_name

    asyncio.run(scenario())
