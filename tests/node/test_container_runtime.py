"""What a node makes of the container runtime that it finds, where that is CRI-O. containerd is real in `live`."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from jettison.engine.config.policy import Policy
from jettison.errors import ServeError, StartError
from jettison.events import ActionFailed, Fact
from jettison.node.card import NodeCard, write_card
from jettison.node.container_runtime import Containers, find_containers, podman_order
from jettison.node.settings import CRI, HOST, NodeSettings
from jettison.runtimes.containers import RUNTIME_PACE, RuntimePace, SandboxOrder
from jettison.runtimes.grpc.wire import Message
from tests.builders import pod
from tests.runtimes.host.nodes import needs_root, node, python, running
from tests.runtimes.host.nodes import settings as node_settings
from tests.runtimes.lying_runtime import lying

VERSION: Message = {"runtime_name": "cri-o", "runtime_version": "1.36.3", "runtime_api_version": "v1"}
CONFIG = """
[crio]
  root = "/v/storage"
  runroot = "/r/storage"
  imagestore = "{imagestore}"
  storage_driver = "overlay"
  storage_option = [{option}]
  [crio.api]
    listen = "/run/crio/crio.sock"
"""
WORDS = ["podman", "--root", "/v/storage", "--runroot", "/r/storage", "--storage-driver", "overlay"]


@pytest.mark.parametrize(
    ("imagestore", "option", "more"),
    [
        ("", "", []),
        ("/i", "", ["--imagestore", "/i"]),
        ("", '"overlay.mountopt=nodev"', ["--storage-opt", "overlay.mountopt=nodev"]),
    ],
)
def test_podman_is_told_where_crio_keeps_its_images(imagestore: str, option: str, more: list[str]) -> None:
    assert podman_order(CONFIG.format(imagestore=imagestore, option=option).encode()) == [*WORDS, *more]


@pytest.mark.parametrize(
    "config",
    [
        b"",
        b"no toml",
        b"\xff",
        b"[crio]\nroot = '/v'\n",
        b"crio = 'x'",
        b"crio = []",
        b"[crio]\nroot = 1\nrunroot = '/r'\nstorage_driver = ''\n",
        b"[crio]\nroot = '/v'\nrunroot = '/r'\nstorage_driver = ''\nstorage_option = 7\n",
        b'[crio]\nroot = "/v\\u0000"\nrunroot = "/r"\nstorage_driver = ""\n',
        b"x = " + b"[" * 10_000,
    ],
    ids=lambda config: config[:20].decode("ascii", "replace"),
)
def test_a_configuration_that_tells_nothing_is_refused(config: bytes) -> None:
    with pytest.raises(StartError, match="CRI-O does not tell where it keeps them"):
        podman_order(config)


def test_the_advice_for_crio_is_a_setting_of_crio(tmp_path: Path) -> None:
    """Its cgroups are systemd's unless it is told otherwise."""
    endpoint = tmp_path / "c.sock"
    settings = NodeSettings("n", tmp_path, runtime=CRI, cri_endpoint=f"unix://{endpoint}")
    answers: dict[str, Message] = {
        "Version": VERSION,
        "RuntimeConfig": {"linux": {"cgroup_driver": 0}},
        "Status": {"status": {"conditions": []}},
    }
    with (
        lying(endpoint, answers),
        pytest.raises(ServeError, match=r'cri-o 1\.36\.3 leaves cgroups to systemd.*: set cgroup_manager = "cgroupfs"'),
    ):
        asyncio.run(find_containers(settings, lambda _fact: None, systemd=tmp_path / "none"))


