"""The rows that `kubectl get` prints, resource by resource."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.apiserver.objects.cells import age, short_duration
from jettison.apiserver.objects.resources import RESOURCES, SCALES, Resource
from jettison.apiserver.objects.tables import PRINTERS, render, row_decoder, row_source, rows
from jettison.errors import ApiError
from jettison.manifests.times import parse_time

NOW = parse_time("2030-01-01T01:00:00Z")
CREATED = "2030-01-01T00:55:00Z"
ROWS = {row.qualified: row for row in RESOURCES}

Json = dict[str, Any]


def drawn(resource: str, value: Json) -> Json:
    """One object's cells by the names of their columns."""
    value = {**value, "metadata": {"name": "x", "creationTimestamp": CREATED, **value.get("metadata", {})}}
    table = render(ROWS[resource], [value], NOW, metadata={})
    assert drawn_from_bytes(ROWS[resource], value) == table
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


def drawn_from_bytes(resource: Resource, value: Json) -> Json:
    """The table as a list is drawn, where an object is decoded for its row alone."""
    table = render(resource, [], NOW, metadata={})
    decode = row_decoder(resource, "", "meta.k8s.io/v1")
    sources = [decode(json.dumps(value).encode()) if decode else row_source(resource, value, "", "meta.k8s.io/v1")]
    found: Json = json.loads(msgspec.json.encode({**table, "rows": rows(resource, sources, NOW)}))
    return found


def pod(*containers: Json, init: list[Json] | None = None, **status: Any) -> Json:
    """A pod whose containers have these states; the specs follow from them."""
    named = [{"name": f"c{index}", **each} for index, each in enumerate(containers)]
    started = [{"name": f"i{index}", **each} for index, each in enumerate(init or [])]
    specs = [{"name": each["name"], "restartPolicy": each.get("restartPolicy")} for each in started]
    statuses = {"containerStatuses": named, "initContainerStatuses": started}
    return {
        "spec": {"containers": named, "initContainers": specs},
        "status": {"phase": "Running", **statuses, **status},
    }


