"""The calls to a real containerd: each does what it says, and errors come in its own words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jettison.errors import ContainerRuntimeError, UnreachableError
from jettison.runtimes.cri.client import CriClient
from jettison.runtimes.cri.messages import CREATED, EXITED, IN_UNKNOWN_STATE, RUNNING, SANDBOX_NOT_READY, SANDBOX_READY
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import discover
from tests.janitor import fresh_name
from tests.live.containerd import IMAGE, Containerd

NAMESPACES = {"network": 2, "pid": 1}


def using(runtime: Containerd, work: Callable[[CriClient], Awaitable[None]]) -> None:
    async def run() -> None:
        client = CriClient(runtime.socket)
        try:
            await work(client)
        finally:
            client.close()

    asyncio.run(run())


async def _states(client: CriClient, name: str) -> dict[str, int]:
    """Of each container the state by which it is found."""
    states = (CREATED, RUNNING, EXITED, IN_UNKNOWN_STATE)
    return {each.id: state for state in states for each in await client.containers({"test": name}, state)}


def sandbox(name: str, logs: Path) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "namespace": "default"},
        "log_directory": str(logs),
        "labels": {"test": name},
        "linux": {"cgroup_parent": f"/jettison-{name}", "security_context": {"namespace_options": NAMESPACES}},
    }


def test_it_says_what_it_is_and_what_it_has(containerd: Containerd) -> None:
    async def work(client: CriClient) -> None:
        version = await client.version()
        assert (version.name, version.api) == ("containerd", "v1")
        assert any(each.kind == "RuntimeReady" and each.is_met for each in await client.conditions())
        assert IMAGE in {tag for image in await client.images() for tag in image.tags}
        found = await client.image(IMAGE)
        assert found is not None
        assert found[0].size > 500_000
        assert await client.image("docker.io/local/none:1") is None
        (images, layers) = await client.image_filesystems()
        assert [each.path for each in images] == [f"{containerd.home}/root/io.containerd.snapshotter.v1.overlayfs"]
        assert layers == ()
        with pytest.raises(ContainerRuntimeError, match="connection refused"):
            await client.pull_image("127.0.0.1:1/none:1")
        await client.remove_image("docker.io/local/none:1")

    using(containerd, work)


def test_a_container_lives_and_dies(containerd: Containerd, tmp_path: Path) -> None:
    """Made, started, looked at, entered, stopped and removed; what is gone is removed again without a complaint."""
    name = fresh_name()
    config = sandbox(name, tmp_path)
    program = "echo $WORD; trap 'kill $!; exit 7' TERM; sleep 600 & wait"
    container = {
        "metadata": {"name": "main"},
        "image": {"image": IMAGE},
        "command": ["/bin/sh", "-c", program],
        "envs": [{"key": "WORD", "value": "hello"}],
        "log_path": "main.log",
        "labels": {"test": name},
        "linux": {"security_context": {"namespace_options": NAMESPACES}},
    }

    async def work(client: CriClient) -> None:
        box = await client.run_sandbox(config)
        assert [each.id for each in await client.sandboxes({"test": name})] == [box]
        assert [each.id for each in await client.sandboxes({"test": name}, SANDBOX_READY)] == [box]
        assert await client.sandboxes({"test": name}, SANDBOX_NOT_READY) == ()
        found = await client.create_container(box, container, config)
        assert await _states(client, name) == {found: CREATED}
        await client.start_container(found)
        assert await _states(client, name) == {found: RUNNING}
        status = await client.status(found)
        assert status is not None
        assert status.state == RUNNING
        assert f"/jettison-{name}/{found}" in Path(f"/proc/{status.pid}/cgroup").read_text()
        output = await client.run_command(found, ["/bin/sh", "-c", "echo $WORD; exit 3"], 30)
        assert output is not None
        assert (output.exit_code, output.stdout) == (3, b"hello\n")
        assert await client.run_command(found, ["/bin/sleep", "60"], 1) is None
        listed = await client.containers({"test": name})
        assert [(each.id, each.sandbox, each.state) for each in listed] == [(found, box, RUNNING)]
        await client.stop_container(found, 30)
        assert await _states(client, name) == {found: EXITED}
        status = await client.status(found)
        assert status is not None
        assert (status.state, status.exit_code, status.pid) == (EXITED, 7, 0)
        assert (tmp_path / "main.log").read_text().endswith(" stdout F hello\n")
        for _ in range(2):
            await client.remove_container(found)
            await client.stop_sandbox(box)
            await client.remove_sandbox(box)
        assert await client.status(found) is None
        assert await _states(client, name) == {}
        assert await client.sandboxes({"test": name}) == ()
        # The runtime removes what it has made below, and never the parent.
        assert Cgroup(discover(), f"jettison-{name}").remove()

    using(containerd, work)


def test_a_runtime_that_hangs_or_dies_is_unreachable_and_comes_back(containerd: Containerd) -> None:
    async def work(client: CriClient) -> None:
        await client.version()
        containerd.hold()
        try:
            with pytest.raises(UnreachableError, match=r"no answer to Version in 0\.2 s"):
                await client.version(0.2)
        finally:
            containerd.go_on()
        assert (await client.version(30)).name == "containerd"
        containerd.kill()
        with pytest.raises(UnreachableError):
            await client.version(30)
        await asyncio.to_thread(containerd.start)
        assert (await client.version(30)).name == "containerd"

    using(containerd, work)
