"""The TTL-after-finished controller: deletes a Job so many seconds after it ended, and its pods with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jettison.controllers.job.status import COMPLETE, FAILED, is_finished
from jettison.controllers.machinery.object_state import condition_of, is_terminating
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.errors import Conflict, ManifestError, NotFound
from jettison.manifests.times import parse_time
from jettison.runtimes.kube.cache import Change, Key, key_of
from jettison.runtimes.kube.client import DeleteOptions, Document
from jettison.runtimes.kube.kinds import JOBS

_SECOND_NS: Final = 10**9


class FinishedJobController:
    """Woken by Jobs."""

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
    return () if change.new is None or _expiry_ns(change.new) is None else (key_of(change.new),)


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
