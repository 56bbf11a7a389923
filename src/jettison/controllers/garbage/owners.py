"""Which object belongs to which, over all kinds that can have owners, and what an owner reference is worth.

Whether an owner is there, is gone, or waits for its dependents to go: the caches are asked first, then the server. A
set of 2,000 pods has one owner, and every dependent is looked at every 45 seconds; so what the server said is
remembered for one and a half times as long. An owner of a kind without a cache is asked for at every second look, not
once per dependent, and its end is noticed within two.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

from jettison.clock import Clock
from jettison.controllers.machinery.objects import find_kind, is_terminating
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.errors import InputError, NotFound
from jettison.runtimes.kube.cache import RESYNC_SECONDS, Cache, Caches, Change, Key
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
    REPLICATION_CONTROLLERS,
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
    "ReplicationController": REPLICATION_CONTROLLERS,
    "StatefulSet": STATEFUL_SETS,
    "Job": JOBS,
    "Lease": LEASES,
    "PriorityClass": PRIORITY_CLASSES,
}
"""What is looked after. Events own nothing and have no owner; namespaces have an end of their own."""

FOREGROUND: Final = "foregroundDeletion"

REMEMBERED_SECONDS: Final = 1.5 * RESYNC_SECONDS
"""Longer than any one pause between resyncs, which vary by a quarter, and no longer than any two of them."""

MOST_ANSWERS: Final = 4096
"""Of one kind of question, some 300 bytes each: references to a million owners must not fill the memory."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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

    def touched(self, kind: Kind, change: Change) -> list[Item]:
        """Which objects a change concerns: the object itself, where it has owners or dependents to be looked at, its
        dependents, and owners that wait for its end.
        """
        items: list[Item] = []
        new = change.new
        if new is None:
            items += self.dependents(change.newest["metadata"]["uid"])
        elif (references_of(new) or new["metadata"].get("finalizers")) and (change.is_resync or change.differs(_bonds)):
            items.append(Item(kind, change.key))
        if change.old is not None and not change.is_resync and references_of(change.old) and change.differs(owner_uids):
            items += [self._items[uid] for uid in owner_uids(change.old) if uid in self._items]
        return items

    def _take(self, kind: Kind, change: Change) -> None:
        if change.is_resync:
            return
        item = Item(kind, change.key)
        own = change.newest["metadata"]["uid"]
        former = None if change.old is None else change.old["metadata"]["uid"]
        if former is not None and (change.new is None or former != own) and self._items.get(former) == item:
            del self._items[former]
        owners = frozenset() if change.new is None else owner_uids(change.new)
        for uid in self._owners.pop(item, frozenset()) - owners:
            self._dependents[uid].pop(item, None)
            if not self._dependents[uid]:
                del self._dependents[uid]
        if change.new is not None:
            self._items[own] = item
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


class Bond(Enum):
    """SOLID: the owner is there, or cannot be judged."""

    SOLID = auto()
    DANGLING = auto()
    WAITING = auto()


class _Owner(NamedTuple):
    """The whole of a reference: one with the right uid and a wrong name dangles, and says nothing about others."""

    kind: Kind
    namespace: str
    name: str
    uid: str


class _Served(NamedTuple):
    """What discovery said of a kind; None: the server does not have it."""

    kind: Kind | None


class OwnerBonds:
    """For the garbage collector, which deletes on the account of what is said here."""

    def __init__(self, around: Surroundings, ownership: Ownership) -> None:
        self._client = around.client
        self._ownership = ownership
        self._served: RecentAnswers[tuple[str, str], _Served] = RecentAnswers(around.clock, REMEMBERED_SECONDS)
        self._asked: RecentAnswers[_Owner, Bond] = RecentAnswers(around.clock, REMEMBERED_SECONDS)

    async def judge(self, item: Item, reference: Document) -> Bond:
        """An owner that cannot be asked for, because no server has its kind or it has no possible name, is not judged.

        Neither is a namespaced owner of an object without a namespace: a mistake that no looking can settle.
        """
        try:
            kind = await self._kind_of(reference)
            if kind is None or (kind.is_namespaced and not item.kind.is_namespaced):
                return Bond.SOLID
            return await self._bond_to(kind, item, reference)
        except InputError:
            return Bond.SOLID

    async def _kind_of(self, reference: Document) -> Kind | None:
        api_version, name = reference.get("apiVersion") or "", reference.get("kind") or ""
        known = KINDS.get(name)
        if known is not None and known.group == api_version.rpartition("/")[0]:
            return known
        served = self._served.get((api_version, name))
        return await self._discover(reference) if served is None else served.kind

    async def _discover(self, reference: Document) -> Kind | None:
        api_version, name = reference.get("apiVersion") or "", reference.get("kind") or ""
        kind = await find_kind(self._client, api_version, name)
        self._served.note((api_version, name), _Served(kind))
        return kind

    async def _bond_to(self, kind: Kind, item: Item, reference: Document) -> Bond:
        namespace = item.key[0] if kind.is_namespaced else ""
        owner = _Owner(kind, namespace, reference.get("name") or "", reference.get("uid") or "")
        cache = self._ownership.caches.get(kind)
        known = None if cache is None else cache.get((namespace, owner.name))
        if known is not None and known["metadata"]["uid"] == owner.uid:
            return _worth(known)
        remembered = self._asked.get(owner)
        if remembered is not None:
            return remembered
        bond = await self._ask(owner, reference)
        # An owner that waits may end at any moment. One of a kind with a cache is about to appear there, also its end.
        if bond is Bond.DANGLING or (bond is Bond.SOLID and cache is None):
            self._asked.note(owner, bond)
        return bond

    async def _ask(self, owner: _Owner, reference: Document) -> Bond:
        """As the server has it. Gone is also one whose name another has by now."""
        try:
            found = await self._client.get(owner.kind, owner.name, owner.namespace)
        except NotFound:
            # The same answer comes where the kind has gone since it was discovered, and that says nothing of the owner.
            is_served = owner.kind in self._ownership.caches or await self._discover(reference) == owner.kind
            return Bond.DANGLING if is_served else Bond.SOLID
        return _worth(found) if found["metadata"].get("uid") == owner.uid else Bond.DANGLING


def is_waiting(document: Document) -> bool:
    """Whether it is to go, once its dependents are gone."""
    return is_terminating(document) and FOREGROUND in (document["metadata"].get("finalizers") or ())


def _worth(owner: Document) -> Bond:
    return Bond.WAITING if is_waiting(owner) else Bond.SOLID


class RecentAnswers(Generic[K, V]):
    """Answers of the server that need not be asked for again for a while, by question.

    An answer counts from when it was given, however often it is looked up.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._life_ns = int(seconds * 10**9)
        # The oldest first, for all live equally long.
        self._answers: dict[K, tuple[int, V]] = {}

    def get(self, question: K) -> V | None:
        """What was answered; None where that is too long ago or was never asked."""
        given_ns, answer = self._answers.get(question, (None, None))
        return answer if given_ns is not None and self._is_fresh(given_ns) else None

    def note(self, question: K, answer: V) -> None:
        """In the place of what was answered before."""
        self._answers.pop(question, None)
        self._answers[question] = self._clock.monotonic_ns(), answer
        while len(self._answers) > MOST_ANSWERS or not self._is_fresh(next(iter(self._answers.values()))[0]):
            del self._answers[next(iter(self._answers))]

    def _is_fresh(self, given_ns: int) -> bool:
        return self._clock.monotonic_ns() - given_ns < self._life_ns
