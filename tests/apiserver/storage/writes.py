"""Writes that wait for the disk, as the handlers of the API make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jettison.apiserver.http.statuses import already_exists
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Stored

Json = dict[str, Any]


async def create(store: Store, resource: Resource, value: Json) -> Stored:
    """A new object under the name in its metadata; 409 when the name is taken."""
    namespace, name = value["metadata"].get("namespace", ""), value["metadata"]["name"]
    if store.head(resource, namespace, name) is not None:
        raise already_exists(resource, name)
    return await store.durable(store.put(resource, namespace, name, value))


async def update(store: Store, resource: Resource, namespace: str, name: str, change: Callable[[Json], Json]) -> Stored:
    """What `change` makes of the newest state of the object."""
    found = store.head(resource, namespace, name)
    if found is None:
        raise store.missing(resource, namespace, name)
    return await store.durable(store.put(resource, namespace, name, change(found.object)))


async def delete(store: Store, resource: Resource, namespace: str, name: str) -> Stored:
    """Without grace, and without a look at its finalizers."""
    return await store.durable(store.remove(resource, namespace, name))