RUNNING = {"ready": True, "state": {"running": {}}}
STARTING = {"ready": False, "state": {"running": {}}}
DONE = {"ready": False, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
READY = [{"type": "Ready", "status": "True"}]
INITIALIZED = [{"type": "Initialized", "status": "True"}]


def waiting(reason: str) -> Json:
    return {"state": {"waiting": {"reason": reason}}}


def ended(code: int, **more: Any) -> Json:
    return {"state": {"terminated": {"exitCode": code, **more}}}


@pytest.mark.parametrize(
    ("value", "status", "ready"),
    [
        (pod(RUNNING, RUNNING), "Running", "2/2"),
        (pod(RUNNING, STARTING), "Running", "1/2"),
        ({"spec": {"containers": [{}]}, "status": {"phase": "Pending"}}, "Pending", "0/1"),
        ({"spec": {"containers": [{}]}, "status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted", "0/1"),
        (pod(RUNNING, waiting("CrashLoopBackOff")), "CrashLoopBackOff", "1/2"),
        (pod(waiting("ErrImagePull"), waiting("CrashLoopBackOff")), "ErrImagePull", "0/2"),
        (pod(ended(137, reason="OOMKilled")), "OOMKilled", "0/1"),
        (pod(ended(137, signal=9)), "Signal:9", "0/1"),
        (pod(ended(3)), "ExitCode:3", "0/1"),
        (pod(DONE, RUNNING, conditions=READY), "Running", "1/2"),
        (pod(DONE, RUNNING), "NotReady", "1/2"),
        (pod(DONE, phase="Succeeded"), "Completed", "0/1"),
        (
            pod(phase="Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
            "SchedulingGated",
            "0/0",
        ),
        (pod({}, init=[ended(0), {}, {}], phase="Pending"), "Init:1/3", "0/1"),
        (pod({}, init=[ended(2)], phase="Pending"), "Init:ExitCode:2", "0/1"),
        (pod({}, init=[ended(2, signal=15)], phase="Pending"), "Init:Signal:15", "0/1"),
        (pod({}, init=[ended(2, reason="Error")], phase="Pending"), "Init:Error", "0/1"),
        (pod({}, init=[waiting("ImagePullBackOff")], phase="Pending"), "Init:ImagePullBackOff", "0/1"),
        (pod({}, init=[waiting("PodInitializing")], phase="Pending"), "Init:0/1", "0/1"),
        (pod(RUNNING, init=[ended(2)], conditions=INITIALIZED), "Init:ExitCode:2", "1/1"),
        (pod(waiting("Unlucky"), init=[ended(2)], conditions=INITIALIZED), "Unlucky", "0/1"),
        (pod(RUNNING, init=[{**RUNNING, "started": True, "restartPolicy": "Always"}]), "Running", "2/2"),
        (pod(RUNNING, init=[{**STARTING, "started": True, "restartPolicy": "Always"}]), "Running", "1/2"),
        (pod({}, init=[{**STARTING, "restartPolicy": "Always"}], phase="Pending"), "Init:0/1", "0/2"),
    ],
)
def test_a_pods_status_is_put_together(value: Json, status: str, ready: str) -> None:
    cells = drawn("pods", value)
    assert (cells["Status"], cells["Ready"]) == (status, ready)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Pending", "reason": "Evicted"}, "Terminating"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
    ],
)
def test_a_terminating_pod_says_so_until_it_has_ended(status: Json, expected: str) -> None:
    assert drawn("pods", {"metadata": {"deletionTimestamp": CREATED}, "status": status})["Status"] == expected


def restarted(count: int, finished: str = "") -> Json:
    last = {"lastState": {"terminated": {"finishedAt": finished}}} if finished else {}
    return {**RUNNING, **last, "restartCount": count}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pod(restarted(0), restarted(0)), "0"),
        (pod(restarted(2), restarted(1)), "3"),
        (pod(restarted(2, "2030-01-01T00:10:00Z"), restarted(1, "2030-01-01T00:40:00Z")), "3 (20m ago)"),
        (pod(restarted(2, "nonsense")), "2"),
        (pod(restarted(1), init=[{**ended(0), "restartCount": 4}]), "1"),
        (pod(restarted(1), init=[{**ended(1), "restartCount": 4}]), "4"),
        (pod(restarted(1), init=[{**restarted(4), "started": True, "restartPolicy": "Always"}]), "5"),
    ],
)
def test_restarts_are_those_of_the_containers_that_count_now(value: Json, expected: str) -> None:
    assert drawn("pods", value)["Restarts"] == expected


def test_a_pods_wide_columns() -> None:
    assert list(drawn("pods", pod(RUNNING)).values())[5:] == ["<none>"] * 4
    gated = pod(
        RUNNING, podIPs=[{"ip": "10.0.0.1"}], nominatedNodeName="m", conditions=[{"type": "g", "status": "True"}]
    )
    gated["spec"] |= {"nodeName": "n", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]}
    assert list(drawn("pods", gated).values())[5:] == ["10.0.0.1", "n", "m", "1/2"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, {"Status": "Unknown", "Roles": "<none>", "Internal-IP": "<none>", "OS-Image": "<unknown>"}),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, {"Status": "Ready"}),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, {"Status": "NotReady"}),
        (
            {"spec": {"unschedulable": True}, "status": {"conditions": READY}},
            {"Status": "Ready,SchedulingDisabled"},
        ),
        (
            {
                "metadata": {"labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a", "c": "d"}},
                "status": {
                    "nodeInfo": {"kubeletVersion": "v1", "osImage": "Debian"},
                    "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                },
            },
            {"Roles": "a,b", "Version": "v1", "OS-Image": "Debian", "Internal-IP": "1.2.3.4", "External-IP": "<none>"},
        ),
    ],
)
def test_nodes(value: Json, expected: Json) -> None:
    assert expected.items() <= drawn("nodes", value).items()


def test_budgets() -> None:
    spec = {"maxUnavailable": "30%"}
    assert list(drawn("poddisruptionbudgets.policy", {"spec": spec, "status": {"disruptionsAllowed": 2}}).values()) == [
        "x", "N/A", "30%", 2, "5m",
    ]  # fmt: skip
    assert drawn("poddisruptionbudgets.policy", {"spec": {"minAvailable": 0}})["Min Available"] == "0"


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}}
WORKLOAD = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}


