"""Create, read, change and delete: what every resource can do.

Each write is made on the head of the store without an `await`, so no other comes between, and answered when it is
durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from jettison.apiserver.access.authorization import Authorizer
from jettison.apiserver.connections.limits import MOST_BODY_BYTES
from jettison.apiserver.http.bodies import Expected, check_object, read_object
from jettison.apiserver.http.forms import form_of
from jettison.apiserver.http.presenting import Response, encode, show_object, show_page, show_value
from jettison.apiserver.http.requests import Request, Target, WriteOptions, patch_options, write_options
from jettison.apiserver.http.statuses import already_exists, success_status
from jettison.apiserver.objects.admission import Admission, check_class_deletion, check_namespace_deletion
from jettison.apiserver.objects.patches import APPLY_PATCH, PATCHERS
from jettison.apiserver.objects.resources import (
    GROUP_VERSIONS,
    NAMESPACES,
    NEW_EVENTS,
    Resource,
    shown_event,
    stored_event,
)
from jettison.apiserver.objects.writing import (
    called,
    check_address,
    check_identity,
    check_namespace,
    check_version,
    prepare_changed,
    prepare_new,
)
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Stored
from jettison.apiserver.verbs.deletion import Deleted, DeleteOptions, Deletions, orphans_by_default, read_delete_options
from jettison.apiserver.verbs.listing import read_page, wait_for_version, watched_version
from jettison.apiserver.verbs.patching import check_patched, read_patch
from jettison.clock import Clock
from jettison.errors import ApiError

Json = dict[str, Any]
Change = Callable[[Json], Json]

_DELETE_VERSIONS: Final = ("v1", *(f"{group}/{version}" for group, version in GROUP_VERSIONS if group))


_PODS_STAY: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


class Objects:
    """The handlers; each takes a request that is authorized."""

    def __init__(self, store: Store, clock: Clock, authorizer: Authorizer) -> None:
        self.store = store
        self.clock = clock
        self.authorizer = authorizer
        self.admission = Admission(store)
        self._deletions = Deletions(store)

    async def read(self, request: Request, target: Target) -> Response:
        """GET of an object, not older than the version that the client has seen."""
        form_of(request)
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
        options = write_options(request, "CreateOptions")
        resource = target.resource
        value, warnings = read_object(request.body, request.content_type, expected(resource), options.validation)
        check_namespace(value["metadata"], target.namespace)
        return await self.insert(request, target, value, options, warnings)

    async def insert(
        self, request: Request, target: Target, value: Json, options: WriteOptions, warnings: list[str]
    ) -> Response:
        """Store a new object. To make one by PUT or PATCH takes the right to create it, too."""
        resource, namespace = target.resource, target.namespace
        if request.verb != "create":
            self.authorizer.check(request.user, replace(request.access, verb="create"))
        if resource is NEW_EVENTS:
            value = stored_event(value)
        name = called(value["metadata"])
        if resource.is_namespaced:
            self.admission.check_namespace(resource, namespace, name)
        self.authorizer.check_write(request.user, request.access, name, None, value)
        admit = self.admission.admit_new
        value = prepare_new(resource, value, namespace, self.clock.now_ns(), lambda new: admit(resource, new, name))
        warnings += resource.rules.warn(value)
        name = value["metadata"]["name"]
        taken = self.store.head(resource, namespace, name)
        if taken is not None:
            raise _taken(resource, taken)
        if options.is_dry_run:
            return warned(show_value(request, resource, value, self.clock.now_ns(), 201), warnings)
        written = self.store.put(resource, namespace, name, value, most_bytes=MOST_BODY_BYTES)
        stored = await self.store.durable(written)
        return warned(show_object(request, resource, stored, self.clock.now_ns(), 201), warnings)

    async def update(self, request: Request, target: Target) -> Response:
        """PUT of an object, or of its status."""
        form_of(request)
        options = write_options(request, "UpdateOptions")
        resource = target.resource
        value, warnings = read_object(request.body, request.content_type, expected(resource), options.validation)
        check_address(value["metadata"], target.namespace, target.name)
        found = self.store.head(resource, target.namespace, target.name)
        if found is None and resource.is_created_by_put and not target.subresource:
            value["metadata"].pop("resourceVersion", None)
            return await self.insert(request, target, value, options, warnings)

        def put(old: Json) -> Json:
            check_identity(resource, value["metadata"], old)
            check_version(resource, value["metadata"], old)
            return stored_event(value) if resource is NEW_EVENTS else value

        return await self.change(request, target, put, options, warnings)

    async def patch(self, request: Request, target: Target) -> Response:
        """PATCH of an object, or of its status."""
        form_of(request)
        media_type = request.content_type.partition(";")[0].strip().lower()
        if media_type not in PATCHERS:
            raise ApiError("415: Unsupported Media Type", code=415, reason="UnsupportedMediaType", details={})
        is_apply = media_type == APPLY_PATCH
        options = patch_options(request, is_apply=is_apply)
        resource = target.resource
        patch = read_patch(request.body, media_type, expected(resource))
        warnings: list[str] = []
        if is_apply and self.store.head(resource, target.namespace, target.name) is None and not target.subresource:
            value, warnings = check_object(patch, expected(resource), options.validation)
            check_address(value["metadata"], target.namespace, target.name)
            return await self.insert(request, target, value, options, warnings)

        def merge(old: Json) -> Json:
            shown = {"apiVersion": resource.api_version, "kind": resource.kind, **_shown(resource, old)}
            merged = PATCHERS[media_type](shown, patch, resource.struct)
            kind = expected(resource)
            value, found = check_patched(merged, patch, shown, media_type, kind, options.validation)
            warnings.extend(found)
            check_address(value["metadata"], target.namespace, target.name)
            check_version(resource, value["metadata"], old)
            return stored_event(value) if resource is NEW_EVENTS else value

        return await self.change(request, target, merge, options, warnings)

    async def change(
        self, request: Request, target: Target, make: Change, options: WriteOptions, warnings: list[str]
    ) -> Response:
        """Store what `make` makes of the object. An object that was only waiting for this change is removed by it."""
        stored, value = self.apply(request, target, make, is_dry_run=options.is_dry_run)
        if stored is None:
            return warned(show_value(request, target.resource, value, self.clock.now_ns()), warnings)
        await self.store.durable(stored)
        return warned(show_object(request, target.resource, stored, self.clock.now_ns()), warnings)

    def apply(
        self, request: Request, target: Target, make: Change, *, is_dry_run: bool = False
    ) -> tuple[Stored | None, Json]:
        """As `change`, without waiting for the disk; the value alone if it is a dry run."""
        resource, namespace, name = target.resource, target.namespace, target.name
        found = self.store.head(resource, namespace, name)
        if found is None:
            raise self.store.missing(resource, namespace, name)
        old = found.object
        user, access = request.user, request.access
        # Before the change is validated: the mistakes in it would reveal the object.
        self.authorizer.check_write(user, access, name, old, old)
        is_status = target.subresource == "status"

        def admit(changed: Json) -> None:
            if not is_status:
                self.admission.admit_change(resource, changed, old)
            self.authorizer.check_fields(user, access, old, changed)

        new = make(old)
        self.authorizer.check_write(user, access, name, old, new)
        if resource is NAMESPACES and target.subresource != "finalize":
            new["spec"] = old["spec"]
        value = prepare_changed(resource, new, old, admit, is_status=is_status)
        if is_dry_run:
            return None, value
        if _is_finished(resource, value):
            return self.store.remove(resource, namespace, name, value), value
        return self.store.put(resource, namespace, name, value, most_bytes=MOST_BODY_BYTES), value

    async def delete(self, request: Request, target: Target) -> Response:
        """DELETE of an object."""
        form_of(request)
        resource, name = target.resource, target.name
        options = read_delete_options(request, _DELETE_VERSIONS)
        options.check()
        check_class_deletion(resource, name)

        def admit(value: Json) -> None:
            check_namespace_deletion(resource, name)
            self.authorizer.check_write(request.user, request.access, name, value, None)

        deleted = self._deletions.delete(resource, target.namespace, name, options, self.clock.now_ns(), admit)
        if deleted.stored is not None:
            await self.store.durable(deleted.stored)
        code = 202 if options.orphans is False and not deleted.is_removed else 200
        if not deleted.is_removed or (resource.answers_with_object and not deleted.is_dismissed):
            response = show_value(request, resource, deleted.value, self.clock.now_ns(), code)
        else:
            response = Response(code, encode(_deletion_status(resource, deleted)))
        return warned(response, _deletion_warnings(resource, options))

    async def delete_collection(self, request: Request, target: Target) -> Response:
        """DELETE of a collection: one by one; an object that is gone meanwhile counts as deleted."""
        form_of(request)
        resource = target.resource
        page = await read_page(self.store, request, resource, target.namespace or None)
        options = read_delete_options(request, _DELETE_VERSIONS)
        options.check()

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
        shown = show_page(request, resource, page, self.clock.now_ns())
        return warned(shown, _deletion_warnings(resource, options))


def expected(resource: Resource) -> Expected:
    """What a body for this resource must be."""
    return Expected(resource.kind, (resource.api_version,), resource.struct)


def _shown(resource: Resource, value: Json) -> Json:
    return shown_event(value) if resource is NEW_EVENTS else value


def _taken(resource: Resource, stored: Stored) -> ApiError:
    error = already_exists(resource, stored.key[1])
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
    if not orphans_by_default(resource, options):
        return []
    return [_PODS_STAY]


def warned(response: Response, warnings: list[str]) -> Response:
    """The answer with a header for each warning; kubectl prints them."""
    if not warnings:
        return response
    escaped = (each.replace("\\", "\\\\").replace('"', '\\"') for each in warnings)
    headers = [(b"warning", f'299 - "{each}"'.encode("ascii", "backslashreplace")) for each in escaped]
    return replace(response, headers=[*response.headers, *headers])
