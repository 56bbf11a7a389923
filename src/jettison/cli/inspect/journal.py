"""`jettison journal`: what was decided and what came of it, in order.

A record becomes lines: when, what, which pod, and the values with the names they have in the log. Of a step only the
part that is shown is decoded. Decoding its snapshot as well would take twenty times as long, and a full journal has ten
thousand steps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import click
import msgspec

from jettison.agent.fact_values import value_pairs
from jettison.agent.journal.reading import JournalFollower, PodQuery, Record, read_journal
from jettison.agent.journal.recent_readings import READINGS
from jettison.agent.journal.records import STEP
from jettison.agent.safe_text import printable
from jettison.cli.inspect.watched_node import WatchedNode, choose_node, first_to_know, names_of, watched_nodes_options
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.output import JSON, TABLE, remark
from jettison.cli.program import INTERRUPTED
from jettison.engine.numbers.durations import parse_duration
from jettison.errors import DurationError, InputError, JettisonError, ManifestError
from jettison.manifests.files.decoding import Wire, decode
from jettison.manifests.times import milli_time_text, parse_time
from jettison.values import frozen

_PAUSE_SECONDS = 0.2

_WIDEST_EVENT = 18
# Said when the eviction started, and the same when it is over.
_REPEATED = {
    "pod_evicted": ("reason", "signal", "grace_seconds", "message"),
    "eviction_timed_out": ("reason", "signal", "grace_seconds", "message"),
}
_BORING = frozenset({"pods_ranked", "reclaim_attempted"})
"""Facts of a step that its decision tells as well."""
WAITS = "wait"
"""A pod is to be evicted, but one that was evicted before has not ended yet."""


def instant(text: str) -> int:
    """`10m` is ten minutes ago; else a time."""
    try:
        return time.time_ns() - parse_duration(text)
    except DurationError:
        return point(text, ", or `10m`")


def point(text: str, besides: str = "") -> int:
    """A time; `besides` tells what else is taken."""
    try:
        return parse_time(text)
    except ManifestError as error:
        raise click.BadParameter(f"`{text}`: expected a time such as `2030-01-01T00:00:00Z`{besides}") from error


@click.command()
@click.argument("pod", required=False)
@click.option("--since", type=instant, metavar="WHEN", help="A time, or how long ago: `10m`.")
@click.option("--until", type=instant, metavar="WHEN", help="The same; what happened at that time is left out.")
@click.option("-n", "--tail", type=WholeNumber(1), metavar="N", help="Only the newest N lines.")
@click.option("-f", "--follow", is_flag=True, help="Print new records as they come, until Ctrl-C.")
@click.option(
    "-o",
    "--output",
    type=click.Choice([TABLE, JSON]),
    default=TABLE,
    show_default=True,
    help="json: one whole record per line, as docs/commands.md describes it.",
)
@watched_nodes_options
def command(
    nodes: Sequence[WatchedNode],
    pod: str | None,
    since: int | None,
    until: int | None,
    tail: int | None,
    follow: bool,
    output: str,
) -> int:
    """Show everything on record, oldest first; with POD only what happened to that pod.

    POD is a name, `namespace/name`, or a uid.
    """
    if follow and until is not None:
        raise InputError("--until ends what --follow would go on with: give one of them")
    about = None if pod is None else PodQuery.parse(pod)
    node = _find(nodes, about)
    choice = _Choice(about, since, until, is_json=output == JSON)
    if follow:
        return _follow(node, choice, tail)
    is_empty = True
    for line in _lines(node, choice, tail):
        is_empty = False
        click.echo(line)
    if is_empty and pod is not None:
        raise JettisonError(f"no pod `{pod}` is on record for node `{node.name}`{_when(since, until)}")
    if is_empty:
        remark("note", f"nothing is on record for node `{node.name}`{_when(since, until)}")
    return 0


@frozen
class _Choice:
    """Which records, and how each is told."""

    about: PodQuery | None
    since_ns: int | None
    until_ns: int | None
    is_json: bool

    def lines(self, record: Record) -> list[str]:
        """Empty for a record that was not asked for."""
        if not self._is_meant(record):
            return []
        if self.is_json:
            # The history inside is written for people, with line breaks.
            return [msgspec.json.format(record.data, indent=-1).decode()]
        return list(journal_lines(record, self.about))

    def _is_meant(self, record: Record) -> bool:
        """A step names every pod of the node; only the steps that chose a pod are about it."""
        if self.since_ns is not None and record.time_ns < self.since_ns:
            return False
        about = self.about
        if about is None:
            return True
        return any(about.matches(pod) and (record.kind != STEP or pod[2] in record.evicts) for pod in record.pods)


def _find(nodes: Sequence[WatchedNode], about: PodQuery | None) -> WatchedNode:
    """The node that has the newest record of the pod; without a pod, the one that `find_node` takes."""
    if len(nodes) == 1:
        return nodes[0]
    if about is None:
        return choose_node(nodes)

    def newest(node: WatchedNode) -> tuple[int, None] | None:
        record = next(read_journal(node.journal, newest_first=True, about=about), None)
        return None if record is None else (record.time_ns, None)

    found = first_to_know(nodes, newest)
    if found is None:
        raise JettisonError(f"no pod `{about}` is on record for {names_of(nodes)}")
    node, _, others = found
    also = f"; also on record on {', '.join(others)}, which --node-name chooses" if others else ""
    remark("note", f"this is from node `{node.name}`{also}")
    return node


def _lines(node: WatchedNode, choice: _Choice, tail: int | None) -> Iterator[str]:
    records = read_journal(
        node.journal,
        newest_first=tail is not None,
        about=choice.about,
        since_ns=choice.since_ns,
        until_ns=choice.until_ns,
    )
    if tail is None:
        for record in records:
            yield from choice.lines(record)
        return
    # A step has several lines, so that the newest lines may begin in the middle of a record.
    newest = (line for record in records for line in reversed(choice.lines(record)))
    yield from reversed(list(islice(newest, tail)))


def _follow(node: WatchedNode, choice: _Choice, tail: int | None) -> int:
    """Until interrupted. One reader reads old and new records, so that no record between the two is lost."""
    follower = JournalFollower(node.journal)
    lines: Iterable[str] = deque((line for record in follower.news() for line in choice.lines(record)), tail)
    try:
        while True:
            for line in lines:
                click.echo(line)
            time.sleep(_PAUSE_SECONDS)
            lines = (line for record in follower.news() for line in choice.lines(record))
    except KeyboardInterrupt:
        return INTERRUPTED


def _when(since: int | None, until: int | None) -> str:
    return "" if since is None and until is None else " at that time"


class _Starved(Wire):
    threshold: str
    available: int
    capacity: int


class _Decision(Wire):
    kind: str
    why: str = ""
    what: list[str] = msgspec.field(default_factory=list)
    starved: _Starved | None = None


class _Look(Wire):
    facts: list[dict[str, Any]]
    decision: _Decision


class _Alarm(Wire):
    source: str = ""
    latency_ns: int | None = None


class _Step(Wire):
    acts: bool
    alarm: _Alarm
    looks: Annotated[list[_Look], msgspec.Meta(min_length=1)]


_STEP = msgspec.json.Decoder(_Step)


def journal_lines(record: Record, about: PodQuery | None = None) -> Iterator[str]:
    """One for a fact; for a step one for each of its facts and one for what it decided.

    With `about`, a step has only the lines of its decision about that pod.
    """
    if record.kind == READINGS:
        return  # numbers for programs, which -o json prints
    if record.kind != STEP:
        yield _fact(record.time_ns, record.event, record.values)
        return
    try:
        step = decode(_STEP, record.data, "step")
    except ManifestError as error:
        yield _line(record.time_ns, "step", "", {"unreadable": str(error)})
        return
    look = step.looks[-1]
    for fact in look.facts if about is None else ():
        event = str(fact.pop("event", ""))
        if event not in _BORING:
            yield _fact(record.time_ns, event, fact)
    chosen = [pod for pod in record.pods if pod[2] in record.evicts and (about is None or about.matches(pod))]
    names = [f"{pod[0]}/{pod[1]}" for pod in chosen]
    yield from _decision(record.time_ns, step, look.decision, names, is_told=bool(record.evicts))


def _fact(time_ns: int, event: str, values: Mapping[str, Any]) -> str:
    left_out = ("pod", "uid", *_REPEATED.get(event, ()))
    shown = {name: value for name, value in values.items() if name not in left_out}
    return _line(time_ns, event, str(values.get("pod") or ""), shown)


def _decision(time_ns: int, step: _Step, decision: _Decision, pods: list[str], *, is_told: bool) -> Iterator[str]:
    if decision.kind == "nothing":
        return
    values: dict[str, Any] = {}
    if decision.starved is not None:
        values = {name: getattr(decision.starved, name) for name in ("threshold", "available", "capacity")}
    if step.alarm.source:
        values |= {"alarm": step.alarm.source, "latency_ns": step.alarm.latency_ns}
    if decision.what:
        values["what"] = ",".join(decision.what)
    event = decision.kind if step.acts else f"would_{decision.kind}"
    if decision.kind == "evict" and not is_told:
        event = WAITS
    for pod in pods or [""]:
        yield _line(time_ns, event, pod, values)


def _line(time_ns: int, event: str, pod: str, values: Mapping[str, Any]) -> str:
    words = " ".join(filter(None, (pod, *value_pairs(values))))
    return printable(f"{milli_time_text(time_ns)}  {event.ljust(_WIDEST_EVENT)}  {words}").rstrip()