@pytest.mark.parametrize(
    ("resource", "status", "expected"),
    [
        ("replicasets.apps", {"replicas": 2, "readyReplicas": 1}, ["x", 3, 2, 1, "5m", "a,b", "i:1,j", "app=web"]),
        (
            "deployments.apps",
            {"readyReplicas": 1, "updatedReplicas": 2},
            ["x", "1/3", 2, 0, "5m", "a,b", "i:1,j", "app=web"],
        ),
        ("statefulsets.apps", {}, ["x", "0/3", "5m", "a,b", "i:1,j"]),
        ("daemonsets.apps", {"numberReady": 4}, ["x", 0, 0, 4, 0, 0, "<none>", "5m", "a,b", "i:1,j", "app=web"]),
    ],
)
def test_workloads(resource: str, status: Json, expected: list[object]) -> None:
    assert list(drawn(resource, {"spec": WORKLOAD, "status": status}).values()) == expected


def test_a_selector_that_makes_no_sense_is_called_invalid() -> None:
    spec = {"selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}}
    assert drawn("replicasets.apps", {"spec": spec})["Selector"] == "<invalid>"
    assert drawn("replicasets.apps", {"spec": {}})["Selector"] == "<none>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"spec": {"completions": 3}, "status": {"succeeded": 1}}, {"Completions": "1/3", "Status": "Running"}),
        ({"spec": {"parallelism": 4}}, {"Completions": "0/1 of 4", "Duration": ""}),
        ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, {"Status": "Complete"}),
        ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, {"Status": "Failed"}),
        ({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, {"Status": "Suspended"}),
        ({"metadata": {"deletionTimestamp": CREATED}}, {"Status": "Terminating"}),
        ({"status": {"startTime": "2030-01-01T00:59:00Z"}}, {"Duration": "60s"}),
        (
            {"status": {"startTime": "2030-01-01T00:10:00Z", "completionTime": "2030-01-01T00:11:00Z"}},
            {"Duration": "60s"},
        ),
    ],
)
def test_jobs(value: Json, expected: Json) -> None:
    assert expected.items() <= drawn("jobs.batch", value).items()


def test_events_of_both_groups_are_drawn_alike() -> None:
    old = {
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
        "source": {"component": "kubelet", "host": "n"},
        "message": " m ",
        "firstTimestamp": CREATED,
        "lastTimestamp": "2030-01-01T00:59:00Z",
        "count": 3,
    }
    new = {
        "regarding": old["involvedObject"],
        "deprecatedSource": old["source"],
        "note": " m ",
        "deprecatedFirstTimestamp": CREATED,
        "deprecatedLastTimestamp": "2030-01-01T00:59:00Z",
        "deprecatedCount": 3,
    }
    expected = ["60s", "Warning", "r", "pod/p", "spec", "kubelet, n", "m", "5m", 3, "x"]
    for resource, value in (("events", old), ("events.events.k8s.io", new)):
        assert list(drawn(resource, {**value, "type": "Warning", "reason": "r"}).values()) == expected
    series = {"eventTime": CREATED, "series": {"count": 9, "lastObservedTime": "2030-01-01T00:58:00Z"}}
    cells = drawn("events", {**series, "reportingComponent": "c"})
    assert (cells["Last Seen"], cells["First Seen"], cells["Count"], cells["Source"]) == ("2m", "5m", 9, "c")


