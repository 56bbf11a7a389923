"""Daily work on objects with real kubectls: Debian's 1.20, and the one that is installed."""

from __future__ import annotations

import json

import pytest

from tests.live.kubectl import Kubectl
from tests.live.served import Served
from tests.live.workloads import BUDGET, DEPLOYMENT, POD, make, read, rows

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("program", ["debian", "installed"], indirect=True, scope="module"),
]


def test_version_and_resources(kubectl: Kubectl) -> None:
    told = json.loads(kubectl("version", "-o", "json"))
    assert told["serverVersion"]["gitVersion"] == "v1.36.4+jettison"
    listed = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    assert {"pods", "nodes", "poddisruptionbudgets.policy", "deployments.apps"} <= set(listed)
    assert "policy/v1" in kubectl("api-versions").split()
    assert kubectl("get", "--raw", "/healthz") == "ok"


def test_get_in_every_shape(served: Served, kubectl: Kubectl) -> None:
    make(served, kubectl, "a")
    make(served, kubectl, "b", is_ready=False)
    assert rows(kubectl("get", "pods"))[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in rows(kubectl("get", "po"))[1:]] == [
        ["a", "1/1", "Running", "0"],
        ["b", "0/1", "Running", "0"],
    ]
    assert "NODE" in rows(kubectl("get", "pods", "-o", "wide"))[0]
    assert rows(kubectl("get", "pod", "a", "--show-labels"))[1][-1] == "app=a"
    assert rows(kubectl("get", "pods", "-A"))[0][0] == "NAMESPACE"
    assert kubectl("get", "pods", "-l", "app=a", "-o", "name") == "pod/a\n"
    assert kubectl("get", "pods", "-l", "app notin (a)", "-o", "name") == "pod/b\n"
    assert kubectl("get", "pods", "--field-selector", "spec.nodeName=n1,metadata.name=b", "-o", "name") == "pod/b\n"
    assert kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}") == "a b"
    assert "kind: Pod" in kubectl("get", "pod", "a", "-o", "yaml")
    assert rows(kubectl("get", "pods", "--sort-by=.metadata.name", "--chunk-size=1"))[1][0] == "a"
    assert "pod/a" in kubectl("get", "all")
    assert '"nope" not found' in kubectl.fails("get", "pod", "nope")
    assert "the server doesn't have a resource type" in kubectl.fails("get", "gadgets")


def test_tables_of_the_other_kinds(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=BUDGET + "---" + DEPLOYMENT)
    assert rows(kubectl("get", "pdb"))[1][:4] == ["web", "1", "N/A", "0"]
    assert rows(kubectl("get", "deploy"))[1][:4] == ["web", "0/2", "0", "0"]
    assert rows(kubectl("get", "nodes"))[1][:3] == ["n1", "Unknown", "<none>"]
    assert [row[:2] for row in rows(kubectl("get", "ns", kubectl.namespace))[1:]] == [[kubectl.namespace, "Active"]]
    assert {"system-node-critical", "2000001000"} <= {word for row in rows(kubectl("get", "pc")) for word in row}


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=POD) == "pod/web created\n"
    assert kubectl("apply", "-f", "-", stdin=POD) == "pod/web unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=POD.replace("app: web", "app: other")) == "pod/web configured\n"
    assert read(kubectl, "pod", "web")["metadata"]["labels"] == {"app": "other"}
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 5"))
    found = read(kubectl, "deploy", "web")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)
    assert (
        kubectl("apply", "-f", "-", "--dry-run=server", stdin=DEPLOYMENT)
        == "deployment.apps/web configured (server dry run)\n"
    )
    assert read(kubectl, "deploy", "web")["spec"]["replicas"] == 5


def test_server_side_apply(kubectl: Kubectl) -> None:
    assert (
        kubectl("apply", "--server-side", "-f", "-", stdin=BUDGET)
        == "poddisruptionbudget.policy/web serverside-applied\n"
    )
    kubectl("apply", "--server-side", "-f", "-", stdin=BUDGET.replace("minAvailable: 1", "minAvailable: 2"))
    assert read(kubectl, "pdb", "web")["spec"]["minAvailable"] == 2


