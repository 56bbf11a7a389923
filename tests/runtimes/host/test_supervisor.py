"""All pods of a node: known, remembered, forgotten, and found again after the agent was killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.engine.lifecycle.rules import Pauses
from jettison.errors import ManifestError, PodGone, StartError, StillRunning
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.settings import HostPace
from jettison.runtimes.host.specs import spec
from jettison.runtimes.host.specs.spec import PodSpec
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from tests.runtimes.host.nodes import Node, is_alive, needs_root, node, settings
from tests.runtimes.host.scenes import (
    SLEEPS,
    STUBBORN,
    Scene,
    container,
    document,
    ending_all,
    eviction,
    handles_term,
    manifest,
    opened,
    play,
    shell,
    twice,
    until,
)

pytestmark = needs_root


def test_stopping_forgets_everything_but_the_logs(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("echo hello; sleep 60")))
        await until(lambda: scene.log() == "hello\n")
        pid = scene.pid()
        await scene.supervisor.stop("uid-a", 1)
        assert not is_alive(pid)
        assert scene.supervisor.statuses() == []
        assert scene.supervisor.is_finished("uid-a")
        assert not scene.settings.pod_dir("uid-a").exists()
        assert scene.files.load().records == ()
        assert scene.log() == "hello\n"
        await scene.supervisor.stop("uid-a")
        with pytest.raises(PodGone):
            await scene.supervisor.evict(eviction(manifest(container(SLEEPS)).pod))

    play(tmp_path, scenario)


def test_a_pod_has_its_own_grace_period_unless_told_otherwise(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        loop = asyncio.get_running_loop()
        await scene.supervisor.start(manifest(container(STUBBORN), terminationGracePeriodSeconds=3))
        await until(lambda: handles_term(scene.pid()))
        before = loop.time()
        await scene.supervisor.stop("uid-a")
        assert loop.time() - before >= 2.9

    play(tmp_path, scenario)


def test_a_pod_that_is_there_is_left_alone_and_one_that_ended_begins_anew(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        wanted = manifest(container(SLEEPS))
        await scene.supervisor.start(wanted)
        pid = scene.pid()
        await scene.supervisor.start(wanted)
        assert scene.pid() == pid
        await scene.supervisor.evict(eviction(wanted.pod))
        await scene.supervisor.start(wanted)
        assert scene.status().phase == "Running"
        assert scene.status().reason == ""
        assert scene.pid() not in (0, pid)

    play(tmp_path, scenario)


def test_pods_are_told_oldest_first(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        for name in ("z", "m", "a"):
            await scene.supervisor.start(manifest(container(SLEEPS), name=name))
        assert [status.pod.name for status in scene.supervisor.statuses()] == ["z", "m", "a"]

    play(tmp_path, scenario)


def test_a_rejected_pod_is_remembered_until_it_is_stopped(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        wanted = manifest(container(SLEEPS))
        await scene.supervisor.reject(wanted, "Evicted", "The node had condition: [MemoryPressure]. ")
        status = scene.status()
        assert (status.phase, status.reason) == ("Failed", "Evicted")
        assert status.message == "The node had condition: [MemoryPressure]. "
        assert scene.supervisor.active() == []
        assert scene.supervisor.is_finished("uid-a")
        with pytest.raises(PodGone):
            await scene.supervisor.evict(eviction(wanted.pod))
        assert len(scene.files.load().records) == 1
        await scene.supervisor.start(wanted)
        assert scene.status().phase == "Running"
        with pytest.raises(StillRunning, match="it runs"):
            await scene.supervisor.reject(wanted, "x", "y")
        await scene.supervisor.stop("uid-a", 0)
        await scene.supervisor.reject(wanted, "x", "y")
        await scene.supervisor.stop("uid-a")
        assert scene.files.load().records == ()

    play(tmp_path, scenario)


PULLING, MISCONFIGURED = "ImagePullBackOff", "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("spec", "reason", "event", "told"),
    [
        (document(), MISCONFIGURED, "Failed", "Error: spec.containers: required value"),
        (document(container([], image="nginx")), PULLING, "Failed", 'Failed to pull image "nginx": container `c`: no '),
        (document(container([], image=5)), PULLING, "Failed", 'Failed to pull image "5": '),
        (document(container([], image="a\n\x1b[31m")), PULLING, "Failed", r'Failed to pull image "a\n\x1b[31m": '),
        (document(container(SLEEPS, "../../x")), MISCONFIGURED, "Failed", "Error: container name `../../x` is not a "),
        (
            document(container(SLEEPS), volumes=[{"name": "s", "nfs": {"server": "s", "path": "/"}}]),
            MISCONFIGURED,
            "FailedMount",
            "MountVolume.SetUp failed: volume `s`: a node has configMap, downwardAPI, emptyDir, hostPath",
        ),
        (
            document(container(SLEEPS, lifecycle={"postStart": {"tcpSocket": {"port": 1}}})),
            MISCONFIGURED,
            "Failed",
            "Error: container `c`: lifecycle.postStart: ",
        ),
    ],
)
def test_what_a_bare_host_does_not_have_is_waited_for(
    tmp_path: Path, spec: dict[str, object], reason: str, event: str, told: str
) -> None:
    """Never Failed: whatever owns the pod would replace it at once, again and again."""

    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(replace(manifest(container(SLEEPS)), document=spec))
        status = scene.status()
        assert (status.phase, status.reason) == ("Pending", "")
        assert [(each.state, each.reason) for each in status.containers] == [("waiting", reason)]
        assert scene.condition("Ready").status == "False"
        (fact,) = scene.said(events.PodWaiting)
        assert (fact.event_reason, fact.seconds) == (event, 10)
        assert fact.message.startswith(told)
        assert not scene.places.found()
        assert scene.supervisor.active() == []
        await scene.supervisor.stop("uid-a")
        assert scene.supervisor.statuses() == []
        assert scene.files.load().records == ()

    play(tmp_path, scenario)


def test_waiting_is_tried_again_with_back_off_and_starts_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 s doubling to 5 min, as a kubelet pulls an image; whatever changes on the host is found out that way."""

    async def scenario(scene: Scene) -> None:
        wanted = manifest(container(SLEEPS))
        monkeypatch.setattr(spec, "pod_spec", refuse)
        await scene.supervisor.start(wanted)
        await until(lambda: len(scene.said(events.PodWaiting)) >= 5)
        monkeypatch.undo()
        assert [64 * fact.seconds for fact in scene.said(events.PodWaiting)][:5] == [1, 2, 4, 4, 4]
        assert (await scene.phase("Running")).containers[0].state == "running"

    def refuse(document: object, source: str, offer: object) -> PodSpec:
        raise ManifestError(f"{source}: not today")

    play(tmp_path, scenario, pace=HostPace(pauses=Pauses(refusal=(1 / 64, 4 / 64))))


