"""Subresources with rules of their own: status of budgets, scale, binding, eviction, finalize."""

from __future__ import annotations

from typing import Any, Final

from jettison.apiserver.http.bodies import Expected, check_object, read_object
from jettison.apiserver.http.forms import form_of
from jettison.apiserver.http.presenting import Response, encode, show_value
from jettison.apiserver.http.requests import Request, Target, WriteOptions, patch_options, write_options
from jettison.apiserver.http.statuses import bad_request, not_found, success_status
from jettison.apiserver.objects.patches import PATCHERS
from jettison.apiserver.objects.resources import BUDGETS, PODS, REPLICATION_CONTROLLERS, SCALES, Resource
from jettison.apiserver.objects.validation.mistakes import invalid, refusal, required, unsupported
from jettison.apiserver.objects.writing import check_address, check_namespace, check_unchanged, check_version
from jettison.apiserver.storage.stored import Stored
from jettison.apiserver.verbs.eviction import LONGEST_SECONDS, Evictions, check_eviction, read_eviction
from jettison.apiserver.verbs.patching import read_patch
from jettison.apiserver.verbs.rest import Objects
from jettison.engine.labels.selectors import MatchExpression, SelectorObject, select
from jettison.engine.numbers.durations import parse_duration
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, Conflict, InputError
from jettison.manifests.times import time_text

Json = dict[str, Any]

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
        options = write_options(request, "CreateOptions")
        seconds = _timeout(request)
        body = read_eviction(request, options)
        check_namespace(body["metadata"], target.namespace)
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
        options = write_options(request, "CreateOptions")
        binding = read_object(request, BINDING, options.validation)
        name = target.name or binding["metadata"].get("name", "")
        check_namespace(binding["metadata"], target.namespace)
        if not target.name:
            # The older path forgets it.
            binding["metadata"].pop("uid", None)
        if target.name and binding["metadata"].get("name", "") != target.name:
            raise bad_request("name in URL does not match name in Binding object")
        self._objects.admission.check_namespace(PODS, target.namespace, name)
        node = _check_binding(binding)
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
        found = self._objects.store.get(target.resource, target.namespace, target.name)
        if found is None:
            raise not_found(target.resource, target.name)
        return self._show_scale(request, target.resource, found.object)

    async def write_scale(self, request: Request, target: Target) -> Response:
        """PUT or PATCH of a scale: it changes the replicas of the object, and nothing else."""
        form_of(request)
        is_put = request.method == "PUT"
        options = write_options(request, "UpdateOptions") if is_put else patch_options(request, is_apply=False)

        def scale(found: Stored) -> Json:
            old = found.object
            wanted = self._wanted_scale(request, target.resource, options, old, is_put=is_put)
            check_address(wanted["metadata"], target.namespace, target.name)
            check_version(target.resource, wanted["metadata"], old)
            replicas = wanted["spec"].get("replicas", 0)
            if replicas < 0:
                raise refusal("autoscaling", "Scale", target.name, [invalid("spec.replicas", replicas, _NOT_NEGATIVE)])
            return {**old, "metadata": dict(old["metadata"]), "spec": {**old["spec"], "replicas": replicas}}

        stored, value = self._objects.write(request, target, scale, options)
        if stored is not None:
            await self._objects.store.durable(stored)
            value = stored.object
        return self._show_scale(request, target.resource, value)

    def _wanted_scale(
        self, request: Request, resource: Resource, options: WriteOptions, old: Json, *, is_put: bool
    ) -> Json:
        if is_put:
            return read_object(request, SCALE, options.validation)
        media_type = request.content_type.partition(";")[0].strip().lower()
        if media_type not in PATCHERS:
            raise ApiError("415: Unsupported Media Type", code=415, reason="UnsupportedMediaType", details={})
        patch = read_patch(request.body, media_type)
        scaled = PATCHERS[media_type](_kinded(_scale(resource, old)), patch, SCALE.fields, request.most_bytes)
        return check_object(scaled, SCALE, options.validation)[0]

    def _show_scale(self, request: Request, resource: Resource, value: Json) -> Response:
        return show_value(request, SCALES, _scale(resource, value), self._objects.clock.now_ns())

    async def finalize(self, request: Request, target: Target) -> Response:
        """PUT of a namespace without the finalizers that have done their work."""
        form_of(request, has_table=False)
        return await self._objects.update(request, target)


def _timeout(request: Request) -> float:
    text = request.parameter("timeout")
    if not text:
        return LONGEST_SECONDS
    try:
        return parse_duration(text) / 10**9
    except InputError as error:
        raise bad_request(f"invalid timeout specified in the request URL: {error}") from error


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
