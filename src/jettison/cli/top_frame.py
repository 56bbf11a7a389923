"""What `top` shows: each reading against its threshold, and the pods in the order in which they would go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jettison.agent.amounts import short
from jettison.agent.safe_text import printable
from jettison.cli.node_view import NodeView
from jettison.cli.tables import NOTHING, table
from jettison.engine.durations import SECOND_NS, duration_text
from jettison.engine.history import History
from jettison.engine.signals import Condition, Resource, Signal

_GAUGE = 20
_READINGS = ("SIGNAL", "AVAILABLE", "CAPACITY", "", "THRESHOLD", "HEADROOM", "STATE")
_ORDER = ("#", "POD", "EXCEEDS", "PRIORITY", "USAGE", "REQUEST", "EXCESS", "QOS", "NOTE")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
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


def _readings(view: NodeView) -> Iterator[Line]:
    rows = [(each, guard) for each in view.ranking["signals"] for guard in each["thresholds"]]
    if not rows:
        yield Line("no thresholds are set")
        return
    text = table(
        _READINGS, (_reading(each, guard, view) for each, guard in rows), right=("AVAILABLE", "CAPACITY", "HEADROOM")
    )
    head, *lines = text.splitlines()
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


def _order(signal: Row) -> Iterator[Line]:
    if not signal["order"]:
        yield Line("there are no pods")
        return
    resource = Resource(signal["resource"])
    rows = [_candidate(place, each, resource) for place, each in enumerate(signal["order"], 1)]
    text = table(_ORDER, rows, right=("#", "PRIORITY", "USAGE", "REQUEST", "EXCESS"))
    yield from map(Line, text.splitlines())


def _candidate(place: int, pod: Row, resource: Resource) -> tuple[str, ...]:
    usage, excess, exceeds = pod["usage"], pod["excess"], pod["exceedsRequest"]
    # Kubernetes asks nobody for processes, and subtracts bytes that were asked for from inodes.
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
