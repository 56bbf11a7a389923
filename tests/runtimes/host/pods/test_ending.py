"""How pods end: told, given time, killed; and what is left of them, which is nothing."""

from __future__ import annotations

import asyncio
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.engine.node.evictions import PodCondition
from jettison.errors import ObservationError, PodGone, RemovalError, StillRunning
from jettison.runtimes.host.cgroups.places import CgroupPlace
from jettison.runtimes.host.settings import HostPace
from jettison.runtimes.host.volumes import removal
from jettison.runtimes.linux.files.filesystems import read_mounts
from tests.runtimes.host.nodes import is_alive, needs_memory_events, needs_root
from tests.runtimes.host.scenes import (
    SLEEPS,
    STUBBORN,
    HangingDisk,
    Scene,
    container,
    eviction,
    handles_term,
    manifest,
    play,
    python,
    shell,
    until,
)

pytestmark = needs_root

POLITE = "trap 'echo told; kill $!; exit 0' TERM; sleep 600 & wait"

FORK_BOMB = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            signal.alarm(30)
    except OSError:
        pass
"""


async def started(scene: Scene, *containers: dict[str, Any], **spec: Any) -> None:
    await scene.supervisor.start(manifest(*containers, **spec))
    await scene.phase("Running")
    trapping = [each["name"] for each in containers if any("trap " in word for word in each["command"])]
    await until(lambda: all(handles_term(scene.pid(name)) for name in trapping))


def test_an_evicted_pod_stays_for_all_to_see(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, shell(POLITE), terminationGracePeriodSeconds=30)
        order = eviction(scene.status().pod)
        await scene.supervisor.evict(order)
        status = scene.status()
        assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", order.message)
        assert scene.container().exit_code == 0
        assert scene.log() == "told\n"
        conditions = {each.type: each for each in status.conditions}
        kinds = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        assert list(conditions) == [*kinds, "DisruptionTarget"]
        assert conditions["PodReadyToStartContainers"].status == "False"
        assert conditions["DisruptionTarget"] == PodCondition(
            "DisruptionTarget", "True", "TerminationByKubelet", order.message, 7
        )
        assert (conditions["Ready"].status, conditions["Ready"].reason) == ("False", "PodFailed")
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        assert not scene.settings.pod_dir("uid-a").exists()
        assert not scene.places.of_pod(status.pod).exists
        assert scene.log() == "told\n"
        assert [fact.container for fact in scene.said(events.ContainerStopping)] == ["c"]
        with pytest.raises(PodGone):
            await scene.supervisor.evict(order)
        # The caller that gave the order tells that the pod is gone.
        assert not scene.said(events.PodEvicted)
        assert not scene.said(events.PodCleanedUp)

    play(tmp_path, scenario)


def test_a_pod_whose_process_ids_are_still_taken_is_not_gone(tmp_path: Path) -> None:
    """A child of ours dies in the pod, and we do not take notice for a while."""

    async def scenario(scene: Scene) -> None:
        await started(scene, container(SLEEPS))
        pod = scene.status().pod
        place = scene.places.of_container(pod, "c")
        assert isinstance(place, CgroupPlace)
        if place.cgroup.directory("pids") is None:
            pytest.skip("no pids controller")
        with subprocess.Popen(SLEEPS) as child:
            place.cgroup.move(child.pid)
            await scene.supervisor.evict(eviction(pod))
            await until(lambda: scene.places.of_pod(pod).unreaped() == 1)
            await asyncio.sleep(0.5)
            assert not scene.supervisor.is_finished("uid-a")
            child.wait()
        await until(lambda: scene.supervisor.is_finished("uid-a"))

    play(tmp_path, scenario)


def test_the_order_is_on_record_and_the_signal_sent_before_anything_else_is_done(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, container(SLEEPS))
        order = eviction(scene.status().pod)
        began = time.process_time()
        evicting = scene.supervisor.evict(order)
        evicting.send(None)
        took_ms = (time.process_time() - began) * 1000
        saved = scene.files.load().records[0]
        assert saved.ending is not None
        assert saved.ending.order is not None
        assert saved.ending.order.eviction(order.pod) == order
        assert saved.verdict is None
        evicting.close()
        await scene.phase("Failed")
        assert scene.container().exit_code == 143
        assert took_ms < 50

    play(tmp_path, scenario, pace=HostPace(in_place=30))


def test_while_it_ends_a_pod_keeps_its_phase(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, container(STUBBORN), restartPolicy="Never", terminationGracePeriodSeconds=2)
        evicting = asyncio.create_task(scene.supervisor.evict(eviction(scene.status().pod)))
        await until(lambda: scene.status().is_ending)
        assert (scene.status().phase, scene.status().reason, scene.status().is_ending) == ("Running", "", True)
        assert scene.container().is_ready
        assert scene.condition("Ready").status == "True"
        assert not scene.supervisor.is_finished("uid-a")
        assert scene.supervisor.active()
        await evicting
        assert scene.status().phase == "Failed"
        assert not scene.container().is_ready
        await until(lambda: not scene.status().is_ending)

    play(tmp_path, scenario)


def test_while_it_ends_a_pod_is_as_ready_as_its_probe_says(tmp_path: Path) -> None:
    """And is not given up by its liveness probe, which would only hurry it."""

    async def scenario(scene: Scene) -> None:
        often = {"periodSeconds": 1, "failureThreshold": 1}
        ready = {"exec": {"command": ["test", "-e", "ready"]}, **often}
        alive = {"exec": {"command": ["test", "!", "-e", "dead"]}, **often}
        one = container(STUBBORN, readinessProbe=ready, livenessProbe=alive)
        await started(scene, one, terminationGracePeriodSeconds=60)
        (scene.write_dir() / "ready").touch()
        await until(lambda: scene.container().is_ready)
        evicting = asyncio.create_task(scene.supervisor.evict(eviction(scene.status().pod, 30)))
        await until(lambda: scene.status().is_ending)
        (scene.write_dir() / "dead").touch()
        await asyncio.sleep(1.5)
        assert scene.container().is_ready
        (scene.write_dir() / "ready").unlink()
        await until(lambda: not scene.container().is_ready)
        assert scene.condition("Ready").message == "containers with unready status: [c]"
        (scene.write_dir() / "ready").touch()
        await until(lambda: scene.condition("Ready").status == "True")
        assert {fact.probe for fact in scene.said(events.ProbeFailed)} == {"readiness"}
        await scene.supervisor.evict(eviction(scene.status().pod, 1))
        await evicting
        assert not scene.container().is_ready
        assert scene.condition("Ready").status == "False"

    play(tmp_path, scenario)


@pytest.mark.parametrize(("grace", "least"), [(1, 1.9), (3, 2.9)])
def test_the_stubborn_are_killed_after_their_grace_and_never_before_two_seconds(
    tmp_path: Path, grace: int, least: float
) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, container(STUBBORN))
        began = time.monotonic()
        await scene.supervisor.evict(eviction(scene.status().pod, grace))
        assert time.monotonic() - began >= least
        assert scene.container().exit_code == 137

    play(tmp_path, scenario)


def test_a_grace_period_only_shrinks(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, container(STUBBORN), terminationGracePeriodSeconds=60)
        pod = scene.status().pod
        began = time.monotonic()
        slow = asyncio.create_task(scene.supervisor.evict(eviction(pod, 300)))
        await asyncio.sleep(2.0)
        longer = asyncio.create_task(scene.supervisor.evict(eviction(pod, 500)))
        await asyncio.sleep(0.1)
        assert not slow.done()
        await scene.supervisor.evict(eviction(pod, 1))
        assert 2.9 <= time.monotonic() - began < 200
        await asyncio.gather(slow, longer)
        assert len(scene.said(events.ContainerStopping)) == 1

    play(tmp_path, scenario)


def test_at_once_means_without_being_asked(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, shell(POLITE), shell(POLITE, "d"))
        await scene.supervisor.evict(replace(eviction(scene.status().pod), is_at_once=True))
        assert [each.exit_code for each in scene.status().containers] == [137, 137]
        assert scene.log() == ""

    play(tmp_path, scenario)


def test_a_pod_that_takes_its_time_can_be_ended_at_once(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, container(STUBBORN), terminationGracePeriodSeconds=60)
        slow = asyncio.create_task(scene.supervisor.evict(eviction(scene.status().pod, 300)))
        await until(lambda: scene.status().is_ending)
        async with asyncio.timeout(60):
            await scene.supervisor.evict(replace(eviction(scene.status().pod), is_at_once=True))
        await slow
        assert scene.container().exit_code == 137

    play(tmp_path, scenario)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_fork_bomb_leaves_no_process(tmp_path: Path, at_once: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(python(FORK_BOMB)))
        place = scene.places.of_pod(scene.status().pod)
        await until(lambda: len(place.processes()) > 50)
        pids = place.processes()
        async with asyncio.timeout(30):
            await scene.supervisor.evict(replace(eviction(scene.status().pod), is_at_once=at_once))
        assert not place.processes()
        assert not [pid for pid in pids if is_alive(pid)]
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        assert not place.exists

    play(tmp_path, scenario, node_pids=200)


def test_sidecars_go_last_and_in_reverse(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        sides = [shell(POLITE, name, restartPolicy="Always") for name in ("s1", "s2")]
        slow = "trap 'sleep 0.3; kill $!; exit 0' TERM; sleep 600 & wait"
        await started(scene, shell(slow, "m1"), shell(POLITE, "m2"), initContainers=sides)
        await scene.supervisor.evict(eviction(scene.status().pod, 10))
        assert [fact.container for fact in scene.said(events.ContainerStopping)] == ["m1", "m2", "s2", "s1"]
        assert [fact.container for fact in scene.said(events.ContainerFinished)] == ["m2", "m1", "s2", "s1"]

    play(tmp_path, scenario)


def test_a_sidecar_is_not_given_up_while_the_others_end(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        # It fails as soon as the pod is told to end, which the regular container shows by a file of its own.
        flag = tmp_path / "ending"
        sick = {"exec": {"command": ["test", "!", "-e", str(flag)]}, "periodSeconds": 1, "failureThreshold": 1}
        side = shell(POLITE, "side", restartPolicy="Always", livenessProbe=sick)
        slow = f"trap 'touch {flag}; sleep 2.5; kill $!; exit 0' TERM; sleep 600 & wait"
        await started(scene, shell(slow, "main"), initContainers=[side])
        await scene.supervisor.evict(eviction(scene.status().pod, 10))
        assert flag.exists()
        assert [fact.container for fact in scene.said(events.ContainerFinished)] == ["main", "side"]
        assert scene.said(events.ProbeFailed) == []

    play(tmp_path, scenario)


def test_the_hook_comes_before_the_signal(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        hook = {"preStop": {"exec": {"command": ["sh", "-c", "sleep 0.2; echo hook >> order"]}}}
        script = "trap 'echo term >> order; cat order; kill $!; exit 0' TERM; sleep 600 & wait"
        await started(scene, shell(script, lifecycle=hook))
        await scene.supervisor.evict(eviction(scene.status().pod, 5))
        assert scene.log().split() == ["hook", "term"]

    play(tmp_path, scenario)


def test_a_hook_that_hangs_has_the_grace_period_and_the_container_two_seconds_more(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        hook = {"preStop": {"exec": {"command": ["sleep", "60"]}}}
        await started(scene, container(STUBBORN, lifecycle=hook))
        began = time.monotonic()
        await scene.supervisor.evict(eviction(scene.status().pod, 1))
        assert 2.9 <= time.monotonic() - began < 55
        (failed,) = scene.said(events.HookFailed)
        assert (failed.hook, failed.why) == ("preStop", "it was still running when the grace period was over")

    play(tmp_path, scenario)


def test_a_hook_that_cannot_be_run_changes_nothing(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        hook = {"preStop": {"exec": {"command": ["no-such-program"]}}}
        await started(scene, shell(POLITE, lifecycle=hook))
        await scene.supervisor.evict(eviction(scene.status().pod, 5))
        assert scene.container().exit_code == 0
        assert "no such file" in scene.said(events.HookFailed)[0].why

    play(tmp_path, scenario)


def test_hooks_run_beside_the_container_and_by_http(tmp_path: Path) -> None:
    """postStart runs a command in the container's place; preStop asks a server, and any answer will do."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 500 no\r\n\r\n")
        await writer.drain()
        writer.close()

    async def scenario(scene: Scene) -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        hooks = {
            "postStart": {"exec": {"command": ["sh", "-c", "echo greeted >> order"]}},
            "preStop": {"httpGet": {"port": port, "path": "/bye"}},
        }
        script = "trap 'cat order; kill $!; exit 0' TERM; sleep 600 & wait"
        await started(scene, shell(script, lifecycle=hooks))
        await until(lambda: scene.container().is_ready)
        await scene.supervisor.evict(eviction(scene.status().pod, 5))
        assert scene.log().split() == ["greeted"]
        assert asked == [b"GET /bye HTTP/1.1\r\n"]
        assert scene.said(events.HookFailed) == []
        server.close()

    play(tmp_path, scenario)


