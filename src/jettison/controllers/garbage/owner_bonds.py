"""What an owner reference is worth: whether its owner is there, is gone, or waits for its dependents to go.

The caches are asked first, then the server. A set of 2,000 pods has one owner, and every dependent is looked at every
45 seconds; so what the server said is remembered for one and a half times as long. An owner of a kind without
a cache is asked for at every second look, not once per dependent, and its end is noticed within two.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

from jettison.clock import Clock
from jettison.controllers.garbage.ownership import KINDS, Item, Ownership
from jettison.controllers.machinery.object_state import is_terminating
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.controllers.machinery.served_kinds import find_kind
from jettison.errors import InputError, NotFound
from jettison.runtimes.kube.cache import RESYNC_SECONDS
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import Kind

FOREGROUND: Final = "foregroundDeletion"

REMEMBERED_SECONDS: Final = 1.5 * RESYNC_SECONDS
"""Longer than any one pause between resyncs, which vary by a quarter, and no longer than any two of them."""


MOST_ANSWERS: Final = 4096
"""Of one kind of question, some 300 bytes each: references to a million owners must not fill the memory."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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
