"""Create, read, change and delete: what every resource can do.

Each write is made on the head of the store without an `await`, so no other comes between, and answered when it is
durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from jettison.apiserver.access.authorization import Authorizer
from jettison.apiserver.connections.limits import MOST_BODY_BYTES
from jettison.apiserver.http.bodies import Expected, create_options, read_object
from jettison.apiserver.http.forms import form_of
from jettison.apiserver.http.presenting import Response, encode, show_object, show_page, show_value
from jettison.apiserver.http.requests import Request, Target, WriteOptions, boolean, patch_options, write_options
from jettison.apiserver.http.statuses import already_exists, conflict, success_status
from jettison.apiserver.objects.admission import Admission, check_class_deletion, check_namespace_deletion
from jettison.apiserver.objects.ownership.records import Entries
from jettison.apiserver.objects.ownership.tracking import Applied, Writer, apply, blank, manager_name, track
from jettison.apiserver.objects.patches import APPLY_PATCH
from jettison.apiserver.objects.resources import (
    EVENTS,
    GROUP_VERSIONS,
    JOBS,
    NAMESPACES,
    NEW_EVENTS,
    Resource,
    shown_event,
    stored_event,
)
from jettison.apiserver.objects.schema import empties_of
from jettison.apiserver.objects.writing import (
    called,
    check_address,
    check_identity,
    check_namespace,
    check_number,
    check_unborn,
    check_version,
    distinct_owners,
    prepare_changed,
    prepare_new,
)
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Stored
from jettison.apiserver.verbs.deletion import Deleted, DeleteOptions, Deletions, orphans_by_default, read_delete_options
from jettison.apiserver.verbs.event_shares import EventShares
from jettison.apiserver.verbs.listing import (
    check_list,
    check_stored_version,
    read_page,
    resource_version,
    wait_for_version,
    watched_version,
)
from jettison.apiserver.verbs.patching import (
    check_applied,
    check_applied_kind,
    patch_of,
    patch_type,
    read_patch,
)
from jettison.clock import Clock
from jettison.errors import ApiError
from jettison.manifests.times import time_text

Json = dict[str, Any]
Change = Callable[[Stored], Json | Applied]

_DELETE_VERSIONS: Final = ("v1", *(f"{group}/{version}" for group, version in GROUP_VERSIONS if group))


_PODS_STAY: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


# A change of the replicas is one of the object.
_WARNED_PARTS: Final = ("", "scale")


class Written(NamedTuple):
    """A change: as it is stored, None for a dry run; as it was made; and which client owns which field of it."""

    stored: Stored | None
    value: Json
    managed: Entries


class Objects:
    """The handlers; each takes a request that is authorized."""

    def __init__(self, store: Store, clock: Clock, authorizer: Authorizer, *, has_accounts: bool = False) -> None:
        self.store = store
        self.clock = clock
        self.authorizer = authorizer
        self.admission = Admission(store, clock, has_accounts=has_accounts)
        self._deletions = Deletions(store)
        self._event_shares = EventShares(store)

    async def read(self, request: Request, target: Target) -> Response:
        """GET of an object, not older than the version that the client has seen."""
        form_of(request)
        if target.resource.storage == EVENTS.storage:
            # They are not read from a cache in Kubernetes, which says less of a version that is none.
            check_stored_version(self.store, resource_version(request))
        else:
            await wait_for_version(self.store, watched_version(request))
        found = self.store.get(target.resource, target.namespace, target.name)
        if found is None:
            raise self.store.missing(target.resource, target.namespace, target.name)
        return show_object(request, target.resource, found, self.clock.now_ns())

    async def list_all(self, request: Request, target: Target) -> Response:
        """GET of a collection; listing a namespace that does not exist is fine and finds nothing."""
        form_of(request)
        page = await read_page(self.store, request, target.resource, target.namespace or None)
        return show_page(request, target.resource, page, self.clock.now_ns())

    async def create(self, request: Request, target: Target) -> Response:
        """POST to a collection."""
        form_of(request)
        options = create_options(request)
        resource = target.resource
        value = read_object(request, expected(resource), options.validation)
        check_namespace(value["metadata"], target.namespace)
        return await self.insert(request, target, value, options)

    async def insert(
        self, request: Request, target: Target, value: Json, options: WriteOptions, applied: Applied | None = None
    ) -> Response:
        """Store a new object. To make one by PUT or PATCH takes the right to create it, too."""
        resource, namespace = target.resource, target.namespace
        if request.verb != "create":
            self.authorizer.check(request.user, request.access._replace(verb="create"))
        value = _stored(resource, value)
        name = called(value["metadata"])
        if resource.is_namespaced:
            self.admission.check_namespace(resource, namespace, name)
        self.authorizer.check_write(request.user, request.access, name, None, value)
        request.warnings += distinct_owners(value["metadata"], is_patched=applied is not None)
        given = value["metadata"].get("managedFields")
        managed: Entries = applied.entries if applied is not None else ()

        def admit(new: Json) -> None:
            nonlocal managed
            if applied is None:
                writer = self.writer(request, resource, target.subresource, options)
                managed = track(writer, (), blank(resource), _shown(resource, new), given)
            request.warnings += self.admission.admit_new(resource, new, name)

        is_posted, empties = request.verb == "create", empties_of(value)
        value = prepare_new(resource, value, namespace, self.clock.now_ns(), admit, is_posted=is_posted)
        request.warnings += resource.rules.warn(value)
        request.warnings += self.admission.check_new(resource, value, name, empties)
        name = value["metadata"]["name"]
        if not options.is_dry_run:
            check_unborn(value["metadata"])
        taken = self.store.head(resource, namespace, name)
        if taken is not None:
            raise _taken(resource, taken, is_generated=bool(value["metadata"].get("generateName")))
        if options.is_dry_run:
            return show_value(request, resource, value, self.clock.now_ns(), 201, managed=managed)
        written = self.store.put(resource, namespace, name, value, managed=managed, most_bytes=MOST_BODY_BYTES)
        if resource.storage == EVENTS.storage:
            self._event_shares.add(request.user, written)
        stored = await self.store.durable(written)
        return show_object(request, resource, stored, self.clock.now_ns(), 201)

    async def update(self, request: Request, target: Target) -> Response:
        """PUT of an object, or of its status."""
        form_of(request)
        options = write_options(request, "UpdateOptions")
        resource = target.resource
        value = read_object(request, expected(resource), options.validation)
        check_address(value["metadata"], target.namespace, target.name)
        if self._is_new(target, value["metadata"], options):
            return await self.insert(request, target, value, options)

        def put(found: Stored) -> Json:
            old = found.object
            check_identity(resource, value["metadata"], old, is_dry_run=options.is_dry_run)
            check_version(resource, value["metadata"], old)
            return _stored(resource, value)

        return await self.change(request, target, put, options)

    async def patch(self, request: Request, target: Target) -> Response:
        """PATCH of an object, or of its status."""
        form_of(request)
        media_type = patch_type(request)
        is_apply = media_type == APPLY_PATCH
        options = patch_options(request, is_apply=is_apply)
        resource = target.resource
        # Only an apply of the whole may make it, or of the status of what a PUT may make.
        if not is_apply or (target.subresource and not (target.subresource == "status" and resource.is_created_by_put)):
            self.check_there(target)
        if is_apply:
            return await self._apply_patch(request, target, read_patch(request.body, media_type), options)
        patch = patch_of(request, media_type, options)

        def merge(found: Stored) -> Json:
            old = found.object
            shown = {"apiVersion": resource.api_version, "kind": resource.kind, **_shown(resource, old)}
            value, mistakes = patch.applied_to(shown, expected(resource), found.managed)
            request.warnings += mistakes
            check_address(value["metadata"], target.namespace, target.name)
            check_version(resource, value["metadata"], old)
            return _stored(resource, value)

        return await self.change(request, target, merge, options)

    def _is_new(self, target: Target, metadata: Json, options: WriteOptions) -> bool:
        """Whether this PUT makes the object: then it has no version yet, and no uid that a client could know."""
        resource, name = target.resource, target.name
        if target.subresource not in ("", "status") or not resource.is_created_by_put:
            return False
        if self.store.head(resource, target.namespace, name) is not None:
            return False
        nothing = {"metadata": {"namespace": target.namespace, "name": name, "uid": ""}}
        check_identity(resource, metadata, nothing, is_dry_run=options.is_dry_run)
        check_number(metadata)
        metadata.pop("resourceVersion", None)
        return True

    def check_there(self, target: Target) -> None:
        """404 where it is not."""
        if self.store.head(target.resource, target.namespace, target.name) is None:
            raise self.store.missing(target.resource, target.namespace, target.name)

    async def _apply_patch(self, request: Request, target: Target, patch: Any, options: WriteOptions) -> Response:
        """Server-side apply, of an object that is there or not."""
        resource, writer = target.resource, self.writer(request, target.resource, target.subresource, options)
        check_applied_kind(resource, patch)
        is_forced = bool(boolean(request, "force"))

        def made(live: Json, entries: Entries) -> Applied:
            result = apply(writer, entries, live, patch, is_forced=is_forced)
            value = check_applied(result.value, patch, resource, expected(resource))
            if "uid" not in live["metadata"] and (uid := value["metadata"].get("uid")):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise conflict(resource, target.name, why)
            check_address(value["metadata"], target.namespace, target.name)
            return Applied(value, result.entries)

        if self.store.head(resource, target.namespace, target.name) is None:
            new = made(blank(resource), ())
            check_number(new.value["metadata"])
            new.value["metadata"].pop("resourceVersion", None)
            return await self.insert(request, target, new.value, options, new)

        def merge(found: Stored) -> Applied:
            result = made(_shown(resource, found.object), found.managed)
            check_version(resource, result.value["metadata"], found.object)
            return Applied(_stored(resource, result.value), result.entries)

        return await self.change(request, target, merge, options)

    def writer(self, request: Request, resource: Resource, part: str, options: WriteOptions) -> Writer:
        """The client, for the entries of `managedFields`."""
        now = time_text(self.clock.now_ns())
        return Writer(resource, manager_name(options.manager, request.agent), part, now)

    async def change(self, request: Request, target: Target, make: Change, options: WriteOptions) -> Response:
        """Store what `make` makes of the object. An object that was only waiting for this change is removed by it."""
        stored, value, managed = self.write(request, target, make, options)
        if stored is None:
            return show_value(request, target.resource, value, self.clock.now_ns(), managed=managed)
        await self.store.durable(stored)
        if _is_finished(target.resource, value):
            return show_value(request, target.resource, value, self.clock.now_ns(), managed=managed)
        return show_object(request, target.resource, stored, self.clock.now_ns())

    def write(self, request: Request, target: Target, make: Change, options: WriteOptions) -> Written:
        """As `change`, without waiting for the disk."""
        resource, namespace, name = target.resource, target.namespace, target.name
        found = self.store.head(resource, namespace, name)
        if found is None:
            raise self.store.missing(resource, namespace, name)
        old = found.object
        user, access = request.user, request.access
        # Before the change is validated: the mistakes in it would reveal the object.
        self.authorizer.check_write(user, access, name, old, old)

        made = make(found)
        new, managed = (made.value, made.entries) if isinstance(made, Applied) else (made, found.managed)
        request.warnings += distinct_owners(new["metadata"], is_patched=request.verb == "patch")
        # A user that may change a few fields only cannot say which client owns the others.
        given = None if self.authorizer.is_limited(user, access) else new["metadata"].get("managedFields")

        def note(sent: Json) -> None:
            nonlocal managed
            if not isinstance(made, Applied):
                writer = self.writer(request, resource, target.subresource, options)
                managed = track(writer, managed, _shown(resource, old), _shown(resource, sent), given)

        def admit(changed: Json) -> None:
            if not target.subresource:
                self.admission.admit_change(resource, changed, old)
            self.authorizer.check_fields(user, access, old, changed)

        self.authorizer.check_write(user, access, name, old, new)
        value = prepare_changed(resource, new, old, note, admit, target.subresource)
        if target.subresource in _WARNED_PARTS:
            request.warnings += resource.rules.warn_change(value, old)
        request.warnings += self.admission.check_changed(resource, value, old, target.subresource)
        if options.is_dry_run:
            return Written(None, value, managed)
        if _is_finished(resource, value):
            # Watches are shown what was stored, and the client what it has made of it.
            removed = self.store.remove(resource, namespace, name)
            self._deletions.clear_behind(resource, found, self.clock.now_ns())
            return Written(removed, value, managed)
        stored = self.store.put(resource, namespace, name, value, managed=managed, most_bytes=MOST_BODY_BYTES)
        return Written(stored, value, managed)

    async def delete(self, request: Request, target: Target) -> Response:
        """DELETE of an object."""
        form_of(request)
        resource, name = target.resource, target.name
        options = read_delete_options(request, _DELETE_VERSIONS)
        options.check()
        request.warnings += _deletion_warnings(resource, options)
        check_class_deletion(resource, name)

        def admit(value: Json) -> None:
            check_namespace_deletion(resource, name)
            self.authorizer.check_write(request.user, request.access, name, value, None)

        deleted = self._deletions.delete(resource, target.namespace, name, options, self.clock.now_ns(), admit)
        if deleted.stored is not None:
            await self.store.durable(deleted.stored)
        code = 202 if options.orphans is False and not deleted.is_removed else 200
        if not deleted.is_removed or (resource.answers_with_object and not deleted.is_dismissed):
            managed = deleted.managed if deleted.stored is None else deleted.stored.managed
            return show_value(request, resource, deleted.value, self.clock.now_ns(), code, managed=managed)
        return Response(code, encode(_deletion_status(resource, deleted)))

    async def delete_collection(self, request: Request, target: Target) -> Response:
        """DELETE of a collection: one by one; an object that is gone meanwhile counts as deleted."""
        form_of(request)
        resource = target.resource
        check_list(request, resource)
        options = read_delete_options(request, _DELETE_VERSIONS)
        options.check()
        request.warnings += _deletion_warnings(resource, options)
        page = await read_page(self.store, request, resource, target.namespace or None, is_paged=True)

        def admit(value: Json) -> None:
            name = value["metadata"]["name"]
            self.authorizer.check_write(request.user, request.access, name, value, None)

        for item in page.items:
            if self.store.head(resource, *item.key) is None:
                continue
            check_class_deletion(resource, item.key[1])
            self._deletions.delete(resource, *item.key, options, self.clock.now_ns(), admit)
        await self.store.settled()
        # As they were before: so does Kubernetes.
        return show_page(request, resource, page, self.clock.now_ns())


def expected(resource: Resource) -> Expected:
    """What a body for this resource must be."""
    return Expected(resource.kind, (resource.api_version,), resource.struct)


def _shown(resource: Resource, value: Json) -> Json:
    return shown_event(value) if resource is NEW_EVENTS else value


def _stored(resource: Resource, value: Json) -> Json:
    return stored_event(value) if resource is NEW_EVENTS else value


def _taken(resource: Resource, stored: Stored, *, is_generated: bool) -> ApiError:
    error = already_exists(resource, stored.key[1], is_generated=is_generated)
    if "deletionTimestamp" in stored.metadata:
        return ApiError(
            f"object is being deleted: {error.message}", code=error.code, reason=error.reason, details=error.details
        )
    return error


def _is_finished(resource: Resource, value: Json) -> bool:
    """Whether it was only waiting for its last finalizer."""
    metadata = value["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if resource is NAMESPACES:
        return not value["spec"].get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _deletion_status(resource: Resource, deleted: Deleted) -> Json:
    metadata = deleted.value["metadata"]
    details = {"name": metadata["name"], "kind": resource.plural, "uid": metadata["uid"]}
    if resource.group:
        details["group"] = resource.group
    return success_status(details=details)


def _deletion_warnings(resource: Resource, options: DeleteOptions) -> list[str]:
    return [_PODS_STAY] if resource is JOBS and orphans_by_default(resource, options) else []