def test_a_pod_that_waits_can_be_evicted_found_again_and_run_out_of_time(tmp_path: Path) -> None:
    async def begin(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container([]), name="preempted"))
        await scene.supervisor.evict(eviction(scene.status("preempted").pod))
        assert (scene.status("preempted").phase, scene.status("preempted").reason) == ("Failed", "Evicted")
        await scene.supervisor.start(manifest(container([]), name="late", activeDeadlineSeconds=1))
        assert (await scene.phase("Failed", "late")).reason == "DeadlineExceeded"
        await scene.supervisor.start(manifest(container([]), name="waits"))

    async def go_on(scene: Scene) -> None:
        assert scene.status("preempted").reason == "Evicted"
        assert scene.status("late").reason == "DeadlineExceeded"
        status = scene.status("waits")
        assert (status.phase, status.containers[0].reason) == ("Pending", "ImagePullBackOff")

    twice(tmp_path, begin, go_on)


def test_a_document_that_cannot_be_written_is_waited_for(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        spec = document(container(SLEEPS))
        spec["metadata"]["annotations"] = {"x": "\ud800"}
        await scene.supervisor.start(replace(manifest(container(SLEEPS)), document=spec))
        assert scene.status().phase == "Pending"
        assert "cannot be written as JSON" in scene.container().message
        await scene.supervisor.stop("uid-a")
        assert scene.files.load().records == ()

    play(tmp_path, scenario)


@pytest.mark.parametrize("uid", ["", "..", "a/b", "a\nb", "x" * 300])
def test_a_hostile_uid_touches_nothing(tmp_path: Path, uid: str) -> None:
    async def scenario(scene: Scene) -> None:
        wanted = manifest(container(SLEEPS))
        hostile = replace(wanted, pod=replace(wanted.pod, uid=uid))
        with pytest.raises(StartError, match="invalid pod uid"):
            await scene.supervisor.start(hostile)
        with pytest.raises(StartError, match="invalid pod uid"):
            await scene.supervisor.reject(hostile, "x", "y")
        assert scene.supervisor.statuses() == []

    play(tmp_path, scenario)


def test_logs_are_rotated_while_they_are_written(tmp_path: Path) -> None:
    """Also where another container has made a loop of links of its own."""

    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS), name="b"))
        loop = scene.settings.logs_dir / "default_b_uid-b" / "c" / "0.log"
        await until(loop.exists)
        loop.unlink()
        loop.symlink_to("0.log")
        script = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"
        await scene.supervisor.start(manifest(shell(script)))
        rotated = scene.settings.logs_dir / "default_a_uid-a" / "c" / "0.log.2"
        await until(rotated.exists)
        assert rotated.read_text().startswith("line 1\n")

    play(tmp_path, scenario, pace=HostPace(rotation=1, largest_log=100))


