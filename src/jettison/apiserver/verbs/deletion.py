"""Deletion: grace, finalizers, preconditions, and what a second deletion changes.

The server does not time a pod's grace: the node that runs the pod says that it has ended, by deleting it with grace 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from jettison.apiserver.http.bodies import Expected, decode_body, kind_of
from jettison.apiserver.http.requests import Request, boolean, dry_run_mistakes, integer, invalid_options
from jettison.apiserver.http.statuses import bad_request, conflict, not_found
from jettison.apiserver.objects.ownership.records import Entries
from jettison.apiserver.objects.resources import (
    ENDPOINTS,
    JOBS,
    NAMESPACES,
    PODS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    Resource,
)
from jettison.apiserver.objects.schema import read_document
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, unsupported
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Stored
from jettison.engine.numbers.strconv import quote
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import Conflict, InputError
from jettison.manifests.times import parse_time, time_text
from jettison.values import frozen

Json = dict[str, Any]

_SECOND_NS: Final = 10**9
_POLICIES: Final = ("Foreground", "Background", "Orphan", "nil")
_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"
GARBAGE_FINALIZERS: Final = frozenset((_FOREGROUND, _ORPHAN))
"""Those that the garbage collector takes away."""
# A grace of 300,000 years is a valid number, but no timestamp is later than 9999-12-31.
_SCHEME: Final = 'in scheme "pkg/apis/meta/internalversion/scheme/register.go:27"'
_LATEST_NS: Final = 253_402_300_799 * _SECOND_NS


@frozen
class DeleteOptions:
    """What a client may say about a deletion. None is what it left out."""

    grace_seconds: int | None = None
    uid: str | None = None
    version: str | None = None
    policy: str | None = None
    orphans: bool | None = None
    dry_run: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Json) -> DeleteOptions:
        """From a DeleteOptions object whose types are right."""
        preconditions = value.get("preconditions") or {}
        return cls(
            value.get("gracePeriodSeconds"),
            preconditions.get("uid"),
            preconditions.get("resourceVersion"),
            value.get("propagationPolicy"),
            value.get("orphanDependents"),
            tuple(value.get("dryRun") or ()),
        )

    @property
    def is_silent_on_dependents(self) -> bool:
        """Whether the kind decides what becomes of the object's dependents."""
        return self.policy is None and self.orphans is None

    def check(self) -> None:
        """Raise 422 for what cannot be."""
        if self.is_silent_on_dependents and not self.dry_run:
            return
        if mistakes := list(self._mistakes()):
            raise invalid_options("DeleteOptions", mistakes)

    def _mistakes(self) -> Iterator[Mistake]:
        if self.orphans is not None and self.policy is not None:
            yield invalid(
                "propagationPolicy", self.policy, "orphanDependents and deletionPropagation cannot be both set"
            )
        if self.policy is not None and self.policy not in _POLICIES[:3]:
            yield unsupported("propagationPolicy", self.policy, _POLICIES)
        yield from dry_run_mistakes(self.dry_run)


class Deleted(NamedTuple):
    """`stored` is the object as it was left, or as it was last; a dry run has only `value`."""

    value: Json
    is_removed: bool
    stored: Stored | None
    # It was damaged, and nothing can be shown of it.
    is_dismissed: bool = False
    # Its entries, where it is not stored.
    managed: Entries = ()


def read_delete_options(request: Request, versions: tuple[str, ...]) -> DeleteOptions:
    """From the body if there is one, else from the query; never from both."""
    parameters = request.parameters
    if not request.body:
        return DeleteOptions(
            grace_seconds=integer(request, "gracePeriodSeconds"),
            uid=request.parameter("uid") or None,
            version=request.parameter("resourceVersion") or None,
            policy=request.parameter("propagationPolicy") if "propagationPolicy" in parameters else None,
            orphans=boolean(request, "orphanDependents"),
            dry_run=tuple(parameters.get("dryRun", ())),
        )
    expected = Expected("DeleteOptions", versions, "DeleteOptions")
    try:
        document = decode_body(request.body, request.content_type, expected)
        version, kind = kind_of(document)
        if kind not in ("", "DeleteOptions"):
            version = version or "meta.k8s.io/v1"
            raise InputError(f"no kind {quote(kind)} is registered for version {quote(version)} {_SCHEME}")
        value, _ = read_document("DeleteOptions", {} if document is None else document)
    except InputError as error:
        raise bad_request(str(error)) from error
    return DeleteOptions.of(value)


