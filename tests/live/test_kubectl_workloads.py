"""Deployments with a real kubectl, against a server whose controllers run: roll out, undo, scale, delete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.kubectl import Kubectl
from tests.live.node_play import played_node, until
from tests.live.served import Served, serving
from tests.live.workloads import DEPLOYMENT, images, listed, read, rows

pytestmark = pytest.mark.timeout(300)

_CONTROLLERS = "--controllers=deployment,replicaset,garbagecollector,disruption"
_ON_NODE = DEPLOYMENT.replace("spec: {containers:", "spec: {nodeName: n1, containers:")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With controllers, and with a thread that plays the node `n1`."""
    with serving(tmp_path_factory.mktemp("workloads") / "state", _CONTROLLERS) as server, played_node(server):
        yield server


def test_a_deployment_from_first_to_last(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=_ON_NODE)
    assert kubectl("rollout", "status", "deploy/web").endswith('deployment "web" successfully rolled out\n')
    assert kubectl("wait", "--for=condition=Available", "deploy/web") == "deployment.apps/web condition met\n"
    assert rows(kubectl("get", "deploy", "web"))[1][:4] == ["web", "2/2", "2", "2"]
    assert rows(kubectl("get", "rs"))[1][1:4] == ["2", "2", "2"]
    kubectl("scale", "deploy/web", "--replicas=3")
    kubectl("rollout", "status", "deploy/web")
    assert rows(kubectl("get", "deploy", "web"))[1][1] == "3/3"

    kubectl("set", "image", "deploy/web", "main=registry.example/web:2")
    kubectl("annotate", "deploy/web", "kubernetes.io/change-cause=second")
    kubectl("rollout", "status", "deploy/web")
    assert images(read(kubectl, "pods", "-l", "app=web")["items"]) == {"registry.example/web:2"}
    history = kubectl("rollout", "history", "deploy/web").splitlines()
    assert [line.split() for line in history if line[:1].isdigit()] == [["1", "<none>"], ["2", "second"]]
    assert "registry.example/web:1" in kubectl("rollout", "history", "deploy/web", "--revision=1")

    kubectl("rollout", "undo", "deploy/web")
    kubectl("rollout", "status", "deploy/web")
    assert images(read(kubectl, "pods", "-l", "app=web")["items"]) == {"registry.example/web:1"}
    assert read(kubectl, "deploy", "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    kubectl("rollout", "undo", "deploy/web", "--to-revision=2")
    kubectl("rollout", "status", "deploy/web")
    assert images(read(kubectl, "pods", "-l", "app=web")["items"]) == {"registry.example/web:2"}

    told = kubectl("describe", "deploy", "web")
    for text in ("NewReplicaSetAvailable", "MinimumReplicasAvailable", "ScalingReplicaSet", "NewReplicaSet:"):
        assert text in told
    assert "SuccessfulCreate" in kubectl("describe", "rs")


def test_pause_restart_and_resume(served: Served, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=_ON_NODE)
    kubectl("rollout", "status", "deploy/web")
    kubectl("rollout", "pause", "deploy/web")
    kubectl("set", "image", "deploy/web", "main=registry.example/web:2")
    until(lambda: _is_observed(served, kubectl))
    assert images(read(kubectl, "pods", "-l", "app=web")["items"]) == {"registry.example/web:1"}
    kubectl("rollout", "resume", "deploy/web")
    kubectl("rollout", "status", "deploy/web")
    assert images(read(kubectl, "pods", "-l", "app=web")["items"]) == {"registry.example/web:2"}
    before = {each["metadata"]["name"] for each in read(kubectl, "pods")["items"]}
    kubectl("rollout", "restart", "deploy/web")
    kubectl("rollout", "status", "deploy/web")
    until(lambda: before.isdisjoint(each["metadata"]["name"] for each in listed(served, kubectl, "pods")))


def _is_observed(served: Served, kubectl: Kubectl) -> bool:
    (found,) = listed(served, kubectl, "deployments")
    return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])


def test_a_rollout_that_fails_is_told(kubectl: Kubectl) -> None:
    hasty = _ON_NODE.replace("replicas: 2", "replicas: 2\n  progressDeadlineSeconds: 2")
    kubectl("apply", "-f", "-", stdin=hasty)
    kubectl("rollout", "status", "deploy/web")
    kubectl("set", "image", "deploy/web", "main=registry.example/broken:1")
    complaint = kubectl.fails("rollout", "status", "deploy/web")
    assert complaint == 'error: deployment "web" exceeded its progress deadline\n'
    assert read(kubectl, "deploy", "web")["status"]["availableReplicas"] == 2
    kubectl("rollout", "undo", "deploy/web")
    kubectl("rollout", "status", "deploy/web")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_deletion_in_each_way(served: Served, kubectl: Kubectl, cascade: str) -> None:
    if kubectl.minor < 20:
        pytest.skip("this kubectl has another word for it")
    kubectl("apply", "-f", "-", stdin=_ON_NODE)
    kubectl("rollout", "status", "deploy/web")
    kubectl("delete", "deploy/web", f"--cascade={cascade}")
    left = _until_settled(served, kubectl, 2 if cascade == "orphan" else 0)
    assert len(left) == (1 if cascade == "orphan" else 0)
    for each in left:
        assert "ownerReferences" not in each["metadata"]
        kubectl("delete", "rs", each["metadata"]["name"])
    assert not _until_settled(served, kubectl, 0)


def _until_settled(served: Served, kubectl: Kubectl, pods: int) -> list[Any]:
    """The ReplicaSets, once so many pods are left; with no pod no set either."""

    def look() -> bool:
        if len(listed(served, kubectl, "pods")) != pods:
            return False
        return bool(pods) or not listed(served, kubectl, "replicasets")

    until(look)
    sets: list[Any] = read(kubectl, "rs")["items"]
    return sets