# After the agent's own death. Letting go of a supervisor without ending its pods is what SIGKILL would leave, as far as
# pods go; the last test does it with SIGKILL.


def rewritten(made: Node, change: Callable[[dict[str, Any]], None], name: str = "a") -> None:
    """Change the record on the disk, as if the agent had died a little earlier."""
    path = made.settings.records_dir / f"uid-{name}.json"
    record = json.loads(path.read_text().splitlines()[-1])
    change(record)
    path.write_text(json.dumps(record))


def test_running_pods_go_on_and_their_end_is_seen(tmp_path: Path) -> None:
    pids: list[int] = []

    async def before(scene: Scene) -> None:
        waits = "until [ -e go ]; do sleep 0.02; done; exit 7"
        await scene.supervisor.start(manifest(shell(waits), container(SLEEPS, "d"), restartPolicy="Never"))
        pids.extend((scene.pid(), scene.pid("d")))

    async def after(scene: Scene) -> None:
        assert [scene.pid(), scene.pid("d")] == pids
        assert all(is_alive(pid) for pid in pids)
        assert scene.status().phase == "Running"
        assert scene.condition("Ready").status == "True"
        assert not scene.said(events.ContainerStarted)
        (scene.write_dir() / "go").touch()
        await until(lambda: scene.container().state == "terminated")
        # The kernel still knew how it ended, though its parent has gone.
        assert scene.container().exit_code == 7
        await scene.supervisor.evict(eviction(scene.status().pod))
        assert scene.status().reason == "Evicted"

    twice(tmp_path, before, after)


def test_a_deadline_counts_while_there_is_no_agent(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS), activeDeadlineSeconds=1))

    async def after(scene: Scene) -> None:
        status = await scene.phase("Failed")
        assert status.reason == "DeadlineExceeded"
        await until(lambda: scene.supervisor.is_finished("uid-a"))

    twice(tmp_path, before, after, lambda _: time.sleep(1))


