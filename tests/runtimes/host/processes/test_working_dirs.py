"""Where containers begin, and that nothing is made elsewhere on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtimes.host.nodes import needs_root
from tests.runtimes.host.scenes import Scene, manifest, play, shell

pytestmark = needs_root

NEVER = {"restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("work/deep", "containers/c/0/work/deep"),
        ("/data/work/deep", "volumes/v/work/deep"),
        ("data/work", "volumes/v/work"),
    ],
)
def test_a_working_directory_of_its_own_is_made(public_path: Path, asked: str, found: str) -> None:
    async def scenario(scene: Scene) -> None:
        script = "pwd -P; touch file; stat -c %u . .. file"
        one = shell(script, workingDir=asked, volumeMounts=[{"name": "v", "mountPath": "/data"}])
        volumes = [{"name": "v", "emptyDir": {}}]
        await scene.supervisor.start(manifest(one, volumes=volumes, securityContext={"runAsUser": 12345}, **NEVER))
        await scene.phase("Succeeded")
        above = "0" if asked == "data/work" else "12345"
        assert scene.log().split() == [f"{scene.settings.pod_dir('uid-a')}/{found}", "12345", above, "12345"]

    play(public_path, scenario)


def test_a_working_directory_is_not_made_where_a_link_leads(tmp_path: Path) -> None:
    """Who ran before has left it in the volume."""

    async def scenario(scene: Scene) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        mounts = [{"name": "v", "mountPath": "/data"}]
        first = shell(f"ln -s {outside} data/link", "first", volumeMounts=mounts)
        second = shell("pwd", workingDir="/data/link/made", volumeMounts=mounts)
        volumes = [{"name": "v", "emptyDir": {}}]
        await scene.supervisor.start(manifest(second, initContainers=[first], volumes=volumes, **NEVER))
        await scene.phase("Failed")
        assert scene.container().message == "cannot make workingDir `/data/link/made`: not a directory"
        assert list(outside.iterdir()) == []

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("/No/such", "cannot start `sh`: workingDir `/No/such`: no such file or directory"),
        ("../../x", "cannot make workingDir `../../x`: allowed is one without `..`"),
    ],
)
def test_a_working_directory_of_the_host_that_is_missing_is_named(tmp_path: Path, asked: str, why: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(shell("pwd", workingDir=asked), **NEVER))
        await scene.phase("Failed")
        assert scene.container().message == why

    play(tmp_path, scenario)
