"""Which controllers there are, and what an operator may want otherwise. The defaults are kube-controller-manager's.

Apart from `runner`, which loads them all: an API server whose controllers are in another process needs their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jettison.engine.budgets.budget import EXACT, ApiSwitches
from jettison.values import frozen

NAMESPACES: Final = "namespace-controller"
"""Our own API server empties namespaces itself; this one is for other servers."""
ACCOUNTS: Final = "serviceaccount-controller"
ROOT_CERTIFICATES: Final = "root-ca-certificate-publisher-controller"

CONTROLLERS: Final[Mapping[str, str]] = {
    "daemonset-controller": "daemonset",
    "deployment-controller": "deployment",
    "disruption-controller": "disruption",
    "garbage-collector-controller": "garbagecollector",
    "job-controller": "job",
    NAMESPACES: "namespace",
    "node-lifecycle-controller": "nodelifecycle",
    "pod-garbage-collector-controller": "podgc",
    "replicaset-controller": "replicaset",
    "replicationcontroller-controller": "replicationcontroller",
    ROOT_CERTIFICATES: "root-ca-cert-publisher",
    "scheduler": "",
    ACCOUNTS: "serviceaccount",
    "statefulset-controller": "statefulset",
    "taint-eviction-controller": "",
    "ttl-after-finished-controller": "ttl-after-finished",
}
"""Names with their short forms of old. Kubernetes runs its scheduler apart; here it is one of them."""


@frozen
class ControllerSettings:
    """How many ended pods are kept for people to look at, and where budgets are better than Kubernetes'."""

    # Of all kinds together; 0 or less: all of them.
    terminated_pods: int = 12_500
    # Of those that a kubelet evicted, which come in hundreds while a node is under pressure; None: no limit of its own.
    evicted_pods: int | None = None
    switches: ApiSwitches = EXACT
