"""Variables, what `$(NAME)` stands for, and the directory in which a container begins."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from jettison.errors import StartError
from jettison.runtimes.host.processes.launching import (
    SEARCH_PATH,
    at_once,
    environment,
    give_directory,
    working_directory,
)
from jettison.runtimes.host.specs.security import SecuritySpec
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.host.specs.texts import expand
from jettison.runtimes.host.specs.volumes import MountSpec
from tests.runtimes.host.nodes import needs_root
from tests.runtimes.host.scenes import Scene, manifest, play, shell

HERE = Path("/w")


NEVER = {"restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$(A)$(A) $(B)", "11 $(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(", "$("),
        ("$()", "$()"),
        ("$($(A))", "$(1)"),
        ("$(LOOP)", "$(LOOP)"),
    ],
)
def test_references(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "LOOP": "$(LOOP)"}) == expanded


def test_later_variables_may_refer_to_earlier_ones_and_to_ours() -> None:
    spec = ContainerSpec(
        "c",
        ("x",),
        (("A", "1"), ("B", "$(A)2$(C)"), ("C", "3"), ("D", "$(JETTISON_VOLUME_MY_CACHE)/d"), ("JETTISON_PLACE", "me")),
        mounts=(MountSpec("my-cache", PurePosixPath("cache"), PurePosixPath()),),
    )
    seen = {"my-cache": "/v/my-cache", "other": "/v/other"}
    found = at_once(environment(spec, "pod", HERE, seen, {"JETTISON_PLACE": "real"}))
    assert found["B"] == "12$(C)"
    assert found["D"] == "/v/my-cache/d"
    assert found["JETTISON_PLACE"] == "real"
    assert found["HOSTNAME"] == "pod"
    assert found["PATH"] == SEARCH_PATH
    assert "JETTISON_VOLUME_OTHER" not in found


def test_nothing_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "1")
    assert set(at_once(environment(ContainerSpec("c", ("x",)), "pod", HERE, {}, {}))) == {
        "PATH",
        "HOME",
        "TMPDIR",
        "HOSTNAME",
    }


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", "/w"),
        ("sub", "/w/sub"),
        ("/srv", "/srv"),
        ("/cache", "/w/cache"),
        ("/cache/x", "/w/cache/x"),
        ("/ca", "/ca"),
    ],
)
def test_the_working_directory_is_the_hosts_unless_it_lies_in_a_volume(asked: str, found: str) -> None:
    mount = MountSpec("v", PurePosixPath("cache"), PurePosixPath())
    assert working_directory(ContainerSpec("c", ("x",), working_dir=asked, mounts=(mount,)), HERE) == Path(found)


@needs_root
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


@needs_root
def test_another_user_takes_an_agent_that_is_root(public_path: Path) -> None:
    """It was said as an operation on a directory that is not permitted."""
    other = 65_534
    os.setegid(other)
    os.seteuid(other)
    try:
        with pytest.raises(StartError) as raised:
            give_directory(public_path, SecuritySpec(user=1, group=2))
    finally:
        os.seteuid(0)
        os.setegid(0)
    allowed = "the agent runs as user `65534`, and only root may take another user or group"
    assert str(raised.value) == f"cannot run as user `1` and group `2`: {allowed}"


@needs_root
def test_a_working_directory_is_not_made_where_a_link_leads(tmp_path: Path) -> None:
    """A container that ran before has left it in the volume."""

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


@needs_root
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
