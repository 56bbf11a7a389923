"""A pod's status as the API should have it, and what of that it does not have yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jettison.agent.admission import TERMINAL
from jettison.agent.http.pod_statuses import status_document
from jettison.manifests.times import time_text
from jettison.runtimes.protocol import PodStatus

Document = dict[str, Any]

_CONTAINERS: Final = ("initContainerStatuses", "containerStatuses")
_VANISHING: Final = ("reason", "message")
_LOST: Final = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was deleted.  The container used to be Running",
}


def status_patch(status: PodStatus, pod: Document, address: str, now_ns: int) -> Document:
    """For a strategic merge: only what differs from the API's pod, so it is empty where nothing does.

    Conditions of others stay as they are, and a pod that has ended never lives again: whoever saw it end has acted on
    that.
    """
    before = pod.get("status") or {}
    if before.get("phase") in TERMINAL and status.phase not in TERMINAL:
        return {}
    wanted = status_document(status)
    conditions = _changed(wanted.pop("conditions", None) or (), before, pod["metadata"].get("generation"), now_ns)
    if status.started_ns is not None:
        # All pods of a bare host share its network.
        wanted |= {"hostIP": address, "hostIPs": [{"ip": address}], "podIP": address, "podIPs": [{"ip": address}]}
    if before.get("qosClass"):
        del wanted["qosClass"]
    if generation := pod["metadata"].get("generation"):
        wanted["observedGeneration"] = generation
    patch: Document = {key: value for key, value in wanted.items() if before.get(key) != value}
    patch |= {key: None for key in _VANISHING if key in before and key not in wanted}
    if conditions:
        patch["conditions"] = conditions
    return patch


def lost_patch(pod: Document) -> Document:
    """Of a pod that is to go and of which nothing is left here, not even how it ended: what ran has been killed."""
    before = pod.get("status") or {}
    if before.get("phase") in TERMINAL or not any(before.get(key) for key in _CONTAINERS):
        return {}
    patch: Document = {"phase": "Failed"}
    for key in _CONTAINERS:
        if key in before:
            patch[key] = [_ended(each) for each in before[key]]
    return patch


def _ended(container: Document) -> Document:
    if "terminated" in (container.get("state") or {}):
        return container
    return {**container, "ready": False, "started": False, "state": {"terminated": dict(_LOST)}}


def _changed(conditions: Iterable[Document], before: Document, generation: int | None, now_ns: int) -> list[Document]:
    known = {each["type"]: each for each in before.get("conditions") or ()}
    found = []
    for condition in conditions:
        if generation:
            condition = {**condition, "observedGeneration": generation}
        old = known.get(condition["type"], {})
        # Kubernetes writes null where nobody probes.
        if {key: value for key, value in old.items() if value and not key.startswith("last")} == condition:
            continue
        moment = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
        gone = {key: None for key in _VANISHING if key in old and key not in condition}
        found.append({**condition, **gone, "lastTransitionTime": moment or time_text(now_ns)})
    return found
