"""Jobs and their pods to engine values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from jettison.engine.numbers.strconv import parse_int64
from jettison.engine.workloads.job_failures import ContainerEnd, FailureRule
from jettison.engine.workloads.job_indexes import parse_indexes
from jettison.engine.workloads.job_sync import JobGoal, JobPod, JobState, Verdict
from jettison.manifests.times import time_or_none

TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX_ANNOTATION: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"

_SECOND_NS: Final = 10**9
Json = Mapping[str, Any]


def job_goal_from(job: Json) -> JobGoal:
    """What a Job wants; defaults are the server's, and repeated here for servers that do not fill them in."""
    spec = job["spec"]
    parallelism, limit = spec.get("parallelism"), spec.get("backoffLimit")
    deadline = spec.get("activeDeadlineSeconds")
    return JobGoal(
        parallelism=1 if parallelism is None else parallelism,
        completions=spec.get("completions"),
        is_indexed=spec.get("completionMode") == "Indexed",
        backoff_limit=6 if limit is None else limit,
        deadline_ns=None if deadline is None else deadline * _SECOND_NS,
        is_suspended=bool(spec.get("suspend")),
        waits_for_end=spec.get("podReplacementPolicy") == "Failed" or bool(spec.get("podFailurePolicy")),
        restarts_in_place=(spec["template"].get("spec") or {}).get("restartPolicy") == "OnFailure",
        rules=tuple(map(_rule, (spec.get("podFailurePolicy") or {}).get("rules") or ())),
    )


def job_state_from(job: Json) -> JobState:
    """What its status remembers."""
    status = job.get("status") or {}
    noted = status.get("uncountedTerminatedPods") or {}
    return JobState(
        succeeded=status.get("succeeded") or 0,
        failed=status.get("failed") or 0,
        noted_succeeded=frozenset(noted.get("succeeded") or ()),
        noted_failed=frozenset(noted.get("failed") or ()),
        completed=parse_indexes(status.get("completedIndexes") or "", job["spec"].get("completions") or 0),
        start_ns=time_or_none(status.get("startTime")),
        verdict=_verdict(status.get("conditions") or ()),
    )


def job_pod_from(pod: Json) -> JobPod:
    """A pod of a Job. Whether it still is tracked is for its finalizer to say, and for who has just removed that."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    conditions = tuple((each.get("type") or "", each.get("status") or "") for each in status.get("conditions") or ())
    return JobPod(
        uid=metadata["uid"],
        name=f"{metadata.get('namespace')}/{metadata['name']}",
        phase=status.get("phase") or "",
        is_terminating=bool(metadata.get("deletionTimestamp")),
        is_ready=("Ready", "True") in conditions,
        is_tracked=TRACKING_FINALIZER in (metadata.get("finalizers") or ()),
        index=_index((metadata.get("annotations") or {}).get(INDEX_ANNOTATION)),
        finished_ns=_finished_ns(pod),
        restarts=sum(each.get("restartCount") or 0 for each in containers),
        ends=tuple(_ends(containers)),
        conditions=conditions,
    )


def _rule(source: Json) -> FailureRule:
    """A pattern without a status means True; of an unknown operator no code is the right one."""
    action, codes = source.get("action") or "", source.get("onExitCodes")
    if codes is None:
        patterns = source.get("onPodConditions") or ()
        wanted = ((each.get("type") or "", each.get("status") or "True") for each in patterns)
        return FailureRule(action, conditions=tuple(wanted))
    operator, values = codes.get("operator"), tuple(codes.get("values") or ())
    return FailureRule(
        action,
        codes=values if operator in ("In", "NotIn") else (),
        takes_listed=operator != "NotIn",
        container=codes.get("containerName"),
    )


def _verdict(conditions: Iterable[Json]) -> Verdict | None:
    """Of both, which no controller writes, the success counts."""
    found = {each.get("type"): each for each in conditions if each.get("status") == "True"}
    for kind in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        if (condition := found.get(kind)) is not None:
            reason, message = condition.get("reason") or "", condition.get("message") or ""
            return Verdict(kind == SUCCESS_CRITERIA_MET, reason, message)
    return None


def _index(text: str | None) -> int | None:
    index = None if text is None else parse_int64(text)
    return index if index is not None and index >= 0 else None


def _ends(containers: Iterable[Json]) -> Iterator[ContainerEnd]:
    for each in containers:
        terminated = (each.get("state") or {}).get("terminated")
        if terminated is not None:
            yield ContainerEnd(each.get("name") or "", terminated.get("exitCode") or 0)


def _finished_ns(pod: Json) -> int:
    """When all containers have said so the latest of them; else when it stopped being Ready, was deleted, was made."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    sidecars = {
        each.get("name")
        for each in (pod.get("spec") or {}).get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    }
    beside = [each for each in status.get("initContainerStatuses") or () if each.get("name") in sidecars]
    ends = [
        time_or_none(((each.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for each in (*(status.get("containerStatuses") or ()), *beside)
    ]
    known = [each for each in ends if each is not None]
    if ends and len(known) == len(ends):
        return max(known)
    conditions: Iterable[Json] = status.get("conditions") or ()
    ready: Json = next((each for each in conditions if each.get("type") == "Ready"), {})
    if ready.get("status") == "False" and (changed_ns := time_or_none(ready.get("lastTransitionTime"))) is not None:
        return changed_ns
    if (deleted_ns := time_or_none(metadata.get("deletionTimestamp"))) is not None:
        return deleted_ns - (metadata.get("deletionGracePeriodSeconds") or 0) * _SECOND_NS
    return time_or_none(metadata.get("creationTimestamp")) or 0
