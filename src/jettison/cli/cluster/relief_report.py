"""`jettison relieve report`: how good the predictions of relief are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from jettison.agent.amounts import span
from jettison.agent.journal.reading import Record, read_journal
from jettison.agent.journal.records import STEP
from jettison.cli.inspect.journal import instant
from jettison.cli.inspect.watched_node import WatchedNode, watched_node_options
from jettison.cli.output import Remarks, emit, output_option
from jettison.engine.numbers.durations import parse_duration
from jettison.errors import DurationError
from jettison.manifests.times import time_text
from jettison.relief.scoring import HOLDS_NS, Prediction, Score, SeenEnd, score

_SEEN = "pod_end_seen"
_OWN = "pod_evicted"
_SHOWN = 10


def _duration(_context: click.Context, _option: click.Parameter, text: str) -> int:
    try:
        found = parse_duration(text)
    except DurationError as error:
        raise click.BadParameter(str(error)) from error
    if found <= 0:
        raise click.BadParameter(f"`{text}`: must be longer than 0s")
    return found


@click.command("report")
@click.option("--since", type=instant, metavar="WHEN", help="A time, or how long ago: `24h`. [default: all]")
@click.option(
    "--window",
    "holds_ns",
    default=f"{HOLDS_NS // 10**9}s",
    show_default=True,
    callback=_duration,
    metavar="DURATION",
    help="How long a prediction holds.",
)
@output_option
@watched_node_options
def command(node: WatchedNode, since: int | None, holds_ns: int, output: str) -> None:
    """Score predictions against what came: lead time, hits, misses, false alarms."""
    predictions: list[Prediction] = []
    ends: list[SeenEnd] = []
    for record in read_journal(node.journal, since_ns=since):
        predictions += _predictions(record)
        ends += _ends(record)
    found = score(predictions, ends, time.time_ns(), holds_ns)
    emit(output, Remarks(), lambda: "\n".join(_lines(node.name, found)), lambda: _document(node.name, found))


def _predictions(record: Record) -> Iterator[Prediction]:
    if record.kind == STEP and record.evicts:
        names = {uid: f"{namespace}/{name}" for namespace, name, uid in record.pods}
        uid = record.evicts[0]
        yield Prediction(record.time_ns, uid, names.get(uid, uid))


def _ends(record: Record) -> Iterator[SeenEnd]:
    if record.event not in (_SEEN, _OWN):
        return
    reason = str(record.values.get("reason") or "")
    for namespace, name, uid in record.pods:
        yield SeenEnd(record.time_ns, uid, f"{namespace}/{name}", reason, is_relief=record.event == _OWN)


def _document(node: str, found: Score) -> dict[str, Any]:
    return {
        "kind": "ReliefReport",
        "node": node,
        "hits": [
            {"pod": hit.end.name, "reason": hit.end.reason, "time": time_text(hit.end.time_ns), "leadNs": hit.lead_ns}
            for hit in found.hits
        ],
        "misses": [{"pod": each.name, "reason": each.reason, "time": time_text(each.time_ns)} for each in found.misses],
        "falseAlarms": [{"pod": each.name, "time": time_text(each.time_ns)} for each in found.false_alarms],
        "pending": [{"pod": each.name, "time": time_text(each.time_ns)} for each in found.pending],
        "relieved": [{"pod": each.name, "time": time_text(each.time_ns)} for each in found.relieved],
        "precision": found.precision,
        "recall": found.recall,
        "medianLeadNs": found.median_lead_ns,
    }


def _lines(node: str, found: Score) -> Iterator[str]:
    lead = found.median_lead_ns
    yield f"node {node}"
    yield f"  hits          {len(found.hits)}{f', {span(lead)} ahead in the middle' if lead is not None else ''}"
    yield f"  misses        {len(found.misses)}{_share(found.recall, 'of all ends were predicted')}"
    yield f"  false alarms  {len(found.false_alarms)}{_share(found.precision, 'of all predictions came true')}"
    if found.pending:
        yield f"  pending       {len(found.pending)}: predicted, and there is still time"
    if found.relieved:
        yield f"  relieved      {len(found.relieved)}: evicted by relief itself, which proves nothing"
    for hit in found.hits[-_SHOWN:]:
        yield f"  + {time_text(hit.end.time_ns)}  {hit.end.name}  {hit.end.reason}, {span(hit.lead_ns)} ahead"
    for end in found.misses[-_SHOWN:]:
        yield f"  - {time_text(end.time_ns)}  {end.name}  {end.reason}, not predicted"
    for each in found.false_alarms[-_SHOWN:]:
        yield f"  ? {time_text(each.time_ns)}  {each.name}  predicted, and nothing came"


def _share(part: float | None, what: str) -> str:
    return "" if part is None else f"; {part:.0%} {what}"
