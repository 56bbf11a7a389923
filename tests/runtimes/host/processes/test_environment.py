"""Variables and what `$(NAME)` stands for."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from jettison.runtimes.host.processes.environment import SEARCH_PATH, environment, working_directory
from jettison.runtimes.host.processes.expansion import expand
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.host.specs.volumes import MountSpec
from jettison.runtimes.host.volumes.volumes import Volume

HERE = Path("/w")


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
    seen = [Volume("my-cache", Path("/v/my-cache")), Volume("other", Path("/v/other"))]
    found = environment(spec, "pod", HERE, seen, {"JETTISON_PLACE": "real"})
    assert found["B"] == "12$(C)"
    assert found["D"] == "/v/my-cache/d"
    assert found["JETTISON_PLACE"] == "real"
    assert found["HOSTNAME"] == "pod"
    assert found["PATH"] == SEARCH_PATH
    assert "JETTISON_VOLUME_OTHER" not in found


def test_nothing_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "1")
    assert set(environment(ContainerSpec("c", ("x",)), "pod", HERE, (), {})) == {"PATH", "HOME", "TMPDIR", "HOSTNAME"}


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
