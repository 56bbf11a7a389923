"""The Deployment controller: one ReplicaSet per template, and a rollout from the old ones to the new one.

It never touches a pod: it sets the sizes of ReplicaSets, and reads from their status how far they have come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jettison.controllers.deployment.revisions import rollout_of
from jettison.controllers.deployment.rollout import OWNER_KIND, DeploymentLook
from jettison.controllers.deployment.status import deadline_ns
from jettison.controllers.machinery.owned_pods import ByController, Claims, WokenOwners, selector_of
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.controllers.replica_set import OWNER_KIND as REPLICA_SET_KIND
from jettison.errors import NotFound
from jettison.manifests.pod_view import has_ended
from jettison.runtimes.kube.cache import Change, Key, key_of
from jettison.runtimes.kube.kinds import DEPLOYMENTS, PODS, REPLICA_SETS

_SECOND_NS: Final = 10**9
_WORKERS: Final = 5


class DeploymentController:
    """Woken by Deployments, their sets, and the end of pods that a Recreate waits for."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._deployments = around.caches.of(DEPLOYMENTS)
        self._sets = around.caches.of(REPLICA_SETS)
        pods = around.caches.of(PODS)
        self._by_deployment = self._sets.index(ByController)
        self._by_set = pods.index(ByController)
        self._claims = Claims(around.client, OWNER_KIND, REPLICA_SETS)
        self._reconciler: Reconciler[Key] = Reconciler("deployment", self._reconcile, workers=_WORKERS)
        self._reconciler.follow(self._deployments, lambda change: (key_of(change.newest),))
        self._reconciler.follow(self._sets, WokenOwners(OWNER_KIND, self._deployments))
        self._reconciler.follow(pods, self._ended)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, key: Key) -> None:
        deployment = self._deployments.get(key)
        if deployment is None:
            return
        candidates = self._by_deployment.candidates(deployment)
        sets = await self._claims.claim(deployment, selector_of(deployment), candidates)
        look = DeploymentLook(self._around, deployment, sets, self._by_set)
        try:
            await look.step()
        except NotFound:
            return  # it or a set of it is gone, which the cache will tell
        due_ns = deadline_ns(look.deployment)
        if due_ns is not None:
            # Times are written in whole seconds: a second later it is certain.
            left_ns = max(due_ns - self._around.clock.now_ns(), 0)
            self._reconciler.queue.add_after(key, left_ns / _SECOND_NS + 1)

    def _ended(self, change: Change) -> Iterator[Key]:
        """A Recreate goes on when the last of the old pods has ended, which shows in no ReplicaSet."""
        if change.is_resync or not (change.new is None or has_ended(change.new)):
            return
        set_key = REPLICA_SET_KIND.key_from(change.newest)
        replica_set = self._sets.get(set_key) if set_key else None
        key = OWNER_KIND.key_from(replica_set) if replica_set else None
        deployment = self._deployments.get(key) if key else None
        if key and deployment is not None and not rollout_of(deployment).is_rolling:
            yield key