def test_a_pod_that_was_out_of_time_when_the_agent_died_still_is(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        stubborn = manifest(container(STUBBORN), activeDeadlineSeconds=1, terminationGracePeriodSeconds=2)
        await scene.supervisor.start(stubborn)
        await until(lambda: scene.status().is_ending)

    async def after(scene: Scene) -> None:
        assert scene.status().is_ending
        status = await scene.phase("Failed")
        assert status.reason == "DeadlineExceeded"
        assert not scene.said(events.DeadlineExceeded)

    twice(tmp_path, before, after)


@pytest.mark.parametrize(("is_reaped", "phase", "code"), [(True, "Failed", 137), (False, "Succeeded", 0)])
def test_of_a_pod_that_ended_unseen_only_the_undead_can_tell(
    tmp_path: Path, is_reaped: bool, phase: str, code: int
) -> None:
    pids: list[int] = []

    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("sleep 0.2; exit 0"), restartPolicy="Never"))
        pids.append(scene.pid())

    def between(_: Node) -> None:
        os.waitid(os.P_PID, pids[0], os.WEXITED | (0 if is_reaped else os.WNOWAIT))

    async def after(scene: Scene) -> None:
        await scene.phase(phase)
        reason = "ContainerStatusUnknown" if is_reaped else "Completed"
        assert (scene.container().exit_code, scene.container().reason) == (code, reason)
        await until(lambda: scene.supervisor.is_finished("uid-a"))

    twice(tmp_path, before, after, between)


def test_a_container_that_died_is_started_again_as_its_policy_wants(tmp_path: Path) -> None:
    killed: list[int] = []

    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS)))
        killed.append(scene.pid())

    def between(_: Node) -> None:
        os.kill(killed[0], signal.SIGKILL)
        os.waitpid(killed[0], 0)

    async def after(scene: Scene) -> None:
        await until(lambda: scene.container().state == "running")
        assert scene.container().restarts == 1
        assert scene.pid() != killed[0]

    twice(tmp_path, before, after, between)


def test_a_number_that_another_process_has_now_is_not_taken_for_ours(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"])

    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS), restartPolicy="Never"))

    def between(made: Node) -> None:
        def change(record: dict[str, object]) -> None:
            one = record["containers"][0]  # type: ignore[index]
            one["pid"] = stranger.pid

        rewritten(made, change)

    async def after(scene: Scene) -> None:
        await scene.phase("Failed")
        assert scene.container().reason == "ContainerStatusUnknown"
        assert stranger.poll() is None
        # What really ran there was ours and is gone.
        await until(lambda: not scene.places.found())

    try:
        twice(tmp_path, before, after, between)
    finally:
        stranger.kill()
        stranger.wait()


def test_after_another_boot_no_number_is_trusted(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS), restartPolicy="Never"))

    def between(made: Node) -> None:
        rewritten(made, lambda record: record.update(boot_id="another"))

    async def after(scene: Scene) -> None:
        await scene.phase("Failed")
        await until(lambda: not scene.places.found())

    twice(tmp_path, before, after, between)


def test_a_start_that_was_interrupted_is_begun_again_under_the_same_number(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS), restartPolicy="Never"))

    def between(made: Node) -> None:
        def change(record: dict[str, object]) -> None:
            record["containers"] = [{"name": "c", "state": "starting", "run": 0}]

        rewritten(made, change)

    async def after(scene: Scene) -> None:
        await scene.phase("Running")
        assert scene.container().restarts == 0
        place = scene.places.of_container(scene.status().pod, "c")
        # The half-started one was found by its place and is gone.
        assert place.processes() == {scene.pid()}

    twice(tmp_path, before, after, between)


