"""Jobs and their pods as a server sends them."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.workloads.job_failures import ContainerEnd, FailureRule
from jettison.engine.workloads.job_sync import JobGoal, JobPod, JobState, Verdict
from jettison.manifests.jobs import TRACKING_FINALIZER, job_goal_from, job_pod_from, job_state_from

SECOND_NS = 10**9
Json = dict[str, Any]


def _job(status: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": "j"}, "spec": {"template": {}, **spec}, "status": status}


def _pod(status: Json | None = None, **metadata: Any) -> Json:
    made = {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "1970-01-01T00:00:09Z"}
    return {"metadata": {**made, **metadata}, "spec": {}, "status": status}


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
    assert state.verdict == Verdict(False, "R", "M")


def test_a_pod() -> None:
    status = {
        "phase": "Failed",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}],
        "containerStatuses": [
            {"name": "c", "restartCount": 2, "state": {"terminated": {"exitCode": 3}}},
            {"name": "d", "restartCount": 1, "state": {"running": {}}},
        ],
        "initContainerStatuses": [{"name": "i", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}}],
    }
    annotations = {"batch.kubernetes.io/job-completion-index": "7"}
    pod = job_pod_from(_pod(status, annotations=annotations, finalizers=[TRACKING_FINALIZER]))
    assert pod == JobPod(
        uid="u",
        name="ns/p",
        phase="Failed",
        is_ready=True,
        index=7,
        finished_ns=9 * SECOND_NS,
        restarts=7,
        ends=(ContainerEnd("c", 3), ContainerEnd("i", 0)),
        conditions=(("Ready", "True"), ("DisruptionTarget", "True")),
    )
    assert not job_pod_from(_pod()).is_tracked


@pytest.mark.parametrize("text", ["-1", "x", "", "99999999999999999999"])
def test_an_index_that_is_none(text: str) -> None:
    assert job_pod_from(_pod(annotations={"batch.kubernetes.io/job-completion-index": text})).index is None


def _ended(seconds: int | None) -> Json:
    finished = {} if seconds is None else {"finishedAt": f"1970-01-01T00:00:{seconds:02}Z"}
    return {"name": f"c{seconds}", "state": {"terminated": {"exitCode": 0, **finished}}}


NOT_READY = {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:30Z"}


@pytest.mark.parametrize(
    ("pod", "seconds"),
    [
        (_pod({"containerStatuses": [_ended(11), _ended(20)], "conditions": [NOT_READY]}), 20),
        (_pod({"containerStatuses": [_ended(11), _ended(None)], "conditions": [NOT_READY]}), 30),
        (_pod({}, deletionTimestamp="1970-01-01T00:00:50Z", deletionGracePeriodSeconds=10), 40),
        (_pod({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "soon"}]}), 9),
    ],
)
def test_when_it_ended(pod: Json, seconds: int) -> None:
    assert job_pod_from(pod).finished_ns == seconds * SECOND_NS
