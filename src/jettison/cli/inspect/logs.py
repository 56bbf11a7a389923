"""`jettison logs POD`: what a container wrote, also when its pod is gone and the agent down."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from jettison.agent.journal.reading import PodQuery
from jettison.cli.inspect.journal import instant, point
from jettison.cli.inspect.recorded_pods import read_record, recorded_status
from jettison.cli.inspect.watched_node import WatchedNode, first_to_know, watched_nodes_options
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.output import remark
from jettison.cli.program import INTERRUPTED
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import InputError, JettisonError, ManifestError
from jettison.node.logs.log_files import (
    Fate,
    LogFollower,
    PodLogs,
    Stamper,
    find_pod_logs,
    last_written,
    log_blocks,
    runs_of,
)
from jettison.runtimes.host.volumes.logs import log_file
from jettison.runtimes.protocol import PodStatus


@click.command()
@click.argument("pod")
@click.option("-c", "--container", metavar="NAME", help="Which container; without it, the first.")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Print new lines as they come, over restarts, until the container has ended for good.",
)
@click.option("--tail", type=WholeNumber(0), metavar="N", help="Begin with the last N lines.")
@click.option("-p", "--previous", is_flag=True, help="Print the run before the last one.")
@click.option("--timestamps", is_flag=True, help="Put the time before each line; of processes to a second.")
@click.option("--since", type=instant, metavar="WHEN", help="Only lines of the last `10m`, or since a time.")
@click.option("--since-time", type=point, metavar="TIME", help="Only lines since `2030-01-01T00:00:00Z`.")
@watched_nodes_options
def command(
    nodes: Sequence[WatchedNode],
    pod: str,
    container: str | None,
    follow: bool,
    tail: int | None,
    previous: bool,
    timestamps: bool,
    since: int | None,
    since_time: int | None,
) -> int:
    """Print what a container of POD wrote to standard output and standard error.

    POD is a name, `namespace/name`, or a uid. The logs of a pod stay after its end until the disk space is needed.
    """
    if follow and previous:
        raise InputError("--previous has ended, there is nothing to --follow")
    if since is not None and since_time is not None:
        raise InputError("at most one of `--since` or `--since-time` may be specified")
    node, logs = _find(nodes, PodQuery.parse(pod))
    name = _container(logs, container, _status(node, logs))
    directory = logs.directory / name
    run = _run(logs, name, directory, is_previous=previous)
    stamper = Stamper() if timestamps else None
    try:
        place = _print(log_file(directory, run), tail, since if since_time is None else since_time, stamper)
        if follow:
            _follow(LogFollower(directory, run, place, lambda: _fate(node, logs, name), stamper=stamper), name)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _follow(follower: LogFollower, container: str) -> None:
    run = follower.run
    for block in follower.follow():
        sys.stdout.buffer.write(block)
        if follower.run != run:
            run = follower.run
            sys.stdout.buffer.flush()
            remark("note", f"container `{container}` was started again, this is run {run}")
        elif not block:
            sys.stdout.buffer.flush()


def _find(nodes: Sequence[WatchedNode], query: PodQuery) -> tuple[WatchedNode, PodLogs]:
    def look(node: WatchedNode) -> tuple[int, PodLogs] | None:
        found = find_pod_logs(node.logs_dir, query)
        return None if found is None else (last_written(found), found)

    known = first_to_know(nodes, look)
    if known is None:
        raise JettisonError(f"there are no logs of a pod `{query}`")
    node, logs, others = known
    if others:
        also = ", ".join(others)
        remark("note", f"this is from node `{node.name}`; also on {also}, which --node-name chooses")
    return node, logs


def _print(path: Path, tail: int | None, since_ns: int | None, stamper: Stamper | None) -> int:
    """How much of the newest file was printed."""
    end = 0
    for block, place in log_blocks(path, tail, since_ns, stamper):
        sys.stdout.buffer.write(block)
        end = place
    sys.stdout.buffer.flush()
    return end


def _container(logs: PodLogs, wanted: str | None, status: PodStatus | None) -> str:
    # In the order of the pod, init containers last: they are rarely meant. For a pod that is gone, by name.
    known = [] if status is None else sorted(status.containers, key=lambda each: each.is_init)
    names = [each.name for each in known if each.name in logs.containers] or logs.containers
    if not names:
        raise JettisonError(f"no container of pod `{logs}` has written anything")
    if wanted is None:
        if len(names) > 1:
            remark("note", f"container `{names[0]}` of {', '.join(names)}; -c chooses another")
        return names[0]
    if wanted not in names:
        raise InputError(f"pod `{logs}` has no container `{wanted}` with logs, there is {', '.join(names)}")
    return wanted


def _run(logs: PodLogs, name: str, directory: Path, *, is_previous: bool) -> int:
    runs = runs_of(directory)
    if is_previous and len(runs) < 2:
        raise JettisonError(f"of container `{name}` of pod `{logs}` there is no run before the last one")
    if not runs:
        raise JettisonError(f"container `{name}` of pod `{logs}` has written nothing")
    return runs[-2] if is_previous else runs[-1]


def _status(node: WatchedNode, logs: PodLogs) -> PodStatus | None:
    record = read_record(node.records, logs.uid)
    try:
        return None if record is None else recorded_status(record)
    except ManifestError:
        return None  # written by another version of this program; the logs are there all the same


def _fate(node: WatchedNode, logs: PodLogs, name: str) -> Fate:
    status = _status(node, logs)
    if status is None or status.phase in ENDED_PHASES:
        return Fate.OVER
    state = next((each.state for each in status.containers if each.name == name), "terminated")
    return Fate.ENDED if state == "terminated" else Fate.LIVES
