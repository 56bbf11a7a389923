"""ReplicationControllers: the older kind of ReplicaSet, whose selector is a set of labels, with Kubernetes' answers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.apiserver.served import MERGE, Served

Json = dict[str, Any]

PATH = "/api/v1/namespaces/default/replicationcontrollers"
CONTAINER = {"name": "c", "image": "i:1"}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}


def controller(name: str = "rc", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"template": copy.deepcopy(TEMPLATE), **spec}}


def test_labels_of_the_template_are_its_own_and_its_selector(api: Served) -> None:
    made = api.post(PATH, {**controller(), "status": {"replicas": 9}})
    assert made.code == 201, made.content
    assert made.body["metadata"]["labels"] == made.body["spec"]["selector"] == {"app": "web"}
    assert (made.body["spec"]["replicas"], made.body["status"]) == (1, {"replicas": 0})
    assert made.body["metadata"]["generation"] == 1
    assert made.body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 30


def test_what_it_says_itself_stays(api: Served) -> None:
    document = controller(replicas=0, selector={"app": "web"})
    document["metadata"]["labels"] = {"tier": "front"}
    made = api.post(PATH, document).body
    assert (made["metadata"]["labels"], made["spec"]["replicas"]) == ({"tier": "front"}, 0)


NO_DEADLINE = "activeDeadlineSeconds in ReplicationController is not Supported"
NO_MATCH = "`selector` does not match template `labels`"


@pytest.mark.parametrize(
    ("spec", "mistakes"),
    [
        ({"template": None}, ["spec.selector: Required value", "spec.template: Required value"]),
        ({"template": None, "selector": {"a": "b"}}, ["spec.template: Required value"]),
        (
            {"selector": {"app": "db"}},
            [f'spec.template.metadata.labels: Invalid value: {{"app":"web"}}: {NO_MATCH}'],
        ),
        (
            {"replicas": -1, "minReadySeconds": -2},
            [
                "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            {"template": {**TEMPLATE, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}},
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
        ),
        (
            {"template": {**TEMPLATE, "spec": {"containers": [CONTAINER], "activeDeadlineSeconds": 5}}},
            [
                f"spec.template.spec.activeDeadlineSeconds: Forbidden: {NO_DEADLINE}",
            ],
        ),
    ],
)
def test_mistakes(api: Served, spec: Json, mistakes: list[str]) -> None:
    answer = api.post(PATH, controller(**spec))
    found = [f"{each['field']}: {each['message']}" for each in answer.body["details"]["causes"]]
    assert (answer.code, found) == (422, mistakes)
    assert answer.message.startswith('ReplicationController "rc" is invalid: ')


def test_its_selector_may_change(api: Served) -> None:
    api.post(PATH, controller())
    change = {"spec": {"selector": {"tier": "x"}, "template": {"metadata": {"labels": {"tier": "x"}}}}}
    changed = api.patch(f"{PATH}/rc", change, MERGE)
    assert (changed.code, changed.body["metadata"]["generation"]) == (200, 2)
    refused = api.patch(f"{PATH}/rc", {"spec": {"selector": {"tier": "y"}}}, MERGE)
    assert (refused.code, NO_MATCH in refused.message) == (422, True)


def test_the_status_is_written_apart(api: Served) -> None:
    api.post(PATH, controller(replicas=2))
    written = api.patch(f"{PATH}/rc/status", {"spec": {"replicas": 5}, "status": {"replicas": 2, "readyReplicas": 1}})
    assert (written.body["spec"]["replicas"], written.body["status"]["readyReplicas"]) == (2, 1)
    refused = api.patch(f"{PATH}/rc/status", {"status": {"availableReplicas": 2}})
    assert refused.message == (
        'ReplicationController "rc" is invalid: '
        "status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"
    )
    listed = api.get(PATH, query="fieldSelector=status.replicas%3D2").body["items"]
    assert [each["metadata"]["name"] for each in listed] == ["rc"]
    wrong = api.get(PATH, query="fieldSelector=spec.replicas%3D2")
    assert (wrong.code, wrong.message) == (400, "field label not supported: spec.replicas")


def test_its_scale(api: Served) -> None:
    api.post(PATH, controller(replicas=2))
    scale = api.get(f"{PATH}/rc/scale").body
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=web"})
    scaled = api.patch(f"{PATH}/rc/scale", {"spec": {"replicas": 7}}, MERGE)
    assert (scaled.code, scaled.body["spec"]["replicas"]) == (200, 7)
    assert api.get(f"{PATH}/rc").body["spec"]["replicas"] == 7


def test_a_silent_deletion_leaves_its_pods(api: Served) -> None:
    """As ever since the garbage collector came; of Jobs alone a client is warned."""
    api.post(PATH, controller())
    answer = api.delete(f"{PATH}/rc")
    assert (answer.code, answer.body["metadata"]["finalizers"]) == (200, ["orphan"])
    assert "warning" not in answer.headers
    api.post(PATH, controller("other"))
    assert api.delete(f"{PATH}/other", query="propagationPolicy=Background").body["status"] == "Success"


def test_a_table(api: Served) -> None:
    api.post(PATH, controller(replicas=3, selector={"app": "web"}))
    table = api.get(PATH, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    names = [each["name"] for each in table["columnDefinitions"]]
    assert names == ["Name", "Desired", "Current", "Ready", "Age", "Containers", "Images", "Selector"]
    assert table["rows"][0]["cells"] == ["rc", 3, 0, 0, "0s", "c", "i:1", "app=web"]


def test_discovery_names_it(api: Served) -> None:
    listed = {each["name"]: each for each in api.get("/api/v1").body["resources"]}
    entry = listed["replicationcontrollers"]
    assert (entry["kind"], entry["shortNames"], entry["categories"]) == ("ReplicationController", ["rc"], ["all"])
    scale = listed["replicationcontrollers/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert "replicationcontrollers/status" in listed


def test_an_evictor_reads_them_and_changes_none(api: Served) -> None:
    api.post(PATH, controller())
    assert api.get(f"{PATH}/rc", token="evictor").code == 200
    assert api.patch(f"{PATH}/rc/scale", {"spec": {"replicas": 0}}, MERGE, token="evictor").code == 403
