"""What `top` shows: each reading against its threshold, and the pods in the order in which they would go.

One look is live from the node's agent, or the last step that is on record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jettison.agent.http.endpoints import rank_document
from jettison.agent.journal.reading import read_journal
from jettison.agent.journal.recorded_steps import step_from
from jettison.agent.journal.records import STEP
from jettison.agent.safe_text import printable
from jettison.cli.inspect.watched_node import WatchedNode
from jettison.cli.output import NOTHING, UNBOUNDED, Squeeze, fitted
from jettison.engine.node.amounts import short
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition, Resource, Signal
from jettison.engine.numbers.durations import SECOND_NS, duration_text
from jettison.errors import ManifestError, ObservationError
from jettison.manifests.times import parse_time
from jettison.values import frozen

# An agent with nothing to do looks every 10 s. Asked for readings older than a second it looks at once, which takes it
# some milliseconds; the times it tells have whole seconds.
_OLD_NS = 2 * 10**9
_LOOK_SECONDS = 0.2

_GAUGE = 20
_NUMBERS = ("#", "PRIORITY", "USAGE", "REQUEST", "EXCESS")
_AMOUNTS = ("AVAILABLE", "CAPACITY", "HEADROOM")
# What goes, or is cut, first: of a signal its headroom and state are the last to go, of a pod its name and usage.
_SQUEEZED_READINGS = (
    Squeeze(""),
    Squeeze("CAPACITY"),
    Squeeze("SIGNAL", 16),
    Squeeze("THRESHOLD", 10),
    Squeeze("STATE", 8),
    Squeeze("THRESHOLD"),
    Squeeze("AVAILABLE"),
    Squeeze("SIGNAL", 6),
)
_SQUEEZED_ORDER = (
    Squeeze("QOS"),
    Squeeze("REQUEST"),
    Squeeze("POD", 24),
    Squeeze("PRIORITY"),
    Squeeze("EXCEEDS"),
    Squeeze("NOTE", 5),
    Squeeze("EXCESS"),
    Squeeze("NOTE"),
    Squeeze("POD", 8),
)
# In a small window the list of signals is cut before fewer pods than this are shown.
_LEAST_PODS = 3
_KEYS = (
    "q quit   s next signal   ↑↓ jk PgUp PgDn g G scroll",
    "q quit   s signal   ↑↓ PgUp PgDn scroll",
    "q quit  s signal  ↑↓ scroll",
    "q s ↑↓",
)
_READINGS = ("SIGNAL", "AVAILABLE", "CAPACITY", "", "THRESHOLD", "HEADROOM", "STATE")
_ORDER = ("#", "POD", "EXCEEDS", "PRIORITY", "USAGE", "REQUEST", "EXCESS", "QOS", "NOTE")

Row = Mapping[str, Any]


@frozen
class NodeView:
    """`ranking` is what the agent answers to /rank; `note` says so when it did not, or what could not be read."""

    ranking: dict[str, Any]
    history: History
    note: str = ""

    @property
    def time_ns(self) -> int:
        """When the node was measured."""
        return parse_time(self.ranking["time"])


def look(node: WatchedNode) -> NodeView:
    """Raises ObservationError when neither the agent nor the journal knows anything."""
    try:
        ranking = node.ask("/rank")
        if time.time_ns() - parse_time(ranking["time"]) > _OLD_NS:
            time.sleep(_LOOK_SECONDS)
            ranking = node.ask("/rank")
        return NodeView(ranking, *node.history)
    except ObservationError as failure:
        recorded = _last_on_record(node)
        if recorded is None:
            raise ObservationError(f"{failure}, and no step is on record") from failure
        history, complaint = node.history
        notes = [f"{failure}: this is the last step on record", *([complaint] if complaint else [])]
        return NodeView(recorded, history, "; ".join(notes))


def _last_on_record(node: WatchedNode) -> dict[str, Any] | None:
    for record in read_journal(node.journal, newest_first=True):
        if record.kind != STEP:
            continue
        try:
            step = step_from(record.data)
        except ManifestError:
            continue  # of another version of this program
        for each in reversed(step.looks):
            if each.snapshot is not None:
                return rank_document(step.policy, each.snapshot)
    return None


@frozen
class Line:
    """One line of the picture; an alarming one is coloured where there are colours."""

    text: str
    is_alarming: bool = False


def frame(view: NodeView, wanted: str | None = None) -> list[Line]:
    """All but the note. Without a wanted signal the order is for the one that is short, or else for memory."""
    lines = [Line(_headline(view), bool(view.history.conditions)), Line(""), *_readings(view)]
    chosen = choose(view, wanted)
    if chosen is not None:
        lines += [Line(""), Line(f"eviction order for {chosen['signal']}"), *_order(chosen)]
    return lines


@frozen
class Page:
    """What fits into a window. `first` is the place of the first pod that is shown, from 0; `step` how many fit."""

    lines: list[Line]
    first: int
    step: int


def page(view: NodeView, wanted: str | None, first: int, columns: int, rows: int, notes: Sequence[Line] = ()) -> Page:
    """The same as `frame` for a window: columns go by priority, pods scroll, and it is said what is not shown."""
    top = [Line(_headline(view), bool(view.history.conditions)), *notes]
    readings = list(_readings(view, columns))
    chosen = choose(view, wanted)
    pods = [] if chosen is None else list(_order(chosen, columns))
    total = max(0, len(pods) - 1) if chosen is not None and chosen["order"] else 0
    # The title, the names of the columns and the keys have a line each.
    room = max(0, rows - len(top) - 3)
    readings = _most_pressing(readings, max(0, room - min(total, _LEAST_PODS)))
    step = max(1, room - len(readings))
    has_blanks = step - 2 >= max(total, _LEAST_PODS) or rows >= 24
    step -= 2 if has_blanks and step > 2 else 0
    first = max(0, min(first, total - step))
    blank = [Line("")] if has_blanks else []
    shown = pods[1 + first : 1 + first + step] if total else pods
    lines = [*top, *blank, *readings, *blank]
    if chosen is not None:
        scope = f"pods {first + 1}–{first + len(shown)} of {total}, " if total else ""
        signal = chosen["signal"]
        title = _widest(columns, f"{scope}eviction order for {signal}", f"{scope}by {signal}", scope.strip(", "))
        lines += [Line(title), *pods[: 1 if total else 0], *shown]
    lines = lines[: max(1, rows - 1)]
    lines += [Line("")] * (rows - 1 - len(lines))
    return Page([*lines, Line(_widest(columns, *_KEYS))] if rows > 1 else lines, first, step)


def _most_pressing(readings: list[Line], most: int) -> list[Line]:
    """As many lines as there is room for: the head, what is crossed, the others; and how many are left out."""
    if len(readings) <= most:
        return readings
    if most < 2:
        return []
    head, *lines = readings
    kept = [line for line in lines if line.is_alarming][: most - 2]
    kept += [line for line in lines if not line.is_alarming][: most - 2 - len(kept)]
    left = len(lines) - len(kept)
    return [head, *(line for line in lines if line in kept), Line(f"… {left} more thresholds, in a larger window")]


def _widest(columns: int, *texts: str) -> str:
    """The first that fits, or else the last."""
    return next((each for each in texts if len(each) <= columns), texts[-1])


def choose(view: NodeView, wanted: str | None) -> Row | None:
    """The signal whose order is shown."""
    signals: list[Row] = view.ranking["signals"]
    by_name = {each["signal"]: each for each in signals}
    if wanted is not None:
        return by_name.get(wanted)
    low = next((each for each in signals if any(guard["isCrossed"] for guard in each["thresholds"])), None)
    return low or by_name.get(Signal.MEMORY_AVAILABLE) or next(iter(signals), None)


def _headline(view: NodeView) -> str:
    conditions = [condition.value for condition in Condition if condition in view.history.conditions]
    age = max(0, time.time_ns() - view.time_ns) // SECOND_NS
    measured = "now" if age < 2 else f"{duration_text(age * SECOND_NS)} ago"
    count = max((len(each["order"]) for each in view.ranking["signals"]), default=0)
    pods = "1 pod" if count == 1 else f"{count} pods"
    state = ", ".join(conditions) or "no pressure"
    return printable(f"node {view.ranking['node']}   {state}   {pods}   measured {measured}")


def _readings(view: NodeView, width: int = UNBOUNDED) -> Iterator[Line]:
    rows = [(each, guard) for each in view.ranking["signals"] for guard in each["thresholds"]]
    if not rows:
        yield Line("no thresholds are set")
        return
    cells = [_reading(each, guard, view) for each, guard in rows]
    head, *lines = fitted(_READINGS, cells, width, _SQUEEZED_READINGS, right=_AMOUNTS)
    yield Line(head)
    yield from (Line(line, guard["isCrossed"]) for line, (_, guard) in zip(lines, rows, strict=True))


def _reading(signal: Row, guard: Row, view: NodeView) -> tuple[str, ...]:
    resource = Resource(signal["resource"])
    available, capacity, amount = signal["available"], signal["capacity"], guard["amount"]
    below, _, grace = guard["threshold"].removeprefix(f"{signal['signal']}<").partition(" for ")
    if below.endswith("%"):
        below = f"{below} = {short(amount, resource)}"
    return (
        signal["signal"],
        short(available, resource),
        short(capacity, resource),
        gauge(available, capacity, amount),
        f"hard {below}" if guard["isHard"] else f"soft {below} for {grace}",
        short(available - amount, resource),
        _state(guard, view.history, view.time_ns),
    )


def gauge(available: int, capacity: int, amount: int) -> str:
    """What is used, from the left, and where the threshold is: `[#####.......|..]`."""
    if capacity <= 0:
        return ""
    used = _GAUGE * (capacity - min(max(available, 0), capacity)) // capacity
    mark = min(_GAUGE - 1, _GAUGE * (capacity - min(max(amount, 0), capacity)) // capacity)
    cells = ["#"] * used + ["."] * (_GAUGE - used)
    cells[mark] = "|"
    return f"[{''.join(cells)}]"


def _state(guard: Row, history: History, now_ns: int) -> str:
    if guard["threshold"] in map(str, history.met):
        return "met" if guard["isCrossed"] else "met, not yet resolved"
    if not guard["isCrossed"]:
        return "clear"
    since = {str(each): since_ns for each, since_ns in history.first_observed.items()}.get(guard["threshold"])
    if since is None:
        return "crossed"
    return f"crossed for {duration_text(max(0, now_ns - since) // SECOND_NS * SECOND_NS)}"


def _order(signal: Row, width: int = UNBOUNDED) -> Iterator[Line]:
    if not signal["order"]:
        yield Line("there are no pods")
        return
    resource = Resource(signal["resource"])
    rows = [_candidate(place, each, resource) for place, each in enumerate(signal["order"], 1)]
    yield from map(Line, fitted(_ORDER, rows, width, _SQUEEZED_ORDER, right=_NUMBERS))


def _candidate(place: int, pod: Row, resource: Resource) -> tuple[str, ...]:
    usage, excess, exceeds = pod["usage"], pod["excess"], pod["exceedsRequest"]
    # Pods cannot request processes, and Kubernetes subtracts requested bytes from numbers of inodes.
    request_of = Resource.EPHEMERAL_STORAGE if resource is Resource.INODES else resource
    has_request = resource is not Resource.PIDS
    return (
        str(place),
        f"{pod['namespace']}/{pod['name']}",
        NOTHING if exceeds is None else "yes" if exceeds else "no",
        str(pod["priority"]),
        NOTHING if usage is None else short(usage, resource),
        short(pod["request"], request_of) if has_request else NOTHING,
        NOTHING if excess is None or not has_request else f"{'+' if excess > 0 else ''}{short(excess, resource)}",
        pod["qosClass"],
        "never evicted" if pod["isCritical"] else "no statistics" if usage is None else "",
    )
