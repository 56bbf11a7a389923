"""Whose pod is it? Pods by their controller, and how a workload claims those that are its own.

How to use: `cache.index(ByController)` has the objects of a kind in groups: `of(uid)` those whose controller has that
uid, `orphans(namespace)` those without one. `Claims(client, owner_kind, kind).claim(owner, selector, candidates)` makes
them the owner's: an orphan that the selector matches is adopted, an own one that it no longer matches is released, and
what is left is returned. It is the same for ReplicaSets of a Deployment and for ControllerRevisions. Give a reconciler
`WokenOwners(owner_kind, owners)` to follow the cache with: it names the owners that a change concerns.

Owners in these signatures are documents, which in lists do not carry their kind: an `OwnerKind` goes with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from jettison.controllers.machinery.objects import is_terminating
from jettison.engine.labels.selectors import NOTHING, LabelSelector, select
from jettison.errors import ApiError, InputError, NotFound
from jettison.manifests.budgets import selector_from
from jettison.runtimes.kube.cache import Cache, Change, Key, View, key_of
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import Kind

_INVALID: Final = 422


def selector_of(owner: Document) -> LabelSelector:
    """What `spec.selector` selects. An empty one is forbidden and would be everything: it selects nothing here."""
    try:
        selector = select(selector_from((owner.get("spec") or {}).get("selector")))
    except InputError:
        return NOTHING
    return NOTHING if selector.is_empty else selector


def labels_of(owner: Document) -> LabelSelector:
    """As above, where `spec.selector` is a set of labels: the older form, of ReplicationControllers."""
    return selector_of({"spec": {"selector": {"matchLabels": (owner.get("spec") or {}).get("selector")}}})


class OwnerKind(NamedTuple):
    """Where the owners are found, what they are called in references and events, and how they say what is theirs."""

    kind: Kind
    name: str
    selector_of: Callable[[Document], LabelSelector] = selector_of

    @property
    def api_version(self) -> str:
        """As references carry it."""
        return f"{self.kind.group}/{self.kind.version}" if self.kind.group else self.kind.version

    def reference(self, owner: Document) -> Document:
        """A controller reference to that owner, which waits for its dependents in a foreground deletion."""
        return {
            "apiVersion": self.api_version,
            "kind": self.name,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }

    async def report_status(self, client: KubeClient, owner: Document, status: Document) -> None:
        """Write the whole status, on the version that it was counted for; only if it is news, since a write wakes
        other controllers.
        """
        if status == (owner.get("status") or {}):
            return
        whole = {"apiVersion": self.api_version, "kind": self.name, **owner, "status": status}
        try:
            await client.replace(self.kind, whole, "status")
        except NotFound:
            return

    def key_from(self, document: Document) -> Key | None:
        """The key of the controller of this object, where that is of this kind; whether it still exists is open."""
        reference = controller_of(document)
        return None if reference is None else self.key_in(reference, key_of(document)[0])

    def key_in(self, reference: Document, namespace: str) -> Key | None:
        """The same from the reference of an object in this namespace."""
        if reference.get("kind") != self.name:
            return None
        # The version is free to change, the group is not.
        if (reference.get("apiVersion") or "").rpartition("/")[0] != self.kind.group:
            return None
        return namespace, reference.get("name") or ""


def controller_of(document: Document) -> Document | None:
    """The one owner reference that says it is the controller."""
    for each in document["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            reference: Document = each
            return reference
    return None


class WokenOwners:
    """The owners to look at when a pod changes: whose it is, whose it was, and whose an orphan could become."""

    def __init__(self, owner_kind: OwnerKind, owners: Cache) -> None:
        self._owner_kind = owner_kind
        self._selectors: View[LabelSelector] = View(owners, owner_kind.selector_of)

    def __call__(self, change: Change) -> Iterable[Key]:
        """At a resync none: the owners come by themselves."""
        if change.is_resync:
            return ()
        owners = change.once(_owners_in)
        if not owners.references and not owners.may_get_one:
            return ()
        namespace = change.key[0]
        keys = [key for each in owners.references if (key := self._owner_kind.key_in(each, namespace))]
        if owners.may_get_one:
            labels = change.newest["metadata"].get("labels") or {}
            keys += [key for key, selector in self._selectors.group(namespace).items() if selector.matches(labels)]
        return keys


class _Owners(NamedTuple):
    """The controllers before and after a change, and whether an orphan may have become another's since."""

    references: tuple[Document, ...]
    may_get_one: bool


