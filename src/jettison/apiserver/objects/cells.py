"""What table cells are made of: fields that may hold anything (a status is not validated), ages, and a pod's row.

A pod's status is no field of the pod: it is put together from phase, conditions and containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jettison.engine.numbers.durations import SECOND_NS
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import ManifestError
from jettison.manifests.times import parse_time

Json = Mapping[str, Any]

UNKNOWN = "<unknown>"

POD_COLUMNS = ("Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*")

_NONE = "<none>"
_NODE_LOST = "NodeLost"


def _at(value: object, path: str) -> object:
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def part(value: Json, path: str) -> Json:
    """The object there, or an empty one."""
    found = _at(value, path)
    return found if isinstance(found, Mapping) else {}


def parts(value: Json, path: str) -> list[Json]:
    """The objects of the list there, whatever else it holds left out."""
    found = _at(value, path)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def text(value: Json, path: str) -> str:
    """The text there, or an empty one."""
    found = _at(value, path)
    return found if isinstance(found, str) else ""


def number(value: Json, path: str, default: int = 0) -> int:
    """The whole number there, or the default."""
    found = _at(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def is_true(value: Json, path: str) -> bool:
    """Whether the field says so."""
    return _at(value, path) is True


def holds_condition(value: Json, kind: str) -> bool:
    """Whether the first status condition of this type is True."""
    found = next((each for each in parts(value, "status.conditions") if each.get("type") == kind), {})
    return found.get("status") == "True"


def age(timestamp: str, now_ns: int) -> str:
    """Since a time as objects carry it; `<unknown>` without one."""
    if not timestamp:
        return UNKNOWN
    try:
        return short_duration(now_ns - parse_time(timestamp))
    except ManifestError:
        return UNKNOWN


def between(start: str, end: str, now_ns: int) -> str:
    """From start to end, or till now while there is no end; empty before the start."""
    try:
        begun = parse_time(start) if start else None
        ended = parse_time(end) if end else now_ns
    except ManifestError:
        return UNKNOWN
    return "" if begun is None else short_duration(ended - begun)


def short_duration(nanoseconds: int) -> str:
    """In the few characters that kubectl has for it: `42s`, `5m3s`, `7h12m`, `3d4h`, `2y17d`.

    Two units while the second one matters: minutes have seconds below ten, hours have minutes below eight.
    """
    # A clock may be a second ahead.
    if nanoseconds <= -2 * SECOND_NS:
        return "<invalid>"
    seconds = max(nanoseconds // SECOND_NS, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    steps = (
        (seconds < 120, (seconds, "s"), None),
        (minutes < 10, (minutes, "m"), (seconds % 60, "s")),
        (minutes < 180, (minutes, "m"), None),
        (hours < 8, (hours, "h"), (minutes % 60, "m")),
        (hours < 48, (hours, "h"), None),
        (days < 8, (days, "d"), (hours % 24, "h")),
        (years < 2, (days, "d"), None),
        (years < 8, (years, "y"), (days % 365, "d")),
    )
    first, second = next(((first, second) for fits, first, second in steps if fits), ((years, "y"), None))
    shown = f"{first[0]}{first[1]}"
    return f"{shown}{second[0]}{second[1]}" if second and second[0] else shown


@dataclass(frozen=True, slots=True)
class _Init:
    """What the init containers say: the reason they hold the pod up (if any), and the ready side-cars among them."""

    reason: str
    ready: int
    seen: tuple[Json, ...]


def pod_cells(pod: Json, now_ns: int) -> list[object]:
    """A pod's row, wide columns included."""
    sidecars = {text(each, "name") for each in parts(pod, "spec.initContainers") if _is_sidecar(each)}
    init = _initialization(pod, sidecars)
    reason, ready = init.reason, init.ready
    counted: Iterable[Json] = init.seen
    if not reason or holds_condition(pod, "Initialized"):
        statuses = parts(pod, "status.containerStatuses")
        counted = [*(each for each in init.seen if text(each, "name") in sidecars), *statuses]
        reason = _containers_reason(pod, statuses) or reason or _pod_reason(pod)
        ready += sum(_runs(each) for each in statuses)
    total = len(parts(pod, "spec.containers")) + len(sidecars)
    created = age(text(pod, "metadata.creationTimestamp"), now_ns)
    shown = [
        text(pod, "metadata.name"),
        f"{ready}/{total}",
        _ending(pod) or reason,
        _restarts(counted, now_ns),
        created,
    ]
    addresses = [text(each, "ip") for each in parts(pod, "status.podIPs")] or [text(pod, "status.podIP")]
    wide = [addresses[0], text(pod, "spec.nodeName"), text(pod, "status.nominatedNodeName"), _gates(pod)]
    return [*shown, *(each or _NONE for each in wide)]


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _pod_reason(pod: Json) -> str:
    gated = any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in parts(pod, "status.conditions")
    )
    return "SchedulingGated" if gated else text(pod, "status.reason") or text(pod, "status.phase")


