"""The life of a pod, for real: init containers, sidecars, restart policies, statuses."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.engine.lifecycle import effects
from jettison.engine.lifecycle.events import Event
from jettison.engine.lifecycle.life import advance
from jettison.engine.lifecycle.rules import Pauses
from jettison.engine.lifecycle.state import PodLife
from jettison.runtimes.host.pods import pod_worker
from jettison.runtimes.host.settings import HostPace
from jettison.runtimes.host.volumes import volumes
from tests.runtimes.host.nodes import needs_root
from tests.runtimes.host.scenes import SLEEPS, STUBBORN, Scene, container, eviction, manifest, play, shell, until

pytestmark = needs_root


def test_a_pod_that_runs(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS)))
        status = scene.status()
        assert status.phase == "Running"
        assert status.started_ns is not None
        assert {each.type: each.status for each in status.conditions} == {
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
            "PodScheduled": "True",
        }
        one = scene.container()
        assert (one.state, one.restarts, one.is_ready, one.exit_code) == ("running", 0, True, None)
        assert scene.said(events.ContainerStarted) == [events.ContainerStarted(status.pod, "c", 0)]
        active = scene.supervisor.active()[0]
        assert active.manifest.pod.name == "a"
        assert active.pod_dir == str(scene.settings.pod_dir("uid-a"))
        assert [(each.name, each.is_running) for each in active.containers] == [("c", True)]
        assert active.containers[0].place.processes() == {active.containers[0].pid}

    play(tmp_path, scenario)


def test_init_containers_run_in_order_and_a_sidecar_is_up_before_the_next(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        probe = {"exec": {"command": ["test", "-e", "v/up"]}, "periodSeconds": 1, "failureThreshold": 30}
        inits = [
            shell("echo one >> v/order; sleep 0.1; echo one-done >> v/order", "one", **mounts),
            shell(
                "echo side >> v/order; sleep 0.2; echo up >> v/order; touch v/up; sleep 60",
                "side",
                restartPolicy="Always",
                startupProbe=probe,
                **mounts,
            ),
            shell("echo two >> v/order", "two", **mounts),
        ]
        main = shell("echo main >> v/order; cat v/order", "main", **mounts)
        wanted = manifest(main, initContainers=inits, volumes=[{"name": "v", "emptyDir": {}}], restartPolicy="Never")
        await scene.supervisor.start(wanted)
        status = scene.status()
        assert status.phase == "Pending"
        assert scene.condition("Initialized").message == "containers with incomplete status: [one side two]"
        assert scene.container("main").reason == "PodInitializing"
        await scene.phase("Succeeded")
        assert scene.log("main").split() == ["one", "one-done", "side", "up", "two", "main"]
        # The sidecar was told to end when the others had.
        ends = [(fact.container, fact.exit_code) for fact in scene.said(events.ContainerFinished)]
        assert ends == [("one", 0), ("two", 0), ("main", 0), ("side", 143)]
        assert [fact.container for fact in scene.said(events.ContainerStopping)] == ["side"]
        assert [each.name for each in scene.status().containers] == ["one", "side", "two", "main"]
        assert scene.condition("Initialized").status == "True"

    play(tmp_path, scenario)


def test_an_init_container_that_fails_is_tried_again_unless_never(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        failing = shell("exit 3", "i")
        await scene.supervisor.start(manifest(container(SLEEPS), initContainers=[failing], restartPolicy="Never"))
        status = await scene.phase("Failed")
        assert [(each.name, each.exit_code) for each in status.containers] == [("i", 3), ("c", None)]
        assert scene.condition("Initialized").status == "False"
        await scene.supervisor.start(manifest(container(SLEEPS), name="b", initContainers=[failing]))
        await until(lambda: scene.container("i", "b").reason == "CrashLoopBackOff")
        assert scene.status("b").phase == "Pending"
        assert scene.container("i", "b").restarts == 1
        assert scene.container("c", "b").reason == "PodInitializing"

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("policy", "code", "phase", "restarts"),
    [
        ("Never", 0, "Succeeded", 0),
        ("Never", 2, "Failed", 0),
        ("OnFailure", 0, "Succeeded", 0),
        ("OnFailure", 2, "Running", 1),
        ("Always", 0, "Running", 1),
    ],
)
def test_restart_policies(tmp_path: Path, policy: str, code: int, phase: str, restarts: int) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell(f"exit {code}"), restartPolicy=policy))
        if restarts:
            await until(lambda: bool(scene.said(events.ContainerBackOff)))
            assert scene.container().reason == "CrashLoopBackOff"
            backing_off = scene.said(events.ContainerBackOff)
            assert [(fact.container, fact.seconds) for fact in backing_off] == [("c", 10)]
            last = scene.container().last
            assert last is not None
            assert (last.exit_code, last.reason) == (code, "Error" if code else "Completed")
            assert last.container_id == scene.container().container_id == "jettison://uid-a/c/1"
        else:
            await scene.phase(phase)
            assert scene.container().reason == ("Error" if code else "Completed")
        assert scene.status().phase == phase
        assert scene.container().restarts == restarts

    play(tmp_path, scenario)


def test_a_container_comes_back_when_its_back_off_is_over(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("exit 1")))
        await until(lambda: len(scene.said(events.ContainerStarted)) == 4)
        assert [fact.restarts for fact in scene.said(events.ContainerStarted)] == [0, 1, 2, 3]
        assert [fact.seconds for fact in scene.said(events.ContainerBackOff)][:2] == [1, 2]

    play(tmp_path, scenario, pace=HostPace(pauses=Pauses(restart=(1, 300))))


def test_a_container_that_was_started_again_tells_how_it_ended_before(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("[ -e ../0/died ] && exec sleep 60; touch died; exit 9")))
        await until(lambda: scene.container().restarts == 1 and scene.container().state == "running")
        one = scene.container()
        assert (one.exit_code, one.is_ready, one.container_id) == (None, True, "jettison://uid-a/c/1")
        last = one.last
        assert last is not None
        assert (last.exit_code, last.reason, last.container_id) == (9, "Error", "jettison://uid-a/c/0")
        assert (last.started_ns or 0) <= (last.finished_ns or 0) <= (one.started_ns or 0)
        await scene.supervisor.evict(eviction(scene.status().pod))
        assert (scene.container().exit_code, scene.container().last) == (143, last)

    play(tmp_path, scenario)


def test_a_sidecar_that_dies_is_started_again_even_if_the_pod_never_restarts(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        side = shell(
            "[ -e $HOME/../0/died ] || { touch died; sleep 0.1; exit 0; }; sleep 60", "s", restartPolicy="Always"
        )
        await scene.supervisor.start(manifest(container(SLEEPS), initContainers=[side], restartPolicy="Never"))
        await until(lambda: scene.container("s").restarts == 1 and scene.container("s").state == "running")
        assert scene.container("c").restarts == 0

    play(tmp_path, scenario)


def test_one_container_that_ends_does_not_end_the_others(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(
            manifest(shell("exit 0", "short"), container(SLEEPS, "long"), restartPolicy="Never")
        )
        await until(lambda: scene.container("short").state == "terminated")
        assert scene.status().phase == "Running"
        assert scene.condition("Ready").message == "containers with unready status: [short]"
        assert scene.container("long").state == "running"

    play(tmp_path, scenario)


def test_a_host_path_that_hangs_costs_its_own_pods_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one on a network file system whose server is gone. The others start, and these can be ended."""
    answers = threading.Event()
    monkeypatch.setattr(volumes, "check_host_paths", lambda _: answers.wait())

    async def scenario(scene: Scene) -> None:
        volume = {"name": "h", "hostPath": {"path": str(tmp_path), "type": "Directory"}}
        for name in ("one", "two", "three"):
            await scene.supervisor.start(manifest(container(SLEEPS), name=name, volumes=[volume]))
        await scene.supervisor.start(manifest(container(SLEEPS)))
        await until(lambda: scene.container().state == "running")
        assert scene.status("one").phase == "Pending"
        for name in ("one", "two", "three", "a"):
            await scene.supervisor.stop(f"uid-{name}", 0)

    try:
        play(tmp_path, scenario, pace=HostPace(begin=0.1))
    finally:
        answers.set()


