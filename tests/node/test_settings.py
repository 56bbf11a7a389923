"""The settings of a node: what is assumed, what is refused, and that every flag fills a field."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest

from jettison.cli.options.guard_options import guard_options
from jettison.engine.scheduling.placement import Taint
from jettison.errors import InputError
from jettison.node.cluster_settings import ClusterSettings, MemberSettings
from jettison.node.settings import NodeSettings

STATE = Path("/state")
# Not for operators: how often and for how long disks are walked.
# The last is what the container runtime says of itself.
NO_FLAG = {"disk_period", "disk_patience", "pace", "policy", "uses_slices"}


def test_every_setting_of_a_node_has_a_flag_that_fills_it() -> None:
    """Called as the field, so that there is no second list to keep."""

    @click.command()
    @guard_options
    def command(settings: NodeSettings) -> None: ...

    options = {option.name for option in command.params}
    assert {field.name for field in fields(NodeSettings)} - options == NO_FLAG


def test_what_is_not_given_is_assumed() -> None:
    found = NodeSettings("n1", STATE)
    assert (found.node_dir, found.node_state) == (Path("/state/node/n1/files"), Path("/state/node/n1"))
    assert found.node_labels == {"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux"}
    assert "memory.available<100Mi" in map(str, found.policy.thresholds)


def test_paths_do_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty path is the working directory, as everywhere, and not one that was left out."""
    monkeypatch.chdir(tmp_path)
    found = NodeSettings("n1", Path("state"), Path(), manifests=(Path("pods"),))
    assert found.state_dir == tmp_path / "state"
    assert found.node_dir == tmp_path
    assert found.manifests == (tmp_path / "pods",)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"node_name": "No Name"}, "invalid node name `No Name`"),
        ({"node_memory": 1}, "invalid node memory `1`"),
        ({"taints": (Taint("a", "b", "Never"),)}, "invalid effect `Never` of taint `a`"),
    ],
)
def test_a_mistake_is_told_when_the_value_is_made(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        NodeSettings(**{"node_name": "n1", "state_dir": STATE, **wrong})


def test_several_nodes_share_nothing_but_their_size() -> None:
    settings = NodeSettings("n1", STATE, Path("/node"), "own/place", 2**29, listen=("127.0.0.1", 80))
    first, second = (settings.for_node(name) for name in ("a", "b"))
    assert (first.node_dir, first.node_cgroup, first.listen) == (Path("/node/a"), "own/place/a", None)
    assert {first.node_dir, first.node_cgroup, first.records_dir}.isdisjoint(
        {second.node_dir, second.node_cgroup, second.records_dir}
    )
    assert first.node_memory == second.node_memory == 2**29
    usual = NodeSettings("n1", STATE).for_node("a")
    assert (usual.node_dir, usual.node_cgroup) == (Path("/state/node/a/files"), "jettison/a")


def test_a_member_may_not_label_itself_as_administrators_do() -> None:
    node = NodeSettings("n1", STATE, labels={"node-role.kubernetes.io/x": ""})
    with pytest.raises(InputError, match="may not label itself"):
        MemberSettings(node)
    with pytest.raises(InputError, match="may not label itself"):
        ClusterSettings(STATE, nodes=(node,))
