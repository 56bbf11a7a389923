"""The history of a StatefulSet or DaemonSet: a ControllerRevision for each template that it had.

The data of a revision is a patch that brings its template back, as upstream writes it: it is what `kubectl rollout
undo` sends. Going back makes no second revision of the same template; the one there is gets the newest number.

How to use: `Revisions(around, owner_kind, hash_label)` for the owners of one kind; `history(owner)` claims the
revisions, makes the one of the present template and returns them all. What a reconciler follows is `cache`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from jettison.controllers.machinery.objects import is_terminating
from jettison.controllers.machinery.owned_pods import ByController, Claims, OwnerKind, controller_of, selector_of
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.engine.workloads.template_hash import is_alike, template_hash
from jettison.errors import ApiError, NotFound
from jettison.runtimes.kube.cache import key_of
from jettison.runtimes.kube.client import DeleteOptions, Document, PatchType
from jettison.runtimes.kube.kinds import CONTROLLER_REVISIONS

_DIRECTIVE: Final = "$patch"
# Of the owner's name: upstream leaves 30 characters for the hash.
_LONGEST_PREFIX: Final = 223


class RevisionHistory(NamedTuple):
    """All revisions, by number: the last is that of the present template. `collisions` belongs into the status."""

    revisions: list[Document]
    collisions: int

    @property
    def latest(self) -> Document:
        """That of the present template."""
        return self.revisions[-1]

    @property
    def former(self) -> list[Document]:
        """The others, the oldest first."""
        return self.revisions[:-1]


class Revisions:
    """For owners of one kind. `hash_label` is where a revision carries its hash, which differs between kinds."""

    def __init__(self, around: Surroundings, owner_kind: OwnerKind, hash_label: str) -> None:
        self._client = around.client
        self._owner_kind = owner_kind
        self._hash_label = hash_label
        self.cache = around.caches.of(CONTROLLER_REVISIONS)
        self._by_owner = self.cache.index(ByController)
        self._claims = Claims(around.client, owner_kind, CONTROLLER_REVISIONS)

    async def history(self, owner: Document) -> RevisionHistory:
        """With the revision of the present template as the newest, made or renumbered where it is not."""
        claimed = await self._claims.claim(owner, selector_of(owner), self._by_owner.candidates(owner))
        known = sorted((each for each in claimed if not is_terminating(each)), key=_age)
        data = data_of(owner)
        latest = next((each for each in reversed(known) if is_alike(each.get("data"), data)), None)
        former = [each for each in known if each is not latest]
        number = 1 + max((number_of(each) for each in former), default=0)
        collisions = (owner.get("status") or {}).get("collisionCount") or 0
        if latest is None:
            latest, collisions = await self._create(owner, data, number, collisions)
        elif number_of(latest) < number:
            latest = await self._renumber(latest, number)
        return RevisionHistory([*former, latest], collisions)

    async def named(self, owner: Document, name: str, history: RevisionHistory) -> Document | None:
        """One of the owner's. Asked of the server where the cache has not shown it: a pod that must come back as it
        was must not come back as another because the news is late.
        """
        for each in history.revisions:
            if each["metadata"]["name"] == name:
                return each
        if not name:
            return None
        try:
            found = await self._client.get(CONTROLLER_REVISIONS, name, key_of(owner)[0])
        except NotFound:
            return None
        return found if self._is_own(owner, found) else None

    async def forget(self, revisions: Iterable[Document]) -> None:
        """Delete revisions that no rollback needs."""
        for each in revisions:
            namespace, name = key_of(each)
            try:
                options = DeleteOptions(uid=each["metadata"]["uid"])
                await self._client.delete(CONTROLLER_REVISIONS, name, namespace, options)
            except NotFound:
                continue

    def hash_of(self, revision: Document) -> str:
        """One that came without the label is known by its name, which is unique too."""
        metadata = revision["metadata"]
        return str((metadata.get("labels") or {}).get(self._hash_label) or metadata["name"])

    async def _create(self, owner: Document, data: Document, number: int, collisions: int) -> tuple[Document, int]:
        while True:
            made = self._new(owner, data, number, collisions)
            namespace, name = key_of(made)
            try:
                return await self._client.create(CONTROLLER_REVISIONS, made, namespace), collisions
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                found = await self._client.get(CONTROLLER_REVISIONS, name, namespace)
                if is_alike(found.get("data"), data) and not is_terminating(found):
                    if self._is_own(owner, found):
                        return found, collisions  # made a moment ago, and the cache has not shown it
                    if controller_of(found) is None:
                        raise  # to be adopted, once the cache shows it
            collisions += 1

    def _new(self, owner: Document, data: Document, number: int, collisions: int) -> Document:
        metadata, template = owner["metadata"], owner["spec"]["template"]
        # A count of none is the same as no count: names have to stay what they were before there was one.
        digest = template_hash(template, collisions or None)
        labels = {**((template.get("metadata") or {}).get("labels") or {}), self._hash_label: digest}
        made: Document = {
            "name": f"{metadata['name'][:_LONGEST_PREFIX]}-{digest}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [self._owner_kind.reference(owner)],
        }
        if annotations := metadata.get("annotations"):
            made["annotations"] = annotations  # the cause of the change is one of them
        api_version = self._owner_kind.api_version
        return {
            "apiVersion": api_version,
            "kind": "ControllerRevision",
            "metadata": made,
            "data": data,
            "revision": number,
        }

    async def _renumber(self, revision: Document, number: int) -> Document:
        namespace, name = key_of(revision)
        patch = {"metadata": {"uid": revision["metadata"]["uid"]}, "revision": number}
        return await self._client.patch(CONTROLLER_REVISIONS, name, patch, namespace, how=PatchType.MERGE)

    @staticmethod
    def _is_own(owner: Document, revision: Document) -> bool:
        return bool((controller_of(revision) or {}).get("uid") == owner["metadata"]["uid"])


def data_of(owner: Document) -> Document:
    """The patch that brings the present template back, whatever the owner has by then."""
    return {"spec": {"template": _in_order({**owner["spec"]["template"], _DIRECTIVE: "replace"})}}


def template_of(revision: Document, owner: Document) -> Document:
    """The template of a revision. A patch that names none changes none, so that is the owner's."""
    spec = (revision.get("data") or {}).get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    if not isinstance(template, Mapping):
        present: Document = owner["spec"]["template"]
        return present
    return {key: value for key, value in template.items() if key != _DIRECTIVE}


def number_of(revision: Document) -> int:
    """Absent is 0 on the wire."""
    return int(revision.get("revision") or 0)


def surplus(revisions: Iterable[Document], live: set[str], limit: int | None, *, counts_live: bool) -> list[Document]:
    """The oldest beyond the limit, of those that are not live by name: DaemonSets count the live ones too."""
    if limit is None or limit < 0:
        return []
    every = list(revisions)
    idle = [each for each in every if each["metadata"]["name"] not in live]
    return idle[: max(len(every if counts_live else idle) - limit, 0)]


def _age(revision: Document) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return number_of(revision), metadata.get("creationTimestamp") or "", metadata["name"]


def _in_order(value: object) -> object:
    """Keys as Go writes them: kubectl compares the bytes before it says that there is nothing to undo."""
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(each) for each in value] if isinstance(value, list) else value