def test_an_eviction_that_had_begun_is_finished_and_handed_over(tmp_path: Path) -> None:
    order = eviction(manifest(container(SLEEPS)).pod)

    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(STUBBORN)))
        await until(lambda: handles_term(scene.pid()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await scene.supervisor.evict(order)

    async def after(scene: Scene) -> None:
        assert scene.status().is_ending
        await scene.phase("Failed")
        assert (scene.status().reason, scene.status().message) == ("Evicted", order.message)
        assert scene.status().conditions[-1] == order.condition
        assert scene.container().exit_code == 137
        (left,) = scene.supervisor.endings()
        assert (left.eviction, left.stopped_ns is not None) == (order, True)
        assert time.monotonic_ns() - left.began_ns > 10**8
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        # The agent that takes an eviction over says so, not the runtime.
        assert not scene.said(events.PodEvicted)
        assert not scene.said(events.PodCleanedUp)
        scene.supervisor.told("uid-a")
        assert scene.supervisor.endings() == []
        await scene.files.settle()
        assert not scene.files.load().records[0].ending.is_untold  # type: ignore[union-attr]

    twice(tmp_path, before, after)


# Writes down that it was told, and stays.
HEARS = "trap 'echo heard' TERM; echo up; while :; do sleep 600 & wait; done"


def test_a_grace_period_goes_on_over_any_number_of_agents(tmp_path: Path) -> None:
    """Five agents later each pod has been told once and has had its time, and no more.

    The two seconds after a signal are not given again either, also when it is not known whether it was sent; and a hook
    that hangs has its time once.
    """
    pods = {
        "evicted": manifest(shell(HEARS), name="evicted"),
        "stopped": manifest(shell(HEARS), name="stopped"),
        "late": manifest(shell(HEARS), name="late", terminationGracePeriodSeconds=2, activeDeadlineSeconds=1),
        "hard": manifest(shell(HEARS), name="hard"),
        "hooked": manifest(shell(HEARS, lifecycle={"preStop": {"exec": {"command": ["sleep", "30"]}}}), name="hooked"),
    }

    async def run() -> None:
        with node(settings(tmp_path)) as made:
            async with opened(made.settings, made.kubepods) as scene:
                for each in pods.values():
                    await scene.supervisor.start(each)
                pids = {name: scene.pid(pod=name) for name in pods}
                await until(lambda: all("up" in scene.log(pod=name) for name in pods))
                await until(lambda: scene.status("late").is_ending)
                began = time.monotonic()
                grace = {"evicted": 2, "hard": 1, "hooked": 1}
                telling = [scene.supervisor.evict(eviction(pods[name].pod, grace[name])) for name in grace]
                tasks = [asyncio.ensure_future(each) for each in (*telling, scene.supervisor.stop("uid-stopped", 2))]
                await until(lambda: all(scene.status(name).is_ending for name in pods))
                for task in tasks:
                    task.cancel()
            for _ in range(4):
                rewritten(made, _untold, name="hard")
                async with opened(made.settings, made.kubepods) as scene:
                    await asyncio.sleep(0.25)
                    assert time.monotonic() - began > 1.9 or all(is_alive(pid) for pid in pids.values())
            reopened = time.monotonic()
            async with opened(made.settings, made.kubepods) as scene, ending_all(scene):
                await until(lambda: not any(is_alive(pids[name]) for name in pods if name != "hooked"))
                # A grace period that began anew would have ended later: two seconds after this agent has begun.
                assert began + 1.9 < time.monotonic() < reopened + 2
                await until(lambda: not is_alive(pids["hooked"]))
                assert time.monotonic() - began < 25
                assert [scene.log(pod=name).count("heard") for name in ("evicted", "stopped", "late")] == [1, 1, 1]

    asyncio.run(run())


def _untold(record: dict[str, Any]) -> None:
    """As if the agent had died between the record and the signal, or right after that."""
    record["containers"][0].update(told_monotonic_ns=None)


def test_what_was_evicted_is_not_evicted_again(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS)))
        await scene.supervisor.evict(eviction(scene.status().pod))
        await until(lambda: scene.supervisor.is_finished("uid-a"))

    async def after(scene: Scene) -> None:
        assert (scene.status().phase, scene.status().reason) == ("Failed", "Evicted")
        assert scene.condition("DisruptionTarget").status == "True"
        assert scene.container().exit_code == 143
        assert scene.supervisor.is_finished("uid-a")
        with pytest.raises(PodGone):
            await scene.supervisor.evict(eviction(scene.status().pod))
        assert not scene.facts
        assert [left.stopped_ns is not None for left in scene.supervisor.endings()] == [True], "it is not told yet"

    twice(tmp_path, before, after)


