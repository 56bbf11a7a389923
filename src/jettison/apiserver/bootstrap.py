"""What is there before anybody asks: the namespaces and priority classes that every cluster has."""

from __future__ import annotations

from typing import Any

from jettison.apiserver.objects.admission import SYSTEM_NAMESPACES
from jettison.apiserver.objects.resources import NAMESPACES, PRIORITY_CLASSES, Resource
from jettison.apiserver.objects.schema.reading import read_document
from jettison.apiserver.objects.writing import prepare_new
from jettison.apiserver.storage.store import Store
from jettison.clock import Clock
from jettison.manifests.files.documents import SYSTEM_CLASSES

_DESCRIPTIONS = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


async def ensure_system_objects(store: Store, clock: Clock) -> None:
    """Make what is missing; what is there is left alone."""
    for name in SYSTEM_NAMESPACES:
        _ensure(store, clock, NAMESPACES, {"metadata": {"name": name}})
    for name, value in SYSTEM_CLASSES.items():
        metadata = {"name": name}
        _ensure(
            store, clock, PRIORITY_CLASSES, {"metadata": metadata, "value": value, "description": _DESCRIPTIONS[name]}
        )
    await store.settled()


def _ensure(store: Store, clock: Clock, resource: Resource, source: dict[str, Any]) -> None:
    name = source["metadata"]["name"]
    if store.head(resource, "", name) is None:
        value, _ = read_document(resource.struct, source)
        store.put(resource, "", name, prepare_new(resource, value, "", clock.now_ns(), _admitted))


def _admitted(value: dict[str, Any]) -> None:
    """What the system itself needs is not asked about."""
    del value