def check_preconditions(
    resource: Resource, stored: Stored, options: DeleteOptions, *, take_empty: bool = False
) -> None:
    """409 if this is not the object or the version that was meant. `take_empty`: an empty text is no condition."""
    if options.uid is None and options.version is None:
        return
    metadata = stored.metadata
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if resource is NAMESPACES:
        for record, given, found in (("UID", options.uid, uid), ("ResourceVersion", options.version, version)):
            if given is not None and given != found:
                why = f"Precondition failed: {record} in precondition: {given}, {record} in object meta: {found}"
                raise conflict(resource, name, why)
        return
    if options.uid is not None and options.uid != uid and not (take_empty and not options.uid):
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})"
        raise _precondition_failed(resource, name, f"{why}. The object might have been deleted and then recreated")
    if options.version is not None and options.version != version and not (take_empty and not options.version):
        why = f"the ResourceVersion in the precondition ({options.version}) does not match"
        raise _precondition_failed(
            resource, name, f"{why} the ResourceVersion in record ({version}). The object might have been modified"
        )


def _precondition_failed(resource: Resource, name: str, why: str) -> Conflict:
    # What is kept as an object of the core group is refused as one.
    group = "" if resource.stored_as else resource.group
    qualified = f"{resource.kind}.{group}" if group else resource.kind
    details = {"name": name, **({"group": group} if group else {}), "kind": resource.kind}
    return Conflict(f"Operation cannot be fulfilled on {qualified} {quote(name)}: {why}", details=details)


