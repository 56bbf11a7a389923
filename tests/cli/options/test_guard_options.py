"""What the command line of a node becomes: the settings that the node is run with."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jettison.cli.options.guard_options import guard_options
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.node.settings import NodeSettings


@pytest.mark.parametrize(("flags", "seconds"), [([], 10.0), (["--volume-stats-agg-period=45s"], 45.0)])
def test_disks_are_measured_as_often_as_the_operator_says(flags: list[str], seconds: float, tmp_path: Path) -> None:
    """Left out, it is our own period and not the kubelet's minute."""
    made: list[NodeSettings] = []

    @click.command(cls=KubeletCommand)
    @guard_options
    def command(settings: NodeSettings) -> None:
        made.append(settings)

    done = CliRunner().invoke(command, ["--state-dir", str(tmp_path), *flags])

    assert done.exit_code == 0, done.output
    assert [each.disk_period for each in made] == [seconds]
