"""Rules of jobs: what a spec may say, and which steps a status may take."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import Served

Json = dict[str, Any]

JOBS = "/apis/batch/v1/namespaces/default/jobs"
TEMPLATE: Json = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
INDEXED: Json = {"completionMode": "Indexed", "completions": 3}
START, END = "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"


def job(name: str = "j", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"template": TEMPLATE, **spec}}


def failures(**codes: Any) -> Json:
    return {"rules": [{"action": "FailJob", "onExitCodes": codes}]}


def success(**rule: Any) -> Json:
    return {**INDEXED, "successPolicy": {"rules": [rule]}}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            {**INDEXED, "maxFailedIndexes": 1},
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
        ),
        (
            {"managedBy": "bad"},
            'spec.managedBy: Invalid value: "bad": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        ({"managedBy": ""}, "spec.managedBy: Required value"),
        (
            {**INDEXED, "parallelism": 100_001},
            "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000",
        ),
        (
            {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 4},
            "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions",
        ),
        (
            {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1},
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
        ),
        (
            {"successPolicy": {"rules": []}},
            'spec.successPolicy: Invalid value: {"Rules":[]}: requires indexed completion mode',
        ),
        ({**INDEXED, "successPolicy": {}}, "spec.successPolicy.rules: Required value: at least one rules must be"),
        (success(), "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes"),
        (success(succeededCount=4), "4: must be less than or equal to 3 (the number of specified completions)"),
        (
            success(succeededIndexes="0-1", succeededCount=3),
            "3: must be less than or equal to 2 (the number of indexes",
        ),
        (
            success(succeededIndexes="2-1"),
            "error parsing succeededIndexes: non-increasing order, previous: 2, current: 1",
        ),
        (success(succeededIndexes="0,9"), 'error parsing succeededIndexes: too large index: "9"'),
        (
            success(succeededIndexes="x"),
            'error parsing succeededIndexes: cannot convert string to integer for index: "x"',
        ),
        (success(succeededIndexes="0-1-2"), "can have at most two parts separated by '-'"),
        ({"podFailurePolicy": failures()}, 'onExitCodes.operator: Required value: valid values: ["In" "NotIn"]'),
        (
            {"podFailurePolicy": failures(operator="In", values=[0])},
            "values[0]: Invalid value: 0: must not be 0 for the In",
        ),
        ({"podFailurePolicy": failures(operator="In", values=[2, 1])}, "values: Invalid value: [2,1]: must be ordered"),
        ({"podFailurePolicy": failures(operator="In", values=[2, 2])}, "values[1]: Duplicate value: 2"),
        (
            {"podFailurePolicy": failures(operator="In", values=[1], containerName="z")},
            "must be one of the container or initContainer names in the pod template",
        ),
        ({"selector": {"matchLabels": {"app": "web"}}}, "`selector` not auto-generated"),
    ],
)
def test_what_a_spec_may_not_say(api: Served, spec: Json, complaint: str) -> None:
    answer = api.post(JOBS, job(**spec))
    assert (answer.code, complaint in answer.message) == (422, True), answer.message


def test_a_host_name_that_would_be_too_long(api: Served) -> None:
    answer = api.post(JOBS, job("x" * 62, **INDEXED))
    assert f"will not able to create pod with invalid DNS label: {'x' * 62}-2" in answer.message


def test_labels_of_the_client_are_not_overwritten(api: Served) -> None:
    labelled = {**TEMPLATE, "metadata": {"labels": {"job-name": "other"}}}
    answer = api.post(JOBS, {"metadata": {"name": "j"}, "spec": {"template": labelled}})
    assert "spec.template.metadata.labels[job-name]: Invalid value: " in answer.message
    assert "must be 'j'" in answer.message


def test_places_and_resources_of_a_suspended_job_may_change(api: Served) -> None:
    assert api.post(JOBS, job(suspend=True)).code == 201
    spec = {
        "nodeSelector": {"a": "b"},
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}],
    }
    assert api.patch(f"{JOBS}/j", {"spec": {"template": {"spec": spec}}}).code == 200
    answer = api.patch(f"{JOBS}/j", {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}})
    assert answer.body["details"]["causes"][0]["field"] == "spec.template.spec"
    assert api.patch(f"{JOBS}/j", {"spec": {"suspend": False}}).code == 200
    answer = api.patch(f"{JOBS}/j", {"spec": {"template": {"spec": {"nodeSelector": {"a": "c"}}}}})
    assert answer.body["details"]["causes"][0]["field"] == "spec.template"


def test_completions_of_an_indexed_job_change_with_its_parallelism(api: Served) -> None:
    assert api.post(JOBS, job(**INDEXED)).code == 201
    answer = api.patch(f"{JOBS}/j", {"spec": {"completions": 5}})
    assert "5: can only be modified in tandem with spec.parallelism" in answer.message
    assert api.patch(f"{JOBS}/j", {"spec": {"completions": 5, "parallelism": 5}}).code == 200


def conditions(*kinds: str) -> list[Json]:
    return [{"type": kind, "status": "True"} for kind in kinds]


DONE: Json = {
    "startTime": START, "completionTime": END, "succeeded": 1,
    "conditions": conditions("SuccessCriteriaMet", "Complete"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "status", "complaint"),
    [
        ({}, {"active": -1}, "status.active: Invalid value: -1: must be greater than or equal to 0"),
        ({}, {"ready": 2, "active": 1}, "status.ready: Invalid value: 2: cannot set more ready pods than active"),
        ({}, {"conditions": conditions("Complete")}, "without the SuccessCriteriaMet=true condition"),
        ({}, {"conditions": conditions("Failed")}, "cannot set Failed=True condition without the FailureTarget=true"),
        (
            {},
            {"conditions": conditions("SuccessCriteriaMet", "Complete")},
            "completionTime is required for Complete jobs",
        ),
        ({}, {"completionTime": END}, "cannot set completionTime when there is no Complete=True condition"),
        ({}, {**DONE, "startTime": None}, "status.startTime: Required value: startTime is required for finished job"),
        ({}, {**DONE, "active": 1}, "active>0 is invalid for finished job"),
        ({}, {**DONE, "terminating": 1}, "terminating>0 is invalid for finished job"),
        ({}, {**DONE, "completionTime": "2023-01-01T00:00:00Z"}, "must be equal to or after `startTime`"),
        ({}, {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}}, 'failed[0]: Duplicate value: "a"'),
        ({}, {"completedIndexes": "0"}, "cannot set non-empty completedIndexes when non-indexed completion mode"),
        ({}, {"failedIndexes": "0"}, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"),
        ({"failed": 2}, {"failed": 1}, "cannot decrease the failed counter"),
        ({"succeeded": 2}, {"succeeded": 1}, "cannot decrease the succeeded counter"),
        ({"startTime": START}, {"startTime": END}, "field is immutable for unsuspended job once set"),
        (DONE, {"completionTime": "2024-01-01T02:00:00Z"}, "status.completionTime: Invalid value"),
        (DONE, {"conditions": []}, "cannot disable the terminal Complete=True condition"),
    ],
)
def test_steps_that_a_status_may_not_take(api: Served, before: Json, status: Json, complaint: str) -> None:
    assert api.post(JOBS, job()).code == 201
    assert api.patch(f"{JOBS}/j/status", {"status": before}).code == 200
    answer = api.patch(f"{JOBS}/j/status", {"status": status})
    assert (answer.code, complaint in answer.message) == (422, True), answer.message


def test_indexes_that_have_ended_and_failed(api: Served) -> None:
    assert api.post(JOBS, job(**INDEXED, backoffLimitPerIndex=1)).code == 201
    assert api.patch(f"{JOBS}/j/status", {"status": {"completedIndexes": "0-1", "failedIndexes": "2"}}).code == 200
    answer = api.patch(f"{JOBS}/j/status", {"status": {"failedIndexes": "1-2"}})
    assert "failedIndexes and completedIndexes overlap at index: 1" in answer.message
    answer = api.patch(f"{JOBS}/j/status", {"status": {"completedIndexes": "1,0"}})
    assert "error parsing completedIndexes: non-increasing order, previous: 1, current: 0" in answer.message