def test_a_clean_up_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS)))
        await scene.supervisor.evict(eviction(scene.status().pod))
        await until(lambda: scene.supervisor.is_finished("uid-a"))

    def between(made: Node) -> None:
        rewritten(made, lambda record: record.update(is_cleaned=False))
        volume = made.settings.pod_dir("uid-a") / "volumes" / "v"
        volume.mkdir(parents=True)
        system_calls.mount_tmpfs(volume, None)

    async def after(scene: Scene) -> None:
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        assert not scene.settings.pod_dir("uid-a").exists()
        assert not scene.said(events.PodEvicted)

    twice(tmp_path, before, after, between)


def test_a_pod_that_is_wanted_no_more_is_forgotten(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(STUBBORN), terminationGracePeriodSeconds=30))
        await until(lambda: handles_term(scene.pid()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await scene.supervisor.stop("uid-a", 1)

    async def after(scene: Scene) -> None:
        await until(lambda: scene.supervisor.statuses() == [])
        assert scene.files.load().records == ()
        assert not scene.places.found()

    twice(tmp_path, before, after)


def test_what_has_no_owner_is_removed(tmp_path: Path) -> None:
    """Also without a record a pod may go on; but one that is not asked for goes in the end."""
    pids: list[int] = []

    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(STUBBORN)))
        await scene.supervisor.start(manifest(container(SLEEPS), name="b"))
        pids.extend((scene.pid(), scene.pid(pod="b")))

    def between(made: Node) -> None:
        (made.settings.records_dir / "uid-a.json").unlink()
        (made.settings.records_dir / "uid-b.json").write_text("torn")

    async def after(scene: Scene) -> None:
        assert scene.supervisor.statuses() == []
        await until(lambda: not any(is_alive(pid) for pid in pids))
        await until(lambda: not scene.places.found())
        await until(lambda: not list(scene.settings.pods_dir.iterdir()))
        assert [fact.what for fact in scene.said(events.ActionFailed)] == ["read a pod's record", "recognise pods"]

    twice(tmp_path, before, after, between, pace=HostPace(lost=0.3))


GARBAGE: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "every process": lambda path: _changed(path, pid=-1),
    "a long number": lambda path: _changed(path, pid=10**1000),
    "long times": lambda path: _changed(path, begun_monotonic_ns=10**1000),
    "no pod": lambda path: path.write_text(json.dumps({"uid": path.stem, "document": {"spec": 5}})),
    "a directory": lambda path: _instead(path, path.mkdir),
    "a pipe": lambda path: _instead(path, lambda: os.mkfifo(path)),
}


def _instead(path: Path, make: Callable[[], None]) -> None:
    path.unlink()
    make()


def _changed(path: Path, **values: int) -> None:
    record = json.loads(path.read_text().splitlines()[-1])
    record["containers"][0].update(values)
    path.write_text(json.dumps(record))


def test_a_damaged_record_costs_no_pod_its_life(tmp_path: Path) -> None:
    """The pod is recognised by its cgroup, and goes on when its manifest asks for it: same process, same run."""
    wanted = {
        f"p{number}": manifest(
            shell("(setsid sleep 60 &) ; sleep 60"), name=f"p{number}", terminationGracePeriodSeconds=1
        )
        for number in range(len(GARBAGE))
    }
    pids: dict[str, int] = {}

    async def before(scene: Scene) -> None:
        for each in wanted.values():
            await scene.supervisor.start(each)
        pids.update({name: scene.pid(pod=name) for name in wanted})

    def between(made: Node) -> None:
        (made.settings.records_dir / "uid-x.json.tmp").mkdir()
        for damage, name in zip(GARBAGE.values(), wanted, strict=True):
            damage(made.settings.records_dir / f"uid-{name}.json")

    async def after(scene: Scene) -> None:
        assert scene.supervisor.statuses() == []
        assert all(map(is_alive, pids.values()))
        for name, each in wanted.items():
            assert scene.supervisor.is_found(each.pod.uid), name
            await scene.supervisor.start(each)
            assert (scene.pid(pod=name), scene.status(name).phase) == (pids[name], "Running")
            assert not scene.supervisor.is_found(each.pod.uid)
        assert not scene.said(events.ContainerStarted)
        kept = [path.name for path in scene.settings.records_dir.iterdir() if ".broken" in path.name]
        assert len(kept) == len(GARBAGE)
        said = [fact.why for fact in scene.said(events.ActionFailed) if fact.what == "read a pod's record"]
        assert len(said) == len(GARBAGE) - 1
        assert all(str(scene.settings.records_dir) in why for why in said)
        await scene.supervisor.evict(eviction(wanted["p0"].pod))
        assert scene.status("p0").reason == "Evicted"

    twice(tmp_path, before, after, between)


