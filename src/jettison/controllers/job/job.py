"""The Job controller: runs pods until enough have succeeded, and replaces those that were taken away.

Every pod carries the finalizer `batch.kubernetes.io/job-tracking` until it is counted, so that an evicted pod counts
even if it is gone a moment later. Counting is done as `engine/workloads/job_sync` tells.

Not kept: back-off limits per index, the greatest number of failed indexes and success policies; a Job that asks for
one is run without it, and an event says so. Kubernetes forgets how long it waits between failures when it is
restarted; here it is taken from the pods that are still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from jettison.controllers.job.documents import (
    OWNER_KIND,
    SOURCE,
    SUSPENDED,
    Tracking,
    counted,
    decided,
    finished,
    has_notes,
    is_finished,
    job_pod,
    noted,
    observed,
    suspended,
    with_status,
)
from jettison.controllers.job.leftovers import OrphanedJobPods
from jettison.controllers.machinery.event_recorder import NORMAL, WARNING, subject_of
from jettison.controllers.machinery.objects import condition_of, is_terminating
from jettison.controllers.machinery.owned_pods import ByController, Claims, WokenOwners, selector_of
from jettison.controllers.machinery.pod_control import PodBatches
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.engine.numbers.strconv import parse_int64
from jettison.engine.pods.pod import FAILED, SUCCEEDED
from jettison.engine.workloads.job_failures import BackOff
from jettison.engine.workloads.job_sync import (
    JobGoal,
    JobState,
    JobStep,
    JobVerdict,
    JobView,
    deadline_left_ns,
    next_step,
    success,
    tally,
    view_job,
)
from jettison.engine.workloads.replica_pods import deletion_order
from jettison.errors import NotFound
from jettison.manifests.jobs import job_goal_from, job_state_from
from jettison.manifests.pod_view import TRACKING_FINALIZER, PodView
from jettison.manifests.times import time_text
from jettison.runtimes.kube.cache import Key, key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import JOBS, PODS
from jettison.values import frozen

MANAGER: Final = "kubernetes.io/job-controller"
"""What `spec.managedBy` says where it means this controller."""

_SECOND_NS: Final = 10**9
_WORKERS: Final = 5
_UNKEPT: Final = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")


@frozen
class _Look:
    """A Job and its pods at one instant, those first that are missed least."""

    goal: JobGoal
    state: JobState
    view: JobView
    pods: tuple[PodView, ...]
    now_ns: int

    def documents(self, uids: Iterable[str]) -> list[Document]:
        """The pods with these uids as the cache has them."""
        known = {each.uid: each.document for each in self.pods}
        return [known[uid] for uid in uids]


class JobController:
    """Woken by Jobs and their pods."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._jobs = around.caches.of(JOBS)
        pods = around.caches.of(PODS)
        self._pods = pods.index(ByController)
        self._claims = Claims(around.client, OWNER_KIND, PODS, TRACKING_FINALIZER)
        self._batches = PodBatches(around, OWNER_KIND, SOURCE)
        self._tracking = Tracking(around.client, pods)
        self._orphans = OrphanedJobPods(around, self._jobs, self._pods, self._tracking)
        # With the uid of the Job that they are of: another may have its name by now.
        self._back_offs: dict[Key, tuple[str, BackOff]] = {}
        self._written: dict[Key, int] = {}
        self._reconciler: Reconciler[Key] = Reconciler("job", self._reconcile, workers=_WORKERS)
        self._reconciler.follow(self._jobs, lambda change: (change.key,))
        self._reconciler.follow(pods, WokenOwners(OWNER_KIND, self._jobs))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reconciler.run())
            group.create_task(self._orphans.run())

    async def _reconcile(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None:
            self._batches.expectations.forget(key)
            self._written.pop(key, None)
            self._back_offs.pop(key, None)
            return
        if _version(job) < self._written.get(key, 0):
            # Counters from before the last count would have pods made that are not wanted. The cache will come to it.
            return
        if is_finished(job):
            self._back_offs.pop(key, None)
            return
        if job["spec"].get("managedBy") not in (None, MANAGER):
            return
        may_act = self._batches.expectations.are_met(key)
        look = await self._look(job)
        try:
            await self._advance(job, look, may_act=may_act)
        except NotFound:
            return

    async def _look(self, job: Document) -> _Look:
        candidates = self._pods.candidates(job)
        claimed = await self._claims.claim(job, selector_of(job), candidates)
        now_ns = self._around.clock.now_ns()
        pods = tuple(deletion_order([self._viewed(each) for each in claimed], {}, now_ns))
        goal, state = job_goal_from(job), job_state_from(job)
        view = view_job(goal, state, pods, self._back_off(job, pods), now_ns)
        return _Look(goal, state, view, pods, now_ns)

    def _viewed(self, pod: Document) -> PodView:
        """Without the finalizer that was just removed, although the cache may still show it."""
        view = PodView(pod)
        return view.but(is_tracked=False) if self._tracking.is_released(pod) else view

    def _back_off(self, job: Document, pods: tuple[PodView, ...]) -> BackOff:
        """As it was after the last count; after a restart from those that were counted and are still there."""
        uid, known = self._back_offs.get(key_of(job), ("", BackOff()))
        if uid == job["metadata"]["uid"]:
            return known
        ended = [pod for pod in pods if not pod.is_tracked]
        succeeded = [pod.finished_ns for pod in ended if pod.phase == SUCCEEDED]
        return BackOff().after(succeeded, [pod.finished_ns for pod in ended if pod.phase == FAILED])

    async def _advance(self, job: Document, look: _Look, *, may_act: bool) -> None:
        started = self._started(job, look)
        verdict = look.view.verdict or (success(look.goal, look.view) if may_act else None)
        step = JobStep()
        if verdict == look.state.verdict:
            # Otherwise it is written down first: a pod that goes for it would else be taken for another reason.
            step = next_step(look.goal, look.view, look.now_ns)
        failure = None
        if may_act and not is_terminating(job):
            failure = await self._act(job, look, step)
        changed = observed(started, look.view)
        if verdict is not None:
            changed = decided(changed, verdict, look.now_ns)
        # Active pods have to be told to go first: until then the Job cannot end.
        ending = verdict if may_act and not look.view.active else None
        await self._count(job, changed, look, ending)
        if failure is not None:
            raise failure
        self._wake_in(job, look, step)

    def _started(self, job: Document, look: _Look) -> Document:
        """With its start, and with what became of being suspended."""
        is_suspended, now_ns = look.goal.is_suspended, look.now_ns
        started = job
        if not is_suspended and not (job.get("status") or {}).get("startTime"):
            started = with_status(job, startTime=time_text(now_ns))
            if unkept := [each for each in _UNKEPT if each in job["spec"]]:
                self._tell(job, "NotSupported", f"Not supported, and not kept: {', '.join(unkept)}", WARNING)
        changed = suspended(started, is_suspended=is_suspended, now_ns=now_ns)
        if changed is not started:
            condition = condition_of(changed, SUSPENDED) or {}
            reason = "Suspended" if is_suspended else "Resumed"
            self._tell(job, reason, condition.get("message") or "", NORMAL)
        return changed

    async def _act(self, job: Document, look: _Look, step: JobStep) -> BaseException | None:
        if step.create:
            return await self._batches.create(job, [job_pod(job, index) for index in step.create])
        if not step.delete:
            return None
        going = look.documents(each.uid for each in step.delete)
        if look.view.verdict is None:
            # They are not wanted, which is no failure: they must not be counted.
            released = await self._tracking.release(going)
            if released.error is not None:
                return released.error
        return await self._batches.delete(job, going)

    async def _count(self, job: Document, changed: Document, look: _Look, ending: JobVerdict | None) -> None:
        """Note which pods have ended, take their finalizers, count them, and end the Job when all are counted."""
        found = tally(look.goal, look.state, look.pods, ending, is_deleted=is_terminating(job))
        tracked = {pod.uid for pod in look.pods if pod.is_tracked}
        stored = await self._write(job, noted(changed, look.goal, found, tracked))
        self._back_offs[key_of(job)] = job["metadata"]["uid"], look.view.back_off
        released = await self._tracking.release(look.documents(found.release))
        changed = counted(stored, released.uids)
        if ending is not None and not found.is_partial and not look.view.leaving and not has_notes(changed):
            await self._write(stored, finished(changed, ending, look.now_ns))
            self._tell_end(job, ending)
        else:
            await self._write(stored, changed)
        if released.error is not None:
            raise released.error

    async def _write(self, job: Document, changed: Document) -> Document:
        if changed.get("status") == job.get("status"):
            return job
        whole = {"apiVersion": "batch/v1", "kind": "Job", **changed}
        written = await self._around.client.replace(JOBS, whole, "status")
        self._written[key_of(job)] = _version(written)
        return written

    def _wake_in(self, job: Document, look: _Look, step: JobStep) -> None:
        waits_ns = [step.wait_ns, deadline_left_ns(look.goal, look.state, look.now_ns) or 0]
        if due_ns := min((each for each in waits_ns if each > 0), default=0):
            self._reconciler.queue.add_after(key_of(job), due_ns / _SECOND_NS)

    def _tell_end(self, job: Document, verdict: JobVerdict) -> None:
        if verdict.is_success:
            self._tell(job, "Completed", "Job completed", NORMAL)
        else:
            self._tell(job, verdict.reason, verdict.message, WARNING)

    def _tell(self, job: Document, reason: str, message: str, event_type: str) -> None:
        self._around.events.tell(SOURCE, subject_of("Job", job), reason, message, event_type)


def _version(job: Document) -> int:
    """Versions of one resource can be compared, as Kubernetes guarantees since 1.35; 0 where this one cannot."""
    return parse_int64(job["metadata"].get("resourceVersion") or "") or 0
