"""Nodes, drains, waits and permissions with a real kubectl."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.live.kubectl import Kubectl
from tests.live.served import Served
from tests.live.workloads import BUDGET, DEPLOYMENT, POD, allow, make, read, rows

pytestmark = pytest.mark.timeout(300)


def test_nodes_are_tainted_and_cordoned(kubectl: Kubectl) -> None:
    kubectl("taint", "node", "n1", "gpu=true:NoSchedule")
    assert "gpu" in {each["key"] for each in read(kubectl, "node", "n1")["spec"]["taints"]}
    kubectl("taint", "node", "n1", "gpu-")
    assert "gpu" not in {each["key"] for each in read(kubectl, "node", "n1")["spec"].get("taints", [])}
    assert kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert rows(kubectl("get", "node", "n1"))[1][1] == "Unknown,SchedulingDisabled"
    assert kubectl("cordon", "n1") == "node/n1 already cordoned\n"
    assert kubectl("uncordon", "n1") == "node/n1 uncordoned\n"


def by(user: str, served: Served, kubectl: Kubectl) -> Kubectl:
    """The same kubectl with the token of another user."""
    return Kubectl(kubectl.program, served.kubeconfig(user), kubectl.home, kubectl.namespace)


def test_an_evictor_cordons_a_node_and_does_no_more_to_it(served: Served, kubectl: Kubectl) -> None:
    evictor, before = by("evictor", served, kubectl), read(kubectl, "node", "n1")
    assert evictor("cordon", "n1") == "node/n1 cordoned\n"
    assert read(kubectl, "node", "n1")["spec"] == {**before["spec"], "unschedulable": True}
    for command in (
        ("taint", "node", "n1", "x=y:NoExecute"),
        ("label", "node", "n1", "x=y"),
        ("annotate", "node", "n1", "x=y"),
        ("patch", "node", "n1", "--type=merge", "-p", '{"metadata":{"finalizers":["x/y"]}}'),
    ):
        assert "only spec.unschedulable may be changed" in evictor.fails(*command)
    assert "forbidden" in evictor.fails("delete", "node", "n1")
    assert evictor("uncordon", "n1") == "node/n1 uncordoned\n"
    assert read(kubectl, "node", "n1")["spec"] == before["spec"]


def test_an_admin_asks_as_another_user(served: Served, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    assert kubectl("get", "pods", "-o", "name", "--as=viewer") == "pod/web\n"
    assert 'User "viewer" cannot delete resource "pods"' in kubectl.fails("delete", "pod", "web", "--as=viewer")
    assert 'User "bob" cannot list resource "pods"' in kubectl.fails("get", "pods", "--as=bob")
    assert kubectl("get", "pods", "-o", "name", "--as=bob", "--as-group=system:masters") == "pod/web\n"
    assert kubectl.run("auth", "can-i", "delete", "pods", "--as=evictor").stdout == "no\n"
    if kubectl.minor >= 28:
        assert "bob" in kubectl("auth", "whoami", "--as=bob", "--as-group=team")
    refused = by("viewer", served, kubectl).fails("get", "pods", "--as=admin")
    said = 'users "admin" is forbidden: User "viewer" cannot impersonate resource "users" in API group ""'
    assert f"{said} at the cluster scope" in refused


def test_an_evictors_drain_respects_a_budget(served: Served, kubectl: Kubectl) -> None:
    node, evictor = f"{kubectl.namespace}-node", by("evictor", served, kubectl)
    assert served.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})[0] == 201
    kubectl("apply", "-f", "-", stdin=BUDGET)
    make(served, kubectl, "web", node=node)
    allow(served, kubectl, "web", 0)
    complaint = evictor.fails("drain", node, "--force", "--timeout=6s")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in complaint
    allow(served, kubectl, "web", 1)
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/web"
    with evictor.start("drain", node, "--force") as drain:
        for _ in range(200):
            if served.call("GET", path)[1].get("metadata", {}).get("deletionTimestamp"):
                break
            time.sleep(0.1)
        # The node's part: the pod has ended.
        assert served.call("DELETE", f"{path}?gracePeriodSeconds=0")[0] == 200
        out, complaint = drain.communicate(timeout=60)
    assert drain.returncode == 0, complaint
    assert "evicted" in out


def test_describe(served: Served, kubectl: Kubectl) -> None:
    make(served, kubectl, "web")
    kubectl("apply", "-f", "-", stdin=BUDGET + "---" + DEPLOYMENT)
    uid = read(kubectl, "pod", "web")["metadata"]["uid"]
    event = {
        "metadata": {"name": "web.1"},
        "involvedObject": {"kind": "Pod", "namespace": kubectl.namespace, "name": "web", "uid": uid},
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "type": "Warning",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
        "count": 1,
    }
    assert served.call("POST", f"/api/v1/namespaces/{kubectl.namespace}/events", event)[0] == 201
    told = kubectl("describe", "pod", "web")
    assert "Node:" in told
    assert "Evicted" in told
    assert "Replicas:" in kubectl("describe", "deploy", "web")
    if kubectl.minor >= 21:
        assert "Allowed disruptions:" in kubectl("describe", "pdb", "web")
    assert "Non-terminated Pods:" in kubectl("describe", "node", "n1")
    assert "Active" in kubectl("describe", "ns", kubectl.namespace)
    assert "2000001000" in kubectl("describe", "pc", "system-node-critical")
    assert "Evicted" in kubectl("get", "events")
    if kubectl.minor >= 26:
        assert "Evicted" in kubectl("events")


def test_wait_for_a_condition_and_for_the_end(served: Served, kubectl: Kubectl) -> None:
    make(served, kubectl, "web", is_ready=False)
    with kubectl.start("wait", "pod/web", "--for=condition=Ready", "--timeout=30s") as waiting:
        time.sleep(1)
        become_ready(served, kubectl, "web")
        assert waiting.communicate(timeout=40)[0] == "pod/web condition met\n"
    with kubectl.start("wait", "pod/web", "--for=delete", "--timeout=30s") as waiting:
        time.sleep(1)
        kubectl("delete", "pod", "web", "--grace-period=0", "--force", "--wait=false")
        waiting.communicate(timeout=40)
    assert waiting.returncode == 0


def test_watch_prints_a_row_for_every_change(served: Served, kubectl: Kubectl) -> None:
    make(served, kubectl, "web", is_ready=False)
    with kubectl.start("get", "pods", "-w") as watching:
        assert watching.stdout is not None
        try:
            printed = [watching.stdout.readline() for _ in range(2)]
            for is_ready in (True, False):
                become_ready(served, kubectl, "web", is_ready=is_ready)
                printed.append(watching.stdout.readline())
        finally:
            watching.kill()
    assert [row.split()[:2] for row in printed] == [["NAME", "READY"], ["web", "0/1"], ["web", "1/1"], ["web", "0/1"]]


def become_ready(served: Served, kubectl: Kubectl, name: str, *, is_ready: bool = True) -> None:
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{name}"
    _, pod = served.call("GET", path)
    pod["status"]["conditions"][0]["status"] = str(is_ready)
    pod["status"]["containerStatuses"][0]["ready"] = is_ready
    assert served.call("PUT", f"{path}/status", pod)[0] == 200


def test_a_namespace_goes_with_all_that_is_in_it(served: Served, kubectl: Kubectl) -> None:
    make(served, kubectl, "web")
    assert kubectl("delete", "ns", kubectl.namespace, "--wait=false") == f'namespace "{kubectl.namespace}" deleted\n'
    assert "because it is being terminated" in kubectl.fails("create", "sa", "late")
    with kubectl.start("wait", f"ns/{kubectl.namespace}", "--for=delete", "--timeout=20s") as waiting:
        time.sleep(1)
        # The node's part: the pod has ended, and with it the last thing that kept the namespace.
        kubectl("delete", "pod", "web", "--grace-period=0", "--force")
        waiting.communicate(timeout=30)
    assert waiting.returncode == 0


@pytest.mark.parametrize(
    ("user", "question", "expected"),
    [
        ("admin", ("delete", "nodes"), "yes"),
        ("viewer", ("list", "pods"), "yes"),
        ("viewer", ("delete", "pods"), "no"),
        ("evictor", ("create", "pods", "--subresource=eviction"), "yes"),
        ("evictor", ("delete", "pods"), "no"),
        ("evictor", ("patch", "nodes"), "yes"),
        ("evictor", ("impersonate", "users"), "no"),
    ],
)
def test_what_each_role_may(
    served: Served, kubectl: Kubectl, user: str, question: tuple[str, ...], expected: str
) -> None:
    done = by(user, served, kubectl).run("auth", "can-i", *question)
    assert done.stdout.strip() == expected
    assert (done.returncode == 0) == (expected == "yes")


def test_the_list_of_what_i_may(served: Served, kubectl: Kubectl) -> None:
    evictor = by("evictor", served, kubectl)
    listed = rows(evictor("auth", "can-i", "--list"))
    assert ["pods/eviction", "[]", "[]", "[create]"] in listed
    assert "patch of nodes may change only spec.unschedulable" in evictor.run("auth", "can-i", "--list").stderr
    if kubectl.minor >= 28:
        assert "jettison:evictors" in evictor("auth", "whoami")


def test_a_viewer_cannot_write(served: Served, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    viewer = by("viewer", served, kubectl)
    assert viewer("get", "pods", "-o", "name") == "pod/web\n"
    complaint = viewer.fails("delete", "pod", "web")
    said = 'pods "web" is forbidden: User "viewer" cannot delete resource "pods" in API group "" in the namespace'
    assert f'{said} "{kubectl.namespace}"' in complaint
    for command in (("label", "pod", "web", "a=b"), ("create", "namespace", "nope"), ("cordon", "n1")):
        assert "forbidden" in viewer.run(*command).stderr


def test_a_wrong_token_is_told_so(served: Served, kubectl: Kubectl, tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    forged.write_text(served.kubeconfig().read_text().replace(served.token(), "f" * 43))
    complaint = Kubectl(kubectl.program, forged, tmp_path).fails("get", "pods")
    assert "must be logged in" in complaint or "Unauthorized" in complaint
