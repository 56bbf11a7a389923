"""A pod's row. Its status is no field of the pod: it is put together from phase, conditions and containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jettison.apiserver.objects.tables.cells import Json, age, holds_condition, is_true, number, part, parts, text
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import ManifestError
from jettison.manifests.times import parse_time

COLUMNS = ("Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*")

_NONE = "<none>"
_NODE_LOST = "NodeLost"


@dataclass(frozen=True, slots=True)
class _Init:
    """What the init containers say: the reason they hold the pod up (if any), and the ready side-cars among them."""

    reason: str
    ready: int
    seen: tuple[Json, ...]


def cells(pod: Json, now_ns: int) -> list[object]:
    """The row, wide columns included."""
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
