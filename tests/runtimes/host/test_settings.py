from __future__ import annotations

from pathlib import Path

import pytest

from jettison.errors import InputError
from jettison.runtimes.host.settings import HostSettings, checked_uid
from tests.builders import MI

HERE = Path("/somewhere")


def test_a_node_has_paths_of_its_own() -> None:
    settings = HostSettings("n1", HERE / "state", HERE / "node")
    assert settings.node_cgroup == "jettison/n1"
    assert settings.records_dir == HERE / "state/node/n1/pods"
    assert settings.pod_dir("u-1") == HERE / "node/pods/u-1"
    assert settings.logs_dir == HERE / "node/logs"
    assert HostSettings("n1", HERE, HERE, cgroup_name="mine").node_cgroup == "mine"


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "a..b", "-a", "a\n", "a" * 254])
def test_a_node_name_is_a_harmless_path_component(name: str) -> None:
    with pytest.raises(InputError, match="invalid node name"):
        HostSettings(name, HERE, HERE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"node_memory": 0}, "invalid node memory `0`"),
        ({"node_memory": 4 * MI - 1}, "must be at least 4194304"),
        ({"node_pids": 15}, "invalid node pids `15`"),
    ],
)
def test_a_node_too_small_to_hold_anything_is_a_mistake(changes: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        HostSettings("n1", HERE, HERE, **changes)  # type: ignore[arg-type]


def test_directories_are_absolute() -> None:
    with pytest.raises(InputError, match="must be an absolute path"):
        HostSettings("n1", Path("state"), HERE)


@pytest.mark.parametrize("uid", ["", ".", "..", "a/b", "a_b", "ä", "x" * 254, "a\n"])
def test_a_uid_that_is_no_harmless_path_component_is_refused(uid: str) -> None:
    with pytest.raises(InputError, match="invalid pod uid"):
        checked_uid(uid)
