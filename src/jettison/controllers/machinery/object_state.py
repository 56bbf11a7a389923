"""What controllers read off a pod or a node, and how they write its conditions: a list with one entry per type."""

from __future__ import annotations

from jettison.manifests.pod_view import DISRUPTION_TARGET, node_name_of
from jettison.runtimes.kube.cache import Cache, Key, View, key_of
from jettison.runtimes.kube.client import Document


def condition_of(document: Document, condition_type: str) -> Document | None:
    """The condition of that type, if the object has one."""
    conditions: list[Document] = (document.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == condition_type), None)


def with_conditions(document: Document, *changed: Document) -> Document:
    """The object with these conditions in the place of those of the same types, or after all others."""
    status = document.get("status") or {}
    left = {each["type"]: each for each in changed}
    conditions = [left.pop(each.get("type"), each) for each in status.get("conditions") or ()]
    return {**document, "status": {**status, "conditions": [*conditions, *left.values()]}}


def is_terminating(document: Document) -> bool:
    """Whether its end was asked for."""
    return bool(document["metadata"].get("deletionTimestamp"))


def keys_by_node(pods: Cache) -> View[Key]:
    """An index of pods: those of each node."""
    return View(pods, key_of, node_name_of)


def disruption_patch(pod: Document, reason: str, message: str, now: str) -> Document:
    """A strategic merge for `pods/status` that says why the pod goes. Only to this very pod: the uid is a condition."""
    known = condition_of(pod, DISRUPTION_TARGET)
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": known["lastTransitionTime"] if known and known.get("status") == "True" else now,
    }
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
