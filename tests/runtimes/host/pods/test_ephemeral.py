"""Containers that are added to a pod of processes for debugging, for real: in cgroups, with terminals and records."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.errors import StartError
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.places import ProcessGroups
from jettison.runtimes.host.processes.terminals import take_terminal
from jettison.runtimes.host.settings import HostPace
from jettison.runtimes.protocol import ContainerStatus, PodManifest
from tests.builders import GI
from tests.runtimes.host.nodes import Node, needs_root, settings
from tests.runtimes.host.scenes import (
    SLEEPS,
    STUBBORN,
    Scene,
    container,
    eviction,
    handles_term,
    manifest,
    opened,
    play,
    python,
    shell,
    twice,
    until,
)

pytestmark = needs_root


def with_debuggers(pod: PodManifest, *debuggers: dict[str, Any]) -> PodManifest:
    """The same pod, to which these were added."""
    spec = {**pod.document["spec"], "ephemeralContainers": list(debuggers)}
    return replace(pod, document={**pod.document, "spec": spec})


async def begun(scene: Scene, *debuggers: dict[str, Any], **spec: Any) -> PodManifest:
    """A pod that runs, and these added to it."""
    pod = manifest(container(SLEEPS), **spec)
    await scene.supervisor.start(pod)
    more = with_debuggers(pod, *debuggers)
    await scene.supervisor.add(more)
    return more


async def state(scene: Scene, wanted: str, name: str = "d") -> ContainerStatus:
    await until(lambda: scene.container(name).state == wanted)
    return scene.container(name)


def test_it_runs_in_its_pod_and_once(tmp_path: Path) -> None:
    """In a cgroup below the pod's, with the pod's volumes and its own code; nothing of the pod changes."""

    async def scenario(scene: Scene) -> None:
        mounts = [{"name": "v", "mountPath": "/v"}]
        script = "echo $HOSTNAME; cat /v/word 2>/dev/null || cat v/word; sleep 1; exit 7"
        debugger = shell(script, "d", image="busybox", volumeMounts=mounts, targetContainerName="c")
        pod = manifest(
            shell("echo shared > v/word; sleep 60", volumeMounts=mounts), volumes=[{"name": "v", "emptyDir": {}}]
        )
        await scene.supervisor.start(pod)
        well = scene.status()
        await until((scene.settings.pod_dir("uid-a") / "volumes/v/word").exists)
        await scene.supervisor.add(with_debuggers(pod, debugger))
        running = await state(scene, "running")
        assert (running.is_ephemeral, running.is_ready, running.container_id) == (True, False, "jettison://uid-a/d/0")
        active = scene.supervisor.active()[0]
        places = {each.name: each.place for each in active.containers}
        assert places["d"].name.rpartition("/")[0] == places["c"].name.rpartition("/")[0]
        assert places["d"].processes()
        ended = await state(scene, "terminated")
        assert (ended.exit_code, ended.reason, ended.restarts) == (7, "Error", 0)
        assert scene.log("d").split() == ["a", "shared"]
        await asyncio.sleep(0.5)
        assert scene.container("d") == ended
        status = scene.status()
        assert (status.phase, status.conditions) == (well.phase, well.conditions)
        assert not places["d"].exists
        # What is wanted again is what is there.
        await scene.supervisor.add(with_debuggers(pod, debugger))
        assert scene.container("d") == ended

    play(tmp_path, scenario)


def test_one_that_cannot_run_says_why_and_the_pod_runs_on(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        many = [{"name": f"N{number}", "value": "x"} for number in range(501)]
        bomb = [{"name": "A0", "value": "x" * 1000}]
        bomb += [{"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})$(A{n - 1})"} for n in range(1, 12)]
        refused: dict[str, tuple[dict[str, Any], str]] = {
            "bare": ({"image": "busybox"}, "kubectl debug POD --image=ANY -- COMMAND"),
            "args": ({"image": "busybox", "args": ["sh"]}, "kubectl debug POD --image=ANY -- COMMAND"),
            "missing": ({"command": ["no-such-program"]}, "no such file or directory"),
            "probed": ({"command": SLEEPS, "livenessProbe": {}}, "cannot be set for an Ephemeral Container"),
            "greedy": ({"command": SLEEPS, "resources": {"limits": {"cpu": 1}}}, "cannot be set for an Ephemeral"),
            "astray": ({"command": SLEEPS, "targetContainerName": "x"}, "the pod has no container `x`"),
            "words": ({"command": SLEEPS * 600}, "command: must have at most 1000 items, got 1200"),
            "variables": ({"command": SLEEPS, "env": many}, "env: must have at most 500 items, got 501"),
            "bomb": ({"command": SLEEPS, "env": bomb}, "bytes after expansion"),
            "mounts": ({"command": SLEEPS, "volumeMounts": [{"name": "no", "mountPath": "/x"}]}, "no volume `no`"),
            "typed": ({"command": "sleep 60"}, "expected `array | null`"),
            "told": ({"command": SLEEPS, "jettison.dev/refused": "it is too much"}, "it is too much"),
        }
        await begun(scene, *({"name": name, **what} for name, (what, _) in refused.items()), container(SLEEPS, "d"))
        await state(scene, "running")
        for name, (_, why) in refused.items():
            told = await state(scene, "terminated", name)
            assert (told.exit_code, told.reason) == (128, "StartError"), name
            assert why in told.message, name
        assert scene.status().phase == "Running"
        assert scene.container().state == "running"

    play(tmp_path, scenario)


def test_its_variables_may_ask_for_the_pod_and_for_itself(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        env = [
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "OWN", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory"}}},
            {"name": "BOTH", "value": "$(POD)-$(OWN)"},
        ]
        await begun(scene, shell("echo $BOTH", "d", env=env))
        await state(scene, "terminated")
        assert scene.log("d") == "a-0\n"

    play(tmp_path, scenario)


def test_what_has_no_name_of_its_own_has_no_status(tmp_path: Path) -> None:
    """Names that are none, or are taken, get no status: there is no place for it."""

    async def scenario(scene: Scene) -> None:
        await begun(
            scene, {"command": SLEEPS}, container(SLEEPS, "c"), container(SLEEPS, "No/Name"), shell("true", "d")
        )
        await state(scene, "terminated")
        assert [each.name for each in scene.status().containers] == ["c", "d"]

    play(tmp_path, scenario)


@pytest.mark.parametrize("is_evicted", [False, True])
def test_it_ends_with_its_pod(tmp_path: Path, is_evicted: bool) -> None:
    """Told with the others, and killed when the grace period is over."""

    async def scenario(scene: Scene) -> None:
        pod = await begun(scene, container(STUBBORN, "d"))
        await state(scene, "running")
        await until(lambda: handles_term(scene.pid("d")))
        place = next(each.place for each in scene.supervisor.active()[0].containers if each.name == "d")
        began = time.monotonic()
        if is_evicted:
            await scene.supervisor.evict(eviction(pod.pod, 1))
            assert (scene.status().phase, scene.status().reason) == ("Failed", "Evicted")
            assert scene.container("d").exit_code == 137
        else:
            await scene.supervisor.stop("uid-a", 1)
            assert not scene.supervisor.statuses()
        assert time.monotonic() - began > 1
        await until(lambda: not place.exists)
        assert {fact.container for fact in scene.said(events.ContainerStopping)} == {"c", "d"}

    play(tmp_path, scenario)


def test_what_it_uses_is_its_pods(tmp_path: Path) -> None:
    """Its memory is charged to the cgroup of the pod, its files are among those that are measured."""

    async def scenario(scene: Scene) -> None:
        await begun(scene, shell("echo much > file; exec sleep 60", "d"))
        await state(scene, "running")
        (active,) = scene.supervisor.active()
        debugger = next(each for each in active.containers if each.name == "d")
        assert debugger.is_running
        assert debugger.writable_dir.startswith(active.pod_dir)
        await until(lambda: Path(debugger.writable_dir, "file").exists())
        whole = scene.places.of_pod(active.manifest.pod)
        assert set(debugger.place.processes()) < set(whole.processes())
        # As a container that asks for nothing: before the pod's others where the kernel has to kill.
        score = int(Path(f"/proc/{debugger.pid}/oom_score_adj").read_text())
        assert score == 1000

    play(tmp_path, scenario)


def test_it_is_found_again_and_not_started_twice(tmp_path: Path) -> None:
    """One that runs, one that has ended, and one that ends while there is no agent."""
    pids: list[int] = []

    async def before(scene: Scene) -> None:
        await begun(
            scene,
            shell("echo once; sleep 60", "d"),
            shell("echo once", "over"),
            shell("echo once; exec sleep 60", "dies"),
        )
        for name, wanted in (("d", "running"), ("over", "terminated"), ("dies", "running")):
            await state(scene, wanted, name)
            await until(lambda name=name: "once" in scene.log(name))  # type: ignore[misc]
        pids.extend((scene.pid("d"), scene.pid("dies")))

    def between(_: Node) -> None:
        os.kill(pids[1], 9)

    async def after(scene: Scene) -> None:
        assert (await state(scene, "running")).restarts == 0
        assert scene.pid("d") == pids[0]
        assert scene.container("over").exit_code == 0
        assert (await state(scene, "terminated", "dies")).exit_code == 137
        await asyncio.sleep(0.5)
        assert [scene.log(name) for name in ("d", "over", "dies")] == ["once\n"] * 3
        assert scene.container().state == "running"

    twice(tmp_path, before, after, between)


def test_a_record_without_them_is_read(tmp_path: Path) -> None:
    """As an agent has written it that knew no ephemeral containers."""

    async def before(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS)))

    async def after(scene: Scene) -> None:
        assert scene.container().state == "running"
        await scene.supervisor.add(with_debuggers(manifest(container(SLEEPS)), shell("sleep 60", "d")))
        await state(scene, "running")

    twice(tmp_path, before, after)


def test_a_lost_record_starts_none_again(tmp_path: Path) -> None:
    """What has run is known by its log."""

    def lose(made: Node) -> None:
        (made.settings.records_dir / "uid-a.json").unlink()

    async def add(scene: Scene) -> None:
        await begun(scene, shell("echo once", "over"), shell("echo once; sleep 60", "d"))
        await state(scene, "running")
        await state(scene, "terminated", "over")
        await until(lambda: "once" in scene.log("d"))

    async def take_over(scene: Scene) -> None:
        debuggers = shell("echo once", "over"), shell("echo once; sleep 60", "d")
        await scene.supervisor.start(with_debuggers(manifest(container(SLEEPS)), *debuggers))
        await state(scene, "running")
        assert (await state(scene, "terminated", "over")).reason == "ContainerStatusUnknown"
        await asyncio.sleep(0.5)
        assert [scene.log(name) for name in ("d", "over")] == ["once\n"] * 2

    twice(tmp_path, add, take_over, lose, pace=HostPace(lost=30))


def test_the_record_has_the_document_of_what_was_added(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await begun(scene, shell("sleep 60", "d"))
        await state(scene, "running")
        line = (scene.settings.records_dir / "uid-a.json").read_text().splitlines()[-1]
        record = json.loads(line)
        assert [each["name"] for each in record["document"]["spec"]["ephemeralContainers"]] == ["d"]
        assert [each["name"] for each in record["containers"]] == ["c", "d"]

    play(tmp_path, scenario)


def test_one_that_is_added_to_a_pod_that_waits_starts_with_it(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        missing = tmp_path / "later"
        volume = {"name": "v", "hostPath": {"path": str(missing), "type": "Directory"}}
        pod = manifest(container(SLEEPS), volumes=[volume])
        starting = asyncio.ensure_future(scene.supervisor.start(pod))
        await until(lambda: bool(scene.supervisor.statuses()) and scene.container().state == "waiting")
        await scene.supervisor.add(with_debuggers(pod, shell("sleep 60", "d")))
        assert scene.container("d").state == "waiting"
        missing.mkdir()
        await state(scene, "running")
        await starting

    play(tmp_path, scenario)


def terminal(command: str = "exec sh") -> dict[str, Any]:
    return shell(command, "d", stdin=True, tty=True)


async def heard(master: int, word: bytes) -> bytes:
    """What comes until the word."""
    found = b""
    async with asyncio.timeout(20):
        while word not in found:
            try:
                found += os.read(master, 4096)
            except BlockingIOError:
                await asyncio.sleep(0.01)
    return found


def test_a_terminal_outlives_the_agent_and_has_one_client(tmp_path: Path) -> None:
    """Its shell is not hung up when the agent ends, and what waited in the terminal is there for the next client."""

    async def talk(scene: Scene, word: str) -> None:
        held = scene.supervisor.way_in("uid-a", "d").terminal
        assert held is not None
        master, log = take_terminal(held)
        try:
            os.write(master, f"test -t 0 && echo sa''id {word}\n".encode())
            assert b"said " + word.encode() in await heard(master, b"said " + word.encode())
            with pytest.raises(StartError, match="another client is attached"):
                take_terminal(held)
        finally:
            os.close(master)
            os.close(log)

    async def before(scene: Scene) -> None:
        await begun(scene, terminal())
        await state(scene, "running")
        await talk(scene, "one")

    async def after(scene: Scene) -> None:
        assert (await state(scene, "running")).restarts == 0
        await talk(scene, "two")

    twice(tmp_path, before, after)


def test_what_nothing_has_read_from_a_terminal_is_in_the_log(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await begun(scene, terminal("echo last; test -t 1 && echo words; exit 3"))
        assert (await state(scene, "terminated")).exit_code == 3
        assert scene.log("d").splitlines() == ["last", "words"]

    play(tmp_path, scenario)


def test_a_terminal_that_nothing_reads_holds_its_process_and_no_memory(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await begun(scene, terminal("while true; do echo again and again; done"))
        await state(scene, "running")
        await asyncio.sleep(0.3)
        assert scene.log("d") == ""
        await scene.supervisor.stop("uid-a", 0)

    play(tmp_path, scenario)


# Its child keeps the terminal when it ends, has reading from it wait, and lives for as long as this takes.
KEEPER = """
import fcntl, os, signal, time
name, master = os.ttyname(0), next(each for each in range(100, 200) if os.path.exists(f"/proc/self/fd/{each}"))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
fcntl.fcntl(master, fcntl.F_SETFL, 0)
if os.fork() == 0:
    os.setsid()
    until, held = time.time() + 20, -1
    while time.time() < until:
        fresh = os.open(name, os.O_RDWR | os.O_NOCTTY)
        if held >= 0:
            os.close(held)
        held = fresh
    os._exit(0)
