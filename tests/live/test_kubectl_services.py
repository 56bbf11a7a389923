"""What an application brings along besides pods: kubectl expose, get, explain, debug and cluster-info."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.kubectl import Kubectl
from tests.live.workloads import DEPLOYMENT, POD, read, rows

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("program", ["debian", "installed"], indirect=True, scope="module"),
]

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {selector: {app: db}, ports: [{port: 5432}]}
"""
CONTROLLER = """
apiVersion: v1
kind: ReplicationController
metadata: {name: web}
spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web}]}}}
"""
_KNOWS_SCHEMAS = 27


def test_a_deployment_is_exposed(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "exposed" in kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080")
    assert read(kubectl, "service", "web")["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 8080}]
    assert rows(kubectl("get", "service", "web"))[1][:5] == ["web", "ClusterIP", "<none>", "<none>", "80/TCP"]


def test_a_manifest_with_a_service_applies_again(kubectl: Kubectl) -> None:
    done = kubectl.run("apply", "-f", "-", stdin=SERVICE)
    assert (done.returncode, "nothing routes traffic" in done.stderr) == (0, True)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=SERVICE)
    assert "configured" in kubectl("apply", "-f", "-", stdin=SERVICE.replace("5432", "5433"))
    assert kubectl("get", "endpoints,endpointslices", "-o", "name") == ""
    kubectl("delete", "service", "db")
    assert "db" not in kubectl("get", "svc", "-o", "name")


def test_cluster_info_and_explain(kubectl: Kubectl) -> None:
    assert "is running at" in kubectl("cluster-info")
    if kubectl.minor < _KNOWS_SCHEMAS:
        pytest.skip("this kubectl reads only the older form of schemas")
    said = kubectl("explain", "pdb.spec.maxUnavailable")
    assert "How many may be away after an eviction" in said
    assert "<IntOrString>" in said
    assert "containers" in kubectl("explain", "pod.spec", "--recursive")


def test_everything_is_dumped(kubectl: Kubectl, tmp_path: Path) -> None:
    """`cluster-info dump` reads nodes, events, controllers, services, sets, pods and logs of every namespace."""
    kubectl("apply", "-f", "-", stdin=CONTROLLER)
    assert rows(kubectl("get", "rc", "web", "-o", "wide"))[1][:4] == ["web", "1", "0", "0"]
    assert kubectl("scale", "rc/web", "--replicas=2").split()[0].startswith("replicationcontroller/web")
    assert "Selector:     app=web" in kubectl("describe", "rc", "web")
    said = kubectl("cluster-info", "dump", f"--output-directory={tmp_path}", f"--namespaces={kubectl.namespace}")
    assert str(tmp_path) in said
    listed = json.loads((tmp_path / kubectl.namespace / "replication-controllers.json").read_text())
    assert [each["spec"]["replicas"] for each in listed["items"]] == [2]
    if kubectl.minor >= _KNOWS_SCHEMAS:
        assert "Labels of the pods that belong to it" in kubectl("explain", "rc.spec.selector")
    kubectl("delete", "rc", "web")


def test_a_container_is_added_for_debugging(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    if kubectl.minor < _KNOWS_SCHEMAS:
        pytest.skip("this kubectl has another way of adding containers")
    kubectl("debug", "web", "--image=busybox:1", "--container=look", "--", "sleep", "1")
    assert [each["name"] for each in read(kubectl, "pod", "web")["spec"]["ephemeralContainers"]] == ["look"]
