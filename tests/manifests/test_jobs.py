"""Jobs as a server sends them."""

from __future__ import annotations

from typing import Any

from jettison.engine.workloads.job_failures import FailureRule
from jettison.engine.workloads.job_sync import JobGoal, JobState, JobVerdict
from jettison.manifests.jobs import job_goal_from, job_state_from

SECOND_NS = 10**9
Json = dict[str, Any]


def _job(status: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": "j"}, "spec": {"template": {}, **spec}, "status": status}


def test_a_spec_that_says_nothing() -> None:
    assert job_goal_from(_job()) == JobGoal(completions=None)


def test_a_spec_that_says_everything() -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}, {"type": "X", "status": "False"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1, 2], "containerName": "c"}},
        {"action": "Count", "onExitCodes": {"operator": "Odd", "values": [1, 2]}},
    ]
    job = _job(
        parallelism=2,
        completions=4,
        completionMode="Indexed",
        backoffLimit=0,
        activeDeadlineSeconds=3,
        suspend=True,
        podFailurePolicy={"rules": rules},
        template={"spec": {"restartPolicy": "OnFailure"}},
    )
    assert job_goal_from(job) == JobGoal(
        parallelism=2,
        completions=4,
        is_indexed=True,
        backoff_limit=0,
        deadline_ns=3 * SECOND_NS,
        is_suspended=True,
        waits_for_end=True,
        restarts_in_place=True,
        rules=(
            FailureRule("Ignore", conditions=(("DisruptionTarget", "True"), ("X", "False"))),
            FailureRule("FailJob", codes=(1, 2), takes_listed=False, container="c"),
            FailureRule("Count", codes=()),
        ),
    )


def test_a_status_is_remembered() -> None:
    assert job_state_from(_job()) == JobState()
    status = {
        "succeeded": 1,
        "failed": 2,
        "uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b", "c"]},
        "completedIndexes": "0,2",
        "startTime": "1970-01-01T00:00:01Z",
        "conditions": [
            {"type": "FailureTarget", "status": "True", "reason": "R", "message": "M"},
            {"type": "SuccessCriteriaMet", "status": "False"},
        ],
    }
    state = job_state_from(_job(status, completions=3))
    assert (state.succeeded, state.failed, state.start_ns) == (1, 2, SECOND_NS)
    assert (state.noted_succeeded, state.noted_failed) == (frozenset("a"), frozenset("bc"))
    assert str(state.completed) == "0,2"
    assert state.verdict == JobVerdict(False, "R", "M")
