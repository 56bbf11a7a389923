from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import Signal, readings
from jettison.engine.pods.pod import Pod, Volume
from jettison.errors import ObservationError
from jettison.runtimes.host.measure.meter import CgroupMeter, Exactness, PodNumbers
from jettison.runtimes.host.measure.observer import Observer
from jettison.runtimes.host.pods.reports import ActivePod, ActiveVolume
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.machine.disks import DiskWatch
from jettison.runtimes.machine.node_disks import NodeDisks
from jettison.runtimes.protocol import PodManifest
from tests.builders import MI, pod, policy
from tests.runtimes.host.nodes import PLAIN, SLEEPS, Node, active, needs_root, node, python, running, settings

pytestmark = needs_root


@dataclass
class Scene:
    made: Node
    observer: Observer
    disks: DiskWatch
    meter: CgroupMeter
    pool: ThreadPoolExecutor


@asynccontextmanager
async def watched(own: HostSettings, rules: Policy = PLAIN) -> AsyncIterator[Scene]:
    clock = SystemClock()
    with node(own, rules) as made, ThreadPoolExecutor(1) as pool:
        meter = CgroupMeter(own, made.kubepods, made.host, clock)
        disks = DiskWatch(pool, clock, period=10, patience=5)
        filesystems = NodeDisks(own.node_dir, clock)
        yield Scene(made, Observer(own, rules, meter, disks, filesystems, clock), disks, meter, pool)
        await disks.close()
        meter.close()
        made.oom.close()


def test_every_signal_has_a_reading_on_one_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watched(settings(tmp_path)) as scene:
            snapshot = await scene.observer.observe([])
            found = readings(snapshot.node)
            assert found.keys() == set(Signal)
            assert found[Signal.MEMORY_AVAILABLE].capacity == 128 * MI
            assert found[Signal.IMAGEFS_AVAILABLE] == found[Signal.NODEFS_AVAILABLE]
            assert not snapshot.layout.has_image_fs
            assert (snapshot.pods, snapshot.usages) == ([], {})

    asyncio.run(scenario())


def test_a_running_pod_is_measured_in_every_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watched(settings(tmp_path)) as scene:
            given = pod("a", volumes=[Volume("cache", is_local=True), Volume("host", is_local=True), Volume("shm")])
            place = scene.made.kubepods.of_container(given, "c")
            place.create()
            with running(place, python("kept = bytearray(24 << 20)")) as pid:
                each = with_volumes(active(place, "a", tmp_path / "node/pods/a", pid), given)
                (Path(each.containers[0].writable_dir) / "file").write_bytes(b"x" * MI)
                (Path(each.containers[0].log_dir) / "0.log").write_bytes(b"x" * 8192)
                await scene.observer.observe([each])
                await scene.disks.refresh(patience=10)
                usage = (await scene.observer.observe([each])).usages["a"]
            assert usage.working_set is not None
            assert usage.working_set > 24 * MI
            assert usage.processes == 1
            (container,) = usage.containers
            assert container.rootfs_bytes is not None
            assert MI <= container.rootfs_bytes <= MI + 8192
            assert (container.rootfs_inodes, container.logs_bytes, container.logs_inodes) == (2, 8192, 1)
            volumes = {volume.name: volume.used_bytes for volume in usage.volumes}
            assert volumes.keys() == {"cache", "shm"}, "a hostPath is not measured"
            assert volumes["cache"] is not None
            assert volumes["shm"] is not None
            # Memory-backed volumes are memory, not storage.
            assert usage.ephemeral_storage_bytes == container.rootfs_bytes + 8192 + volumes["cache"]

    asyncio.run(scenario())


def test_a_pod_has_a_usage_as_soon_as_it_has_a_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watched(settings(tmp_path)) as scene:
            each = active(scene.made.kubepods.of_container(pod(), "c"), "a", tmp_path / "pod")
            pending = replace(each, containers=[replace(each.containers[0], is_running=False)])
            snapshot = await scene.observer.observe([pending])
            assert [known.name for known in snapshot.pods] == ["a"]
            assert snapshot.usages == {}
            scene.made.kubepods.of_pod(pod()).create()
            usage = (await scene.observer.observe([pending])).usages["a"]
            assert (usage.working_set, usage.processes, usage.containers) == (0, 0, [])

    asyncio.run(scenario())


def test_what_a_decision_depends_on_is_read_exactly(tmp_path: Path) -> None:
    asked: list[Exactness] = []
    rules = policy({"memory.available": "64Mi", "pid.available": "50%"}, reclaim={"memory.available": "48Mi"})

    async def scenario() -> None:
        async with watched(settings(tmp_path, node_pids=16), rules) as scene:
            place = scene.made.kubepods.of_container(pod(), "c")
            place.create()
            measure = scene.meter.pods

            def spy(pods: Iterable[ActivePod], exactness: Exactness) -> dict[str, PodNumbers]:
                asked.append(exactness)
                return measure(pods, exactness)

            scene.meter.pods = spy  # type: ignore[method-assign, assignment]
            for _ in range(2):  # the first time, and every 10 s, memory is exact for clients
                await scene.observer.observe([])
            # 96 MiB left: not crossed, but not resolved either if it had been.
            with running(place, python("kept = bytearray(30 << 20)")):
                await scene.observer.observe([])
            with running(place, python("for _ in range(9):\n    if os.fork() == 0: time.sleep(60)")):
                await scene.observer.observe([])

    asyncio.run(scenario())
    assert asked == [
        Exactness(memory=True, processes=False),
        Exactness(memory=False, processes=False),
        Exactness(memory=True, processes=False),
        Exactness(memory=False, processes=True),
    ]


def test_a_full_disk_is_worth_waiting_for_the_walk_unless_memory_is_short_too(tmp_path: Path) -> None:
    async def scenario(rules: Policy, *, waits: bool) -> None:
        async with watched(settings(tmp_path), rules) as scene:
            place = scene.made.kubepods.of_container(pod(), "c")
            place.create()
            with running(place, SLEEPS) as pid:
                each = active(place, "a", tmp_path / "pod", pid)
                scene.pool.submit(time.sleep, 0.2)
                snapshot = await scene.observer.observe([each])
            assert (snapshot.usages["a"].ephemeral_storage_bytes is not None) is waits

    full_disk = {"nodefs.available": "100000Ti"}
    asyncio.run(scenario(policy(full_disk), waits=True))
    asyncio.run(scenario(policy({**full_disk, "memory.available": "127Mi"}), waits=False))


def test_a_node_without_its_filesystem_cannot_be_observed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watched(settings(tmp_path)) as scene:
            (tmp_path / "node").rmdir()
            with pytest.raises(ObservationError, match="cannot measure nodefs"):
                await scene.observer.observe([])

    asyncio.run(scenario())


def with_volumes(each: ActivePod, given: Pod) -> ActivePod:
    volumes = []
    own = Path(each.pod_dir)
    for name, path, is_memory in (
        ("cache", own / "volumes/cache", False),
        ("host", own.parent / "elsewhere", False),
        ("shm", own / "volumes/shm", True),
    ):
        path.mkdir(parents=True)
        (path / "file").write_bytes(b"x" * 4096)
        volumes.append(ActiveVolume(name, str(path), is_memory))
    return replace(each, manifest=PodManifest(given, {}), volumes=volumes)