def _owners_in(change: Change) -> _Owners:
    old, new = (None if each is None else controller_of(each) for each in (change.old, change.new))
    is_orphan = change.new is not None and new is None
    may_get_one = is_orphan and (old is not None or change.differs(_labels))
    return _Owners(tuple(each for each in (old, new) if each is not None), may_get_one)


def _labels(document: Document) -> object:
    return document["metadata"].get("labels")


class ByController:
    """The objects of a cache in groups, kept as they change. Objects are the cache's own and must not be changed."""

    def __init__(self, cache: Cache) -> None:
        self._groups: dict[str, dict[Key, Document]] = {}
        self._group_of: dict[Key, str] = {}
        cache.listen(self._take)

    def of(self, uid: str) -> list[Document]:
        """Those whose controller has this uid, in the order in which they appeared."""
        return list(self._groups.get(uid, {}).values())

    def orphans(self, namespace: str) -> list[Document]:
        """Those of the namespace that have no controller."""
        return list(self._groups.get(_orphanage(namespace), {}).values())

    def candidates(self, owner: Document) -> list[Document]:
        """What `claim` wants: the owner's own and the orphans of its namespace."""
        metadata = owner["metadata"]
        return [*self.of(metadata["uid"]), *self.orphans(metadata.get("namespace") or "")]

    def _take(self, change: Change) -> None:
        if change.is_resync:
            return
        key = change.key
        new = None if change.new is None else _group(change.new)
        # Where it was is kept, not computed: the last word on a deleted object may name other owners than before.
        old = self._group_of.get(key)
        if old is not None and old != new:
            self._groups[old].pop(key, None)
            if not self._groups[old]:
                del self._groups[old]
        if new is None or change.new is None:
            self._group_of.pop(key, None)
            return
        self._group_of[key] = new
        self._groups.setdefault(new, {})[key] = change.new


def _group(document: Document) -> str:
    reference = controller_of(document)
    return _orphanage(key_of(document)[0]) if reference is None else reference.get("uid") or ""


def _orphanage(namespace: str) -> str:
    """No uid has a slash in it."""
    return f"orphans/{namespace}"


class Claims:
    """Adopts and releases objects of one kind for owners of one kind. An adopted object gets the finalizer too."""

    def __init__(self, client: KubeClient, owner_kind: OwnerKind, kind: Kind, finalizer: str = "") -> None:
        self._client = client
        self._owner_kind = owner_kind
        self._kind = kind
        self._finalizers = {"finalizers": [finalizer]} if finalizer else {}

    async def claim(self, owner: Document, selector: LabelSelector, candidates: Iterable[Document]) -> list[Document]:
        """The candidates that are the owner's, with those that were just adopted."""
        uid = owner["metadata"]["uid"]
        claimed = []
        may_adopt: bool | None = None
        for each in candidates:
            reference = controller_of(each)
            matches = selector.matches(each["metadata"].get("labels") or {})
            if reference is not None:
                if reference.get("uid") != uid:
                    continue
                if matches:
                    claimed.append(each)
                elif not is_terminating(owner):
                    await self._release(owner, each)
            elif matches and not is_terminating(owner) and not is_terminating(each):
                if may_adopt is None:
                    may_adopt = await self._may_adopt(owner)
                if may_adopt and (adopted := await self._adopt(owner, each)):
                    claimed.append(adopted)
        return claimed

    async def _may_adopt(self, owner: Document) -> bool:
        """Asked afresh and not of the cache: an owner that is gone, or another by now, must not get children."""
        namespace, name = key_of(owner)
        try:
            fresh = await self._client.get(self._owner_kind.kind, name, namespace)
        except NotFound:
            return False
        return fresh["metadata"]["uid"] == owner["metadata"]["uid"] and not is_terminating(fresh)

    async def _adopt(self, owner: Document, document: Document) -> Document | None:
        """The uid is a condition: the patch is refused where the name has passed on to another object."""
        namespace, name = key_of(document)
        reference = self._owner_kind.reference(owner)
        metadata = {"uid": document["metadata"]["uid"], "ownerReferences": [reference], **self._finalizers}
        patch = {"metadata": metadata}
        try:
            return await self._client.patch(self._kind, name, patch, namespace)
        except NotFound:
            return None

    async def _release(self, owner: Document, document: Document) -> None:
        namespace, name = key_of(document)
        reference = {"$patch": "delete", "uid": owner["metadata"]["uid"]}
        patch = {"metadata": {"uid": document["metadata"]["uid"], "ownerReferences": [reference]}}
        try:
            await self._client.patch(self._kind, name, patch, namespace)
        except NotFound:
            return
        except ApiError as error:
            # Nothing left to release: it has no owners any more, or is another object.
            if error.code != _INVALID:
                raise
