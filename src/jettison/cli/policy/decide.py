"""`jettison decide`: what would be done now?

What decides is loaded when the node has been looked at.
"""

from __future__ import annotations

from dataclasses import replace

import click

from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.cli.output import Remarks, emit, output_option
from jettison.cli.policy.node_source import NodeSource, after_reclaim_option, node_source_options

_history_option = click.option(
    "--history",
    "history_path",
    metavar="FILE",
    help="What the last call remembered (grace clocks, conditions); read if it exists, written afterwards.",
)


@click.command("decide", cls=KubeletCommand, short_help="What would be done now?")
@node_source_options(_history_option, after_reclaim_option)
@click.option(
    "--now", "now_text", metavar="TIME", help="RFC 3339, or `now`; without it the newest time in the summary."
)
@output_option
def command(source: NodeSource, now_text: str | None, output: str) -> None:
    """Run one step of the eviction loop: readings against thresholds, conditions, the decision, and its effect on pods.

    The node is one of a cluster (--node) or described by files (--summary, --pods). Call it again with the same
    --history to follow a node through grace periods and recoveries.
    """
    remarks = Remarks()
    seen = source.look(remarks)
    from jettison.cli.policy import decided_step  # noqa: PLC0415  see above
    from jettison.cli.policy.node_input import save_history  # noqa: PLC0415

    case = seen.case
    now = decided_step.now_of(now_text, case.snapshot.node)
    remarks.warnings += decided_step.time_warnings(case.history, now)
    step = decided_step.decided(seen.found, case.history, replace(case.snapshot, now_ns=now.time_ns), now)
    if case.after is not None:
        step = decided_step.look_again(step, case.after.node)
        if step.second is None:
            remarks.warnings.append("--after-reclaim is ignored: no reclaim was ordered")
    if source.history_path is not None:
        save_history(source.history_path, step.after, seen.name)
    emit(output, remarks, lambda: decided_step.step_text(step), lambda: decided_step.step_data(step, source.profile))
