"""One container, for real: what it finds, what it leaves, how its end is told."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from jettison import events
from jettison.errors import WriteError
from jettison.runtimes.host.volumes.removal import remove_directory
from tests.runtimes.host.nodes import is_alive, needs_root
from tests.runtimes.host.scenes import SLEEPS, Scene, container, manifest, play, python, shell, until

pytestmark = needs_root

NEVER = {"restartPolicy": "Never"}


def test_what_a_container_finds(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        script = """
            echo "name=$NAME $(basename $PWD) $JETTISON_VOLUME_DATA"
            echo "args=$0 $1"
            echo to stderr >&2
            echo kept > /dev/null > data/file
            touch "$HOME/home" "$TMPDIR/tmp"
        """
        one = container(
            ["sh", "-c", script],
            args=["$(NAME)-$$(x)", "$(JETTISON_VOLUME_DATA)"],
            env=[{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            volumeMounts=[{"name": "data", "mountPath": "/data"}],
        )
        await scene.supervisor.start(manifest(one, volumes=[{"name": "data", "emptyDir": {}}], **NEVER))
        await scene.phase("Succeeded")
        volume = scene.settings.pod_dir("uid-a") / "volumes" / "data"
        assert scene.log() == f"name=a 0 {volume}\nargs=a-$(x) {volume}\nto stderr\n"
        assert (scene.write_dir() / "home").exists()
        assert (scene.write_dir() / "tmp").exists()

    play(tmp_path, scenario)


def test_containers_of_a_pod_share_its_volumes_and_nothing_else(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        mounts = [{"name": "shared", "mountPath": "/a/b"}]
        writer = shell("echo hello > a/b/file; touch mine", "writer", volumeMounts=mounts)
        reader = shell("until [ -s /$0/a/b/file ] || [ -s a/b/file ]; do sleep 0.02; done; cat a/b/file; ls", "reader")
        reader["volumeMounts"] = mounts
        volumes = [{"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
        await scene.supervisor.start(manifest(writer, reader, volumes=volumes, **NEVER))
        await scene.phase("Succeeded")
        assert scene.log("reader") == "hello\na\n"

    play(tmp_path, scenario)


def test_the_working_directory_may_lie_in_a_volume(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        one = shell("pwd -P", workingDir="/data", volumeMounts=[{"name": "v", "mountPath": "/data"}])
        await scene.supervisor.start(manifest(one, volumes=[{"name": "v", "emptyDir": {}}], **NEVER))
        await scene.phase("Succeeded")
        assert scene.log() == f"{scene.settings.pod_dir('uid-a')}/volumes/v\n"

    play(tmp_path, scenario)


def test_another_user_can_write_where_it_should(public_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        one = shell("id -u; touch file data/file", volumeMounts=[{"name": "v", "mountPath": "/data"}])
        volumes = [{"name": "v", "emptyDir": {}}]
        await scene.supervisor.start(manifest(one, volumes=volumes, securityContext={"runAsUser": 12345}, **NEVER))
        status = await scene.phase("Succeeded")
        assert status.containers[0].exit_code == 0
        assert scene.log() == "12345\n"

    play(public_path, scenario)


def test_a_container_may_open_as_many_files_as_before_the_agent_raised_its_own_limit(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        script = "echo $(ulimit -Sn) $(ulimit -Hn); until [ -e probed ]; do sleep 0.02; done; cat probed"
        probe = {"exec": {"command": ["sh", "-c", "ulimit -Sn > probing && mv probing probed"]}, "periodSeconds": 1}
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 100, hard))
        try:
            await scene.supervisor.start(manifest(shell(script, readinessProbe=probe), **NEVER))
            await scene.phase("Succeeded")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert scene.log() == f"{soft} {hard}\n{soft}\n"

    play(tmp_path, scenario)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(["no-such-program"]), **NEVER))
        await scene.phase("Failed")
        status = scene.container()
        assert (status.state, status.reason, status.exit_code) == ("terminated", "StartError", 128)
        assert status.message == "cannot start `no-such-program`: no such file or directory"
        told = events.ContainerFinished(scene.status().pod, "c", 128, "StartError", status.message)
        assert scene.said(events.ContainerFinished) == [told]
        assert not scene.said(events.ContainerStarted)

    play(tmp_path, scenario)


def test_what_the_main_process_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """A double fork into a session of its own, which ignores what it can."""
    program = """
import os, signal, time
if os.fork():
    while not os.path.exists("pid"): time.sleep(0.01)
    os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
