"""`jettison relieve`: relief beside a kubelet.

`relieve report` is a module of its own: what it takes to read a journal would be half of the start of relief.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from jettison.cli.extras import require
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.options.host_options import state_dir_option
from jettison.cli.program import LazyGroup
from jettison.node.places import absolute, default_node_name
from jettison.node.relief_settings import ReliefSettings
from jettison.node.settings import NodeSettings
from jettison.runtimes.adopted.back_off import MOST_A_MINUTE

if TYPE_CHECKING:
    from jettison.node.cluster_settings import HandOver

_COMMANDS: Final = {
    "report": ("cluster.relief_report", "Score predictions against what came: lead time, hits, misses, false alarms."),
}


def _thresholds(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        for each in text.split(","):
            signal, sign, amount = each.partition("<")
            if not (signal.strip() and sign and amount.strip()):
                raise click.BadParameter(f"`{each}`: expected a threshold such as `memory.available<300Mi`")
            found[signal.strip()] = amount.strip()
    return found


@click.command(cls=LazyGroup, lazy=_COMMANDS, invoke_without_command=True)
@click.option(
    "--enforce/--observe",
    default=False,
    help="Ask for evictions, or only predict and keep the score. [default: --observe]",
)
@click.option("--node", "node_name", metavar="NAME", default="", help="The node of this machine. [default: its name]")
@click.option(
    "--kubeconfig", metavar="FILE", default="", help="Use this file instead of $KUBECONFIG and ~/.kube/config."
)
@click.option("--context", "kube_context", metavar="NAME", default="", help="Use this context instead of the current.")
@click.option(
    "--at",
    multiple=True,
    callback=_thresholds,
    metavar="THRESHOLD",
    help="Relieve at this threshold, such as 'memory.available<300Mi'. Repeatable. [default: twice the kubelet's]",
)
@click.option(
    "--within", metavar="CGROUP", default="", help="The cgroup that is the node. [default: the whole machine]"
)
@click.option(
    "--max-evictions-per-minute",
    "most_a_minute",
    type=WholeNumber(1),
    default=MOST_A_MINUTE,
    show_default=True,
    help="Ask for no more than this; what then is left is an alert.",
)
@click.option(
    "--lease-namespace", metavar="NAME", default="kube-system", show_default=True, help="Where its Lease is kept."
)
@click.option("--verbose", "is_verbose", is_flag=True, help="Log alarms and rankings too.")
@state_dir_option
@click.pass_context
def command(
    context: click.Context,
    /,
    enforce: bool,
    node_name: str,
    kubeconfig: str,
    kube_context: str,
    at: dict[str, str],
    within: str,
    most_a_minute: int,
    lease_namespace: str,
    is_verbose: bool,
    state_dir: Path,
) -> None:
    """Relieve a kubelet's node early: evict, through the Eviction API, the pod that the kubelet would evict.

    \b
    jettison relieve --node n1
    jettison relieve --node n1 --enforce --at 'memory.available<500Mi'
    jettison relieve report

    It runs on the machine of the kubelet, reads the cgroups of its pods itself and its configuration through the API.
    Budgets hold, and every pod has its grace period. Without --enforce it only predicts, and `report` scores its
    predictions against the evictions and OOM kills that came. docs/relieve.md has manifests for every node.
    """
    if context.invoked_subcommand is not None:
        return
    require("jettison relieve", "kube")
    hand_over: HandOver = context.obj
    settings = NodeSettings(
        node_name=node_name or default_node_name(),
        state_dir=state_dir,
        is_dry_run=not enforce,
        is_verbose=is_verbose,
        uses_cgroups=False,
    )
    path = str(absolute(Path(kubeconfig))) if kubeconfig else ""
    hand_over(ReliefSettings(settings, path, kube_context, at, within.strip("/"), most_a_minute, lease_namespace))
