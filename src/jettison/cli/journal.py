"""`jettison journal`: what was decided and what came of it, in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

import click
import msgspec

from jettison.agent.journal_reading import PodQuery, Record, read_journal
from jettison.agent.records import STEP
from jettison.cli.go_flags import WholeNumber
from jettison.cli.journal_lines import journal_lines
from jettison.cli.output import JSON, TABLE, remark
from jettison.cli.watched_node import WatchedNode, watched_node_options
from jettison.engine.durations import parse_duration
from jettison.errors import DurationError, JettisonError, ManifestError
from jettison.manifests.times import parse_time


def instant(text: str) -> int:
    """`10m` is ten minutes ago; else a time."""
    try:
        return time.time_ns() - parse_duration(text)
    except DurationError:
        pass
    try:
        return parse_time(text)
    except ManifestError as error:
        raise click.BadParameter(f"`{text}`: expected a time such as `2030-01-01T00:00:00Z`, or `10m`") from error


@click.command()
@click.argument("pod", required=False)
@click.option("--since", type=instant, metavar="WHEN", help="A time, or how long ago: `10m`.")
@click.option("--until", type=instant, metavar="WHEN", help="The same; what happened at that time is left out.")
@click.option("-n", "--tail", type=WholeNumber(1), metavar="N", help="Only the newest N records.")
@click.option(
    "-o",
    "--output",
    type=click.Choice([TABLE, JSON]),
    default=TABLE,
    show_default=True,
    help="json: one record a line, whole, as docs/commands.md describes it.",
)
@watched_node_options
def command(
    node: WatchedNode, pod: str | None, since: int | None, until: int | None, tail: int | None, output: str
) -> None:
    """Everything on record, oldest first; with POD only what happened to that pod.

    POD is a name, `namespace/name`, or a uid.
    """
    about = None if pod is None else PodQuery.parse(pod)
    records = read_journal(node.journal, newest_first=tail is not None, about=about, since_ns=since, until_ns=until)
    if about is not None:
        records = _about(records, about)
    if tail is not None:
        records = reversed(list(islice(records, tail)))
    is_empty = True
    for record in records:
        is_empty = False
        if output == JSON:
            # The history inside is written for people, with line breaks.
            click.echo(msgspec.json.format(record.data, indent=-1))
        else:
            for line in journal_lines(record, about):
                click.echo(line)
    if is_empty and pod is not None:
        raise JettisonError(f"no pod `{pod}` is on record for node `{node.name}`{_when(since, until)}")
    if is_empty:
        remark("note", f"nothing is on record for node `{node.name}`{_when(since, until)}")


def _when(since: int | None, until: int | None) -> str:
    return "" if since is None and until is None else " at that time"


def _about(records: Iterator[Record], query: PodQuery) -> Iterator[Record]:
    """Every step knows every pod; what happened to this one are the steps that chose it."""
    for record in records:
        if record.kind != STEP or any(query.matches(pod) and pod[2] in record.evicts for pod in record.pods):
            yield record
