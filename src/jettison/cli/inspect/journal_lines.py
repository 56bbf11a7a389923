"""A record of the journal as lines: when, what, about whom, and the values with the names they have in the log.

Of a step only the part that is shown is decoded. With its snapshot it would take twenty times as long, and a full
journal has ten thousand of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from jettison.agent.fact_values import value_pairs
from jettison.agent.journal.reading import PodQuery, Record
from jettison.agent.journal.records import STEP
from jettison.agent.safe_text import printable
from jettison.errors import ManifestError
from jettison.manifests.files.decoding import Wire, decode
from jettison.manifests.times import milli_time_text

_WIDEST_EVENT = 18
# Said when the eviction started, and the same when it is over.
_REPEATED = {
    "pod_evicted": ("reason", "signal", "grace_seconds", "message"),
    "eviction_timed_out": ("reason", "signal", "grace_seconds", "message"),
}
_BORING = frozenset({"pods_ranked", "reclaim_attempted"})
"""Facts of a step that its decision tells as well."""
WAITS = "wait"
"""Somebody is to go, but one who was told before is still on his way out."""


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

    Asked about a pod, a step has only that to say which it decided about it.
    """
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