signal.alarm(30)
open("tmp", "w").write(str(os.getpid())); os.rename("tmp", "pid")
time.sleep(60)
"""

    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(python(program), **NEVER))
        await scene.phase("Succeeded")
        assert not is_alive(int((scene.write_dir() / "pid").read_text()))

    play(tmp_path, scenario)


def test_a_container_that_the_kernel_killed_for_its_memory(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        greedy = python("x = b'x' * (200 << 20)", resources={"limits": {"memory": "20Mi"}})
        await scene.supervisor.start(manifest(greedy, **NEVER))
        await scene.phase("Failed")
        assert (scene.container().reason, scene.container().exit_code) == ("OOMKilled", 137)

    play(tmp_path, scenario)


def test_every_run_begins_with_an_empty_directory_and_a_log_of_its_own(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("ls; touch mess; echo run; [ -f $HOME/../0/stop ]")))
        await until(lambda: scene.container().reason == "CrashLoopBackOff")
        assert scene.container().restarts == 1
        assert scene.log(run=0) == scene.log(run=1) == "run\n"
        assert (scene.write_dir(run=0) / "mess").exists()

    play(tmp_path, scenario)


def test_a_failing_liveness_probe_restarts_the_container(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        probe = {"exec": {"command": ["test", "!", "-e", "sick"]}, "periodSeconds": 1, "failureThreshold": 1}
        # It ends well when told to, which without the probe would be the end of the pod.
        one = shell("trap 'kill $!; exit 0' TERM; sleep 0.3; touch sick; sleep 600 & wait", livenessProbe=probe)
        await scene.supervisor.start(manifest(one, restartPolicy="OnFailure", terminationGracePeriodSeconds=5))
        await until(lambda: scene.container().restarts == 1 and scene.container().state == "running")
        failed = scene.said(events.ProbeFailed)
        assert [(fact.container, fact.probe, fact.why) for fact in failed] == [
            ("c", "liveness", "`test` exited with 1")
        ]
        assert [fact.exit_code for fact in scene.said(events.ContainerFinished)] == [0]

    play(tmp_path, scenario)


def test_a_readiness_probe_decides_about_readiness_only(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        probe = {"exec": {"command": ["test", "-e", "ready"]}, "periodSeconds": 1, "failureThreshold": 1}
        await scene.supervisor.start(manifest(container(SLEEPS, readinessProbe=probe)))
        await scene.phase("Running")
        await until(lambda: bool(scene.said(events.ProbeFailed)))
        assert not scene.container().is_ready
        assert scene.condition("Ready").message == "containers with unready status: [c]"
        (scene.write_dir() / "ready").touch()
        await until(lambda: scene.condition("Ready").status == "True")
        assert scene.container().restarts == 0
        counts = {(each.kind, each.result): each.times for each in scene.supervisor.probe_counts()}
        assert set(counts) == {("readiness", "failed"), ("readiness", "successful")}
        assert counts["readiness", "failed"] >= 1

    play(tmp_path, scenario)


def test_a_startup_probe_that_fails_restarts_the_container(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        probe = {"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1}
        await scene.supervisor.start(manifest(container(SLEEPS, startupProbe=probe)))
        await until(lambda: scene.container().restarts == 1)
        assert scene.said(events.ProbeFailed)[0].probe == "startup"
        assert scene.said(events.ContainerFinished)[0].exit_code == 143

    play(tmp_path, scenario)


def test_nothing_is_started_that_cannot_be_recorded(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        wait = "until [ -e $HOME/../../../../../go ]; do sleep 0.02; done"
        await scene.supervisor.start(manifest(shell(f"{wait}; echo run >> $HOME/../../../../../runs")))
        await scene.phase("Running")
        # A file where the directory was: nothing can be written there.
        records = scene.settings.records_dir
        moved = records.rename(records.with_name("moved"))
        records.write_text("")
        (scene.settings.node_dir / "go").touch()
        # The restart is under way for a moment before it fails.
        await until(lambda: scene.container().restarts == 1 and scene.said(events.ContainerBackOff) != [])
        status = scene.container()
        assert status.last is not None
        assert (status.state, status.last.exit_code, status.last.reason) == ("waiting", 128, "StartError")
        assert (scene.settings.node_dir / "runs").read_text() == "run\n"
        with pytest.raises(WriteError, match="cannot record pod"):
            await scene.supervisor.start(manifest(container(SLEEPS), name="b"))
        assert [status.pod.name for status in scene.supervisor.statuses()] == ["a"]
        records.unlink()
        moved.rename(records)

    play(tmp_path, scenario)


@pytest.mark.parametrize("kind", ["livenessProbe", "readinessProbe"])
def test_ending_a_container_does_not_wait_for_a_hung_probe(tmp_path: Path, kind: str) -> None:
    async def scenario(scene: Scene) -> None:
        probe = {"exec": {"command": ["sleep", "50"]}, "timeoutSeconds": 60}
        await scene.supervisor.start(manifest({**container(SLEEPS), kind: probe}))
        await scene.phase("Running")
        await asyncio.sleep(0.2)
        async with asyncio.timeout(30):
            await scene.supervisor.stop("uid-a", 1)
        await until(lambda: scene.supervisor.is_finished("uid-a"))

    play(tmp_path, scenario)


def test_a_directory_that_the_pod_made_unreadable_goes_all_the_same(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("mkdir -p a/b; touch a/b/c; chmod 0 a/b a; chmod 0 .; sleep 60")))
        await until(lambda: oct((scene.write_dir()).stat().st_mode)[-3:] == "000")
        await scene.supervisor.stop("uid-a", 0)
        assert not scene.settings.pod_dir("uid-a").exists()
        assert not list(scene.settings.pods_dir.iterdir())

    play(tmp_path, scenario)
    remove_directory(tmp_path, tmp_path / "node")