def test_a_pod_can_be_ended_while_it_starts(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        for delay in (0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.04):
            starting = asyncio.create_task(scene.supervisor.start(manifest(container(SLEEPS), container(SLEEPS, "d"))))
            await asyncio.sleep(delay)
            if scene.supervisor.statuses():
                await scene.supervisor.evict(replace(eviction(scene.status().pod), is_at_once=True))
                assert (scene.status().phase, scene.status().reason) == ("Failed", "Evicted")
            await starting
            await scene.supervisor.stop("uid-a", 0)
            assert not scene.places.found()
            assert not list(scene.settings.pods_dir.glob("*"))

    play(tmp_path, scenario)


def test_a_pod_that_is_ended_while_its_volumes_are_made_leaves_no_mount(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        volumes = [{"name": f"v{number}", "emptyDir": {"medium": "Memory"}} for number in range(20)]
        for delay in (0, 0.0005, 0.001, 0.002, 0.004, 0.008):
            starting = asyncio.create_task(scene.supervisor.start(manifest(container(SLEEPS), volumes=volumes)))
            await asyncio.sleep(delay)
            await scene.supervisor.stop("uid-a", 0)
            await starting
            await scene.supervisor.stop("uid-a", 0)
            assert not scene.settings.pod_dir("uid-a").exists()
        assert not [mount for mount in read_mounts() if mount.mount_point.is_relative_to(tmp_path)]

    play(tmp_path, scenario)


def test_a_pod_in_back_off_can_be_ended(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("exit 1")))
        await until(lambda: scene.container().reason == "CrashLoopBackOff")
        async with asyncio.timeout(60):
            await scene.supervisor.evict(eviction(scene.status().pod))
        assert scene.status().reason == "Evicted"
        assert scene.container().state == "terminated"

    play(tmp_path, scenario)


def test_what_does_not_end_in_time_is_said_to_run_and_is_killed_all_the_same(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, container(STUBBORN))
        with pytest.raises(StillRunning, match=r"pod `default/a` has not stopped within 0\.3 s"):
            await scene.supervisor.evict(eviction(scene.status().pod), patience=0.3)
        assert scene.status().phase == "Running"
        await scene.phase("Failed")
        assert scene.status().reason == "Evicted"

    play(tmp_path, scenario)


def test_what_cannot_be_cleared_away_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(scene: Scene) -> None:
        attempts, remove = [], removal.remove_directory

        def fails_twice(base: Path, path: Path) -> None:
            attempts.append(path)
            if len(attempts) == 1:
                raise RemovalError(f"cannot remove `{path}`: operation not permitted")
            if len(attempts) == 2:
                raise ObservationError("cannot read `/proc/self/mountinfo`: too many open files")
            remove(base, path)

        await started(scene, container(SLEEPS))
        monkeypatch.setattr(removal, "remove_directory", fails_twice)
        await scene.supervisor.evict(eviction(scene.status().pod))
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        assert len(attempts) == 3
        assert len(scene.said(events.ActionFailed)) == 2
        assert not scene.settings.pod_dir("uid-a").exists()

    play(tmp_path, scenario)


def test_evicting_does_not_need_the_disk(tmp_path: Path) -> None:
    """Room comes from ending pods, so a record that cannot be written must not keep one alive."""

    async def scenario(scene: Scene) -> None:
        await started(scene, container(SLEEPS))
        records = scene.settings.records_dir
        moved = records.rename(records.with_name("moved"))
        records.write_text("")
        await scene.supervisor.evict(eviction(scene.status().pod))
        assert scene.status().reason == "Evicted"
        assert any("record" in fact.what for fact in scene.said(events.ActionFailed))
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        records.unlink()
        moved.rename(records)

    play(tmp_path, scenario)


def test_no_signal_is_sent_before_its_record_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a disk takes its time the loop goes on, and so do other pods."""

    async def scenario(scene: Scene) -> None:
        await started(scene, container(SLEEPS), container(SLEEPS, "d"))
        disk, pid = HangingDisk(monkeypatch), scene.pid()
        scene.supervisor.end(eviction(scene.status().pod, 20))
        await asyncio.to_thread(disk.begun.wait)
        for _ in range(100):
            await asyncio.sleep(0)
        assert scene.status().is_ending
        assert is_alive(pid)
        disk.may_write.set()
        await scene.phase("Failed")
        assert {each.exit_code for each in scene.status().containers} == {143}

    play(tmp_path, scenario, pace=HostPace(record=60))


@pytest.mark.parametrize("is_at_once", [False, True])
def test_a_disk_that_hangs_does_not_keep_a_pod_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_at_once: bool
) -> None:
    async def scenario(scene: Scene) -> None:
        await started(scene, container(SLEEPS))
        disk, order = HangingDisk(monkeypatch), eviction(scene.status().pod, 20)
        scene.supervisor.end(replace(order, is_at_once=is_at_once))
        await scene.phase("Failed")
        assert scene.container().exit_code == (137 if is_at_once else 143)
        assert "the disk has not taken it for 50 ms" in scene.said(events.ActionFailed)[0].why
        disk.may_write.set()
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        await scene.files.settle()
        saved = scene.files.load().records[0]
        assert saved.verdict is not None
        assert saved.verdict.reason == "Evicted"

    play(tmp_path, scenario)


def test_nothing_starts_before_its_record_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(scene: Scene) -> None:
        disk = HangingDisk(monkeypatch)
        starting = asyncio.create_task(scene.supervisor.start(manifest(container(SLEEPS))))
        await asyncio.to_thread(disk.begun.wait)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not scene.said(events.ContainerStarted)
        disk.may_write.set()
        await starting
        assert scene.said(events.ContainerStarted)

    play(tmp_path, scenario)


def test_a_container_that_is_killed_takes_its_children_with_it_and_not_its_next_run(tmp_path: Path) -> None:
    """What is left of a container is killed by a thread, which must be done before the container starts again."""
    sick = tmp_path / "sick"
    probe = {"exec": {"command": ["test", "!", "-e", str(sick)]}, "periodSeconds": 1, "failureThreshold": 1}
    script = "trap '' TERM; sleep 600 & sleep 600"

    async def scenario(scene: Scene) -> None:
        await started(scene, shell(script, livenessProbe=probe), terminationGracePeriodSeconds=1)
        place = scene.supervisor.active()[0].containers[0].place
        await until(lambda: len(place.processes()) == 3)
        first = place.processes()
        sick.touch()
        await until(lambda: bool(scene.said(events.ContainerFinished)), 40)
        sick.unlink()
        await until(lambda: not any(is_alive(pid) for pid in first))
        await until(lambda: scene.container().restarts > 0 and len(place.processes()) == 3, 40)
        restarts = scene.container().restarts
        await asyncio.sleep(2)
        assert (scene.container().restarts, scene.container().state) == (restarts, "running")

    play(tmp_path, scenario)


@needs_memory_events
def test_what_cannot_be_killed_is_said_and_killed_as_soon_as_it_can_be(tmp_path: Path) -> None:
    """The pods' parent is frozen, and what is frozen on version 1 does not die."""

    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS)))
        pod, pid = scene.status().pod, scene.pid()
        freezer = Path("/sys/fs/cgroup/freezer") / scene.settings.node_cgroup / "freezer.state"
        freezer.write_text("FROZEN")
        stopping = asyncio.create_task(scene.supervisor.stop(pod.uid, 0))
        try:
            await until(lambda: bool(scene.said(events.KillFailed)))
            said = events.KillFailed(pod, "c", f"these processes do not die: {pid}")
            assert scene.said(events.KillFailed)[0] == said
            assert is_alive(pid)
        finally:
            freezer.write_text("THAWED")
        await stopping
        assert not is_alive(pid)

    play(tmp_path, scenario, pace=HostPace(kill=0.2))
