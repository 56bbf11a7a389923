"""Pods that wait to be counted by a Job which is gone or has finished: their finalizer would keep them."""

from __future__ import annotations

from collections.abc import Iterable

from jettison.controllers.job.pods import OWNER_KIND, Tracking, is_tracked
from jettison.controllers.job.status import is_finished
from jettison.controllers.machinery.owned_pods import ByController, controller_of
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.errors import NotFound
from jettison.runtimes.kube.cache import Cache, Change, Key, key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import JOBS, PODS


class OrphanedJobPods:
    """A part of the Job controller, with a queue of its own."""

    def __init__(self, around: Surroundings, jobs: Cache, by_job: ByController, tracking: Tracking) -> None:
        self._around = around
        self._jobs = jobs
        self._pods = around.caches.of(PODS)
        self._by_job = by_job
        self._tracking = tracking
        self._reconciler: Reconciler[Key] = Reconciler("orphaned job pods", self._reconcile)
        self._reconciler.follow(self._pods, self._seen)
        self._reconciler.follow(jobs, self._ended)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    def _seen(self, change: Change) -> Iterable[Key]:
        pod = change.new
        return (key_of(pod),) if pod is not None and is_tracked(pod) and self._is_left(pod) else ()

    def _ended(self, change: Change) -> Iterable[Key]:
        if change.new is not None and not is_finished(change.new):
            return ()
        return [key_of(each) for each in self._by_job.of(change.newest["metadata"]["uid"])]

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(key)
        if pod is None or not is_tracked(pod) or not self._is_left(pod) or await self._has_job(pod):
            return
        released = await self._tracking.release([pod])
        if released.error is not None:
            raise released.error

    def _is_left(self, pod: Document) -> bool:
        """Whether no Job at work has it. One of another kind of owner is not ours to judge."""
        if controller_of(pod) is None:
            return True
        owner = OWNER_KIND.key_from(pod)
        if owner is None:
            return False
        job = self._jobs.get(owner)
        return job is None or _is_another(job, pod) or is_finished(job)

    async def _has_job(self, pod: Document) -> bool:
        """Asked afresh: the cache of pods may be ahead of that of Jobs."""
        owner = OWNER_KIND.key_from(pod)
        if owner is None:
            return False
        namespace, name = owner
        try:
            job = await self._around.client.get(JOBS, name, namespace)
        except NotFound:
            return False
        return not _is_another(job, pod) and not is_finished(job)


def _is_another(job: Document, pod: Document) -> bool:
    reference = controller_of(pod) or {}
    return bool(job["metadata"]["uid"] != reference.get("uid"))
