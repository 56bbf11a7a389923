"""v1 Pods and Nodes as the scheduler sees them, to `engine.scheduling.pods` and `engine.scheduling.nodes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jettison.engine.numbers.quantity import ZERO, Quantity, parse
from jettison.engine.pods.pod import CPU, EPHEMERAL_STORAGE, MEMORY
from jettison.engine.scheduling.nodes import NodeOffer, NodeRoom
from jettison.engine.scheduling.placement import NOWHERE, NodeAffinity
from jettison.engine.scheduling.pods import NOT_YET, PlaceablePod, claim_of, is_scalar
from jettison.errors import InputError, ManifestError, QuantityError
from jettison.manifests.files.decoding import Wire, convert, named
from jettison.manifests.placement import node_affinity_from, taints_from
from jettison.manifests.pod_view import PodView
from jettison.manifests.pods import pod_from

# Upstream spreads the pods of these by default, because it can read their selectors.
_SPREAD_OWNERS: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")


def placeable_pod_from(document: dict[str, Any]) -> PlaceablePod:
    """A pod as a server sent it. One whose affinity makes no sense can go nowhere, but takes room where it is."""
    view = PodView(document)
    pod = pod_from(document, f"pod `{view.name}`")
    return PlaceablePod(
        key=(pod.namespace, pod.name),
        uid=pod.uid,
        priority=pod.effective_priority,
        claim=claim_of(pod),
        tolerations=pod.tolerations,
        affinity=_affinity(document.get("spec") or {}),
        labels=view.labels,
        group=_group(view),
        node=view.node,
        nominated_node=view.nominated_node,
        scheduler=view.scheduler,
        gates=view.gates,
        may_preempt=view.may_preempt,
        is_terminating=view.is_terminating,
        is_preempted=view.is_preempted,
        started_ns=_started_ns(view),
    )


def refreshed(pod: PlaceablePod, document: dict[str, Any]) -> PlaceablePod:
    """The pod with another status, and perhaps an end in sight: what its spec and labels say takes 20 times as long."""
    view = PodView(document)
    # Not `replace`, which takes four times as long: every change of a pod comes here.
    return PlaceablePod(
        pod.key,
        pod.uid,
        pod.priority,
        pod.claim,
        pod.tolerations,
        pod.affinity,
        pod.labels,
        pod.group,
        pod.node,
        view.nominated_node,
        pod.scheduler,
        pod.gates,
        pod.may_preempt,
        view.is_terminating,
        view.is_preempted,
        _started_ns(view),
    )


class _Taint(Wire):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _NodeSpec(Wire):
    taints: list[_Taint] | None = None


class _NodeCondition(Wire):
    type: str | None = None
    status: str | None = None


class _NodeStatus(Wire):
    conditions: list[_NodeCondition] | None = None
    allocatable: dict[str, str | int | float] | None = None


class _Node(Wire):
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


def checked_node(document: dict[str, Any]) -> dict[str, Any]:
    """The same object of a server that is not ours, if everything that is read of it has its type."""
    convert(document, _Node, named("node", document))
    return document


def node_offer_from(document: Mapping[str, Any]) -> NodeOffer:
    """A node as a server sent it; one that has not said what it can give gives nothing."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    name: str = document["metadata"]["name"]
    texts = status.get("allocatable") or {}
    try:
        amounts = {resource: parse(str(text)) for resource, text in texts.items()}
    except QuantityError as error:
        raise ManifestError(f"node `{name}`: allocatable: {error}") from error
    return NodeOffer(
        name=name,
        labels=document["metadata"].get("labels") or {},
        taints=taints_from(document),
        is_cordoned=bool(spec.get("unschedulable")),
        room=_room(amounts),
    )


def _room(amounts: Mapping[str, Quantity]) -> NodeRoom:
    return NodeRoom(
        cpu=amounts.get(CPU, ZERO).milli,
        memory=amounts.get(MEMORY, ZERO).value,
        storage=amounts.get(EPHEMERAL_STORAGE, ZERO).value,
        pods=amounts.get("pods", ZERO).value,
        others={name: amount.value for name, amount in amounts.items() if is_scalar(name)},
    )


def _affinity(spec: Mapping[str, Any]) -> NodeAffinity:
    try:
        return node_affinity_from(spec)
    except InputError:
        return NOWHERE


def _group(pod: PodView) -> str:
    owner = pod.controller
    return owner.uid if owner is not None and owner.kind in _SPREAD_OWNERS else ""


def _started_ns(pod: PodView) -> int:
    return NOT_YET if pod.started_ns is None else pod.started_ns
