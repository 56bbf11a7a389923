"""Jobs to engine values; their pods are read by `pod_view`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jettison.engine.workloads.job_failures import FailureRule
from jettison.engine.workloads.job_sync import JobGoal, JobState, JobVerdict, parse_indexes
from jettison.manifests.times import time_or_none

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


def _verdict(conditions: Iterable[Json]) -> JobVerdict | None:
    """Of both, which no controller writes, the success counts."""
    found = {each.get("type"): each for each in conditions if each.get("status") == "True"}
    for kind in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        if (condition := found.get(kind)) is not None:
            reason, message = condition.get("reason") or "", condition.get("message") or ""
            return JobVerdict(kind == SUCCESS_CRITERIA_MET, reason, message)
    return None