def test_a_diff_changes_nothing(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    done = kubectl.run("diff", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 4"))
    assert done.returncode == 1, done.stderr
    assert "+  replicas: 4" in done.stdout
    assert read(kubectl, "deploy", "web")["spec"]["replicas"] == 2


def test_create_replace_edit_and_delete(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", stdin=POD) == "pod/web created\n"
    assert "already exists" in kubectl.fails("create", "-f", "-", stdin=POD)
    changed = read(kubectl, "pod", "web")
    changed["metadata"]["annotations"] = {"note": "one"}
    assert kubectl("replace", "-f", "-", stdin=json.dumps(changed)) == "pod/web replaced\n"
    assert "the object has been modified" in kubectl.fails("replace", "-f", "-", stdin=json.dumps(changed))
    assert kubectl("edit", "pod/web", editor="sed -i s/note:.one/note:\\ two/") == "pod/web edited\n"
    assert read(kubectl, "pod", "web")["metadata"]["annotations"] == {"note": "two"}
    assert kubectl("delete", "pod", "web") == 'pod "web" deleted\n'
    assert "not found" in kubectl.fails("delete", "pod", "web")
    assert kubectl("delete", "pod", "web", "--ignore-not-found") == ""


def test_generators(kubectl: Kubectl) -> None:
    """From 1.32 on their bodies are protobuf."""
    assert kubectl("run", "one", "--image=registry.example/web:1") == "pod/one created\n"
    assert kubectl("create", "deployment", "two", "--image=registry.example/web:1") == "deployment.apps/two created\n"
    template = read(kubectl, "deploy", "two")["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "registry.example/web:1"
    assert template["metadata"]["labels"] == {"app": "two"}
    assert kubectl("create", "job", "three", "--image=registry.example/web:1") == "job.batch/three created\n"
    name = f"{kubectl.namespace}-class"
    assert kubectl("create", "priorityclass", name, "--value=7") == f"priorityclass.scheduling.k8s.io/{name} created\n"
    assert kubectl("create", "serviceaccount", "robot") == "serviceaccount/robot created\n"
    assert (
        kubectl("create", "namespace", f"{kubectl.namespace}-more") == f"namespace/{kubectl.namespace}-more created\n"
    )
    if kubectl.minor >= 21:
        kubectl("create", "pdb", "four", "--selector=app=x", "--max-unavailable=0")
        assert read(kubectl, "pdb", "four")["spec"] == {
            "maxUnavailable": 0,
            "selector": {"matchLabels": {"app": "x"}},
        }


def test_deletion_takes_its_time_or_not(served: Served, kubectl: Kubectl) -> None:
    make(served, kubectl, "a")
    kubectl("delete", "pod", "a", "--wait=false")
    assert rows(kubectl("get", "pod", "a"))[1][2] == "Terminating"
    kubectl("delete", "pod", "a", "--grace-period=0", "--force")
    assert "not found" in kubectl.fails("get", "pod", "a")
    for name in ("b", "c", "d"):
        kubectl("run", name, "--image=registry.example/web:1", "--labels=group=g")
    assert len(kubectl("delete", "pods", "-l", "group=g").splitlines()) == 3
    kubectl("run", "e", "--image=registry.example/web:1")
    kubectl("delete", "pods", "--all")
    assert kubectl("get", "pods", "-o", "name") == ""


def test_the_patches(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl(
        "patch", "deploy", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s"}]}}}}'
    )
    names = [each["name"] for each in read(kubectl, "deploy", "web")["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["main", "side"]
    kubectl("patch", "deploy", "web", "--type=merge", "-p", '{"spec":{"replicas":9}}')
    kubectl("patch", "deploy", "web", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels","value":{"x":"y"}}]')
    found = read(kubectl, "deploy", "web")
    assert (found["spec"]["replicas"], found["metadata"]["labels"]) == (9, {"x": "y"})


def test_labels_annotations_and_images(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl("label", "deploy", "web", "tier=front").startswith("deployment.apps/web labeled")
    kubectl("label", "deploy", "web", "tier-")
    kubectl("annotate", "deploy", "web", "why=because")
    kubectl("set", "image", "deploy/web", "main=registry.example/web:2")
    found = read(kubectl, "deploy", "web")
    assert found["metadata"].get("labels", {}) == {}
    assert found["metadata"]["annotations"]["why"] == "because"
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/web:2"


def test_scale_and_rollout(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl("scale", "deploy/web", "--replicas=3").startswith("deployment.apps/web scaled")
    assert "Expected replicas to be 7" in kubectl.fails(
        "scale", "deploy/web", "--current-replicas=7", "--replicas=1"
    ).replace("expected replicas to be 7, was 3", "Expected replicas to be 7")
    assert read(kubectl, "deploy", "web")["spec"]["replicas"] == 3
    kubectl("rollout", "restart", "deploy/web")
    annotations = read(kubectl, "deploy", "web")["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations
    kubectl("rollout", "pause", "deploy/web")
    assert read(kubectl, "deploy", "web")["spec"]["paused"] is True