def test_the_small_ones() -> None:
    assert list(drawn("priorityclasses.scheduling.k8s.io", {"value": 7, "preemptionPolicy": "Never"}).values()) == [
        "x", 7, False, "5m", "Never",
    ]  # fmt: skip
    assert drawn("leases.coordination.k8s.io", {"spec": {"holderIdentity": "n"}})["Holder"] == "n"
    assert drawn("namespaces", {"status": {"phase": "Active"}})["Status"] == "Active"
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    revision = drawn("controllerrevisions.apps", {"metadata": {"ownerReferences": [owner]}, "revision": 2})
    assert (revision["Controller"], revision["Revision"]) == ("daemonset.apps/d", 2)
    assert list(drawn("serviceaccounts", {})) == ["Name", "Age"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (121, "2m1s"), (599, "9m59s"),
        (600, "10m"), (10799, "179m"), (10800, "3h"), (10860, "3h1m"), (28799, "7h59m"), (28800, "8h"), (172799, "47h"),
        (172800, "2d"), (176400, "2d1h"), (691199, "7d23h"), (691200, "8d"), (63071999, "729d"), (63072000, "2y"),
        (63158400, "2y1d"), (252288000, "8y"), (252374400, "8y"),
    ],
)  # fmt: skip
def test_ages_have_two_units_where_the_second_one_matters(seconds: int, expected: str) -> None:
    assert short_duration(seconds * 10**9) == expected


def test_an_age_without_a_time_is_unknown() -> None:
    assert age("", NOW) == age("yesterday", NOW) == "<unknown>"


def test_rows_carry_what_was_asked_for() -> None:
    value = {"metadata": {"name": "x"}, "spec": {"containers": []}}
    row = ROWS["pods"]

    def held(include: str) -> object:
        return render(row, [value], NOW, metadata={}, include_object=include)["rows"][0]["object"]

    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}}
    assert held("") == held("Metadata") == partial
    assert held("Object") == {"kind": "Pod", "apiVersion": "v1", **value}
    assert held("None") is None
    with pytest.raises(
        ApiError, match=r"includeObject: Invalid value: \"Bogus\": must be 'Metadata', 'Object', 'None'"
    ):
        held("Bogus")


def test_later_events_of_a_watch_have_no_columns() -> None:
    assert render(ROWS["pods"], [], NOW, metadata={}, has_columns=False)["columnDefinitions"] is None


@pytest.mark.parametrize("row", [row for row in RESOURCES if "list" in row.verbs], ids=lambda row: row.qualified)
def test_every_table_has_one_name_column_and_a_cell_per_column(row: Resource) -> None:
    table = render(row, [{"metadata": {"name": "x"}}], NOW, metadata={"resourceVersion": "7"})
    assert [column["name"] for column in table["columnDefinitions"] if column["format"] == "name"] == ["Name"]
    assert len(table["columnDefinitions"]) == len(table["rows"][0]["cells"])
    assert table["metadata"] == {"resourceVersion": "7"}
    assert json.dumps(table)


def test_no_printer_is_for_a_resource_that_does_not_exist() -> None:
    assert set(PRINTERS) <= {*ROWS, SCALES.qualified}


KEYS = (
    "metadata", "spec", "status", "conditions", "type", "reason", "state", "terminated", "waiting", "running",
    "exitCode", "containers", "name", "phase", "containerStatuses", "initContainerStatuses", "initContainers",
    "selector", "matchLabels", "matchExpressions", "labels", "replicas", "involvedObject", "series", "template",
    "addresses", "nodeInfo", "startTime", "creationTimestamp", "ownerReferences", "values", "key",
)  # fmt: skip
nonsense = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just(CREATED),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)
objects = st.dictionaries(st.sampled_from(["spec", "status", "involvedObject", "series", "source"]), nonsense)


@given(st.sampled_from([row for row in RESOURCES if "list" in row.verbs]), objects, nonsense)
def test_nonsense_in_an_object_is_drawn_all_the_same(row: Resource, value: Json, labels: object) -> None:
    value["metadata"] = {"name": "x", "labels": labels, "ownerReferences": labels, "creationTimestamp": labels}
    table = render(row, [value], NOW, metadata={})
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])
    assert drawn_from_bytes(row, value) == table


def test_an_object_is_decoded_for_its_row_unless_the_row_shows_all_of_it() -> None:
    decode = row_decoder(ROWS["pods"], "None", "meta.k8s.io/v1")
    assert decode is not None
    value = {"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    shown = {"metadata": {"name": "x"}, "spec": {"containers": [{}]}}
    assert decode(json.dumps(value).encode()) == (shown, None)
    assert row_decoder(ROWS["pods"], "Object", "meta.k8s.io/v1") is None
