"""The API on a disk that is full: what makes room goes on, all else is refused, and a restart works."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.served import Served, end, serving, start

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting a filesystem needs root"),
    pytest.mark.timeout(300),
]

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """24 MB."""
    image, mount = tmp_path / "disk.img", tmp_path / "disk"
    mount.mkdir()
    if request.param == "ext4":
        with image.open("wb") as file:
            file.truncate(24 * 2**20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        command = ["mount", "-o", "loop", str(image), str(mount)]
    else:
        command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(mount)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def on_disk(disk: Path) -> Path:
    """A state directory there; what the server says is written elsewhere."""
    (disk / "state").mkdir(mode=0o700)
    state = disk.with_name("state")
    state.symlink_to(disk / "state")
    return state


def fill(disk: Path) -> None:
    """To the last block."""
    with (disk / "filler").open("ab", buffering=0) as file:
        for size in (2**20, 2**12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def readiness(server: Served, path: str = "/readyz") -> tuple[int, str]:
    connection = server.connect()
    connection.request("GET", path, headers={"Authorization": f"Bearer {server.token()}"})
    response = connection.getresponse()
    found = response.status, response.read().decode()
    connection.close()
    return found


def pod(name: str) -> Json:
    containers = [{"name": "c", "image": "none"}]
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": containers, "nodeName": "n1"}}


def test_what_makes_room_goes_on(disk: Path, request: pytest.FixtureRequest) -> None:
    state = on_disk(disk)
    first = start(state, "--controllers=-")
    request.addfinalizer(first.process.kill)
    for number in range(60):
        assert first.call("POST", PODS, pod(f"p{number}"))[0] == 201
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "other"}}}
    assert first.call("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": spec})[0] == 201
    assert readiness(first) == (200, "ok")
    fill(disk)
    code, said = readiness(first)
    assert (code, "[-]store-space failed: the disk of" in said) == (500, True)
    assert readiness(first, "/livez") == (200, "ok")
    code, answer = first.call("POST", PODS, pod("new"))
    assert (code, answer["reason"]) == (500, "InternalError")
    assert "deletions and evictions are still possible" in answer["message"]
    check_that_pods_go(first, 0, disk)
    end(first.process, signal.SIGKILL)

    # Twice: certificates and kubeconfigs are there, and a server that was told to stop has tidied its WAL away.
    with serving(state, "--controllers=-") as second:
        check_that_pods_go(second, 20, disk)
        assert second.call("POST", PODS, pod("new"))[0] == 500
    with serving(state, "--controllers=-") as third:
        assert readiness(third)[0] == 500
        check_that_pods_go(third, 40, disk)
        (disk / "filler").unlink()
        time.sleep(0.02)  # the server knows how full the disk was up to 10 ms ago
        assert third.call("POST", PODS, pod("new"))[0] == 201
        assert readiness(third) == (200, "ok")


def check_that_pods_go(server: Served, first: int, disk: Path) -> None:
    """Ten are evicted, ten deleted, while something takes every block that gets free."""
    for number in range(first, first + 20):
        fill(disk)
        if number % 2:
            code, answer = server.call("DELETE", f"{PODS}/p{number}", {"gracePeriodSeconds": 0})
            assert code == 200, answer["message"]
        else:
            code, answer = server.call("POST", f"{PODS}/p{number}/eviction", {"metadata": {"name": f"p{number}"}})
            assert code == 201, answer["message"]
    left = {each["metadata"]["name"]: each for each in server.call("GET", PODS)[1]["items"]}
    for number in range(first, first + 20):
        assert f"p{number}" not in left or "deletionTimestamp" in left[f"p{number}"]["metadata"]


def test_a_selector_that_was_never_stored_guards_nothing_and_frees_nothing(disk: Path) -> None:
    with serving(on_disk(disk), "--controllers=-") as server:
        for number in range(3):
            assert server.call("POST", PODS, pod(f"p{number}"))[0] == 201
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            document = server.call("GET", f"{PODS}/p{number}")[1]
            assert server.call("PUT", f"{PODS}/p{number}/status", {**document, "status": status})[0] == 200
        spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        budget = server.call("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": spec})[1]
        fill(disk)
        budget["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        assert server.call("PUT", f"{BUDGETS}/b", budget)[0] == 500
        for number in range(3):
            body = {"metadata": {"name": f"p{number}"}}
            assert server.call("POST", f"{PODS}/p{number}/eviction", body)[0] == 429
