"""`jettison gc` and a guard that may collect, against real engines: what nothing uses goes, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jettison.engine import Policy
from jettison.engine.node.signals import Reclaimable
from jettison.errors import RuntimeFailure
from jettison.events import Fact, ImageRemoved
from jettison.node.cluster_settings import GuardSettings
from jettison.node.guard import Guard
from jettison.node.settings import NodeSettings
from jettison.runtimes.adopted.settings import AdoptedSettings
from jettison.runtimes.cri.client import CriClient
from jettison.runtimes.cri.messages import EXITED, OF_NODE, OWN_PROCESSES
from jettison.runtimes.protocol import Reclaimed
from tests.janitor import fresh_name
from tests.live import engines
from tests.live.conftest import without_guest
from tests.live.containerd import IMAGE, PAUSE, Containerd, write_image
from tests.live.debian import GuestUnavailableError
from tests.live.engines import Engine

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for container engines"),
    pytest.mark.timeout(600),
]

MI = 2**20
WRITES = "dd if=/dev/zero of=/written bs=1M count=6 2>/dev/null"


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    try:
        engines.programs()
    except GuestUnavailableError as error:
        without_guest(str(error), os.environ, is_root=True)
    with engines.running(request.param, tmp_path_factory.mktemp("e")) as found:
        yield found


def gc(*words: str) -> Any:
    jettison = shutil.which("jettison", path=str(Path(sys.executable).parent)) or "jettison"
    done = subprocess.run(
        [jettison, "gc", "-o", "json", *words], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


def going(plan: Any) -> set[tuple[str, str]]:
    return {(each["kind"], short(each["name"])) for each in plan["items"] if each["goes"]}


def short(name: str) -> str:
    """Podman keeps the registry's name, Docker leaves out its own."""
    return name.removeprefix("docker.io/")


def load(engine: Engine, tmp_path: Path, *names: str) -> None:
    for name in names:
        write_image(tmp_path / "i.tar", f"docker.io/local/{name}:1", ["/bin/sh"], 4 * MI)
        engine.order("load", "-i", str(tmp_path / "i.tar"))


