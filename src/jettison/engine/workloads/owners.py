"""How many pods does the owner of a pod want?

Kubernetes keeps ReplicationControllers, ReplicaSets, Deployments and StatefulSets at hand. For an owner of any other
kind, or one that is not among them, it reads the `scale` subresource; here the caller does that beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from jettison.engine.numbers.strconv import quote
from jettison.errors import InputError
from jettison.values import frozen

_GROUPS: Final = ("apps", "extensions")


@frozen
class OwnerReference:
    """The one owner of an object that is its controller."""

    api_version: str
    kind: str
    name: str
    uid: str


@frozen
class Scale:
    """How many pods the object with this uid wants."""

    uid: str
    replicas: int


@frozen
class ScaleFailure:
    """The `scale` subresource could not be read, and why."""

    message: str


@frozen
class Workload:
    """A workload of the namespace; a ReplicaSet's controller is its Deployment."""

    uid: str
    replicas: int
    controller: OwnerReference | None = None


@frozen
class Workloads:
    """The workloads of the budget's namespace by name, and the scales of other owners as far as they were read.

    In `scales` None is an owner that could have a scale but is gone; a missing key is a kind that the server lacks.
    """

    replication_controllers: Mapping[str, Workload] = field(default_factory=dict)
    replica_sets: Mapping[str, Workload] = field(default_factory=dict)
    deployments: Mapping[str, Workload] = field(default_factory=dict)
    stateful_sets: Mapping[str, Workload] = field(default_factory=dict)
    scales: Mapping[OwnerReference, Scale | ScaleFailure | None] = field(default_factory=dict)

    def scale_of(self, owner: OwnerReference) -> Scale | None:
        """The size of an owner, or None if there is no such object (any more): the uid must be the same."""
        return self.listed_scale(owner) or self._read_scale(owner)

    def listed_scale(self, owner: OwnerReference) -> Scale | None:
        """The size of a workload at hand. A ReplicaSet of a Deployment counts as the Deployment.

        Surprise: where that Deployment is gone the ReplicaSet's own size is not taken, although it is at hand.
        """
        group, _ = _group_version(owner)
        match owner.kind:
            case "ReplicationController" if not group:
                return _sized(owner, self.replication_controllers)
            case "StatefulSet" if group == "apps":
                return _sized(owner, self.stateful_sets)
            case "ReplicaSet" if group in _GROUPS:
                return self._replica_set_scale(owner)
            case _:
                return None

    def _replica_set_scale(self, owner: OwnerReference) -> Scale | None:
        scale = _sized(owner, self.replica_sets)
        parent = self.replica_sets[owner.name].controller if scale else None
        if parent is None:
            return scale
        group, _ = _group_version(parent)
        if parent.kind != "Deployment":
            return scale
        return _sized(parent, self.deployments) if group in _GROUPS else None

    def _read_scale(self, owner: OwnerReference) -> Scale | None:
        if owner not in self.scales:
            group, version = _group_version(owner)
            served = f"{group}/{version}" if group else version
            raise InputError(f"no matches for kind {quote(owner.kind)} in version {quote(served)}")
        scale = self.scales[owner]
        if isinstance(scale, ScaleFailure):
            raise InputError(scale.message)
        return scale if scale and scale.uid == owner.uid else None


def _sized(owner: OwnerReference, workloads: Mapping[str, Workload]) -> Scale | None:
    workload = workloads.get(owner.name)
    return Scale(workload.uid, workload.replicas) if workload and workload.uid == owner.uid else None


def _group_version(owner: OwnerReference) -> tuple[str, str]:
    group, _, version = owner.api_version.rpartition("/")
    if "/" in group:
        raise InputError(f"unexpected GroupVersion string: {owner.api_version}")
    return group, version
