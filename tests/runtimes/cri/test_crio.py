"""What CRI-O 1.36 answers, as far as it differs from containerd."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from jettison.errors import RuntimeFailure, StartError
from jettison.runtimes.containers import BoxEnd, BoxLimits, BoxOrder, FoundImage, MadeBox, ReadySandbox, SandboxOrder
from jettison.runtimes.cri.client import CriClient
from jettison.runtimes.cri.driver import CriDriver, cgroup_name
from jettison.runtimes.cri.messages import EXITED, RUNNING
from jettison.runtimes.cri.store import CriStore
from jettison.runtimes.grpc.wire import Message
from jettison.runtimes.machine.node_disks import StorageDirs
from tests.runtimes.lying_runtime import Lie, LyingRuntime, lying

T = TypeVar("T")

BOX = "04fcc5332c6e19c784f2847f893abf308d5f3a76747e191df4728701e5b4362c"
IMAGE = "1da3e3bf95db7893a720a77e06593d29492d5626de16e345385a9b22ab0e89b1"
PAUSE = "8dce4bb52eeb1705269cdc8bfd0e95474f36a5193e862368632d2fa1c6a69233"
VERSION: Message = {
    "version": "0.1.0",
    "runtime_name": "cri-o",
    "runtime_version": "1.36.3",
    "runtime_api_version": "v1",
}
# Its images have no `sha256:` before their ids, and digests also when they came from an archive.
IMAGES: Message = {
    "images": [
        {
            "id": PAUSE,
            "repo_tags": ["docker.io/local/pause:1"],
            "repo_digests": ["docker.io/local/pause@sha256:fbd1"],
            "size": 2008142,
            "pinned": True,
        },
        {
            "id": IMAGE,
            "repo_tags": ["docker.io/local/box:1"],
            "repo_digests": ["docker.io/local/box@sha256:8a35"],
            "size": 2008190,
        },
    ]
}
STATUS: Message = {
    "status": {"conditions": [{"type": "RuntimeReady", "status": True}]},
    "info": {"config": json.dumps({"crio": {"DropInfraCtr": True}, "sandboxImage": "docker.io/local/pause:1"})},
}
ANSWERS: dict[str, Lie] = {"Version": VERSION, "ListImages": IMAGES, "Status": STATUS}


def asked(
    tmp_path: Path, answers: dict[str, Lie], question: Callable[[CriDriver], Awaitable[T]]
) -> tuple[T, LyingRuntime]:
    """What a driver makes of these answers."""

    async def ask(path: Path) -> T:
        client = CriClient(path)
        try:
            return await question(CriDriver(client, "cri-o 1.36.3", "jettison/n", lambda _fact: None))
        finally:
            client.close()

    with lying(tmp_path / "c.sock", ANSWERS | answers) as runtime:
        return asyncio.run(ask(tmp_path / "c.sock")), runtime


@pytest.mark.parametrize(
    ("runtime", "is_scope", "wanted"),
    [
        ("cri-o", False, "crio-0123"),
        ("cri-o", True, "crio-0123.scope"),
        ("containerd", False, "0123"),
        ("containerd", True, "cri-containerd-0123.scope"),
    ],
)
def test_each_runtime_has_names_of_its_own_for_cgroups(runtime: str, is_scope: bool, wanted: str) -> None:
    assert cgroup_name(runtime, "0123", is_scope=is_scope) == wanted


def test_a_container_is_made_with_the_name_of_its_image(tmp_path: Path) -> None:
    """CRI-O makes none without it. And where its cgroup is going to be is known before anything runs in it."""
    image = FoundImage("docker.io/local/box:1", IMAGE)
    order = SandboxOrder("default", "p", "u", "jettison/n/kubepods/podu", "/logs")

    async def create(driver: CriDriver) -> MadeBox:
        return await driver.create(ReadySandbox("s"), order, BoxOrder("c", 0, image, "c/0.cri"))

    made, runtime = asked(tmp_path, {"CreateContainer": {"container_id": BOX}}, create)
    assert made == MadeBox(BOX, f"crio-{BOX}")
    (request,) = [request for method, request in runtime.asked if method == "CreateContainer"]
    assert request["config"]["image"] == {"image": IMAGE, "user_specified_image": "docker.io/local/box:1"}


NO_IDS = ["../../../init.scope", "/etc", ".", "", "a/b", "a\0b", "a\n", "\x1b[2J", "x" * 4000]


@pytest.mark.parametrize("box", NO_IDS)
def test_what_is_no_id_is_refused(tmp_path: Path, box: str) -> None:
    """The cgroup is named after it: one with dots in it ended the care for the pod, which could not be removed then."""
    order = SandboxOrder("default", "p", "u", "jettison/n/kubepods/podu", "/logs")

    async def make(driver: CriDriver) -> None:
        with pytest.raises(StartError, match="it has made a sandbox whose id is none"):
            await driver.sandbox(order)
        with pytest.raises(StartError, match="it has made a container whose id is none") as refused:
            await driver.create(ReadySandbox("s"), order, BoxOrder("c", 0, FoundImage("i", IMAGE), "c/0.cri"))
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 300
        assert await driver.client.containers({}) == ()

    answers: dict[str, Lie] = {
        "CreateContainer": {"container_id": box},
        "RunPodSandbox": {"pod_sandbox_id": box},
        "ListPodSandbox": {"items": [{"id": box}]},
        "ListContainers": {"containers": [{"id": box}]},
    }
    asked(tmp_path, answers, make)


@pytest.mark.parametrize("path", ["/a\0b", "relative", "/" + "x" * 5000])
def test_a_filesystem_whose_path_is_none_is_not_told(tmp_path: Path, path: str) -> None:
    """The kernel is not even asked about a NUL: that was an exception in the thread that looks at disks."""
    disks: Lie = {"image_filesystems": [{"fs_id": {"mountpoint": path}}]}
    assert asked(tmp_path, {"ImageFsInfo": disks}, lambda driver: driver.storage())[0] is None


@pytest.mark.parametrize(("is_killed_as_one", "unified"), [(False, {}), (True, {"memory.oom.group": "1"})])
def test_what_dies_as_one_is_said_by_cri(tmp_path: Path, is_killed_as_one: bool, unified: dict[str, str]) -> None:
    """As a kubelet says it; only for cgroups of version 2, which alone have such a file."""
    order = SandboxOrder("default", "p", "u", "jettison/n/kubepods/podu", "/logs")
    limits = BoxLimits(is_killed_as_one=is_killed_as_one)

    async def create(driver: CriDriver) -> MadeBox:
        box = BoxOrder("c", 0, FoundImage("docker.io/local/box:1", IMAGE), "c/0.cri", limits=limits)
        return await driver.create(ReadySandbox("s"), order, box)

    _, runtime = asked(tmp_path, {"CreateContainer": {"container_id": BOX}}, create)
    (request,) = [request for method, request in runtime.asked if method == "CreateContainer"]
    assert request["config"]["linux"]["resources"]["unified"] == unified


def test_a_container_is_stopped_before_it_is_removed(tmp_path: Path) -> None:
    """By the books of a runtime it may run on for a moment after its death, and containerd removes none that runs."""

    async def discard(driver: CriDriver) -> None:
        driver.open()
        driver.discard(BOX)
        await driver.close()

    _, runtime = asked(tmp_path, {"StopContainer": {}, "RemoveContainer": {}}, discard)
    orders = [(method, request["container_id"]) for method, request in runtime.asked if "Container" in method]
    assert orders == [("StopContainer", BOX), ("RemoveContainer", BOX)]


@pytest.mark.parametrize(
    ("state", "info", "pid"),
    [(RUNNING, {"info": '{"pid": 7}'}, 7), (RUNNING, {}, None), (RUNNING, {"info": "none"}, None), (EXITED, {}, 0)],
)
def test_a_runtime_may_keep_the_number_of_a_process_to_itself(
    tmp_path: Path, state: int, info: dict[str, str], pid: int | None
) -> None:
    """It is in what a runtime adds for people to read, and CRI does not ask for it."""
    answers: dict[str, Lie] = {"StartContainer": {}, "ContainerStatus": {"status": {"state": state}, "info": info}}
    assert asked(tmp_path, answers, lambda driver: driver.start(BOX))[0] == pid


@pytest.mark.parametrize(
    ("state", "code", "reason", "end"),
    [
        (EXITED, 3, "Error", BoxEnd(3, is_oom=False)),
        (EXITED, 137, "OOMKilled", BoxEnd(137, is_oom=True)),
        (EXITED, 0, "Completed", BoxEnd(0, is_oom=False)),
        (EXITED, -1, "Error", None),
        (RUNNING, 0, "", None),
    ],
)
def test_an_end_without_a_code_is_not_known_yet(
    tmp_path: Path, state: int, code: int, reason: str, end: BoxEnd | None
) -> None:
    """-1 is no code of a process: CRI-O has not read it yet, or never will."""
    answers: dict[str, Lie] = {"ContainerStatus": {"status": {"state": state, "exit_code": code, "reason": reason}}}
    found, _ = asked(tmp_path, answers, lambda driver: driver.end_of(BOX, 0.2))
    assert found == end


def test_a_command_gets_the_deadline_of_its_caller(tmp_path: Path) -> None:
    """CRI-O does not end a command whose caller has gone: a probe that hangs would leave one more with each period."""
    answers: dict[str, Lie] = {"ExecSync": {"exit_code": 7}}
    found, runtime = asked(tmp_path, answers, lambda driver: driver.run_command(BOX, ("test", "-e", "/x"), 5))
    assert found == 7
    assert runtime.asked[-1][1]["timeout"] == 6


def test_a_command_that_ran_out_of_time_has_no_exit_code(tmp_path: Path) -> None:
    """containerd answers with an error, CRI-O with a code that no process has."""
    answers: dict[str, Lie] = {"ExecSync": {"exit_code": -1, "stderr": b"command timed out"}}
    with pytest.raises(StartError, match="`sleep` has not ended within 6 s"):
        asked(tmp_path, answers, lambda driver: driver.run_command(BOX, ("sleep", "60"), 5))


def test_images_in_use_are_known_by_their_bare_ids(tmp_path: Path) -> None:
    listed: Message = {"id": BOX, "state": RUNNING, "image_id": IMAGE, "image_ref": "docker.io/local/box@sha256:8a35"}

    async def use(driver: CriDriver) -> tuple[set[tuple[str, bool]], frozenset[str]]:
        held = await driver.held_images()
        return {(each.id, each.is_pinned) for each in held}, await driver.used_images()

    (held, used), _ = asked(tmp_path, {"ListContainers": {"containers": [listed]}}, use)
    assert held == {(PAUSE, True), (IMAGE, False)}
    assert used == {IMAGE}


@pytest.mark.parametrize(
    ("images", "layers"), [("/v/overlay-images", "/v/overlay-images"), ("/i/overlay-images", "/v/overlay-containers")]
)
def test_writable_layers_may_be_on_a_disk_of_their_own(tmp_path: Path, images: str, layers: str) -> None:
    """With `imagestore`. The sizes are of lists and not of layers, and nothing is made of them."""

    def told(path: str) -> dict[str, Any]:
        return {"fs_id": {"mountpoint": path}, "used_bytes": {"value": 16937}, "inodes_used": {"value": 11}}

    answers: dict[str, Lie] = {
        "ImageFsInfo": {"image_filesystems": [told(images)], "container_filesystems": [told(layers)]}
    }
    found, _ = asked(tmp_path, answers, CriStore.storage)
    assert found == StorageDirs(images, layers)


@pytest.mark.parametrize("driver", [0, 1])
def test_the_driver_of_cgroups_is_asked_for(tmp_path: Path, driver: int) -> None:
    """0 is systemd's, and a field with 0 is not on the wire."""

    async def look(of: CriDriver) -> bool:
        return await of.client.uses_systemd()

    found, _ = asked(tmp_path, {"RuntimeConfig": {"linux": {"cgroup_driver": driver}}}, look)
    assert found is (driver == 0)


def test_an_image_in_use_is_not_removed(tmp_path: Path) -> None:
    """containerd takes it off its books, CRI-O refuses. It is a failure like any other."""
    why = "delete image: image used by 3980155c51fa: image is in use by a container"
    with pytest.raises(RuntimeFailure, match="is in use by a container"):
        asked(tmp_path, {"RemoveImage": (2, why)}, lambda driver: driver.remove_image(IMAGE))
