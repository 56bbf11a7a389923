"""`jettison next`: what is left, where it is going, when a threshold is reached, and which pods would go then.

What judges and prints is loaded when the node has been looked at, and only what this kind of node needs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jettison.agent.safe_text import printable
from jettison.cli.options.go_flags import Seconds, window
from jettison.cli.options.host_options import state_dir_option
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.cli.output import TABLE, Remarks, emit, output_option
from jettison.cli.policy.node_source import (
    NodeSource,
    after_reclaim_option,
    known_history_option,
    node_source_options,
)
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import InputError, ObservationError

if TYPE_CHECKING:
    from jettison.cli.foresight.outlook_report import NodeOutlook
    from jettison.engine.node.snapshot import NodeStats

# As many looks as a cluster's node is remembered for.
_MOST_LOOKS = 1000

Look = Callable[[Remarks], "NodeOutlook"]


@click.command(cls=KubeletCommand)
@click.option("--watch", "-w", is_flag=True, help="Look again and again, in place, until q; needs a terminal.")
@click.option(
    "--interval",
    type=Seconds(0.1, 3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="The time between two looks.",
)
@click.option(
    "--window",
    "window_ns",
    type=window,
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="How far a trend looks back.",
)
@click.option(
    "--observe",
    "observe_ns",
    type=window,
    metavar="DURATION",
    help="With --node: look for so long before answering, because a cluster remembers no readings.",
)
@click.option(
    "--earlier",
    "earlier",
    multiple=True,
    metavar="FILE",
    help="With files: an earlier summary of the node; repeatable.",
)
@node_source_options(known_history_option, after_reclaim_option)
@output_option
@click.option("--node-name", metavar="NAME", help="Which node of this machine. [default: the only one, or this host's]")
@state_dir_option
def command(
    watch: bool,
    interval: float,
    window_ns: int,
    observe_ns: int | None,
    earlier: tuple[str, ...],
    source: NodeSource,
    output: str,
    node_name: str | None,
    state_dir: Path,
) -> None:
    """Say how far each signal is from its thresholds, how fast it gets there, and which pods would go then.

    The node is one of this machine; or described by files (--summary, --pods, --earlier); or one of a cluster (--node).
    """
    if earlier and not source.summary_path:
        raise InputError("--earlier goes with --summary")
    if observe_ns is not None and not source.cluster_node:
        raise InputError("--observe goes with --node")
    if watch and source.summary_path:
        raise InputError("--watch has nothing to watch in files")
    if source.cluster_node:
        look = _of_cluster(source, window_ns)
    elif source.is_elsewhere:
        look = _of_files(source, earlier)
    else:
        source.refuse_settings()
        look = _of_machine(state_dir, node_name, window_ns)
    if observe_ns is not None:
        _observe(look, observe_ns, interval)
    if watch and output == TABLE and sys.stdout.isatty():
        _watch(look, interval)
        return
    remarks = Remarks()
    view = look(remarks)
    emit(output, remarks, view.text, view.data)


def _of_machine(state_dir: Path, node_name: str | None, window_ns: int) -> Look:
    from jettison.cli.foresight.agent_node import last_on_record, look_at_agent, past_of  # noqa: PLC0415  see above
    from jettison.cli.foresight.outlook_report import view_of  # noqa: PLC0415
    from jettison.cli.inspect.watched_node import find_node  # noqa: PLC0415

    node = find_node(state_dir, node_name)

    def look(remarks: Remarks) -> NodeOutlook:
        try:
            seen = look_at_agent(node, remarks)
        except ObservationError as failure:
            seen = last_on_record(node, failure, remarks)
        now_ns = seen.case.snapshot.now_ns
        past = past_of(node, now_ns - window_ns)
        # A step on record may be long ago, and readings later than it say nothing of what was left then.
        past.series = {signal: each.until(now_ns) for signal, each in past.series.items()}
        return view_of(seen, past, now_ns - window_ns)

    return look


def _of_files(source: NodeSource, earlier: tuple[str, ...]) -> Look:
    def look(remarks: Remarks) -> NodeOutlook:
        seen = source.look(remarks)
        from jettison.cli.foresight.outlook_report import view_of  # noqa: PLC0415  see above
        from jettison.cli.foresight.past_input import past_in_files  # noqa: PLC0415

        return view_of(seen, past_in_files(earlier, seen), None)

    return look


def _of_cluster(source: NodeSource, window_ns: int) -> Look:
    """Looks are remembered for the next one."""
    kept: list[NodeStats] = []

    def look(remarks: Remarks) -> NodeOutlook:
        seen = source.look(remarks)
        from jettison.cli.foresight.outlook_report import view_of  # noqa: PLC0415  see above
        from jettison.cli.foresight.past_input import past_in  # noqa: PLC0415

        kept.append(seen.case.snapshot.node)
        del kept[:-_MOST_LOOKS]
        return view_of(seen, past_in(kept), seen.case.snapshot.now_ns - window_ns)

    return look


def _observe(look: Look, length_ns: int, interval: float) -> None:
    ends = time.monotonic() + length_ns / SECOND_NS
    while (left := ends - time.monotonic()) > 0:
        look(Remarks())
        time.sleep(min(interval, left))


def _watch(look: Look, interval: float) -> None:
    from jettison.cli.inspect.top import Key, Screen  # noqa: PLC0415  see above
    from jettison.cli.inspect.top_frame import Line  # noqa: PLC0415

    with Screen() as screen:
        while True:
            try:
                lines = [Line(each) for each in look(Remarks()).text().splitlines()]
            except ObservationError as failure:
                lines = [Line(printable(str(failure)), is_alarming=True)]
            screen.draw([*lines, Line(""), Line("q quit")])
            due = time.monotonic() + interval
            while (left := due - time.monotonic()) > 0:
                if Key.QUIT in screen.wait(left):
                    return
