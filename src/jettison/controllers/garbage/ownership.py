"""Which object belongs to which, over all kinds that can have owners; kept from the caches."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from jettison.runtimes.kube.cache import Cache, Caches, Change, Key, key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import (
    BUDGETS,
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NODE_LEASES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Kind,
)

KINDS: Final[Mapping[str, Kind]] = {
    "Pod": PODS,
    "Node": NODES,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "PodDisruptionBudget": BUDGETS,
    "ControllerRevision": CONTROLLER_REVISIONS,
    "DaemonSet": DAEMON_SETS,
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
    "Job": JOBS,
    "Lease": LEASES,
    "PriorityClass": PRIORITY_CLASSES,
}
"""What is looked after. Events own nothing and have no owner; namespaces have an end of their own."""


class Item(NamedTuple):
    """An object, wherever it is in its life."""

    kind: Kind
    key: Key


class Ownership:
    """Dependents by the uid of their owner, and objects by their own."""

    def __init__(self, caches: Caches) -> None:
        # Leases change every few seconds, and only those of nodes have owners.
        self.caches: Mapping[Kind, Cache] = {
            kind: caches.of(kind, NODE_LEASES if kind is LEASES else "") for kind in KINDS.values()
        }
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, dict[Item, None]] = {}
        self._owners: dict[Item, frozenset[str]] = {}
        for kind, cache in self.caches.items():
            cache.listen(functools.partial(self._take, kind))

    def get(self, item: Item) -> Document | None:
        """The object as it was last told of."""
        return self.caches[item.kind].get(item.key)

    def dependents(self, uid: str) -> list[Item]:
        """All that name this uid among their owners."""
        return list(self._dependents.get(uid, ()))

    def touched(self, kind: Kind, change: Change) -> Iterator[Item]:
        """Which objects a change concerns: the object itself, its dependents, and owners that wait for its end."""
        item = Item(kind, key_of(change.newest))
        if change.new is not None and (change.is_resync or change.differs(_bonds)):
            yield item
        if change.is_resync:
            return
        if change.new is None:
            yield from self.dependents(change.newest["metadata"]["uid"])
        if change.old is not None and change.differs(owner_uids):
            for uid in owner_uids(change.old):
                if uid in self._items:
                    yield self._items[uid]

    def _take(self, kind: Kind, change: Change) -> None:
        if change.is_resync:
            return
        item = Item(kind, key_of(change.newest))
        if change.old is not None:
            known = self._items.get(change.old["metadata"]["uid"])
            if known == item:
                del self._items[change.old["metadata"]["uid"]]
        owners = frozenset() if change.new is None else owner_uids(change.new)
        for uid in self._owners.pop(item, frozenset()) - owners:
            self._dependents[uid].pop(item, None)
            if not self._dependents[uid]:
                del self._dependents[uid]
        if change.new is not None:
            self._items[change.new["metadata"]["uid"]] = item
        if owners:
            self._owners[item] = owners
        for uid in owners:
            self._dependents.setdefault(uid, {})[item] = None


def references_of(document: Document) -> list[Document]:
    """Its owner references."""
    return document["metadata"].get("ownerReferences") or []


def owner_uids(document: Document) -> frozenset[str]:
    """Of all owners, controllers or not."""
    return frozenset(each.get("uid") or "" for each in references_of(document))


def _bonds(document: Document) -> object:
    metadata = document["metadata"]
    return metadata["uid"], references_of(document), metadata.get("finalizers"), metadata.get("deletionTimestamp")
