"""`jettison logs POD`: what a container wrote, also when its pod is gone and the agent down."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

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

# Colours, which do no harm beyond themselves; then the other control characters, of one byte and of two in UTF-8.
_ORDERS: Final = re.compile(rb"(\x1b\[[0-9;:]{0,64}m)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")
_BEGUN: Final = re.compile(rb"(?:\x1b(?:\[[0-9;:]{0,64})?|\xc2)\Z")
_NO_COLOURS: Final = b"\x1b[0m"


class LogOutput:
    """Where a log is printed. A file or another program gets the bytes as they are. On a terminal only line ends, tabs
    and colours have an effect: a pod must not clear the screen, name the window or type for the user at it.
    """

    def __init__(self, output: BinaryIO, *, is_terminal: bool) -> None:
        self._output = output
        self._is_terminal = is_terminal
        # The beginning of what may be a colour; the next block has the rest.
        self._held = b""
        self._is_coloured = False

    def write(self, block: bytes) -> None:
        """A part of the log; it may end in the middle of a character."""
        if not self._is_terminal:
            self._output.write(block)
            return
        block = self._held + block
        begun = _BEGUN.search(block)
        end = len(block) if begun is None else begun.start()
        self._held = block[end:]
        self._output.write(_ORDERS.sub(self._shown, block[:end]))

    def flush(self) -> None:
        """Let the reader see it."""
        self._output.flush()

    def end(self) -> None:
        """Nothing follows: what was held is no colour, and colours end with the log."""
        self._output.write(_ORDERS.sub(self._shown, self._held))
        self._held = b""
        if self._is_coloured:
            self._output.write(_NO_COLOURS)
        self._output.flush()

    def _shown(self, found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            self._is_coloured = True
            return found[1]
        return b"".join(b"\\x%02x" % byte for byte in found[0])


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
    output = LogOutput(sys.stdout.buffer, is_terminal=sys.stdout.isatty())
    try:
        place = _print(log_file(directory, run), tail, since if since_time is None else since_time, stamper, output)
        if follow:
            follower = LogFollower(directory, run, place, lambda: _fate(node, logs, name), stamper=stamper)
            _follow(follower, name, output)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        output.end()
    return 0


def _follow(follower: LogFollower, container: str, output: LogOutput) -> None:
    run = follower.run
    for block in follower.follow():
        output.write(block)
        if follower.run != run:
            run = follower.run
            output.flush()
            remark("note", f"container `{container}` was started again, this is run {run}")
        elif not block:
            output.flush()


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


def _print(path: Path, tail: int | None, since_ns: int | None, stamper: Stamper | None, output: LogOutput) -> int:
    """How much of the newest file was printed."""
    end = 0
    for block, place in log_blocks(path, tail, since_ns, stamper):
        output.write(block)
        end = place
    output.flush()
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