def _initialization(pod: Json, sidecars: set[str]) -> _Init:
    """Up to the first init container that has neither ended well nor, as a side-car, started."""
    ready = 0
    statuses = parts(pod, "status.initContainerStatuses")
    for index, status in enumerate(statuses):
        ended = part(status, "state.terminated")
        if ended and number(ended, "exitCode") == 0:
            continue
        if text(status, "name") in sidecars and is_true(status, "started"):
            ready += is_true(status, "ready")
            continue
        waiting = text(status, "state.waiting.reason")
        if ended:
            reason = _end_reason(ended)
        elif waiting and waiting != "PodInitializing":
            reason = waiting
        else:
            reason = f"{index}/{len(parts(pod, 'spec.initContainers'))}"
        return _Init(f"Init:{reason}", ready, tuple(statuses[: index + 1]))
    return _Init("", ready, tuple(statuses))


def _end_reason(ended: Json) -> str:
    if reason := text(ended, "reason"):
        return reason
    if signal := number(ended, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number(ended, 'exitCode')}"


def _runs(status: Json) -> bool:
    state = part(status, "state")
    waits = bool(text(state, "waiting.reason"))
    return (
        is_true(status, "ready")
        and isinstance(state.get("running"), Mapping)
        and not waits
        and not part(state, "terminated")
    )


def _containers_reason(pod: Json, statuses: list[Json]) -> str:
    """The first container that waits or has ended decides; `Completed` beside a running one is not the end."""
    reason = ""
    for status in statuses:
        ended = part(status, "state.terminated")
        reason = text(status, "state.waiting.reason") or (_end_reason(ended) if ended else "")
        if reason:
            break
    if reason == "Completed" and any(map(_runs, statuses)):
        return "Running" if holds_condition(pod, "Ready") else "NotReady"
    return reason


def _ending(pod: Json) -> str:
    if not text(pod, "metadata.deletionTimestamp"):
        return ""
    if text(pod, "status.reason") == _NODE_LOST:
        return "Unknown"
    return "" if text(pod, "status.phase") in ENDED_PHASES else "Terminating"


def _restarts(statuses: Iterable[Json], now_ns: int) -> str:
    count, last_ns, last = 0, 0, ""
    for status in statuses:
        count += number(status, "restartCount")
        finished = text(status, "lastState.terminated.finishedAt")
        try:
            finished_ns = parse_time(finished) if finished else 0
        except ManifestError:
            finished_ns = 0
        if finished_ns > last_ns:
            last_ns, last = finished_ns, finished
    return f"{count} ({age(last, now_ns)} ago)" if count and last else str(count)


def _gates(pod: Json) -> str:
    gates = parts(pod, "spec.readinessGates")
    passed = sum(holds_condition(pod, text(each, "conditionType")) for each in gates)
    return f"{passed}/{len(gates)}" if gates else ""
