"""What table cells are made of: fields that may hold anything (a status is not validated), ages, and a pod's row.

A pod's status is no field of the pod: it is put together from phase, conditions and containers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypedDict

import msgspec

from jettison.engine.numbers.durations import SECOND_NS
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import ManifestError
from jettison.manifests.times import parse_time

Json = Mapping[str, Any]

UNKNOWN = "<unknown>"

POD_COLUMNS = ("Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*")

_NONE = "<none>"
_NODE_LOST = "NodeLost"


def _at(value: Json, path: str) -> object:
    found: object = value
    for key in path.split("."):
        # Objects are decoded JSON, so a map is a dict; asking for a Mapping takes three times as long.
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


# A table of 10,000 pods asks for a quarter of a million fields, most of them of the object itself. So each of these
# looks there first, and takes the path apart only where it is one: no field of Kubernetes has a dot in its name. What
# most pods do not have is looked for with `in` before it is read, which takes a tenth of the time.


def part(value: Json, path: str) -> Json:
    """The object there, or an empty one."""
    found = value.get(path)
    if found is None and "." in path:
        found = _at(value, path)
    return found if isinstance(found, dict) else {}


def parts(value: Json, path: str) -> list[Json]:
    """The objects of the list there, whatever else it holds left out. It may be that very list: read it only."""
    found = value.get(path)
    if found is None and "." in path:
        found = _at(value, path)
    if not isinstance(found, list):
        return []
    for each in found:
        if not isinstance(each, dict):
            return [each for each in found if isinstance(each, dict)]
    return found


def text(value: Json, path: str) -> str:
    """The text there, or an empty one."""
    found = value.get(path)
    if found is None and "." in path:
        found = _at(value, path)
    return found if isinstance(found, str) else ""


def number(value: Json, path: str, default: int = 0) -> int:
    """The whole number there, or the default."""
    found = value.get(path)
    if found is None and "." in path:
        found = _at(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def is_true(value: Json, path: str) -> bool:
    """Whether the field says so."""
    return _at(value, path) is True


def holds_condition(value: Json, kind: str) -> bool:
    """Whether the first status condition of this type is True."""
    found = next((each for each in parts(value, "status.conditions") if each.get("type") == kind), {})
    return found.get("status") == "True"


@lru_cache(maxsize=1024)
def age(timestamp: str, now_ns: int) -> str:
    """Since a time as objects carry it; `<unknown>` without one. Many rows of a table are of the same second."""
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
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if years < 2:
        return f"{days}d"
    return _two_units(years, "y", days % 365 if years < 8 else 0, "d")


def _two_units(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


# The shape of what the row of a pod is made of. To decode that takes half of the time that a whole pod takes, a third
# where its containers say much, and no pod has to stay decoded for the next table.
class _Reason(TypedDict, total=False):
    reason: Any


class _Ended(TypedDict, total=False):
    reason: Any
    signal: Any
    exitCode: Any
    finishedAt: Any


class _Nothing(TypedDict, total=False):
    pass


class _State(TypedDict, total=False):
    running: _Nothing
    waiting: _Reason
    terminated: _Ended


class _LastState(TypedDict, total=False):
    terminated: _Ended


class _ContainerStatus(TypedDict, total=False):
    name: Any
    ready: Any
    started: Any
    restartCount: Any
    state: _State
    lastState: _LastState


class _Condition(TypedDict, total=False):
    type: Any
    status: Any
    reason: Any


class _InitContainer(TypedDict, total=False):
    name: Any
    restartPolicy: Any


class _Spec(TypedDict, total=False):
    containers: list[_Nothing]
    initContainers: list[_InitContainer]
    nodeName: Any
    readinessGates: list[dict[str, Any]]


class _Status(TypedDict, total=False):
    phase: Any
    reason: Any
    conditions: list[_Condition]
    containerStatuses: list[_ContainerStatus]
    initContainerStatuses: list[_ContainerStatus]
    podIP: Any
    podIPs: list[dict[str, Any]]
    nominatedNodeName: Any


class ShownMetadata(TypedDict, total=False):
    """What `pod_cells` reads of it."""

    name: Any
    creationTimestamp: Any
    deletionTimestamp: Any


class ShownPod(TypedDict, total=False):
    """All that `pod_cells` reads; a field that it does not name is absent where the pod is decoded by it. A row shows
    the metadata as well, so they are left as they are.
    """

    metadata: msgspec.Raw
    spec: _Spec
    status: _Status


class _Init(NamedTuple):
    """What the init containers say: the reason they hold the pod up (if any), and the ready side-cars among them."""

    reason: str
    ready: int
    seen: list[Json]
    # All side-cars of the pod, by name.
    sidecars: Collection[str]


_NO_INIT = _Init("", 0, [], ())


def pod_cells(pod: Json, now_ns: int) -> list[object]:
    """A pod's row, wide columns included."""
    metadata, spec, status = part(pod, "metadata"), part(pod, "spec"), part(pod, "status")
    has_init = "initContainers" in spec or "initContainerStatuses" in status
    reason, ready, counted, sidecars = _initialization(spec, status) if has_init else _NO_INIT
    if not reason or holds_condition(pod, "Initialized"):
        statuses = parts(status, "containerStatuses")
        counted = [*(each for each in counted if text(each, "name") in sidecars), *statuses] if counted else statuses
        said, running, failure = _containers(statuses)
        reason = said or reason or _pod_reason(status)
        if reason == "Completed":
            if running and holds_condition(pod, "Ready"):
                reason = "Running"
            else:
                reason = failure or ("NotReady" if running else reason)
        ready += running
    total = len(parts(spec, "containers")) + len(sidecars)
    return [
        text(metadata, "name"),
        f"{ready}/{total}",
        ("deletionTimestamp" in metadata and text(metadata, "deletionTimestamp") and _ending(status)) or reason,
        _restarts(counted, now_ns),
        age(text(metadata, "creationTimestamp"), now_ns),
        _address(status) or _NONE,
        ("nodeName" in spec and text(spec, "nodeName")) or _NONE,
        ("nominatedNodeName" in status and text(status, "nominatedNodeName")) or _NONE,
        ("readinessGates" in spec and _gates(pod, parts(spec, "readinessGates"))) or _NONE,
    ]


