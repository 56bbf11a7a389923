"""Four roles, each a few lines of verbs, resources and, where a whole object is too much, fields.

Kubernetes' RBAC objects would let a cluster define its own; one machine has four kinds of callers and needs no more.
A resource is written as kubectl writes it: `pods`, `pods/eviction`, `poddisruptionbudgets.policy`, and `*` for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from jettison.engine.labels.field_selectors import FieldSelector
from jettison.values import frozen

_NO_SELECTOR = FieldSelector()
_READ = "get list watch"
_COUNTED = "count firstTimestamp lastTimestamp message series"

# Reading a body holds up all other requests, 300 ms and more for each megabyte of small values. An eviction, a cordon
# or an event has less than 2 kB, the status of a pod with 32 containers 30 kB, a pod from a manifest of ours 256 KiB.
_SMALL, _STATUS, _POD = 64 * 1024, 128 * 1024, 512 * 1024


class Access(NamedTuple):
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


@frozen
class Grant:
    """These verbs on these resources.

    With `own_only`, a node may touch only what is its own (`node_restriction`). With `fields`, a change may touch these
    paths of the object and what is below them; all the rest must be as it was.
    """

    verbs: frozenset[str]
    resources: frozenset[str]
    own_only: bool = False
    fields: tuple[str, ...] = ()
    # What `*` does not mean.
    without: frozenset[str] = frozenset()
    # Of a body, and of what such requests make of the fields that they may change; None: as any object.
    most_bytes: int | None = None

    def covers(self, access: Access) -> bool:
        """Whether it names this verb and this resource, or everything."""
        verbs, resources = self.verbs, self.resources
        if access.qualified in self.without or access.target in self.without:
            return False
        return ("*" in verbs or access.verb in verbs) and ("*" in resources or access.target in resources)


def _grant(
    verbs: str,
    resources: str,
    *,
    own_only: bool = False,
    fields: str = "",
    without: str = "",
    most_bytes: int | None = _SMALL,
) -> Grant:
    named, hidden = frozenset(resources.split()), frozenset(without.split())
    return Grant(frozenset(verbs.split()), named, own_only, tuple(fields.split()), hidden, most_bytes)


EVERY_USER = (
    _grant(
        "create",
        "selfsubjectaccessreviews.authorization.k8s.io selfsubjectrulesreviews.authorization.k8s.io"
        " selfsubjectreviews.authentication.k8s.io",
    ),
)
"""Every user that is known may ask what it is called and what it may do."""

ROLES: Mapping[str, tuple[Grant, ...]] = {
    "admin": (_grant("*", "*", most_bytes=None),),
    # As with Kubernetes' own role of that name, secrets are not for reading along; to run a command in a pod, or to ask
    # a node for whatever it serves, is more than reading.
    "viewer": (
        _grant(
            _READ, "*", without="secrets pods/exec pods/attach pods/portforward pods/proxy services/proxy nodes/proxy"
        ),
    ),
    # Drains: reads daemon sets to leave their pods alone, cordons, and cannot delete a pod. More of a node than its
    # cordon would be a way past budgets: a NoExecute taint ends pods, an owner that is not there ends the node.
    "evictor": (
        _grant("create", "pods/eviction"),
        _grant(
            _READ,
            "pods nodes namespaces events events.events.k8s.io poddisruptionbudgets.policy daemonsets.apps"
            " replicationcontrollers replicasets.apps deployments.apps statefulsets.apps jobs.batch"
            " priorityclasses.scheduling.k8s.io",
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
        _grant(
            "update patch",
            "nodes/status",
            own_only=True,
            fields="metadata.labels metadata.annotations status",
            most_bytes=_STATUS,
        ),
        _grant("create", "pods", own_only=True, most_bytes=_POD),
        _grant("delete", "pods", own_only=True),
        _grant("create", "pods/eviction", own_only=True),
        _grant("update patch", "pods/status", own_only=True, fields="status", most_bytes=_STATUS),
        _grant("get create update patch delete", "leases.coordination.k8s.io", own_only=True),
        _grant("get", "serviceaccounts", own_only=True),
        _grant("create", "serviceaccounts/token", own_only=True),
        _grant(_READ, "secrets configmaps", own_only=True),
        _grant("create update patch", "events events.events.k8s.io"),
        _grant(
            "create",
            "subjectaccessreviews.authorization.k8s.io localsubjectaccessreviews.authorization.k8s.io"
            " tokenreviews.authentication.k8s.io",
        ),
    ),
}


@cache
def grants(role: str) -> tuple[Grant, ...]:
    """All grants of a role, with those that every known user has. A user without a role has the latter alone."""
    return (*ROLES.get(role, ()), *EVERY_USER)
