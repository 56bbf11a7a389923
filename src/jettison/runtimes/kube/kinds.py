"""Where each kind of object lives in the API."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote

from jettison.errors import InputError


class Kind(NamedTuple):
    """What a path needs to know."""

    group: str
    plural: str
    is_namespaced: bool = True
    version: str = "v1"

    def __str__(self) -> str:
        """`deployments.apps`, as kubectl names it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Of a collection or an object. Without a namespace the collection is that of all namespaces."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.is_namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, *filter(None, (name, subresource))]
        return "/" + "/".join(map(_segment, parts))


def _segment(text: str) -> str:
    """A name is data, it must not become another path; Kubernetes' own clients refuse these too."""
    if text in (".", "..") or "/" in text or "%" in text:
        raise InputError(f"`{text}` cannot be a name: not `.` or `..`, and no `/` or `%` in it")
    return quote(sendable(text), safe="")


def sendable(text: str) -> str:
    """The same; raises InputError where a command line had bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"`{text}` is not UTF-8, and no API has a name for it") from error
    return text


PODS: Final = Kind("", "pods")
NODES: Final = Kind("", "nodes", is_namespaced=False)
NAMESPACES: Final = Kind("", "namespaces", is_namespaced=False)
EVENTS: Final = Kind("", "events")
SERVICE_ACCOUNTS: Final = Kind("", "serviceaccounts")
CONFIG_MAPS: Final = Kind("", "configmaps")
SECRETS: Final = Kind("", "secrets")
REPLICATION_CONTROLLERS: Final = Kind("", "replicationcontrollers")
BUDGETS: Final = Kind("policy", "poddisruptionbudgets")
DAEMON_SETS: Final = Kind("apps", "daemonsets")
DEPLOYMENTS: Final = Kind("apps", "deployments")
REPLICA_SETS: Final = Kind("apps", "replicasets")
STATEFUL_SETS: Final = Kind("apps", "statefulsets")
CONTROLLER_REVISIONS: Final = Kind("apps", "controllerrevisions")
JOBS: Final = Kind("batch", "jobs")
SIGNING_REQUESTS: Final = Kind("certificates.k8s.io", "certificatesigningrequests", is_namespaced=False)
LEASES: Final = Kind("coordination.k8s.io", "leases")

NODE_LEASES: Final = "kube-node-lease"
"""The namespace of those that nodes renew."""
PRIORITY_CLASSES: Final = Kind("scheduling.k8s.io", "priorityclasses", is_namespaced=False)