def _pod_reason(status: Json) -> str:
    for each in parts(status, "conditions"):
        if each.get("reason") == "SchedulingGated" and each.get("type") == "PodScheduled":
            return "SchedulingGated"
    return ("reason" in status and text(status, "reason")) or text(status, "phase")


def _address(status: Json) -> str:
    if "podIPs" in status and (addresses := parts(status, "podIPs")):
        return text(addresses[0], "ip")
    return text(status, "podIP") if "podIP" in status else ""


def _initialization(spec: Json, pod_status: Json) -> _Init:
    """Up to the first init container that has neither ended well nor, as a side-car, started."""
    asked, statuses = parts(spec, "initContainers"), parts(pod_status, "initContainerStatuses")
    sidecars = {text(each, "name") for each in asked if each.get("restartPolicy") == "Always"}
    ready = 0
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
            reason = f"{index}/{len(asked)}"
        return _Init(f"Init:{reason}", ready, statuses[: index + 1], sidecars)
    return _Init("", ready, statuses, sidecars)


def _end_reason(ended: Json) -> str:
    if reason := text(ended, "reason"):
        return reason
    if signal := number(ended, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number(ended, 'exitCode')}"


def _containers(statuses: list[Json]) -> tuple[str, int, str]:
    """What the first container says that waits or has ended, how many run and are ready, and what the first says that
    has failed."""
    reason, running, failure = "", 0, ""
    for status in statuses:
        state = part(status, "state")
        runs = isinstance(state.get("running"), dict)
        if len(state) > runs:
            ended = part(state, "terminated")
            waiting = text(part(state, "waiting"), "reason")
            reason = reason or waiting or (_end_reason(ended) if ended else "")
            if ended and not waiting and not failure and number(ended, "exitCode"):
                failure = _end_reason(ended)
            runs = runs and not waiting and not ended
        running += runs and status.get("ready") is True
    return reason, running, failure


def _ending(status: Json) -> str:
    if text(status, "reason") == _NODE_LOST:
        return "Unknown"
    return "" if text(status, "phase") in ENDED_PHASES else "Terminating"


def _restarts(statuses: Iterable[Json], now_ns: int) -> str:
    count, last_ns, last = 0, 0, ""
    for status in statuses:
        count += number(status, "restartCount")
        finished = text(status, "lastState.terminated.finishedAt") if status.get("lastState") else ""
        try:
            finished_ns = parse_time(finished) if finished else 0
        except ManifestError:
            finished_ns = 0
        if finished_ns > last_ns:
            last_ns, last = finished_ns, finished
    return f"{count} ({age(last, now_ns)} ago)" if count and last else str(count)


def _gates(pod: Json, gates: list[Json]) -> str:
    passed = sum(holds_condition(pod, text(each, "conditionType")) for each in gates)
    return f"{passed}/{len(gates)}" if gates else ""
