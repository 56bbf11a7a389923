"""The history of StatefulSets and DaemonSets with a real kubectl: shown, gone back to, and gone with its owner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.kubectl import Kubectl
from tests.live.node_play import played_node, until
from tests.live.served import Served, serving
from tests.live.workloads import DEPLOYMENT, images, listed, read, rows

pytestmark = pytest.mark.timeout(300)

_CONTROLLERS = "--controllers=statefulset,daemonset,garbagecollector,scheduler"
_STATEFUL_SET = DEPLOYMENT.replace("Deployment", "StatefulSet").replace(
    "replicas: 2", "replicas: 2\n  serviceName: web"
)
_DAEMON_SET = DEPLOYMENT.replace("Deployment", "DaemonSet").replace("  replicas: 2\n", "")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With controllers, and with a thread that plays the node `n1`."""
    with serving(tmp_path_factory.mktemp("revisions") / "state", _CONTROLLERS) as server, played_node(server):
        yield server


def _numbers(kubectl: Kubectl, what: str) -> list[list[str]]:
    history = kubectl("rollout", "history", what).splitlines()
    return [line.split() for line in history if line[:1].isdigit()]


@pytest.mark.parametrize(
    ("what", "manifest", "owner"),
    [("sts/web", _STATEFUL_SET, "statefulset.apps/web"), ("ds/web", _DAEMON_SET, "daemonset.apps/web")],
)
def test_history_and_undo(served: Served, kubectl: Kubectl, what: str, manifest: str, owner: str) -> None:
    kubectl("apply", "-f", "-", stdin=manifest)
    kubectl("rollout", "status", what)
    # A revision remembers the annotations of the moment when it was made.
    kubectl("annotate", what, "kubernetes.io/change-cause=second")
    kubectl("set", "image", what, "main=registry.example/web:2")
    kubectl("rollout", "status", what)
    until(lambda: images(listed(served, kubectl, "pods")) == {"registry.example/web:2"})
    assert _numbers(kubectl, what) == [["1", "<none>"], ["2", "second"]]
    assert "registry.example/web:1" in kubectl("rollout", "history", what, "--revision=1")
    table = rows(kubectl("get", "controllerrevisions"))
    assert table[0] == ["NAME", "CONTROLLER", "REVISION", "AGE"]
    assert sorted((row[0][:4], *row[1:3]) for row in table[1:]) == [("web-", owner, "1"), ("web-", owner, "2")]

    assert kubectl("rollout", "undo", what).endswith("rolled back\n")
    kubectl("rollout", "status", what)
    until(lambda: images(listed(served, kubectl, "pods")) == {"registry.example/web:1"})
    assert [each[0] for each in _numbers(kubectl, what)] == ["2", "3"]
    kubectl("rollout", "undo", what, "--to-revision=2")
    kubectl("rollout", "status", what)
    until(lambda: images(listed(served, kubectl, "pods")) == {"registry.example/web:2"})
    assert [each[0] for each in _numbers(kubectl, what)] == ["3", "4"]
    assert "unable to find specified revision" in kubectl.fails("rollout", "undo", what, "--to-revision=9")

    kubectl("delete", what)
    until(lambda: not listed(served, kubectl, "controllerrevisions") + listed(served, kubectl, "pods"))
    assert read(kubectl, "controllerrevisions,pods")["items"] == []


def test_an_eviction_does_not_spread_a_canary(kubectl: Kubectl, served: Served) -> None:
    """Below the partition the pod comes back as it was."""
    parts = "updateStrategy: {rollingUpdate: {partition: 1}}"
    kubectl("apply", "-f", "-", stdin=_STATEFUL_SET.replace("serviceName: web", f"serviceName: web\n  {parts}"))
    kubectl("rollout", "status", "sts/web")
    kubectl("set", "image", "sts/web", "main=registry.example/web:2")
    assert "partitioned roll out complete: 1 new pods" in kubectl("rollout", "status", "sts/web")
    before = read(kubectl, "pod", "web-0")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0"}}
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/web-0/eviction"
    assert served.call("POST", path, body)[0] == 201

    def back() -> bool:
        pods = {each["metadata"]["name"]: each for each in listed(served, kubectl, "pods")}
        return "web-0" in pods and pods["web-0"]["metadata"]["uid"] != before["metadata"]["uid"]

    until(back)
    pods = sorted(read(kubectl, "pods")["items"], key=lambda each: str(each["metadata"]["name"]))
    assert [each["spec"]["containers"][0]["image"][-1] for each in pods] == ["1", "2"]
    kubectl("delete", "sts/web")
    until(lambda: not listed(served, kubectl, "pods"))