def test_the_plan_is_what_goes(engine: Engine, tmp_path: Path) -> None:
    """A container that ended holds its image until it is old enough; one with two names goes with both; the image of
    what runs, and one that is kept, stay. Build caches go where the engine has them.
    """
    load(engine, tmp_path, "ended", "twice", "base")
    engine.order("tag", "docker.io/local/twice:1", "docker.io/local/zweimal:1")
    engine.run("live", ["/bin/sleep", "3600"])
    engine.order("run", "--name", "over", "--net=host", "docker.io/local/ended:1", "/bin/sh", "-c", WRITES)
    if engine.kind == "docker":
        (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /x\n")
        os.environ["DOCKER_BUILDKIT"] = "1"
        engine.order("build", "-q", str(tmp_path))
        del os.environ["DOCKER_BUILDKIT"]
    where = ("--socket", str(engine.socket), "--keep-image", "*local/base:*")
    before = going(gc("--plan", *where))
    assert {("images", "local/ended:1"), ("containers", "over")} & before == set()
    planned = gc("--plan", "--older-than", "0s", *where)
    wanted = {("containers", "over"), ("images", "local/ended:1"), ("images", "local/twice:1")}
    assert wanted <= going(planned)
    assert {short(each["name"]): each["why"] for each in planned["items"] if not each["goes"]} == {
        "local/box:1": "in use",
        "local/base:1": "kept by name",
    }
    (size,) = [each["sizeBytes"] for each in planned["items"] if each["name"] == "over"]
    assert 6 * MI <= size < 7 * MI
    if engine.kind == "docker":
        assert {kind for kind, _ in going(planned)} == {"containers", "images", "build-cache"}
    (done,) = gc("--older-than", "0s", *where)["stores"]
    assert {(each["kind"], short(each["name"])) for each in done["removed"]} == going(planned)
    assert done["errors"] == []
    # The disk is the machine's, and others write to it: `test_image_disks.py` measures on one of its own.
    assert done["freedBytes"] >= 0
    assert engine.states() == {"live": "Up"}
    assert going(gc("--plan", "--older-than", "0s", *where)) == set()
    engine.order("rmi", "docker.io/local/base:1")


def collecting(folder: Path, **wishes: Any) -> GuardSettings:
    """Of a guard for which its disk is always too full: the high mark is 1 %."""
    config = {"imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 0, "imageMinimumGCAge": "1ns"}
    node = NodeSettings(fresh_name(), folder / "state", policy=Policy.of({**config, "evictionHard": {}}))
    return GuardSettings(node, AdoptedSettings(node.node_name, folder, node.node_state / "s.json", **wishes))


@pytest.mark.parametrize("is_told", [True, False], ids=["told to", "by itself"])
def test_a_guard_removes_images_only_where_it_is_told_to(engine: Engine, tmp_path: Path, is_told: bool) -> None:
    """Without the setting nothing is ever removed."""
    load(engine, tmp_path, "unused")
    facts: list[Fact] = []

    class Told:
        def take(self, fact: Fact, time_ns: int) -> None:
            facts.append(fact)

    def removed() -> set[str]:
        return {short(name) for fact in facts if isinstance(fact, ImageRemoved) for name in fact.names}

    settings = collecting(tmp_path, sockets=(engine.socket,), collects_images=is_told, keep_images=("*box:1",))

    async def scenario() -> None:
        async with Guard(settings, Told()) as guard:
            deadline = time.monotonic() + 60
            while is_told and not removed():
                # The first look has only detected it; an engine on a busy machine may not answer in time.
                assert time.monotonic() < deadline
                with suppress(RuntimeFailure):
                    await guard.runtime._collectors[0].images.collect()
            assert removed() == ({"local/unused:1"} if is_told else set())

    asyncio.run(scenario())
    if not is_told:
        engine.order("rmi", "docker.io/local/unused:1")


def test_a_guard_that_is_told_to_removes_images_of_a_container_runtime_too(
    containerd: Containerd, tmp_path: Path
) -> None:
    """And no container of a pod: the program that has made it does that."""
    containerd.load("docker.io/local/idle:1", ["/bin/sh"], MI)
    settings = collecting(
        tmp_path,
        collects_images=True,
        collects_containers=True,
        keep_images=(IMAGE,),
        runtime=containerd.socket,
    )

    async def scenario() -> None:
        async with Guard(settings) as guard:
            (collector,) = guard.runtime._collectors
            deadline = time.monotonic() + 60
            while "idle" in containerd.ctr("images", "ls", "-q"):
                assert time.monotonic() < deadline
                with suppress(RuntimeFailure):
                    await collector.images.collect()
            assert await collector.reclaim(Reclaimable.CONTAINERS) == Reclaimed()

    asyncio.run(scenario())
    assert {IMAGE, PAUSE} <= set(containerd.ctr("images", "ls", "-q").split())


def test_a_container_runtime_is_cleared_too(containerd: Containerd) -> None:
    """But for the image of sandboxes, and for what others were told to keep."""
    containerd.load("docker.io/local/spare:1", ["/bin/sh"], MI)
    where = ("--cri-endpoint", containerd.endpoint, "--keep-image", IMAGE, "--only", "images")
    planned = gc("--plan", *where)
    assert {each["name"]: each["why"] for each in planned["items"] if each["name"] in (IMAGE, PAUSE)} == {
        IMAGE: "kept by name",
        PAUSE: "pinned",
    }
    (done,) = gc(*where)["stores"]
    assert "docker.io/local/spare:1" in {each["name"] for each in done["removed"]}
    assert done["errors"] == []


def test_what_a_dead_container_has_written_is_in_the_plan(containerd: Containerd) -> None:
    """Of a runtime that counts every 10 s."""
    cgroup, labels = f"jettison-{fresh_name()}", {"io.kubernetes.pod.uid": "over", "io.kubernetes.pod.name": "over"}
    pod = {
        "metadata": {"name": "over", "uid": "over", "namespace": "n"},
        "labels": labels,
        "linux": {
            "cgroup_parent": f"/{cgroup}",
            "security_context": {"namespace_options": {"network": OF_NODE}},
        },
    }
    config = {
        "metadata": {"name": "c"},
        "image": {"image": IMAGE},
        "command": ["/bin/sh", "-c", WRITES],
        "labels": {**labels, "io.kubernetes.container.name": "c"},
        "linux": {"security_context": {"namespace_options": {"network": OF_NODE, "pid": OWN_PROCESSES}}},
    }
    where = ("--cri-endpoint", containerd.endpoint, "--only", "containers", "--older-than", "0s")

    def size() -> int:
        return next((each["sizeBytes"] or 0 for each in gc("--plan", *where)["items"] if each["name"] == "over/c"), 0)

    async def ended() -> None:
        client = CriClient(containerd.socket)
        try:
            sandbox = await client.run_sandbox(pod)
            container = await client.create_container(sandbox, config, pod)
            await client.start_container(container)
            while (status := await client.status(container)) is None or status.state != EXITED:
                await asyncio.sleep(0.02)
            await client.stop_sandbox(sandbox)
        finally:
            client.close()

    asyncio.run(ended())
    deadline = time.monotonic() + 60
    while not 6 * MI <= size() < 7 * MI:
        assert time.monotonic() < deadline
        time.sleep(1)
    (done,) = gc(*where)["stores"]
    assert {each["name"]: each["sizeBytes"] or 0 for each in done["removed"]}["over/c"] >= 6 * MI
    assert done["errors"] == []
    for path in Path("/sys/fs/cgroup").glob(f"*/{cgroup}"):
        path.rmdir()