def test_a_pod_that_cannot_be_set_up_waits_and_says_why(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        missing = tmp_path / "later"
        volumes = [{"name": "h", "hostPath": {"path": str(missing), "type": "Directory"}}]
        mounts = [{"name": "h", "mountPath": "/h"}]
        await scene.supervisor.start(manifest(shell("cat h/file", volumeMounts=mounts), volumes=volumes))
        assert scene.status().phase == "Pending"
        why = f"hostPath type check failed: {missing} is not a directory"
        assert scene.container().message == f"cannot set up volume `h`: {why}"
        assert scene.said(events.PodWaiting)[0].event_reason == "FailedMount"
        missing.mkdir()
        (missing / "file").write_text("hello")
        await until(lambda: scene.container().restarts == 1)
        assert scene.log() == "hello"
        await scene.supervisor.stop("uid-a", 0)
        assert (missing / "file").read_text() == "hello"

    play(tmp_path, scenario, pace=HostPace(pauses=Pauses(set_up=(0.05, 0.05))))


def test_a_pod_that_ended_by_itself_leaves_its_files_and_nothing_else(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        one = shell("echo x > mine; echo y > v/file", volumeMounts=[{"name": "v", "mountPath": "/v"}])
        await scene.supervisor.start(manifest(one, volumes=[{"name": "v", "emptyDir": {}}], restartPolicy="Never"))
        status = await scene.phase("Succeeded")
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        assert not status.is_ending
        assert (scene.write_dir() / "mine").exists()
        assert not (scene.settings.pod_dir("uid-a") / "volumes").exists()
        assert not scene.places.of_pod(status.pod).exists
        assert scene.supervisor.active() == []
        assert scene.said(events.PodCleanedUp) == [events.PodCleanedUp(status.pod)]
        assert scene.condition("Ready").reason == "PodCompleted"

    play(tmp_path, scenario)


def test_a_pod_that_is_active_for_too_long_fails(tmp_path: Path) -> None:
    """It is told to end and given its grace period, however well it takes that; nothing is started again."""

    async def scenario(scene: Scene) -> None:
        script = "trap 'echo told; sleep 0.3; echo done; kill $!; exit 0' TERM; sleep 600 & wait"
        wanted = manifest(shell(script), activeDeadlineSeconds=1, restartPolicy="Always")
        began = asyncio.get_running_loop().time()
        await scene.supervisor.start(wanted)
        await until(lambda: scene.status().is_ending)
        assert asyncio.get_running_loop().time() - began > 0.9
        assert (scene.status().phase, scene.status().reason) == ("Running", "")
        status = await scene.phase("Failed")
        assert status.reason == "DeadlineExceeded"
        assert status.message == "Pod was active on the node longer than the specified deadline"
        assert scene.condition("Ready").reason == "PodFailed"
        assert scene.log() == "told\ndone\n"
        assert scene.container().exit_code == 0
        assert scene.said(events.DeadlineExceeded) == [events.DeadlineExceeded(wanted.pod, 1)]
        assert len(scene.said(events.ContainerStarted)) == 1
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        # It ended by itself as far as its files go.
        assert scene.write_dir().exists()

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    "unready",
    [
        {"containers": [container(["false"])], "restartPolicy": "Always"},
        {"containers": [container(SLEEPS)], "initContainers": [container(SLEEPS, "i")]},
        {"containers": [container(SLEEPS)], "volumes": [{"name": "v", "hostPath": {"path": "/no/such"}}]},
    ],
    ids=["in back-off", "initializing", "without its volumes"],
)
def test_the_deadline_counts_whatever_the_pod_waits_for(tmp_path: Path, unready: dict[str, Any]) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(*unready.pop("containers"), **unready, activeDeadlineSeconds=1))
        status = await scene.phase("Failed")
        assert status.reason == "DeadlineExceeded"
        await until(lambda: scene.supervisor.is_finished("uid-a"))

    play(tmp_path, scenario)