@pytest.mark.parametrize("used_slices", [False, True])
def test_a_runtime_that_is_silent_at_the_start_is_taken_for_what_it_was(tmp_path: Path, *, used_slices: bool) -> None:
    """The next agent finds its pods in the cgroups of the last one; containers that would not fit say so."""
    endpoint, said = tmp_path / "c.sock", list[Fact]()
    settings = NodeSettings("n", tmp_path, cri_endpoint=f"unix://{endpoint}")
    settings.node_state.mkdir(parents=True)
    write_card(settings.node_state, NodeCard("files", 1, 1, uses_slices=used_slices))
    # The number of systemd's, then of the other.
    answers: dict[str, Message] = {
        "Version": VERSION,
        "RuntimeConfig": {"linux": {"cgroup_driver": int(used_slices)}},
        "Status": {"status": {"conditions": []}},
    }

    async def start() -> str:
        containers = await find_containers(settings, said.append, pace=RuntimePace(heartbeat=0.01), systemd=tmp_path)
        driver, _, lack, uses_slices, version = containers
        assert version == ""
        assert driver is not None
        assert lack.endswith("pods with images wait for it")
        assert uses_slices is driver.uses_systemd is used_slices
        with lying(endpoint, answers):
            while not any(isinstance(fact, ActionFailed) for fact in said):
                await asyncio.sleep(0.01)
            with pytest.raises(StartError) as failure:
                await driver.sandbox(SandboxOrder("default", "a", "uid", "c", "/logs"))
            await driver.close()
        return str(failure.value)

    why = asyncio.run(asyncio.wait_for(start(), 60))
    assert why.startswith("the container runtime makes" if used_slices else "the container runtime leaves")
    assert why.endswith("restart the agent when none of its pods runs")
    assert [fact.why for fact in said if isinstance(fact, ActionFailed)] == [why]


def found(settings: NodeSettings, said: list[Fact], pace: RuntimePace = RUNTIME_PACE) -> Containers:
    """What a node of a machine with systemd makes of it, let go again."""

    async def find() -> Containers:
        containers = await find_containers(settings, said.append, pace=pace, systemd=settings.state_dir)
        if containers.driver is not None:
            await containers.driver.close()
        return containers

    return asyncio.run(find())


@pytest.mark.parametrize(
    ("config", "uses_slices"),
    [({}, False), ({"cgroupDriver": "cgroupfs"}, False), ({"cgroupDriver": "systemd"}, True)],
    ids=["unset", "cgroupfs", "systemd"],
)
def test_the_configuration_counts_while_a_runtime_is_silent_at_the_first_start(
    tmp_path: Path, config: dict[str, object], *, uses_slices: bool
) -> None:
    """Without it the agent says what it takes the driver for, and what to do if that is wrong."""
    settings = NodeSettings("n", tmp_path, policy=Policy.of(config), cri_endpoint=f"unix://{tmp_path}/none.sock")
    containers = found(settings, [])
    assert containers.uses_slices is uses_slices
    assert ("Its cgroup driver is not known" in containers.lack) is (not config)


def test_a_runtime_that_is_slow_at_the_first_start_is_waited_for(tmp_path: Path) -> None:
    """Its answer decides on the cgroups of a new node. One that is known from before gets less time."""
    pace = RuntimePace(answer=0.02, first_answer=0.03)
    settings = NodeSettings("n", tmp_path, cri_endpoint=f"unix://{tmp_path}/c.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/c.sock")
        silent.listen()
        assert "in 0.03 s" in found(settings, [], pace).lack
        settings.node_state.mkdir(parents=True)
        write_card(settings.node_state, NodeCard("files", 1, 1))
        assert "in 0.02 s" in found(settings, [], pace).lack


@needs_root
def test_pods_that_live_keep_the_kind_of_their_cgroups(tmp_path: Path) -> None:
    """An agent that comes back finds another driver: in cgroups of that kind it would not find its pods."""
    endpoint, said = tmp_path / "c.sock", list[Fact]()
    host = node_settings(tmp_path)
    settings = NodeSettings("n", tmp_path, cgroup_name=host.node_cgroup, cri_endpoint=f"unix://{endpoint}")
    answers: dict[str, Message] = {
        "Version": VERSION,
        "RuntimeConfig": {"linux": {"cgroup_driver": 0}},
        "Status": {"status": {"conditions": []}},
    }

    with node(host) as made, lying(endpoint, answers):
        place = made.kubepods.of_pod(pod("a"))
        place.create()
        assert found(settings, said).uses_slices
        assert said == []
        with running(place, python("")):
            assert not found(settings, said).uses_slices
            without = NodeSettings("n", tmp_path, cgroup_name=host.node_cgroup, runtime=HOST)
            assert not found(without, said).uses_slices
    assert [fact.what for fact in said if isinstance(fact, ActionFailed)] == ["run containers"]
