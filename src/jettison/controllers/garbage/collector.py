"""The garbage collector: deletes objects whose owners are gone; an owner can wait for its dependents.

`Background`: the owner is gone, its dependents follow. `Foreground`: the owner stays, with a finalizer, until the
dependents that block it are gone. `Orphan`: the dependents forget the owner first. An owner that the cache does not
know is asked for at the server before anything is deleted on its account, and a deletion carries the version of the
dependent that it was decided on. What belongs to an owner of a kind that the server lacks is left as it is: the
kind may come back.

Only the kinds of `ownership.KINDS` are collected. Their owners may be of any kind.
"""

from __future__ import annotations

import functools
from typing import Final

from jettison.controllers.garbage.owners import (
    FOREGROUND,
    KINDS,
    Bond,
    Item,
    OwnerBonds,
    Ownership,
    is_waiting,
    owner_uids,
    references_of,
)
from jettison.controllers.machinery.objects import is_terminating
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.errors import NotFound
from jettison.runtimes.kube.client import DeleteOptions, Document, PatchType
from jettison.runtimes.kube.kinds import Kind

ORPHAN: Final = "orphan"

_WORKERS: Final = 10


class GarbageCollector:
    """One queue for all kinds."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._ownership = Ownership(around.caches)
        self._bonds = OwnerBonds(around, self._ownership)
        self._reconciler: Reconciler[Item] = Reconciler("garbage collection", self._reconcile, workers=_WORKERS)
        for kind, cache in self._ownership.caches.items():
            self._reconciler.follow(cache, functools.partial(self._ownership.touched, kind))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, item: Item) -> None:
        document = self._ownership.get(item)
        if document is None:
            return
        finalizers = document["metadata"].get("finalizers") or ()
        try:
            if is_terminating(document):
                if FOREGROUND in finalizers:
                    await self._let_go_after_dependents(item, document)
                elif ORPHAN in finalizers:
                    await self._let_go_of_dependents(item, document)
            elif references_of(document):
                await self._examine(item, document)
        except NotFound:
            return  # gone meanwhile, which is all that was wanted

    async def _let_go_after_dependents(self, item: Item, document: Document) -> None:
        """All of them go now, also those that are not waited for."""
        uid = document["metadata"]["uid"]
        dependents = self._ownership.dependents(uid)
        for each in dependents:
            self._reconciler.queue.add(each)
        if not any(self._blocks(each, uid) for each in dependents):
            await self._remove_finalizer(item, document, FOREGROUND)

    def _blocks(self, item: Item, uid: str) -> bool:
        document = self._ownership.get(item)
        references = [] if document is None else references_of(document)
        return any(each.get("uid") == uid and each.get("blockOwnerDeletion") for each in references)

    async def _let_go_of_dependents(self, item: Item, document: Document) -> None:
        """Listed afresh: a dependent that the cache has yet to hear of would be deleted instead of orphaned."""
        uid = document["metadata"]["uid"]
        client = self._around.client
        for kind in KINDS.values():
            if kind.is_namespaced or not item.kind.is_namespaced:
                for each in (await client.list(kind, item.key[0])).items:
                    if uid in owner_uids(each):
                        await self._forget_owners(kind, each, [uid])
        await self._remove_finalizer(item, document, ORPHAN)

    async def _examine(self, item: Item, document: Document) -> None:
        """Delete it, if none of its owners is worth staying for. One uid under two names has one right name at most."""
        bonds: dict[str, Bond] = {}
        for each in references_of(document):
            uid = each.get("uid") or ""
            if bonds.get(uid) is not Bond.SOLID:
                bonds[uid] = await self._bonds.judge(item, each)
        if all(each is Bond.SOLID for each in bonds.values()):
            return
        if Bond.SOLID in bonds.values():
            loose = [uid for uid, each in bonds.items() if each is not Bond.SOLID]
            await self._forget_owners(item.kind, document, loose)
            return
        dependents = self._ownership.dependents(document["metadata"]["uid"])
        if Bond.WAITING in bonds.values() and dependents:
            if any(self._is_waiting(each) for each in dependents):
                document = await self._unblock(item, document)
            await self._delete(item, document, "Foreground")
            return
        finalizers = document["metadata"].get("finalizers") or ()
        policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
        await self._delete(item, document, policy)

    def _is_waiting(self, item: Item) -> bool:
        document = self._ownership.get(item)
        return document is not None and is_waiting(document)

    async def _unblock(self, item: Item, document: Document) -> Document:
        """Two that wait for one another would never end: this one no longer holds up its owners."""
        references = [{"uid": each.get("uid"), "blockOwnerDeletion": False} for each in references_of(document)]
        patch = {"metadata": {"uid": document["metadata"]["uid"], "ownerReferences": references}}
        return await self._around.client.patch(item.kind, item.key[1], patch, item.key[0])

    async def _delete(self, item: Item, document: Document, policy: str) -> None:
        metadata = document["metadata"]
        options = DeleteOptions(uid=metadata["uid"], version=metadata["resourceVersion"], propagation=policy)
        await self._around.client.delete(item.kind, item.key[1], item.key[0], options)

    async def _forget_owners(self, kind: Kind, document: Document, uids: list[str]) -> None:
        metadata = document["metadata"]
        references = [{"$patch": "delete", "uid": uid} for uid in uids]
        patch = {"metadata": {"uid": metadata["uid"], "ownerReferences": references}}
        try:
            await self._around.client.patch(kind, metadata["name"], patch, metadata.get("namespace") or "")
        except NotFound:
            return

    async def _remove_finalizer(self, item: Item, document: Document, finalizer: str) -> None:
        """On the version that was looked at: another client may be adding or removing another one."""
        metadata = document["metadata"]
        kept = [each for each in metadata["finalizers"] if each != finalizer]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
        await self._around.client.patch(item.kind, item.key[1], patch, item.key[0], how=PatchType.MERGE)
