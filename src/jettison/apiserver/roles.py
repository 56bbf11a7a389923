"""Who may do what: four roles, each a few lines of verbs and resources.

Kubernetes' RBAC objects would let a cluster define its own; one machine has four kinds of callers and needs no more.
A resource is written as kubectl writes it: `pods`, `pods/eviction`, `poddisruptionbudgets.policy`, and `*` for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

_READ = "get list watch"


@dataclass(frozen=True, slots=True)
class Access:
    """What somebody asks to do: a verb on a resource, or on a plain path where `resource` is empty."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def target(self) -> str:
        """`deployments.apps/scale`, the spelling of the grants."""
        group = f".{self.group}" if self.group else ""
        subresource = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource}{group}{subresource}"


@dataclass(frozen=True, slots=True)
class Grant:
    """These verbs on these resources; with `own_only`, a node may touch only itself and the pods bound to it."""

    verbs: frozenset[str]
    resources: frozenset[str]
    own_only: bool = False

    def covers(self, access: Access) -> bool:
        """Whether it names this verb and this resource, or everything."""
        return not {access.verb, "*"}.isdisjoint(self.verbs) and not {access.target, "*"}.isdisjoint(self.resources)


def _grant(verbs: str, resources: str, *, own_only: bool = False) -> Grant:
    return Grant(frozenset(verbs.split()), frozenset(resources.split()), own_only)


EVERYBODY = (
    _grant(
        "create",
        "selfsubjectaccessreviews.authorization.k8s.io selfsubjectrulesreviews.authorization.k8s.io"
        " selfsubjectreviews.authentication.k8s.io",
    ),
)
"""Whoever is known may ask who he is and what he may do."""

ROLES: Mapping[str, tuple[Grant, ...]] = {
    "admin": (_grant("*", "*"),),
    "viewer": (_grant(_READ, "*"),),
    # Drains: reads daemon sets to leave their pods alone, patches nodes to cordon, and cannot delete a pod.
    "evictor": (
        _grant("create", "pods/eviction"),
        _grant(
            _READ,
            "pods nodes namespaces events events.events.k8s.io poddisruptionbudgets.policy daemonsets.apps"
            " replicasets.apps deployments.apps statefulsets.apps jobs.batch priorityclasses.scheduling.k8s.io",
        ),
        _grant("patch", "nodes"),
        _grant("create patch", "events events.events.k8s.io"),
    ),
    # Reports itself, its heartbeats and its pods, and removes pods that have ended.
    "node": (
        _grant(_READ, "pods nodes namespaces priorityclasses.scheduling.k8s.io"),
        _grant("create update patch", "nodes nodes/status", own_only=True),
        _grant("create delete", "pods", own_only=True),
        _grant("update patch", "pods/status", own_only=True),
        _grant("get create update patch", "leases.coordination.k8s.io", own_only=True),
        _grant("create update patch", "events events.events.k8s.io"),
    ),
}


@cache
def grants(role: str) -> tuple[Grant, ...]:
    """All grants of a role, those of everybody included. An unknown role has none: it is nobody's."""
    return (*ROLES[role], *EVERYBODY) if role in ROLES else ()


def covering(role: str, access: Access) -> Iterable[Grant]:
    """The grants that let the role do this."""
    return (grant for grant in grants(role) if grant.covers(access))
