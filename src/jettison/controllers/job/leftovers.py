"""What is left of Jobs: finished ones, deleted when their time to live is over, and pods that no Job will count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jettison.controllers.job.documents import COMPLETE, FAILED, OWNER_KIND, Tracking, is_finished, is_tracked
from jettison.controllers.machinery.objects import condition_of, is_terminating
from jettison.controllers.machinery.owned_pods import ByController, controller_of
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.errors import Conflict, ManifestError, NotFound
from jettison.manifests.times import parse_time
from jettison.runtimes.kube.cache import Cache, Change, Key, key_of
from jettison.runtimes.kube.client import DeleteOptions, Document
from jettison.runtimes.kube.kinds import JOBS, PODS

_SECOND_NS: Final = 10**9


class FinishedJobController:
    """The TTL-after-finished controller: deletes a Job so many seconds after it ended, and its pods with it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._jobs = around.caches.of(JOBS)
        self._reconciler: Reconciler[Key] = Reconciler("finished jobs", self._reconcile)
        self._reconciler.follow(self._jobs, _ending)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None or not self._is_due(key, job):
            return
        namespace, name = key
        try:
            # The Job may have been given more time since.
            fresh = await self._around.client.get(JOBS, name, namespace)
            if self._is_due(key, fresh):
                options = DeleteOptions(uid=fresh["metadata"]["uid"], propagation="Foreground")
                await self._around.client.delete(JOBS, name, namespace, options)
        except (NotFound, Conflict):
            return

    def _is_due(self, key: Key, job: Document) -> bool:
        """Now; a Job that is due later is queued for that moment."""
        expiry_ns = _expiry_ns(job)
        if expiry_ns is None:
            return False
        left_ns = expiry_ns - self._around.clock.now_ns()
        if left_ns > 0:
            self._reconciler.queue.add_after(key, left_ns / _SECOND_NS)
        return left_ns <= 0


def _ending(change: Change) -> Iterable[Key]:
    return () if change.new is None or _expiry_ns(change.new) is None else (change.key,)


def _expiry_ns(job: Document) -> int | None:
    """None for one that is not to be deleted, or does not say when it ended."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or is_terminating(job) or not is_finished(job):
        return None
    for kind in (COMPLETE, FAILED):
        condition = condition_of(job, kind)
        if condition is not None and condition.get("status") == "True":
            try:
                return parse_time(condition.get("lastTransitionTime") or "") + int(seconds) * _SECOND_NS
            except ManifestError:
                return None
    return None


class OrphanedJobPods:
    """Pods that wait to be counted by a Job which is gone or has finished: their finalizer would keep them.

    A part of the Job controller, with a queue of its own.
    """

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