def test_a_pod_that_ends_before_its_deadline_keeps_its_phase(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        # Time enough to start on a busy machine.
        deadline = asyncio.get_running_loop().time() + 5
        await scene.supervisor.start(manifest(shell("exit 0"), activeDeadlineSeconds=5, restartPolicy="Never"))
        await scene.phase("Succeeded")
        await asyncio.sleep(deadline + 0.5 - asyncio.get_running_loop().time())
        assert (scene.status().phase, scene.status().reason) == ("Succeeded", "")
        assert not scene.said(events.DeadlineExceeded)

    play(tmp_path, scenario)


def test_a_pod_that_is_evicted_after_its_deadline_was_evicted(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(STUBBORN), activeDeadlineSeconds=1))
        await until(lambda: bool(scene.said(events.DeadlineExceeded)))
        await scene.supervisor.evict(eviction(scene.status().pod, 1))
        assert scene.status().reason == "Evicted"

    play(tmp_path, scenario)


class Rounds:
    """What the driver is made to do between two turns of the loop: events, and effects that touch a container."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events = self.acts = self.most_events = self.most_acts = 0
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select = selector.select

        def counted(timeout: float | None) -> object:
            self.most_events = max(self.most_events, self.events)
            self.most_acts = max(self.most_acts, self.acts)
            self.events = self.acts = 0
            return select(timeout)

        def advanced(life: PodLife, event: Event) -> tuple[PodLife, list[effects.Effect]]:
            found = advance(life, event)
            self.events += 1
            self.acts += sum(not isinstance(each, effects.Save | effects.Say | effects.WakeAt) for each in found[1])
            return found

        monkeypatch.setattr(selector, "select", counted)
        monkeypatch.setattr(pod_worker, "advance", advanced)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_at_once", [False, True])
def test_however_many_containers_a_pod_has_the_loop_gets_its_turn_after_each_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_at_once: bool
) -> None:
    """They start, are asked, crash together and are told to end together; beside them another pod does the same."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 100, "timeoutSeconds": 60}
    hooks = {each: {"exec": {"command": ["true"]}} for each in ("postStart", "preStop")}
    more = {"livenessProbe": probe, "readinessProbe": probe, "lifecycle": hooks}
    count = 12

    async def scenario(scene: Scene) -> None:
        rounds = Rounds(monkeypatch)
        pods = [manifest(*(container(SLEEPS, f"c{each}", **more) for each in range(count)), name=name) for name in "ab"]
        for each in pods:
            await scene.supervisor.start(each)
        await until(lambda: len(scene.said(events.ContainerStarted)) == 2 * count, 60)
        for pid in [scene.pid(f"c{each}", pod) for each in range(count) for pod in "ab"]:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: len(scene.said(events.ContainerStarted)) == 4 * count, 60)
        workers = [scene.supervisor.end(replace(eviction(each.pod, 60), is_at_once=is_at_once)) for each in pods]
        await asyncio.wait([each.cleaned for each in workers])
        # Both orders were given in one round, and come beside the event whose turn it is.
        assert rounds.most_events <= 3
        assert rounds.most_acts <= 3 * (effects.MOST_AT_ONCE + 4)

    play(tmp_path, scenario)


def test_idle_pods_cost_next_to_nothing(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        for number in range(20):
            await scene.supervisor.start(manifest(container(SLEEPS), name=f"p{number}"))
        await asyncio.sleep(0.2)
        loop = asyncio.get_running_loop()
        scheduled = sum(not each.cancelled() for each in loop._scheduled)  # type: ignore[attr-defined]
        # The rotation of logs, the alarm that this test runs under, the sleep that has just ended, the end of the
        # process that starts containers, records on their way to the disk: some for the node, and none for each pod.
        assert scheduled < 10

    play(tmp_path, scenario)
