"""`jettison relieve`: relief beside a kubelet, and `relieve report`: how good its predictions are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from jettison.agent.amounts import span
from jettison.agent.journal.reading import Record, read_journal
from jettison.agent.journal.records import STEP
from jettison.cli.extras import require
from jettison.cli.inspect.journal import instant
from jettison.cli.inspect.watched_node import WatchedNode, choose_node, watched_nodes_options
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.options.host_options import state_dir_option
from jettison.cli.output import JSON, TABLE, print_document
from jettison.engine.numbers.durations import parse_duration
from jettison.errors import DurationError
from jettison.manifests.times import time_text
from jettison.node.cluster_settings import HandOver, ReliefSettings
from jettison.node.places import absolute, default_node_name
from jettison.node.settings import NodeSettings
from jettison.relief.scoring import HOLDS_NS, Prediction, Score, SeenEnd, score
from jettison.runtimes.adopted.back_off import MOST_A_MINUTE

_SEEN = "pod_end_seen"
_OWN = "pod_evicted"
_SHOWN = 10


def _thresholds(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        for each in text.split(","):
            signal, sign, amount = each.partition("<")
            if not (signal.strip() and sign and amount.strip()):
                raise click.BadParameter(f"`{each}`: expected a threshold such as `memory.available<300Mi`")
            found[signal.strip()] = amount.strip()
    return found


@click.group(invoke_without_command=True)
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


def _duration(_context: click.Context, _option: click.Parameter, text: str) -> int:
    try:
        found = parse_duration(text)
    except DurationError as error:
        raise click.BadParameter(str(error)) from error
    if found <= 0:
        raise click.BadParameter(f"`{text}`: must be longer than 0s")
    return found


@command.command("report")
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
@click.option("-o", "--output", type=click.Choice([TABLE, JSON]), default=TABLE, show_default=True)
@watched_nodes_options
def report(nodes: Sequence[WatchedNode], since: int | None, holds_ns: int, output: str) -> None:
    """Score predictions against what came: lead time, hits, misses, false alarms."""
    node = choose_node(nodes)
    predictions: list[Prediction] = []
    ends: list[SeenEnd] = []
    for record in read_journal(node.journal, since_ns=since):
        predictions += _predictions(record)
        ends += _ends(record)
    found = score(predictions, ends, time.time_ns(), holds_ns)
    if output == JSON:
        print_document(JSON, _document(node.name, found))
        return
    for line in _lines(node.name, found):
        click.echo(line)


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
