"""A Job's documents: its pods, with the finalizer that says they were not counted yet, and its status.

The status holds counters, uids that are being counted, and conditions; every function of it returns a changed Job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from jettison.controllers.machinery.objects import condition_of, with_conditions
from jettison.controllers.machinery.owned_pods import OwnerKind
from jettison.controllers.machinery.pod_control import NewPod
from jettison.engine.workloads.job_sync import JobGoal, JobTally, JobVerdict, JobView
from jettison.errors import ApiError, NotFound, RuntimeFailure
from jettison.manifests.jobs import FAILURE_TARGET, SUCCESS_CRITERIA_MET
from jettison.manifests.pod_view import INDEX_ANNOTATION, TRACKING_FINALIZER
from jettison.manifests.times import time_text
from jettison.runtimes.kube.cache import Cache, Change, key_of
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import JOBS, PODS

SOURCE: Final = "job-controller"
OWNER_KIND: Final = OwnerKind(JOBS, "Job")

_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX: Final = 58

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"

_NOTED: Final = "uncountedTerminatedPods"
# Written also as 0 or empty; the other fields are left out then.
_ALWAYS_WRITTEN: Final = ("ready", "terminating", _NOTED)


def job_pod(job: Document, index: int | None) -> NewPod:
    """From the template; with an index, it knows it by label, annotation, host name and environment."""
    template = job["spec"]["template"]
    metadata: dict[str, Any] = {**(template.get("metadata") or {})}
    others = [each for each in metadata.get("finalizers") or () if each != TRACKING_FINALIZER]
    metadata["finalizers"] = [*others, TRACKING_FINALIZER]
    if index is None:
        return NewPod({**template, "metadata": metadata})
    for key in ("annotations", "labels"):
        metadata[key] = {**(metadata.get(key) or {}), INDEX_ANNOTATION: str(index)}
    name = job["metadata"]["name"]
    spec = {**(template.get("spec") or {}), "hostname": f"{name}-{index}"}
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec[key] = list(map(_knowing_its_index, spec[key]))
    end = f"-{index}-"
    return NewPod({**template, "metadata": metadata, "spec": spec}, name[: _LONGEST_PREFIX - len(end)] + end)


def _knowing_its_index(container: Document) -> Document:
    variables = container.get("env") or []
    if any(each.get("name") == _INDEX_VARIABLE for each in variables):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_ANNOTATION}']"}}
    return {**container, "env": [*variables, {"name": _INDEX_VARIABLE, "valueFrom": source}]}


class Released(NamedTuple):
    """The uids of those that no longer have the finalizer, gone or not, and what the server said against another."""

    uids: set[str]
    error: BaseException | None


class Tracking:
    """Removes finalizers, and remembers from which pods until the cache shows it: a pod must not be counted twice."""

    def __init__(self, client: KubeClient, pods: Cache) -> None:
        self._client = client
        self._released: set[str] = set()
        pods.listen(self._watch)

    def is_released(self, pod: Document) -> bool:
        """Whether it has been counted, although the cache may still show its finalizer."""
        return pod["metadata"]["uid"] in self._released or not is_tracked(pod)

    async def release(self, pods: Iterable[Document]) -> Released:
        """All at once."""
        chosen = list(pods)
        results = await asyncio.gather(*map(self._release, chosen), return_exceptions=True)
        done = {pod["metadata"]["uid"] for pod, result in zip(chosen, results, strict=True) if result is None}
        return Released(done, next((each for each in results if each is not None), None))

    async def _release(self, pod: Document) -> None:
        namespace, name = key_of(pod)
        uid = pod["metadata"]["uid"]
        if not is_tracked(pod) or uid in self._released:
            return
        patch = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}
        self._released.add(uid)
        try:
            await self._client.patch(PODS, name, patch, namespace)
        except NotFound:
            return
        except (ApiError, RuntimeFailure):
            # Refused may mean that the name is another pod's by now: servers differ in how they say that.
            if not await self._is_gone(pod):
                self._released.discard(uid)
                raise

    async def _is_gone(self, pod: Document) -> bool:
        namespace, name = key_of(pod)
        try:
            found = await self._client.get(PODS, name, namespace)
        except NotFound:
            return True
        except (ApiError, RuntimeFailure):
            return False
        return bool(found["metadata"]["uid"] != pod["metadata"]["uid"])

    def _watch(self, change: Change) -> None:
        if change.new is None or not is_tracked(change.new):
            self._released.discard(change.newest["metadata"]["uid"])


def is_tracked(pod: Document) -> bool:
    """Whether it waits to be counted."""
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


def is_finished(job: Document) -> bool:
    """Whether it has ended for good."""
    found = (condition_of(job, kind) for kind in (COMPLETE, FAILED))
    return any(each is not None and each.get("status") == "True" for each in found)


def with_status(job: Document, **fields: object) -> Document:
    """The Job with these fields of the status; what is nothing is not written."""
    known = {key: value for key, value in (job.get("status") or {}).items() if key not in fields}
    kept = {key: value for key, value in fields.items() if value or key in _ALWAYS_WRITTEN}
    return {**job, "status": {**known, **kept}}


def observed(job: Document, view: JobView) -> Document:
    """With the pods as they were found."""
    ready = sum(pod.is_ready for pod in view.active)
    return with_status(job, active=len(view.active), ready=ready, terminating=len(view.leaving))


def noted(job: Document, goal: JobGoal, tally: JobTally, tracked: Collection[str]) -> Document:
    """With the pods of the tally noted, and those counted that were noted before and have no finalizer any more."""
    counted = _counted(job, tracked)
    notes = counted["status"][_NOTED]
    merged = {
        key: [*(notes.get(key) or ()), *added]
        for key, added in (("succeeded", tally.succeeded), ("failed", tally.failed))
        if notes.get(key) or added
    }
    job = with_status(counted, **{_NOTED: merged})
    if goal.is_indexed:
        job = with_status(job, succeeded=len(tally.completed), completedIndexes=str(tally.completed))
    return job


def counted(job: Document, released: Collection[str]) -> Document:
    """With those counted whose finalizer is gone."""
    notes = (job.get("status") or {}).get(_NOTED) or {}
    left = {uid for key in ("succeeded", "failed") for uid in notes.get(key) or ()}
    return _counted(job, left - set(released))


def has_notes(job: Document) -> bool:
    """Whether a pod is still to be counted."""
    return bool((job.get("status") or {}).get(_NOTED))


def _counted(job: Document, tracked: Collection[str]) -> Document:
    """Noted pods that are not among these move into the counters."""
    status = job.get("status") or {}
    notes = status.get(_NOTED) or {}
    left: dict[str, list[str]] = {}
    fields: dict[str, object] = {}
    for key in ("succeeded", "failed"):
        uids = notes.get(key) or []
        staying = [uid for uid in uids if uid in tracked]
        fields[key] = (status.get(key) or 0) + len(uids) - len(staying)
        if staying:
            left[key] = staying
    return with_status(job, **fields, **{_NOTED: left})


def decided(job: Document, verdict: JobVerdict, now_ns: int) -> Document:
    """With the condition that says what the end will be, while pods are still going."""
    kind = SUCCESS_CRITERIA_MET if verdict.is_success else FAILURE_TARGET
    return job if condition_of(job, kind) else with_conditions(job, _condition(kind, verdict, now_ns))


def finished(job: Document, verdict: JobVerdict, now_ns: int) -> Document:
    """With the condition that ends it."""
    job = with_conditions(job, _condition(COMPLETE if verdict.is_success else FAILED, verdict, now_ns))
    return with_status(job, completionTime=time_text(now_ns)) if verdict.is_success else job


def suspended(job: Document, *, is_suspended: bool, now_ns: int) -> Document:
    """With the condition Suspended as it is; a Job that never was has none. The time of its start begins anew."""
    known = condition_of(job, SUSPENDED)
    status = "True" if is_suspended else "False"
    if (known is None and not is_suspended) or (known is not None and known.get("status") == status):
        return job
    said = ("JobSuspended", "Job suspended") if is_suspended else ("JobResumed", "Job resumed")
    job = with_conditions(job, _condition(SUSPENDED, JobVerdict(is_suspended, *said), now_ns, status))
    return with_status(job, startTime="" if is_suspended else time_text(now_ns))


def _condition(kind: str, verdict: JobVerdict, now_ns: int, status: str = "True") -> Document:
    now = time_text(now_ns)
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": verdict.reason,
        "message": verdict.message,
    }
