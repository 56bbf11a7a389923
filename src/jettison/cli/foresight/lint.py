"""`jettison lint`: what is wrong with configurations, workloads and budgets, by the rules of docs/lint.md.

The rules (`lint_findings`) are loaded after a cluster has been asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from jettison.cli.options.host_options import state_dir_option
from jettison.cli.options.kubelet_flags import ConfigArguments, KubeletCommand
from jettison.cli.output import JSON, TABLE, YAML, Remarks
from jettison.cli.policy.node_source import (
    NodeSource,
    after_reclaim_option,
    capacity_value_options,
    known_history_option,
    node_source_options,
)
from jettison.errors import PolicyError

SARIF = "sarif"
_LEVELS = ("error", "warning", "note")


@click.command(cls=KubeletCommand)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--kube", is_flag=True, help="Check the workloads and budgets of a cluster, found as kubectl finds it.")
@click.option(
    "--against-live", is_flag=True, help="Say which pods this configuration would evict now from a node as it is."
)
@click.option(
    "--fail-on",
    type=click.Choice([*_LEVELS, "never"]),
    default="error",
    show_default=True,
    help="Exit with 2 if there is a finding of this severity or a worse one.",
)
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave out a rule; may be repeated.")
@capacity_value_options
@node_source_options(known_history_option, after_reclaim_option)
@click.option(
    "-o",
    "--output",
    type=click.Choice([TABLE, JSON, YAML, SARIF]),
    default=TABLE,
    show_default=True,
    help="How to print the findings; sarif is SARIF 2.1.0.",
)
@click.option(
    "--node-name", metavar="NAME", help="A node of this machine: its past, and with --against-live its present."
)
@state_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    kube: bool,
    against_live: bool,
    fail_on: str,
    ignore: tuple[str, ...],
    told: Mapping[str, str | None],
    source: NodeSource,
    output: str,
    node_name: str | None,
    state_dir: Path,
) -> None:
    """Check kubelet configurations, manifests and directories of both, or a cluster, by the rules of docs/lint.md.

    A file of kind KubeletConfiguration is checked as the kubelet would read it, with drop-ins and flags from the
    command line. Its node's size comes from --summary, from --node or from --capacity-…, or else from this machine.
    """
    seen, remarks = None, Remarks()
    if source.cluster_node or (source.summary_path and source.pods_path):
        # The configuration in the paths is what is checked; this is what the node has now.
        seen = replace(source, config=ConfigArguments()).look(remarks if against_live else Remarks())
    from jettison.cli.foresight.lint_findings import Question, answer  # noqa: PLC0415  see above

    asked = Question(paths, kube, against_live, ignore, told, source, node_name, state_dir)
    found = answer(asked, seen, output, remarks)
    if fail_on in _LEVELS and not set(found).isdisjoint(_LEVELS[: _LEVELS.index(fail_on) + 1]):
        ctx.exit(PolicyError.exit_code)
