"""The status of a Job: counters, uids that are being counted, and conditions, as documents."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from jettison.controllers.machinery.object_state import condition_of, with_conditions
from jettison.engine.workloads.job_sync import JobGoal, JobTally, JobVerdict, JobView
from jettison.manifests.jobs import FAILURE_TARGET, SUCCESS_CRITERIA_MET
from jettison.manifests.times import time_text
from jettison.runtimes.kube.client import Document

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"

_NOTED: Final = "uncountedTerminatedPods"
# Written also as 0 or empty; the other fields are left out then.
_ALWAYS_WRITTEN: Final = ("ready", "terminating", _NOTED)


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