def test_init_containers_of_a_pod_that_is_found_again_have_succeeded(tmp_path: Path) -> None:
    """An API that knows how they ended refuses every status in which they wait again."""
    inits = [shell("true", "first"), container(SLEEPS, "side", restartPolicy="Always")]
    wanted = manifest(shell("sleep 2"), initContainers=inits, restartPolicy="Never", terminationGracePeriodSeconds=1)

    async def before(scene: Scene) -> None:
        await scene.supervisor.start(wanted)
        await until(lambda: scene.container().state == "running")

    def between(made: Node) -> None:
        (made.settings.records_dir / f"{wanted.pod.uid}.json").unlink()

    async def after(scene: Scene) -> None:
        await scene.supervisor.start(wanted)
        first = scene.container("first")
        assert (first.state, first.exit_code, first.reason, first.is_ready) == ("terminated", 0, "Completed", True)
        assert scene.container("side").state == "running"
        await until(lambda: scene.status().phase == "Succeeded")
        assert not scene.said(events.ContainerStarted)

    twice(tmp_path, before, after, between)


def test_an_order_that_meets_a_pod_which_is_being_found_again_is_carried_out(tmp_path: Path) -> None:
    """Its containers are looked for a few at a time, and until all are found nothing is known of them."""
    wanted = manifest(*(container(SLEEPS, f"c{number}") for number in range(9)), terminationGracePeriodSeconds=1)
    pids = list[int]()

    async def before(scene: Scene) -> None:
        await scene.supervisor.start(wanted)
        await until(lambda: len(scene.said(events.ContainerStarted)) == 9)
        pids.extend(scene.pid(f"c{number}") for number in range(9))

    def between(made: Node) -> None:
        (made.settings.records_dir / f"{wanted.pod.uid}.json").unlink()

    async def after(scene: Scene) -> None:
        starting = asyncio.ensure_future(scene.supervisor.start(wanted))
        while not scene.supervisor.statuses():
            await asyncio.sleep(0)
        worker = scene.supervisor.end(eviction(wanted.pod, 1))
        assert worker.life.ending is None
        await starting
        await worker.cleaned
        assert scene.status().reason == "Evicted"
        assert not any(map(is_alive, pids))
        assert not scene.said(events.ContainerStarted)

    twice(tmp_path, before, after, between)


def test_back_off_and_readiness_survive(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("exit 1")))
        probe = {"exec": {"command": ["true"]}}
        await scene.supervisor.start(manifest(container(SLEEPS, startupProbe=probe), name="b"))
        await until(lambda: scene.container().reason == "CrashLoopBackOff" and scene.container("c", "b").is_ready)

    async def after(scene: Scene) -> None:
        await asyncio.sleep(0.1)
        assert scene.container().reason == "CrashLoopBackOff"
        assert scene.container().restarts == 1
        last = scene.container().last
        assert last is not None
        assert (last.exit_code, last.reason) == (1, "Error")
        assert scene.container("c", "b").is_ready

    twice(tmp_path, before, after)


def test_rejected_pods_are_remembered(tmp_path: Path) -> None:
    async def before(scene: Scene) -> None:
        await scene.supervisor.reject(manifest(container(SLEEPS)), "OutOfcpu", "no room")

    async def after(scene: Scene) -> None:
        assert (scene.status().phase, scene.status().reason, scene.status().message) == (
            "Failed",
            "OutOfcpu",
            "no room",
        )

    twice(tmp_path, before, after)


