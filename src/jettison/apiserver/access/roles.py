"""Four roles, each a few lines of verbs, resources and, where a whole object is too much, fields.

Kubernetes' RBAC objects would let a cluster define its own; one machine has four kinds of callers and needs no more.
A resource is written as kubectl writes it: `pods`, `pods/eviction`, `poddisruptionbudgets.policy`, and `*` for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from jettison.engine.labels.field_selectors import FieldSelector

_NO_SELECTOR = FieldSelector()
_READ = "get list watch"
_COUNTED = "count firstTimestamp lastTimestamp message series"


@dataclass(frozen=True, slots=True)
class Access:
    """What a client asks to do: a verb on a resource, or on a plain path where `resource` is empty.

    A list or watch of the one object that a field selector names has that object's name.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    selector: FieldSelector = _NO_SELECTOR

    @property
    def target(self) -> str:
        """`deployments.apps/scale`, the spelling of the grants."""
        subresource = f"/{self.subresource}" if self.subresource else ""
        return f"{self.qualified}{subresource}"

    @property
    def qualified(self) -> str:
        """`deployments.apps`, as error messages name it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class Grant:
    """These verbs on these resources.

    With `own_only`, a node may touch only what is its own (`node_restriction`). With `fields`, a change may touch these
    paths of the object and what is below them; all the rest must be as it was.
    """

    verbs: frozenset[str]
    resources: frozenset[str]
    own_only: bool = False
    fields: tuple[str, ...] = ()

    def covers(self, access: Access) -> bool:
        """Whether it names this verb and this resource, or everything."""
        verbs, resources = self.verbs, self.resources
        return ("*" in verbs or access.verb in verbs) and ("*" in resources or access.target in resources)


def _grant(verbs: str, resources: str, *, own_only: bool = False, fields: str = "") -> Grant:
    return Grant(frozenset(verbs.split()), frozenset(resources.split()), own_only, tuple(fields.split()))


EVERY_USER = (
    _grant(
        "create",
        "selfsubjectaccessreviews.authorization.k8s.io selfsubjectrulesreviews.authorization.k8s.io"
        " selfsubjectreviews.authentication.k8s.io",
    ),
)
"""Every user that is known may ask what it is called and what it may do."""

ROLES: Mapping[str, tuple[Grant, ...]] = {
    "admin": (_grant("*", "*"),),
    "viewer": (_grant(_READ, "*"),),
    # Drains: reads daemon sets to leave their pods alone, cordons, and cannot delete a pod. More of a node than its
    # cordon would be a way past budgets: a NoExecute taint ends pods, an owner that is not there ends the node.
    "evictor": (
        _grant("create", "pods/eviction"),
        _grant(
            _READ,
            "pods nodes namespaces events events.events.k8s.io poddisruptionbudgets.policy daemonsets.apps"
            " replicasets.apps deployments.apps statefulsets.apps jobs.batch priorityclasses.scheduling.k8s.io",
        ),
        _grant("patch", "nodes", fields="spec.unschedulable"),
        _grant("create", "events events.events.k8s.io"),
        _grant("patch", "events events.events.k8s.io", fields=_COUNTED),
    ),
    # Reports itself, its heartbeats and its pods, and removes pods that have ended: the rules of Kubernetes' Node
    # authorizer. Of a Node that is there the spec (cordon, taints) is the cluster's alone.
    "node": (
        _grant(_READ, "nodes pods", own_only=True),
        _grant("create", "nodes", own_only=True),
        _grant("update patch", "nodes", own_only=True, fields="metadata.labels metadata.annotations"),
        _grant("update patch", "nodes/status", own_only=True, fields="metadata.labels metadata.annotations status"),
        _grant("create delete", "pods", own_only=True),
        _grant("create", "pods/eviction", own_only=True),
        _grant("update patch", "pods/status", own_only=True, fields="status"),
        _grant("get create update patch delete", "leases.coordination.k8s.io", own_only=True),
        _grant("get", "serviceaccounts", own_only=True),
        _grant("create update patch", "events events.events.k8s.io"),
        _grant("create", "subjectaccessreviews.authorization.k8s.io localsubjectaccessreviews.authorization.k8s.io"),
    ),
}


@cache
def grants(role: str) -> tuple[Grant, ...]:
    """All grants of a role, with those that every known user has. A user without a role has the latter alone."""
    return (*ROLES.get(role, ()), *EVERY_USER)
