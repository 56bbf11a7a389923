"""What controllers read off any object, and how they write its conditions: a list with one entry per type.

Owner references know a kind by its name alone; where such objects live is what discovery says.
"""

from __future__ import annotations

from collections.abc import Iterable

from jettison.errors import NotFound
from jettison.manifests.pod_view import DISRUPTION_TARGET, node_name_of
from jettison.runtimes.kube.cache import Cache, Key, View, key_of
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import Kind


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
    """A strategic merge for `pods/status` that says why the pod goes, behind the conditions that it has.

    Only to this very pod: the uid is a condition.
    """
    known = condition_of(pod, DISRUPTION_TARGET)
    condition: Document = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": known["lastTransitionTime"] if known and known.get("status") == "True" else now,
    }
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    conditions = (pod.get("status") or {}).get("conditions") or ()
    order = dict.fromkeys((*(each.get("type", "") for each in conditions), DISRUPTION_TARGET))
    status = {"$setElementOrder/conditions": [{"type": each} for each in order], "conditions": [condition]}
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}


async def read_resources(client: KubeClient, api_version: str) -> list[Document]:
    """What the server has in this group and version; nothing where it does not serve it."""
    group, _, version = api_version.rpartition("/")
    # As a kind without a name: the path, with the text of an owner reference, which may be anything, quoted.
    path = Kind(group, "", version=version).path().rstrip("/")
    try:
        found = await client.request("GET", path)
    except NotFound:
        return []
    return found.get("resources") or []


def plural_of(kind: str, resources: Iterable[Document]) -> str | None:
    """The name in paths of a kind such as `Pod`."""
    names = (each["name"] for each in resources if each.get("kind") == kind)
    return next((name for name in names if "/" not in name), None)


async def find_kind(client: KubeClient, api_version: str, kind: str) -> Kind | None:
    """A kind by its name in references; None where the server does not have it."""
    resources = await read_resources(client, api_version)
    plural = plural_of(kind, resources)
    if plural is None:
        return None
    group, _, version = api_version.rpartition("/")
    is_namespaced = any(each["name"] == plural and each.get("namespaced") for each in resources)
    return Kind(group, plural, is_namespaced, version)
