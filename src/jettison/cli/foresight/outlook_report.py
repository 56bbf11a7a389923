"""What is left of each signal, where it is going and which pods would go: as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jettison.agent.journal.recorded_readings import Past
from jettison.agent.safe_text import printable
from jettison.cli.output import NOTHING, table
from jettison.cli.policy.ranking_report import pod_data
from jettison.cli.policy.seen_node import SeenNode
from jettison.engine.foresight.outlooks import SignalOutlook, ThresholdOutlook, outlooks
from jettison.engine.foresight.trends import LEAST_SAMPLES, LEAST_SPAN_NS, Slope, TimeLeft
from jettison.engine.node.amounts import short
from jettison.engine.node.signals import ROWS, Resource
from jettison.engine.numbers.durations import SECOND_NS, duration_text
from jettison.manifests.times import exact_time_text, time_text
from jettison.values import frozen

_HEAD = ("SIGNAL", "TYPE", "AVAILABLE", "THRESHOLD", "HEADROOM", "TREND", "CROSSED IN")
_NUMBERS = ("AVAILABLE", "THRESHOLD", "HEADROOM")
_PLACES = ("first", "second", "third")


@frozen
class NodeOutlook:
    """One look, with what was before it."""

    seen: SeenNode
    found: list[SignalOutlook]

    def text(self) -> str:
        """Headroom, trend and time left of each threshold, and the pods that would go."""
        return "\n".join(_lines(self))

    def data(self) -> dict[str, Any]:
        """The same for programs."""
        return _data(self)


def view_of(seen: SeenNode, past: Past, since_ns: int | None) -> NodeOutlook:
    """Of a node that was looked at, with what it read since then."""
    series = past.series if since_ns is None else {each: found.since(since_ns) for each, found in past.series.items()}
    return NodeOutlook(seen, outlooks(seen.case, series))


def _lines(view: NodeOutlook) -> Iterator[str]:
    seen = view.seen
    spans = [each.slope.span_ns for each in view.found if each.slope is not None]
    trend = f"too little data for a trend: {LEAST_SAMPLES} looks over {_length(LEAST_SPAN_NS)} are needed"
    if spans:
        trend = f"trends over {_length(max(spans))}"
    yield printable(f"node {seen.name or 'without a name'} at {time_text(seen.case.snapshot.now_ns)}; {trend}")
    yield ""
    if not view.found:
        yield "no thresholds are set"
        return
    rows = [_row(each, guard) for each in view.found for guard in each.thresholds]
    yield table(_HEAD, rows, right=_NUMBERS)
    told: dict[tuple[str, ...], list[str]] = {}
    for each in view.found:
        told.setdefault(tuple(_going(each)), []).append(each.signal)
    for (enough, *lines), signals in told.items():
        yield ""
        yield f"if {' or '.join(signals)} is short{enough}"
        yield from lines


def _going(each: SignalOutlook) -> Iterator[str]:
    """What there is to say of one signal, and of every other with the same pods."""
    yield _enough(each)
    resource = ROWS[each.signal].resource
    for place, successor in zip(_PLACES, each.going, strict=False):
        amount = "what was not measured" if successor.frees is None else short(successor.frees, resource)
        yield printable(f"  {place:8}{successor.candidate.pod}, frees {amount}")
    if not each.going:
        yield "  no pod could go"


def _enough(each: SignalOutlook) -> str:
    if not each.going:
        return ""
    if each.needed is None:
        return ", the end of all pods would not be enough"
    return f", {each.needed} {'pod has' if each.needed == 1 else 'pods have'} to go"


def _row(each: SignalOutlook, guard: ThresholdOutlook) -> tuple[str, ...]:
    resource = ROWS[each.signal].resource
    return (
        each.signal,
        "hard" if guard.threshold.is_hard else f"soft {duration_text(guard.threshold.grace_ns)}",
        short(each.reading.available, resource),
        short(guard.amount, resource),
        short(guard.headroom, resource),
        _trend_text(each.slope, resource),
        _left_text(guard),
    )


def _trend_text(slope: Slope | None, resource: Resource) -> str:
    if slope is None:
        return NOTHING
    if not slope.low and not slope.high:
        return "steady"
    low, middle, high = (_rate(rate, resource) for rate in (slope.low, slope.per_second, slope.high))
    return f"{middle}/s ({low} to {high})"


def _rate(rate: float, resource: Resource) -> str:
    text = short(round(rate), resource) if abs(rate) >= 10 or resource in _BYTES else f"{rate:.2g}"
    return f"+{text}" if rate > 0 else text


_BYTES = (Resource.MEMORY, Resource.EPHEMERAL_STORAGE)


def _left_text(guard: ThresholdOutlook) -> str:
    left = guard.time_left
    if guard.headroom < 0:
        return "crossed"
    if left is None:
        return NOTHING
    if left.soonest_ns is None:
        return "not falling"
    soonest = _length(left.soonest_ns)
    if left.likely_ns is None:
        return f"perhaps {soonest}, or never"
    latest = "never" if left.latest_ns is None else _length(left.latest_ns)
    return f"{_length(left.likely_ns)} ({soonest} to {latest})"


def _length(length_ns: int) -> str:
    """With two units at most: `1h20m`, `45s`."""
    seconds = max(length_ns // SECOND_NS, 0)
    for size, name, smaller_size, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller_size
            return f"{seconds // size}{name}{f'{rest}{smaller}' if rest else ''}"
    return f"{seconds}s"


def _data(view: NodeOutlook) -> dict[str, Any]:
    return {
        "kind": "Outlook",
        "node": view.seen.name,
        "time": exact_time_text(view.seen.case.snapshot.now_ns),
        "signals": [_signal_data(each) for each in view.found],
    }


def _signal_data(each: SignalOutlook) -> dict[str, Any]:
    slope = each.slope
    return {
        "signal": each.signal.value,
        "resource": ROWS[each.signal].resource.value,
        "available": each.reading.available,
        "capacity": each.reading.capacity,
        "trend": None
        if slope is None
        else {
            "perSecond": slope.per_second,
            "low": slope.low,
            "high": slope.high,
            "samples": slope.samples,
            "seconds": slope.span_ns / SECOND_NS,
        },
        "thresholds": [
            {
                "threshold": str(guard.threshold),
                "isHard": guard.threshold.is_hard,
                "amount": guard.amount,
                "headroom": guard.headroom,
                "secondsLeft": None if guard.time_left is None else _left_data(guard.time_left),
            }
            for guard in each.thresholds
        ],
        "next": [{**pod_data(successor.candidate.pod), "frees": successor.frees} for successor in each.going],
        "podsNeeded": each.needed,
    }


def _left_data(left: TimeLeft) -> dict[str, float | None]:
    lengths = {"soonest": left.soonest_ns, "likely": left.likely_ns, "latest": left.latest_ns}
    return {name: None if length is None else length / SECOND_NS for name, length in lengths.items()}
