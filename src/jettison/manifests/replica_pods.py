"""Pod documents to the values that workloads count."""

from __future__ import annotations

from typing import Any, Final

from jettison.engine.numbers.strconv import parse_int64
from jettison.engine.workloads.replica_pods import ReplicaPod
from jettison.errors import ManifestError
from jettison.manifests.times import parse_time

_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_INT32: Final = 2**31


def replica_pod_from(document: dict[str, Any]) -> ReplicaPod:
    """A pod as a server sent it. A time or a cost that cannot be read is as good as none."""
    metadata, spec, status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
    conditions: list[dict[str, Any]] = status.get("conditions") or []
    ready = next((each for each in conditions if each.get("type") == "Ready"), {})
    is_ready = ready.get("status") == "True"
    return ReplicaPod(
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "",
        is_terminating=bool(metadata.get("deletionTimestamp")),
        is_ready=is_ready,
        ready_since_ns=_time(ready.get("lastTransitionTime")) if is_ready else 0,
        created_ns=_time(metadata.get("creationTimestamp")),
        deletion_cost=_cost((metadata.get("annotations") or {}).get(_DELETION_COST) or ""),
        restarts=_restarts(spec, status),
    )


def _time(text: str | None) -> int:
    try:
        return parse_time(text or "")
    except ManifestError:
        return 0


def _cost(text: str) -> int:
    """32 bits; neither a sign nor a zero may stand before it for nothing."""
    cost = parse_int64(text)
    if cost is None or not -_INT32 <= cost < _INT32 or text.startswith("+") or (text[0] == "0" and text != "0"):
        return 0
    return cost


def _restarts(spec: dict[str, Any], status: dict[str, Any]) -> tuple[int, int]:
    sidecars = {each.get("name") for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    regular = (each.get("restartCount") or 0 for each in status.get("containerStatuses") or ())
    beside = (
        each.get("restartCount") or 0
        for each in status.get("initContainerStatuses") or ()
        if each.get("name") in sidecars
    )
    return max(regular, default=0), max(beside, default=0)
