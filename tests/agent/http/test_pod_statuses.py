"""Statuses as Kubernetes' clients read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from jettison.agent.http.pod_statuses import pod_list, pod_with_status
from jettison.engine.node.evictions import PodCondition
from jettison.manifests.pods import parse_pods
from jettison.runtimes.protocol import ContainerEnd, ContainerStatus, PodStatus
from tests.builders import pod

SECOND_NS = 10**9
DOCUMENT = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "containers": [{"name": "main", "image": "nginx"}, {"name": "side"}],
        "initContainers": [{"name": "setup", "image": "busybox"}],
    },
    "status": {"phase": "Nonsense"},
}


def status(**more: Any) -> PodStatus:
    return PodStatus(pod("web"), "Running", document=DOCUMENT, **more)


def test_the_document_stays_and_its_status_is_ours() -> None:
    found = pod_with_status(status(started_ns=60 * SECOND_NS))

    assert found["metadata"] == {"name": "web", "labels": {"app": "web"}, "namespace": "default", "uid": "web"}
    assert found["spec"] == DOCUMENT["spec"]
    assert found["status"] == {"phase": "Running", "qosClass": "BestEffort", "startTime": "1970-01-01T00:01:00Z"}


def test_an_evicted_pod_says_so() -> None:
    condition = PodCondition("DisruptionTarget", "True", "TerminationByKubelet", "low", 3)
    evicted = replace(status(), phase="Failed", reason="Evicted", message="low", conditions=(condition,))

    found = pod_with_status(evicted)["status"]

    assert (found["phase"], found["reason"], found["message"]) == ("Failed", "Evicted", "low")
    assert found["conditions"] == [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": "low",
            "observedGeneration": 3,
        }
    ]


def test_containers_tell_their_state() -> None:
    containers = (
        ContainerStatus(
            "setup", "terminated", "Completed", exit_code=0, started_ns=0, finished_ns=SECOND_NS, is_init=True
        ),
        ContainerStatus(
            "main",
            "running",
            started_ns=SECOND_NS,
            restarts=2,
            is_ready=True,
            is_started=True,
            container_id="x://2",
            last=ContainerEnd(137, "OOMKilled", started_ns=0, finished_ns=SECOND_NS, container_id="x://1"),
        ),
        ContainerStatus("side", "waiting", "CrashLoopBackOff", "back-off 10s", last=ContainerEnd(3, "Error", "why")),
    )

    found = pod_with_status(status(containers=containers))["status"]

    assert found["initContainerStatuses"] == [
        {
            "name": "setup",
            "state": {
                "terminated": {
                    "exitCode": 0,
                    "reason": "Completed",
                    "startedAt": "1970-01-01T00:00:00Z",
                    "finishedAt": "1970-01-01T00:00:01Z",
                }
            },
            "lastState": {},
            "ready": False,
            "started": False,
            "restartCount": 0,
            "image": "busybox",
            "imageID": "",
        }
    ]
    main, side = found["containerStatuses"]
    assert main["state"] == {"running": {"startedAt": "1970-01-01T00:00:01Z"}}
    assert main["lastState"] == {
        "terminated": {
            "exitCode": 137,
            "reason": "OOMKilled",
            "startedAt": "1970-01-01T00:00:00Z",
            "finishedAt": "1970-01-01T00:00:01Z",
            "containerID": "x://1",
        }
    }
    assert (main["ready"], main["restartCount"], main["image"]) == (True, 2, "nginx")
    assert (main["started"], main["containerID"]) == (True, "x://2")
    assert side["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    assert side["lastState"] == {"terminated": {"exitCode": 3, "reason": "Error", "message": "why"}}
    assert side["image"] == ""


def test_a_list_can_be_read_back() -> None:
    data = msgspec.json.encode(pod_list([status(), PodStatus(pod("bare"), "Pending")]))

    assert [(each.name, each.uid, each.phase) for each in parse_pods(data)] == [
        ("web", "web", "Running"),
        ("bare", "bare", "Pending"),
    ]


def test_a_document_that_json_cannot_hold_hides_no_pod() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    for hostile in ({"metadata": {"labels": {None: "x"}}}, {"metadata": {"name": "x"}, "x": loop}, {"x": "\ud800"}):
        data = msgspec.json.encode(pod_list([replace(status(), document=hostile), status()]))

        assert [each.name for each in parse_pods(data)] == ["web", "web"]


def test_a_document_of_odd_shape_is_shown_as_it_is() -> None:
    odd = {"metadata": None, "spec": {"containers": [{"image": 5}], "initContainers": None}}

    found = pod_with_status(replace(status(containers=(ContainerStatus("", "waiting"),)), document=odd))

    assert found["metadata"] == {"name": "web", "namespace": "default", "uid": "web"}
    assert found["status"]["containerStatuses"][0]["image"] == "5"
