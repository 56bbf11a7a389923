"""v1 Pods to engine values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import Container, Pod, PodResources, Volume
from jettison.engine.scheduling.placement import Toleration
from jettison.errors import ManifestError
from jettison.manifests.pods import parse_pods, pod_from

DOCUMENT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u-1",
        "generation": 3,
        "labels": {"app": "web"},
        "creationTimestamp": None,
    },
    "spec": {
        "priority": 100,
        "priorityClassName": "gold",
        "nodeName": "n1",
        "terminationGracePeriodSeconds": 45,
        "overhead": {"memory": "10Mi"},
        "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "2Gi"}},
        "initContainers": [
            {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"memory": "5Mi"}}},
            {"name": "setup", "image": "x"},
        ],
        "containers": [
            {"name": "app", "resources": {"requests": {"cpu": 0.5, "memory": 1048576}, "limits": {"memory": "1Gi"}}},
        ],
        "volumes": [
            {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "unlimited", "emptyDir": {"sizeLimit": "0"}},
            {"name": "host", "hostPath": {"path": "/x"}},
            {"name": "settings", "configMap": {"name": "x"}},
            {"name": "git", "gitRepo": {"repository": "x"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "secret", "secret": {"secretName": "x"}},
        ],
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    },
    "status": {"phase": "Running", "qosClass": "Burstable"},
}


def read(document: dict[str, Any]) -> Pod:
    (found,) = parse_pods(json.dumps(document).encode())
    return found


@pytest.mark.parametrize("reader", [read, pod_from])
def test_everything_eviction_reads(reader: Any) -> None:
    """From bytes and from a decoded document alike; numbers that are not texts are quantities too."""
    pod = reader(DOCUMENT)
    assert (pod.name, pod.namespace, pod.uid, pod.generation) == ("web", "shop", "u-1", 3)
    assert (pod.priority, pod.priority_class, pod.node_name, pod.grace_seconds) == (100, "gold", "n1", 45)
    assert (pod.phase, pod.reported_qos) == ("Running", "Burstable")
    assert pod.containers == (
        Container("app", {"cpu": parse("0.5"), "memory": parse("1Mi")}, {"memory": parse("1Gi")}),
    )
    assert pod.init_containers == (Container("proxy", {"memory": parse("5Mi")}, is_sidecar=True), Container("setup"))
    assert pod.overhead == {"memory": parse("10Mi")}
    assert pod.resources == PodResources({"cpu": parse("2")}, {"memory": parse("2Gi")})
    assert pod.tolerations == (Toleration("k", "Exists", effect="NoExecute", seconds=5),)
    assert (pod.is_static, pod.is_mirror) == (False, False)


def test_which_volumes_lie_on_the_nodes_disks() -> None:
    """emptyDirs on the default medium, hostPath, gitRepo and configMap; a size of zero is no limit."""
    assert read(DOCUMENT).volumes == (
        Volume("cache", is_local=True, size_limit=parse("1Gi")),
        Volume("shm", is_local=False, size_limit=parse("64Mi")),
        Volume("unlimited", is_local=True),
        Volume("host", is_local=True),
        Volume("settings", is_local=True),
        Volume("git", is_local=True),
        Volume("claim"),
        Volume("secret"),
    )


@pytest.mark.parametrize(
    ("annotations", "is_static", "is_mirror"),
    [
        ({}, False, False),
        ({"kubernetes.io/config.source": "api"}, False, False),
        ({"kubernetes.io/config.source": "file"}, True, False),
        ({"kubernetes.io/config.source": "http"}, True, False),
        ({"kubernetes.io/config.mirror": "hash"}, False, True),
        ({"kubernetes.io/config.mirror": ""}, False, True),
    ],
)
def test_where_a_pod_came_from(annotations: dict[str, str], is_static: bool, is_mirror: bool) -> None:
    """A mirror's annotation is the uid under which the node knows the static pod."""
    pod = read({"metadata": {"name": "a", "annotations": annotations}})
    assert (pod.is_static, pod.is_mirror) == (is_static, is_mirror)
    assert pod.static_uid == annotations.get("kubernetes.io/config.mirror", "")


@pytest.mark.parametrize("kind", ["PodList", "List", None])
def test_lists_keep_their_order(kind: str | None) -> None:
    """Whatever the list is called; an empty one is no mistake."""
    items = [{"metadata": {"name": name}} for name in "cab"]
    found = parse_pods(json.dumps({"kind": kind, "items": items}).encode())
    assert [pod.name for pod in found] == ["c", "a", "b"]
    assert parse_pods(json.dumps({"kind": kind, "items": []}).encode()) == []


def test_what_is_missing_is_nothing() -> None:
    """A pod without anything has no name, no containers, and no priority."""
    pod = read({})
    assert (pod.name, pod.uid, pod.priority, pod.grace_seconds) == ("", "/", None, None)
    assert (pod.containers, pod.volumes, pod.tolerations, pod.resources) == ((), (), (), None)
    assert pod.effective_priority == 0


def test_a_pod_without_a_uid_is_known_by_its_name() -> None:
    """Statistics without one are, too, so that both still meet."""
    assert read({"metadata": {"name": "a", "namespace": "b"}}).uid == "b/a"


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ({"memory": "1GB"}, "pods: pod `ns/a`: memory `1GB`: write 1G or 1Gi"),
        ({"memory": True}, "pods: pod `ns/a`: memory is true or false, expected a quantity such as `100Mi`"),
        ({"memory": ["1"]}, "pods: pod `ns/a`: memory is a list, expected a quantity such as `100Mi`"),
        ({"cpu": "1" * 20_000}, f"pods: pod `ns/a`: cpu `{'1' * 40}… (20000 characters)`: "),
    ],
)
def test_a_bad_quantity_names_the_pod_and_the_resource(requests: dict[str, Any], said: str) -> None:
    """At the latest when it is asked for."""
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    with pytest.raises(ManifestError) as refusal:
        _ = read({"metadata": {"name": "a", "namespace": "ns"}, "spec": spec}).containers
    assert str(refusal.value).startswith(said)


def test_a_bad_quantity_in_a_list_is_found_by_its_place() -> None:
    """And only when it is needed: the other pods can be read."""
    bad = {"metadata": {"name": "b"}, "spec": {"overhead": {"cpu": "x"}}}
    good, broken = parse_pods(json.dumps({"items": [{"metadata": {"name": "a"}}, bad]}).encode(), "pods.json")
    assert good.overhead == {}
    with pytest.raises(ManifestError, match=r"pods\.json: items\[1\]: pod `/b`: cpu `x`: "):
        _ = broken.overhead


def test_spaces_around_a_quantity_do_not_count() -> None:
    """As Kubernetes reads them."""
    limits = {"memory": "1Gi ", "cpu": " 1"}
    pod = read({"spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}})
    assert pod.containers[0].limits == {"memory": parse("1Gi"), "cpu": parse("1")}


def test_null_requests_are_zero() -> None:
    """As Kubernetes reads them."""
    pod = read({"spec": {"containers": [{"resources": {"requests": {"cpu": None}, "limits": None}}]}})
    assert pod.containers == (Container("", {"cpu": parse("0")}),)


@pytest.mark.parametrize("kind", ["Service", "PodList", "Node"])
def test_another_kind_is_refused(kind: str) -> None:
    """A Service would look like a pod without statistics, and those go first."""
    with pytest.raises(ManifestError, match=f"kind is `{kind}`, expected Pod, PodList or List"):
        parse_pods(json.dumps({"kind": kind}).encode())
