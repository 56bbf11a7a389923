"""Pods as budgets, drains and workloads read them; what is missing or odd is as good as absent."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from jettison.engine.pods.api_pod import ApiPod, ContainerExit
from jettison.errors import ManifestError
from jettison.manifests.pod_view import TRACKING_FINALIZER, PodView, checked_pod
from jettison.manifests.times import parse_time

READY_AT, MADE_AT = "2030-01-01T00:00:05Z", "2030-01-01T00:00:00Z"
COST = "controller.kubernetes.io/pod-deletion-cost"
SECOND_NS = 10**9
Json = dict[str, Any]


def read(document: Json) -> ApiPod:
    """Every field of a view, as a value that can be compared."""
    view = checked_pod(document)
    return ApiPod(**{each.name: getattr(view, each.name) for each in fields(ApiPod)})


def _pod(status: Json | None = None, **metadata: Any) -> Json:
    made = {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "1970-01-01T00:00:09Z"}
    return {"metadata": {**made, **metadata}, "spec": {}, "status": status}


def document(metadata: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **(metadata or {})}, "spec": spec}


def test_a_plain_pod() -> None:
    assert read(document(nodeName="n1")) == ApiPod("p", "ns", "u", node="n1")


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        (None, False),
        ([{"name": "v", "hostPath": {"path": "/"}}], False),
        ([{"name": "v", "emptyDir": None}], False),
        ([{"name": "v", "emptyDir": {}}], True),
        ([{"name": "c", "configMap": {}}, {"name": "v", "emptyDir": {"medium": "Memory"}}], True),
    ],
)
def test_only_an_empty_dir_is_local_storage(volumes: object, expected: bool) -> None:
    assert checked_pod(document(volumes=volumes)).has_empty_dir is expected


@pytest.mark.parametrize(
    ("annotations", "expected"), [({"kubernetes.io/config.mirror": ""}, True), ({"x": "y"}, False)]
)
def test_a_mirror_pod_is_known_by_its_annotation(annotations: dict[str, str], expected: bool) -> None:
    assert checked_pod(document({"annotations": annotations})).is_mirror is expected


def test_a_terminating_pod_has_a_deadline() -> None:
    pod = checked_pod(document({"deletionTimestamp": "2023-11-14T22:13:20Z"}))
    assert (pod.deadline_ns, pod.is_terminating) == (1_700_000_000 * 10**9, True)


@pytest.mark.parametrize(
    "source",
    [
        *(None, {}, {"metadata": []}, {"metadata": {"name": "p"}, "spec": {"volumes": [1]}}),
        {"metadata": {"name": "p"}, "spec": {"schedulingGates": [1]}},
        {"metadata": {"name": "p"}, "status": {"startTime": 5}},
        {"metadata": {"name": "p"}, "status": {"nominatedNodeName": []}},
    ],
)
def test_what_is_no_pod_is_refused(source: object) -> None:
    with pytest.raises(ManifestError):
        checked_pod(source)


def test_everything() -> None:
    document = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "creationTimestamp": MADE_AT,
            "deletionTimestamp": READY_AT,
            "annotations": {COST: "-7"},
        },
        "spec": {
            "nodeName": "n",
            "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": READY_AT}],
            "containerStatuses": [{"name": "a", "restartCount": 1}, {"name": "b", "restartCount": 4}],
            "initContainerStatuses": [{"name": "setup", "restartCount": 9}, {"name": "proxy", "restartCount": 2}],
        },
    }
    assert read(document) == ApiPod(
        name="p",
        namespace="",
        uid="u",
        node="n",
        phase="Running",
        is_terminating=True,
        is_ready=True,
        ready_since_ns=parse_time(READY_AT),
        created_ns=parse_time(MADE_AT),
        deletion_cost=-7,
        most_restarts=(4, 2),
        restarts=16,
        deadline_ns=parse_time(READY_AT),
        finished_ns=parse_time(READY_AT),
        conditions=(("Ready", "True"),),
    )


def test_next_to_nothing() -> None:
    assert read({"metadata": {"name": "p"}}) == ApiPod("p", "")


def test_a_pod_that_is_not_ready_is_ready_since_never() -> None:
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": READY_AT}]
    found = PodView({"metadata": {"name": "p"}, "status": {"conditions": conditions}})
    assert (found.is_ready, found.ready_since_ns) == (False, 0)


@pytest.mark.parametrize(
    ("text", "cost"),
    [("5", 5), ("0", 0), ("+5", 0), ("05", 0), ("", 0), ("five", 0), ("2147483647", 2**31 - 1), ("2147483648", 0)],
)
def test_deletion_costs(text: str, cost: int) -> None:
    document: dict[str, Any] = {"metadata": {"name": "p", "annotations": {COST: text}}}
    assert PodView(document).deletion_cost == cost


def test_a_time_that_is_none() -> None:
    assert PodView({"metadata": {"name": "p", "creationTimestamp": "yesterday"}}).created_ns == 0


@pytest.mark.parametrize(
    ("conditions", "is_ready"),
    [
        (None, False),
        ([], False),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "Unknown"}, {"type": "Ready", "status": "True"}], False),
    ],
)
def test_ready_is_a_condition_and_nothing_else(conditions: object, is_ready: bool) -> None:
    document = {"metadata": {"name": "p", "namespace": "ns"}, "status": {"phase": "Running", "conditions": conditions}}
    assert checked_pod(document).is_ready is is_ready


def test_a_pod_of_a_job() -> None:
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
    pod = read(_pod(status, annotations=annotations, finalizers=[TRACKING_FINALIZER]))
    assert pod == ApiPod(
        "p",
        "ns",
        uid="u",
        phase="Failed",
        is_ready=True,
        created_ns=9 * SECOND_NS,
        most_restarts=(2, 0),
        is_tracked=True,
        index=7,
        finished_ns=9 * SECOND_NS,
        restarts=7,
        ends=(ContainerExit("c", 3), ContainerExit("i", 0)),
        conditions=(("Ready", "True"), ("DisruptionTarget", "True")),
    )
    assert not PodView(_pod()).is_tracked


@pytest.mark.parametrize("text", ["-1", "x", "", "99999999999999999999"])
def test_an_index_that_is_none(text: str) -> None:
    assert PodView(_pod(annotations={"batch.kubernetes.io/job-completion-index": text})).index is None


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
    assert PodView(pod).finished_ns == seconds * SECOND_NS


def test_a_field_is_read_once_and_may_be_changed_in_a_copy() -> None:
    view = PodView(_pod({"phase": "Running"}, finalizers=[TRACKING_FINALIZER]))
    assert view.phase == "Running"
    other = view.but(is_tracked=False)
    assert (view.is_tracked, other.is_tracked, other.phase, other.uid) == (True, False, "Running", "u")
    assert other.document is view.document
