"""Subresources with rules of their own: status of budgets, scale, binding, eviction, finalize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jettison.apiserver.http.bodies import Expected, create_options, read_object
from jettison.apiserver.http.forms import form_of
from jettison.apiserver.http.presenting import Response, encode, show_value
from jettison.apiserver.http.requests import (
    Request,
    Target,
    WriteOptions,
    boolean,
    patch_options,
    timeout_seconds,
    write_options,
)
from jettison.apiserver.http.statuses import bad_request, not_found, success_status
from jettison.apiserver.objects.ownership.records import Entries
from jettison.apiserver.objects.ownership.scales import parent_entries, scale_entries
from jettison.apiserver.objects.ownership.tracking import Applied, apply, track
from jettison.apiserver.objects.patches import APPLY_PATCH
from jettison.apiserver.objects.resources import BUDGETS, PODS, REPLICATION_CONTROLLERS, SCALES, Resource
from jettison.apiserver.objects.validation.metadata import subdomain_name, validate_known_metadata
from jettison.apiserver.objects.validation.mistakes import invalid, refusal, required, unsupported
from jettison.apiserver.objects.writing import (
    check_address,
    check_identity,
    check_namespace,
    check_unchanged,
    check_version,
    distinct_owners,
)
from jettison.apiserver.storage.stored import Stored
from jettison.apiserver.verbs.eviction import LONGEST_SECONDS, Evictions, check_eviction, read_eviction
from jettison.apiserver.verbs.listing import wait_for_version, watched_version
from jettison.apiserver.verbs.patching import check_applied, check_applied_kind, patch_of, patch_type, read_patch
from jettison.apiserver.verbs.rest import Objects
from jettison.engine.labels.selectors import MatchExpression, SelectorObject, select
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, Conflict
from jettison.manifests.times import time_text

Json = dict[str, Any]

_MakeScale = Callable[[Json, Entries, Stored], Applied]

SCALE: Final = Expected("Scale", ("autoscaling/v1",), "Scale")
BINDING: Final = Expected("Binding", ("v1",), "Binding")
_EVICTED: Final = Response(201, encode(success_status(201)))
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


class Subresources:
    """The handlers."""

    def __init__(self, objects: Objects, evictions: Evictions) -> None:
        self._objects = objects
        self._evictions = evictions

    async def evict(self, request: Request, target: Target) -> Response:
        """POST of an eviction."""
        form_of(request, has_table=False)
        options = create_options(request)
        seconds = timeout_seconds(request) or LONGEST_SECONDS
        body = read_eviction(request, options)
        check_namespace(body["metadata"], target.namespace)
        request.warnings += distinct_owners(body["metadata"], is_patched=False)
        self._objects.admission.check_namespace(PODS, target.namespace, target.name)
        order = check_eviction(body, target.namespace, target.name, options)
        self._check_evictor(request, target)
        await self._evictions.evict(order, seconds)
        return _EVICTED

    def _check_evictor(self, request: Request, target: Target) -> None:
        """A node evicts the pods that are bound to it, and no others."""
        if request.user.node:
            found = self._objects.store.head(PODS, target.namespace, target.name)
            if found is None:
                raise not_found(PODS, target.name)
            self._objects.authorizer.check_eviction(request.user, request.access, found.object)

    async def update_status(self, request: Request, target: Target) -> Response:
        """PUT of a status. A client that lost to evictions is given the next turn, and reads the newest status."""
        turns, key = self._evictions.turns, (target.namespace, target.name)
        if target.resource is not BUDGETS:
            return await self._objects.update(request, target)
        try:
            response = await self._objects.update(request, target)
        except Conflict:
            turns.give(key)
            await self._objects.store.settled()
            raise
        turns.end(key)
        return response

    async def bind(self, request: Request, target: Target) -> Response:
        """POST of a binding: the pod belongs to that node from now on."""
        form_of(request, has_table=False)
        options = create_options(request)
        binding = read_object(request, BINDING, options.validation)
        name = target.name or binding["metadata"].get("name", "")
        check_namespace(binding["metadata"], target.namespace)
        request.warnings += distinct_owners(binding["metadata"], is_patched=False)
        if not target.name:
            # The older path forgets it.
            binding["metadata"].pop("uid", None)
        if target.name and binding["metadata"].get("name", "") != target.name:
            raise bad_request("name in URL does not match name in Binding object")
        self._objects.admission.check_namespace(PODS, target.namespace, name)
        node = _check_binding(binding)
        if not name:
            raise bad_request("Name parameter required.")
        store = self._objects.store
        found = store.head(PODS, target.namespace, name)
        if found is None:
            raise not_found(PODS, name)
        check_unchanged(PODS, binding["metadata"], found.object, is_dry_run=options.is_dry_run)
        bound = _bound(found, binding, node, self._objects.clock.now_ns())
        if not options.is_dry_run:
            await store.durable(store.put(PODS, *found.key, bound))
        return _EVICTED

    async def read_scale(self, request: Request, target: Target) -> Response:
        """GET of a scale."""
        form_of(request)
        await wait_for_version(self._objects.store, watched_version(request))
        found = self._objects.store.get(target.resource, target.namespace, target.name)
        if found is None:
            raise not_found(target.resource, target.name)
        return self._show_scale(request, target.resource, found.object)

    async def write_scale(self, request: Request, target: Target) -> Response:
        """PUT or PATCH of a scale: it changes the replicas of the object, and nothing else."""
        form_of(request)
        resource = target.resource
        options, wanted = self._scale_writer(request, target)

        def scale(found: Stored) -> Applied:
            old = found.object
            entries = scale_entries(resource, found.managed)
            made = wanted(_scale(resource, old), entries, found)
            metadata, replicas = made.value["metadata"], made.value["spec"].get("replicas", 0)
            check_address(metadata, target.namespace, target.name)
            metadata.setdefault("namespace", target.namespace)
            mistakes = list(validate_known_metadata(metadata, subdomain_name))
            if replicas < 0:
                mistakes.append(invalid("spec.replicas", replicas, _NOT_NEGATIVE))
            if mistakes:
                raise refusal("autoscaling", "Scale", target.name, mistakes)
            _check_scaled(resource, metadata, old)
            check_version(resource, metadata, old)
            value = {**old, "metadata": dict(old["metadata"]), "spec": {**old["spec"], "replicas": replicas}}
            return Applied(value, parent_entries(resource, found.managed, made.entries))

        stored, value, _ = self._objects.write(request, target, scale, options)
        if stored is not None:
            await self._objects.store.durable(stored)
            value = stored.object
        return self._show_scale(request, resource, value)

    def _scale_writer(self, request: Request, target: Target) -> tuple[WriteOptions, _MakeScale]:
        """The options, and what makes the new scale of the old one."""
        if request.method == "PUT":
            options = write_options(request, "UpdateOptions")
            body = read_object(request, SCALE, options.validation)
            check_address(body["metadata"], target.namespace, target.name)
            writer = self._objects.writer(request, SCALES, target.subresource, options)

            def put(live: Json, entries: Entries, found: Stored) -> Applied:
                check_identity(target.resource, body["metadata"], found.object, is_dry_run=options.is_dry_run)
                return Applied(body, track(writer, entries, live, body))

            return options, put
        media_type = patch_type(request)
        is_apply = media_type == APPLY_PATCH
        options = patch_options(request, is_apply=is_apply)
        writer = self._objects.writer(request, SCALES, target.subresource, options)
        self._objects.check_there(target)
        if is_apply:
            document, is_forced = read_patch(request.body, media_type), bool(boolean(request, "force"))
            check_applied_kind(SCALES, document)

            def apply_scale(live: Json, entries: Entries, found: Stored) -> Applied:
                made = apply(writer, entries, live, document, is_forced=is_forced)
                del found
                return Applied(check_applied(made.value, document, SCALES, SCALE), made.entries)

            return options, apply_scale
        patch = patch_of(request, media_type, options)

        def merge(live: Json, entries: Entries, found: Stored) -> Applied:
            del found
            value, mistakes = patch.applied_to(_kinded(live), SCALE, entries)
            request.warnings += mistakes
            return Applied(value, track(writer, entries, live, value))

        return options, merge

    def _show_scale(self, request: Request, resource: Resource, value: Json) -> Response:
        return show_value(request, SCALES, _scale(resource, value), self._objects.clock.now_ns())

    async def finalize(self, request: Request, target: Target) -> Response:
        """PUT of a namespace without the finalizers that have done their work."""
        form_of(request, has_table=False)
        return await self._objects.update(request, target)


def _check_binding(binding: Json) -> str:
    """A wrong binding is a 500, as upstream."""
    target = binding["target"]
    mistakes = []
    if target.get("kind", "") not in ("", "Node"):
        mistakes.append(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    node: str = target.get("name", "")
    if not node:
        mistakes.append(required("target.name"))
    if mistakes:
        texts = [str(each) for each in mistakes]
        raise ApiError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return node


def _bound(found: Stored, binding: Json, node: str, now_ns: int) -> Json:
    pod, name = found.object, found.key[1]
    if "deletionTimestamp" in pod["metadata"]:
        raise _unbindable(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise _unbindable(name, f"pod {name} is already assigned to node {quote(pod['spec']['nodeName'])}")
    if pod["spec"].get("schedulingGates"):
        raise _unbindable(name, f"pod {name} has non-empty .spec.schedulingGates")
    conditions = [each for each in pod["status"].get("conditions") or () if each["type"] != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": time_text(now_ns),
    }
    metadata = pod["metadata"]
    for key in ("annotations", "labels"):
        if given := binding["metadata"].get(key):
            metadata = {**metadata, key: {**(metadata.get(key) or {}), **given}}
    # The node that preemption had chosen does not matter any more.
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": [*conditions, scheduled]},
    }


def _unbindable(name: str, why: str) -> Conflict:
    message = f"Operation cannot be fulfilled on pods/binding {quote(name)}: {why}"
    return Conflict(message, details={"name": name, "kind": "pods/binding"})


def _scale(resource: Resource, value: Json) -> Json:
    """Deployments and their like, reduced to a number. The uid is the object's own: the disruption controller looks."""
    metadata, spec, status = value["metadata"], value["spec"], value["status"]
    shared = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "metadata": {key: metadata[key] for key in shared if key in metadata},
        # Go leaves out a zero here, and writes it below.
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {"replicas": status.get("replicas", 0), "selector": _selector_text(resource, spec)},
    }


def _check_scaled(resource: Resource, metadata: Json, old: Json) -> None:
    """A client that names a uid means the object of that uid."""
    given, current = metadata.get("uid", ""), old["metadata"]["uid"]
    if given not in ("", current):
        why = f"Precondition failed: UID in precondition: {given}, UID in object meta: {current}"
        details = {"name": old["metadata"]["name"], "kind": f"{resource.plural}/scale"}
        details |= {"group": resource.group} if resource.group else {}
        where = f"{resource.plural}/scale.{resource.group}" if resource.group else f"{resource.plural}/scale"
        message = f"Operation cannot be fulfilled on {where} {quote(old['metadata']['name'])}: {why}"
        raise Conflict(message, details=details)


def _kinded(scale: Json) -> Json:
    return {"kind": SCALE.kind, "apiVersion": SCALE.api_versions[0], **scale}


def _selector_text(resource: Resource, spec: Json) -> str:
    selector: Json = spec.get("selector") or {}
    if resource is REPLICATION_CONTROLLERS:
        selector = {"matchLabels": selector}
    expressions = (
        MatchExpression(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    )
    return str(select(SelectorObject(selector.get("matchLabels") or {}, tuple(expressions))))
