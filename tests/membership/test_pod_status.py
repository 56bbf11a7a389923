"""What the API is told of a pod: differences and nothing else, and nothing that would bring a dead one back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jettison.engine.node.evictions import PodCondition
from jettison.engine.pods.pod import Container, Pod
from jettison.membership.pod_reports import lost_patch, status_patch
from jettison.runtimes.protocol import ContainerStatus, PodStatus

Json = dict[str, Any]

NOW = 1_900_000_000 * 10**9
NOW_TEXT = "2030-03-17T17:46:40Z"
THEN = "2029-01-01T00:00:00Z"
POD = Pod("web", uid="u1", generation=1, containers=(Container("main"),))
RUNNING = PodStatus(
    POD,
    "Running",
    conditions=(PodCondition("Ready", "True", observed_generation=1),),
    containers=(ContainerStatus("main", "running", started_ns=0, is_ready=True),),
    started_ns=0,
)


def document(**status: Any) -> Json:
    return {"metadata": {"name": "web", "namespace": "default", "uid": "u1", "generation": 1}, "status": status}


def applied(pod: Json, patch: Json) -> Json:
    """What a server would make of it; enough of a strategic merge for one list of conditions."""
    status = {**pod["status"], **patch}
    conditions = {each["type"]: each for each in pod["status"].get("conditions") or ()}
    for each in patch.get("conditions") or ():
        merged = {**conditions.get(each["type"], {}), **each}
        conditions[each["type"]] = {key: value for key, value in merged.items() if value is not None}
    status["conditions"] = list(conditions.values())
    return {**pod, "status": {key: value for key, value in status.items() if value is not None}}


def test_what_was_told_is_not_told_again() -> None:
    pod = document(phase="Pending", qosClass="BestEffort")
    patch = status_patch(RUNNING, pod, "10.0.0.1", NOW)
    assert (patch["phase"], patch["podIP"], patch["hostIPs"]) == ("Running", "10.0.0.1", [{"ip": "10.0.0.1"}])
    assert patch["conditions"][0]["lastTransitionTime"] == NOW_TEXT
    assert "qosClass" not in patch, "an API server has set it, and does not let it be changed"
    assert status_patch(RUNNING, applied(pod, patch), "10.0.0.1", NOW + 10**12) == {}


def test_ephemeral_containers_have_a_list_of_their_own() -> None:
    """Without `started`, and never ready, as a kubelet has it."""
    added = ContainerStatus(
        "debugger", "running", started_ns=0, is_ephemeral=True, container_id="jettison://u1/debugger/0"
    )
    spec = {"ephemeralContainers": [{"name": "debugger", "image": "busybox"}]}
    status = replace(RUNNING, containers=(*RUNNING.containers, added), document={"spec": spec})
    patch = status_patch(status, document(), "10.0.0.1", NOW)
    assert [each["name"] for each in patch["containerStatuses"]] == ["main"]
    assert patch["ephemeralContainerStatuses"] == [
        {
            "name": "debugger",
            "state": {"running": {"startedAt": "1970-01-01T00:00:00Z"}},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "image": "busybox",
            "imageID": "",
            "containerID": "jettison://u1/debugger/0",
        }
    ]
    assert status_patch(status, applied(document(), patch), "10.0.0.1", NOW) == {}


def test_the_null_of_a_probe_that_is_not_made_is_no_difference() -> None:
    pod = applied(document(), status_patch(RUNNING, document(), "10.0.0.1", NOW))
    for each in pod["status"]["conditions"]:
        each["lastProbeTime"] = None
    assert status_patch(RUNNING, pod, "10.0.0.1", NOW) == {}


def test_a_condition_keeps_its_time_while_only_its_reason_changes() -> None:
    before = {"type": "Ready", "status": "False", "reason": "Old", "lastTransitionTime": THEN}
    unready = replace(RUNNING, conditions=(PodCondition("Ready", "False", "New", "because", 1),))
    assert status_patch(unready, document(conditions=[before]), "", NOW)["conditions"] == [
        {
            "type": "Ready",
            "status": "False",
            "reason": "New",
            "message": "because",
            "observedGeneration": 1,
            "lastTransitionTime": THEN,
        }
    ]


def test_what_no_longer_holds_is_taken_back() -> None:
    """A strategic merge keeps what is not mentioned."""
    before = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "…"}
    patch = status_patch(RUNNING, document(conditions=[before], reason="NodeLost", message="gone"), "", NOW)
    assert (patch["reason"], patch["message"]) == (None, None)
    assert (patch["conditions"][0]["reason"], patch["conditions"][0]["message"]) == (None, None)


def test_conditions_of_others_are_not_mentioned() -> None:
    theirs = {"type": "example.com/gate", "status": "True"}
    patch = status_patch(RUNNING, document(conditions=[theirs]), "", NOW)
    assert [each["type"] for each in patch["conditions"]] == ["Ready"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_no_pod_rises_from_the_dead(phase: str) -> None:
    assert status_patch(RUNNING, document(phase=phase), "", NOW) == {}


def test_an_evicted_pod_says_so() -> None:
    target = PodCondition("DisruptionTarget", "True", "TerminationByKubelet", "low on memory", 1)
    evicted = replace(RUNNING, phase="Failed", reason="Evicted", message="low on memory", conditions=(target,))
    patch = status_patch(evicted, document(phase="Running"), "", NOW)
    assert (patch["phase"], patch["reason"], patch["message"]) == ("Failed", "Evicted", "low on memory")
    assert patch["conditions"][0]["reason"] == "TerminationByKubelet"


def test_of_a_lost_pod_what_ran_has_been_killed() -> None:
    running = {"name": "main", "ready": True, "started": True, "state": {"running": {"startedAt": THEN}}}
    ended = {"name": "done", "ready": False, "state": {"terminated": {"exitCode": 0}}}
    patch = lost_patch(document(phase="Running", containerStatuses=[running, ended]))
    main, done = patch["containerStatuses"]
    assert (patch["phase"], main["ready"], main["state"]["terminated"]["exitCode"]) == ("Failed", False, 137)
    assert main["started"] is False
    assert done == ended


@pytest.mark.parametrize("status", [{"phase": "Pending"}, {"phase": "Failed", "containerStatuses": [{"name": "main"}]}])
def test_of_a_pod_that_never_ran_or_has_ended_there_is_nothing_to_say(status: Json) -> None:
    assert lost_patch(document(**status)) == {}