time.sleep(0.5)
"""


def test_a_terminal_that_is_kept_does_not_hold_up_the_agent(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        gaps: list[float] = []

        async def look() -> None:
            while True:
                before = time.monotonic()
                await asyncio.sleep(0.01)
                gaps.append(time.monotonic() - before)

        looking = asyncio.create_task(look())
        await begun(scene, python(KEEPER, name="d", stdin=True, tty=True))
        await state(scene, "terminated")
        looking.cancel()
        assert max(gaps) < 5
        assert "a process keeps it from being read" in str(scene.said(events.ActionFailed))

    play(tmp_path, scenario)


def test_another_container_has_no_terminal(tmp_path: Path) -> None:
    """It would wait for a client that may never come."""

    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("test -t 1 || echo none; sleep 60", tty=True, stdin=True)))
        await until(lambda: scene.log() == "none\n")
        way = scene.supervisor.way_in("uid-a", "c")
        assert way.terminal is None
        assert way.given

    play(tmp_path, scenario)


def test_what_it_wrote_goes_with_it_but_for_its_log(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        much = "head -c 100000 /dev/zero > file; echo done"
        await begun(scene, shell(much, "over"), shell(f"{much}; sleep 60", "d"))
        await state(scene, "terminated", "over")
        await until(lambda: not scene.write_dir("over").parent.exists())
        assert scene.log("over") == "done\n"
        await until(lambda: scene.log("d") == "done\n")
        assert scene.write_dir("d").joinpath("file").stat().st_size == 100_000

    play(tmp_path, scenario)


def test_without_cgroups(tmp_path: Path) -> None:
    """Its family is found by the mark in its environment, and its terminal by its own descriptor."""

    async def run() -> None:
        made = settings(tmp_path)
        for agent in range(2):
            async with opened(made, ProcessGroups(Families(str(tmp_path)), GI, lowest_score=0)) as scene:
                async with asyncio.timeout(60):
                    if agent == 0:
                        await begun(scene, terminal(), shell("exit 5", "over"))
                    assert (await state(scene, "terminated", "over")).exit_code == 5
                    assert (await state(scene, "running")).restarts == 0
                    assert scene.supervisor.way_in("uid-a", "d").terminal is not None
                    if agent == 1:
                        await scene.supervisor.stop("uid-a", 0)

    asyncio.run(run())