AGENT = """
import asyncio, sys
from pathlib import Path
from tests.runtimes.host.nodes import PLAIN, Node
from tests.runtimes.host.scenes import SLEEPS, container, eviction, manifest, opened, shell
from jettison.runtimes.host.settings import HostSettings

def say(*words):
    print(*words, flush=True)

async def run():
    name, state, directory = sys.argv[1:]
    made = Node(HostSettings(name, Path(state), Path(directory), f"jettison-{name}"), PLAIN)
    async with opened(made.settings, made.kubepods) as scene:
        say("started", "nothing")
        side = shell("sleep 60", "side", restartPolicy="Always")
        volumes = [{"name": "v", "emptyDir": {"medium": "Memory"}}]
        mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        forks = shell("(setsid sleep 60 &) ; sleep 60", **mounts)
        for number in range(100):
            for wanted in (
                manifest(container(SLEEPS), name=f"plain{number}"),
                manifest(shell("exit 1"), name=f"crash{number}"),
                manifest(forks, name=f"full{number}", initContainers=[side], volumes=volumes),
            ):
                await scene.supervisor.start(wanted)
                say("started", wanted.pod.name)
            evicting = scene.supervisor.evict(eviction(scene.status(f"full{number}").pod))
            evicting = asyncio.ensure_future(evicting)
            await asyncio.sleep(0)
            say("evicting", f"full{number}")
            if number % 2:
                await evicting
            say("stopping", f"crash{number}")
            await scene.supervisor.stop(f"uid-crash{number}", 0)
            say("stopped", f"crash{number}")

asyncio.run(run())
"""


@pytest.mark.parametrize("seed", range(10))
def test_killing_the_agent_at_any_moment_loses_no_pod_and_leaves_no_orphan(tmp_path: Path, seed: int) -> None:
    async def run() -> None:
        with node(settings(tmp_path, node_memory=None)) as made:
            told = kill_after(made, random.Random(seed).uniform(0, 0.8))
            async with opened(made.settings, made.kubepods) as scene, ending_all(scene):
                await verify(scene, made, told)

    asyncio.run(run())


def kill_after(made: Node, seconds: float) -> dict[str, set[str]]:
    """What the agent said before it was killed: what it has started, was evicting, was stopping, has stopped."""
    values = made.settings
    arguments = [values.node_name, str(values.state_dir), str(values.node_dir)]
    agent = subprocess.Popen([sys.executable, "-c", AGENT, *arguments], stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    agent.stdout.readline()
    time.sleep(seconds)
    agent.kill()
    output, _ = agent.communicate()
    told: dict[str, set[str]] = {"started": set(), "evicting": set(), "stopping": set(), "stopped": set()}
    for line in output.splitlines():
        what, name = line.split()
        told[what].add(name)
    return told


async def verify(scene: Scene, made: Node, told: dict[str, set[str]]) -> None:
    names = {status.pod.name for status in scene.supervisor.statuses()}
    assert told["started"] - told["stopping"] <= names
    assert not told["stopped"] & names
    for name in told["evicting"]:
        await scene.phase("Failed", name)
        assert scene.status(name).reason == "Evicted"
    for name in told["started"] - told["stopping"] - told["evicting"]:
        if name.startswith("plain"):
            await scene.phase("Running", name)
            assert scene.container("c", name).restarts == 0
    all_pods = Cgroup(made.cgroup_parent.mounts, made.kubepods.name)

    def ours() -> frozenset[int]:
        places = [each.place for pod in scene.supervisor.active() for each in pod.containers if each.is_running]
        return frozenset().union(*(place.processes() for place in places))

    await until(lambda: all_pods.processes() == ours())
    known = {status.pod.uid for status in scene.supervisor.statuses()}
    await until(lambda: {path.name for path in scene.settings.pods_dir.glob("*")} <= known)
    finished = [name for name in told["evicting"] if scene.supervisor.is_finished(f"uid-{name}")]
    assert not [name for name in finished if scene.settings.pod_dir(f"uid-{name}").exists()]
    assert len(scene.said(events.PodEvicted)) == len({fact.eviction.pod.uid for fact in scene.said(events.PodEvicted)})
