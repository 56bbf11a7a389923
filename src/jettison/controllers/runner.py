"""Starts controllers, together and over shared caches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from jettison.clock import Clock, SystemClock
from jettison.controllers.accounts import RootCertificateController, ServiceAccountController
from jettison.controllers.daemon_set import DaemonSetController
from jettison.controllers.deployment.deployment import DeploymentController
from jettison.controllers.disruption import DisruptionController
from jettison.controllers.garbage.collector import GarbageCollector
from jettison.controllers.garbage.pods import PodGarbageController
from jettison.controllers.job.job import JobController
from jettison.controllers.job.leftovers import FinishedJobController
from jettison.controllers.machinery.event_recorder import EventRecorder
from jettison.controllers.machinery.reconciler import Controller, Surroundings
from jettison.controllers.namespace import NamespaceController
from jettison.controllers.nodes.lifecycle import NodeLifecycleController
from jettison.controllers.nodes.taint_eviction import TaintEvictionController
from jettison.controllers.replica_set import ReplicaSetController, replication_controller
from jettison.controllers.scheduler.scheduler import Scheduler
from jettison.controllers.settings import ACCOUNTS, NAMESPACES, ROOT_CERTIFICATES, ControllerSettings
from jettison.controllers.stateful_set import StatefulSetController
from jettison.runtimes.kube.cache import Caches
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.leases import HeldLease

MAKERS: Final[Mapping[str, Callable[[Surroundings], Controller]]] = {
    "daemonset-controller": DaemonSetController,
    "deployment-controller": DeploymentController,
    "disruption-controller": DisruptionController,
    "garbage-collector-controller": GarbageCollector,
    "job-controller": JobController,
    NAMESPACES: NamespaceController,
    "node-lifecycle-controller": NodeLifecycleController,
    "pod-garbage-collector-controller": PodGarbageController,
    "replicaset-controller": ReplicaSetController,
    "replicationcontroller-controller": replication_controller,
    ROOT_CERTIFICATES: RootCertificateController,
    "scheduler": Scheduler,
    ACCOUNTS: ServiceAccountController,
    "statefulset-controller": StatefulSetController,
    "taint-eviction-controller": TaintEvictionController,
    "ttl-after-finished-controller": FinishedJobController,
}
"""All of `settings.CONTROLLERS`: one file and one line each."""


LEASE_NAMESPACE: Final = "kube-system"
LEASE: Final = "jettison-controllers"
"""What the controllers of a cluster hold while they work, wherever they run; of several sets one works."""

SERVER: Final = "jettison-serve"
"""The holder where the API server runs its controllers itself. It is the same after a restart, because one process at a
time serves a store: what it held before a crash is its own again, without a wait."""

SERVER_SECONDS: Final = 60
"""For how long. Nothing else could serve this API meanwhile, so that a busy machine need not cost it the lease."""


def own_lease(client: KubeClient, clock: Clock | None = None) -> HeldLease:
    """For the controllers of an API server, on its own API."""
    return HeldLease(client, LEASE_NAMESPACE, LEASE, SERVER, clock or SystemClock(), duration=SERVER_SECONDS)


async def run_controllers(
    client: KubeClient,
    names: Collection[str],
    settings: ControllerSettings | None = None,
    clock: Clock | None = None,
) -> None:
    """Run these until cancelled. While the server does not answer they wait."""
    clock = clock or SystemClock()
    caches, events = Caches(client, clock), EventRecorder(client, clock)
    around = Surroundings(client, caches, events, clock, settings or ControllerSettings())
    controllers = [make(around) for name, make in MAKERS.items() if name in names]
    async with asyncio.TaskGroup() as group:
        group.create_task(caches.run())
        group.create_task(events.run())
        await caches.listed()
        for controller in controllers:
            group.create_task(controller.run())