class Deletions:
    """Deletes on the head of the store; the caller waits for the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        options: DeleteOptions,
        now_ns: int,
        admit: Callable[[Json], None] | None = None,
    ) -> Deleted:
        """Delete one object, or begin to; `admit` may refuse after the preconditions are met."""
        options.check()
        found = self._store.head(resource, namespace, name)
        if found is None and self._store.is_set_aside(resource, namespace, name):
            return self._dismiss(resource, namespace, name, options, admit)
        if found is None:
            raise not_found(resource, name)
        return self.delete_found(resource, found, options, now_ns, admit)

    def delete_found(
        self,
        resource: Resource,
        found: Stored,
        options: DeleteOptions,
        now_ns: int,
        admit: Callable[[Json], None] | None = None,
    ) -> Deleted:
        """The same for an object that the caller has read from the head or put there; the options were checked."""
        check_preconditions(resource, found, options)
        value = found.object
        if admit is not None:
            admit(value)
        metadata = value["metadata"]
        is_terminating = "deletionTimestamp" in metadata
        if options.grace_seconds is not None and options.grace_seconds < 0:
            options = replace(options, grace_seconds=1)
        if resource is NAMESPACES:
            marked = value if is_terminating else _terminating_namespace(value, options, now_ns)
            finalizers = [*(metadata.get("finalizers") or ()), *(value["spec"].get("finalizers") or ())]
            return self._settle(resource, found, marked, bool(options.dry_run), is_final=not finalizers)
        finalizers = _finalizers(resource, metadata, options)
        if resource is PODS:
            marked = _shortened(value, options, now_ns) if is_terminating else _marked_pod(value, options, now_ns)
            if marked is value and metadata.get("deletionGracePeriodSeconds"):
                # Its grace is running, and the request changes nothing about it.
                return Deleted(value, False, found)
        else:
            marked = value if is_terminating or not finalizers else _mark(value, now_ns, 0)
        # What goes at once is not changed before: it is shown as it was.
        goes_at_once = not finalizers and marked is value
        if finalizers != (metadata.get("finalizers") or []) and not goes_at_once:
            marked = {**marked, "metadata": _with_finalizers(marked["metadata"], finalizers)}
        is_final = not finalizers and not marked["metadata"].get("deletionGracePeriodSeconds")
        deleted = self._settle(resource, found, marked, bool(options.dry_run), is_final=is_final)
        if deleted.is_removed and not options.dry_run:
            self.clear_behind(resource, found, now_ns)
        return deleted

    def clear_behind(self, resource: Resource, removed: Stored, now_ns: int) -> None:
        """The Endpoints of a service go with it: another service of its name must not have its addresses."""
        if resource is SERVICES and (left := self._store.head(ENDPOINTS, *removed.key)) is not None:
            self.delete_found(ENDPOINTS, left, DeleteOptions(), now_ns)

    def _dismiss(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        options: DeleteOptions,
        admit: Callable[[Json], None] | None,
    ) -> Deleted:
        """A damaged object is deleted by its name alone: preconditions cannot be checked."""
        if options.uid is not None or options.version is not None:
            raise self._store.missing(resource, namespace, name)
        value: Json = {"metadata": {"name": name, "namespace": namespace, "uid": ""}, "spec": {}, "status": {}}
        if admit is not None:
            admit(value)
        stored = None if options.dry_run else self._store.remove(resource, namespace, name, value)
        return Deleted(value, True, stored, is_dismissed=True)

    def _settle(self, resource: Resource, found: Stored, marked: Json, is_dry_run: bool, *, is_final: bool) -> Deleted:
        if is_dry_run:
            return Deleted(marked, is_final, None, managed=found.managed)
        stored = self._store.put(resource, *found.key, marked, is_for_removal=True)
        if is_final:
            return Deleted(stored.object, True, self._store.remove(resource, *found.key))
        return Deleted(stored.object, False, stored)


def _finalizers(resource: Resource, metadata: Json, options: DeleteOptions) -> list[str]:
    """The finalizers after this deletion. The policy adds the garbage collector's, also while others hold the object.

    The pods of a job stay unless the client says otherwise: so it was in the first version of its API.
    """
    finalizers: list[str] = metadata.get("finalizers") or []
    if resource.kind == "Event":
        # Nothing belongs to an event.
        return finalizers
    if options.is_silent_on_dependents:
        if not orphans_by_default(resource, options) or GARBAGE_FINALIZERS & set(finalizers):
            return finalizers
        return [*finalizers, _ORPHAN]
    policy = options.policy or ("Orphan" if options.orphans else "Background")
    kept = [each for each in finalizers if each not in GARBAGE_FINALIZERS]
    added = {"Foreground": [_FOREGROUND], "Orphan": [_ORPHAN]}.get(policy, [])
    return finalizers if {*kept, *added} == set(finalizers) else [*kept, *added]


def _with_finalizers(metadata: Json, finalizers: list[str]) -> Json:
    """No empty list is left behind."""
    kept = {key: value for key, value in metadata.items() if key != "finalizers"}
    return {**kept, "finalizers": finalizers} if finalizers else kept


def orphans_by_default(resource: Resource, options: DeleteOptions) -> bool:
    """Whether the dependents of the object stay because the client did not say what is to become of them."""
    return resource in (JOBS, REPLICATION_CONTROLLERS) and options.is_silent_on_dependents


def _mark(value: Json, now_ns: int, grace: int) -> Json:
    """The object, marked as terminating: its deletionTimestamp is when the grace runs out."""
    metadata = {
        **value["metadata"],
        "deletionTimestamp": time_text(min(now_ns + grace * _SECOND_NS, _LATEST_NS)),
        "deletionGracePeriodSeconds": grace,
    }
    if metadata.get("generation"):
        metadata["generation"] += 1
    return {**value, "metadata": metadata}


def _marked_pod(pod: Json, options: DeleteOptions, now_ns: int) -> Json:
    """A pod that is on no node, or has ended, gets no grace. A negative grace counts as one second."""
    grace = options.grace_seconds
    if grace is None:
        grace = pod["spec"].get("terminationGracePeriodSeconds", 0)
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ENDED_PHASES:
        grace = 0
    return _mark(pod, now_ns, 1 if grace < 0 else grace)


def _shortened(pod: Json, options: DeleteOptions, now_ns: int) -> Json:
    """A grace under way can be made shorter, never longer. One that would have run out already becomes a second."""
    metadata = pod["metadata"]
    recorded, grace = metadata.get("deletionGracePeriodSeconds", 0), options.grace_seconds
    if not recorded or grace is None or grace >= recorded:
        return pod
    end_ns = parse_time(metadata["deletionTimestamp"]) + (grace - recorded) * _SECOND_NS
    if end_ns < now_ns:
        end_ns, grace = now_ns, 1 if grace else 0
    changed = {**metadata, "deletionTimestamp": time_text(end_ns), "deletionGracePeriodSeconds": grace}
    return {**pod, "metadata": changed}


def _terminating_namespace(namespace: Json, options: DeleteOptions, now_ns: int) -> Json:
    """Here, unlike anywhere else, not to orphan means to wait for what belongs to the namespace."""
    metadata = {**namespace["metadata"], "deletionTimestamp": time_text(now_ns)}
    if not options.is_silent_on_dependents:
        policy = options.policy or ("Orphan" if options.orphans else "Foreground")
        finalizers = [each for each in metadata.get("finalizers") or () if each not in GARBAGE_FINALIZERS]
        added = {"Foreground": [_FOREGROUND], "Orphan": [_ORPHAN]}.get(policy, [])
        metadata = _with_finalizers(metadata, [*finalizers, *added])
    return {**namespace, "metadata": metadata, "status": {**namespace["status"], "phase": "Terminating"}}


def at_version(options: DeleteOptions, version: str) -> DeleteOptions:
    """The same options, on the version that our own write has made."""
    return replace(options, version=version) if options.version is not None else options
