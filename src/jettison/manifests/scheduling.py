"""v1 Pods and Nodes as the scheduler sees them, to `engine.scheduling_pods` and `engine.scheduling_nodes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from jettison.engine.numbers.quantity import ZERO, Quantity, parse
from jettison.engine.pods.pod import CPU, EPHEMERAL_STORAGE, MEMORY
from jettison.engine.scheduling.node_affinity import NOWHERE, NodeAffinity
from jettison.engine.scheduling.nodes import NodeOffer, Room
from jettison.engine.scheduling.pods import NOT_YET, PlaceablePod, claim_of, is_scalar
from jettison.errors import InputError, ManifestError, QuantityError
from jettison.manifests.node_affinity import node_affinity_from
from jettison.manifests.pods import pod_from
from jettison.manifests.taints import taints_from
from jettison.manifests.times import parse_time

PREEMPTED: Final = "PreemptionByScheduler"

# Upstream spreads the pods of these by default, because it can read their selectors.
_SPREAD_OWNERS: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")


def placeable_pod_from(document: Mapping[str, Any]) -> PlaceablePod:
    """A pod as a server sent it. One whose affinity makes no sense can go nowhere, but takes room where it is."""
    metadata, spec, status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
    pod = pod_from(document, f"pod `{metadata['name']}`")
    is_terminating = bool(metadata.get("deletionTimestamp"))
    return PlaceablePod(
        key=(pod.namespace, pod.name),
        uid=pod.uid,
        priority=pod.effective_priority,
        claim=claim_of(pod),
        tolerations=pod.tolerations,
        affinity=_affinity(spec),
        labels=metadata.get("labels") or {},
        group=_group(metadata),
        node=pod.node_name,
        nominated_node=status.get("nominatedNodeName") or "",
        scheduler=spec.get("schedulerName") or "",
        gates=tuple(each.get("name") or "" for each in spec.get("schedulingGates") or ()),
        may_preempt=spec.get("preemptionPolicy") != "Never",
        is_terminating=is_terminating,
        is_preempted=is_terminating and _is_preempted(status),
        started_ns=_started_ns(status),
    )


def refreshed(pod: PlaceablePod, document: Mapping[str, Any]) -> PlaceablePod:
    """The pod with another status, and perhaps an end in sight: what its spec and labels say takes 20 times as long."""
    status = document.get("status") or {}
    is_terminating = bool(document["metadata"].get("deletionTimestamp"))
    return replace(
        pod,
        nominated_node=status.get("nominatedNodeName") or "",
        is_terminating=is_terminating,
        is_preempted=is_terminating and _is_preempted(status),
        started_ns=_started_ns(status),
    )


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


def _room(amounts: Mapping[str, Quantity]) -> Room:
    return Room(
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


def _group(metadata: Mapping[str, Any]) -> str:
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    return "" if owner is None or owner.get("kind") not in _SPREAD_OWNERS else owner.get("uid") or ""


def _is_preempted(status: Mapping[str, Any]) -> bool:
    targets = (each for each in status.get("conditions") or () if each.get("type") == "DisruptionTarget")
    return any(each.get("status") == "True" and each.get("reason") == PREEMPTED for each in targets)


def _started_ns(status: Mapping[str, Any]) -> int:
    try:
        return parse_time(status.get("startTime") or "")
    except ManifestError:
        return NOT_YET
