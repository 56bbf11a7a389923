"""Objects for tests with clients, and the parts of a node and of the disruption controller that the tests play."""

from __future__ import annotations

import json
from typing import Any

from tests.live.kubectl import Kubectl
from tests.live.served import Served

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: main, image: "registry.example/web:1"}]
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "registry.example/web:1"}]}
"""


def make(served: Served, kubectl: Kubectl, name: str, *, node: str = "n1", is_ready: bool = True) -> None:
    """A running pod, with a status as a node would write it."""
    containers = [{"name": "main", "image": "registry.example/web:1"}]
    spec = {"nodeName": node, "containers": containers, "terminationGracePeriodSeconds": 1}
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods"
    pod = {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    assert served.call("POST", path, pod)[0] == 201
    state = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
    container = {"name": "main", "ready": is_ready, "restartCount": 0, "image": "x", "imageID": "y", "state": state}
    conditions = [{"type": "Ready", "status": "True" if is_ready else "False"}]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}
    code, told = served.call("PUT", f"{path}/{name}/status", {**pod, "status": status})
    assert code == 200, told


def allow(served: Served, kubectl: Kubectl, name: str, disruptions: int) -> None:
    """Set a budget's status, as the disruption controller would."""
    path = f"/apis/policy/v1/namespaces/{kubectl.namespace}/poddisruptionbudgets/{name}"
    _, budget = served.call("GET", path)
    budget["status"] = {
        "observedGeneration": budget["metadata"]["generation"],
        "disruptionsAllowed": disruptions,
        "currentHealthy": 1 + disruptions,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    code, told = served.call("PUT", f"{path}/status", budget)
    assert code == 200, told


def rows(table: str) -> list[list[str]]:
    """The words of a printed table, heading included."""
    return [line.split() for line in table.splitlines()]


def listed(served: Served, kubectl: Kubectl, kind: str) -> list[Any]:
    """What there is of it. For what is asked until it is true: a kubectl takes 0.1 s of processor time to start."""
    group = "/api/v1" if kind == "pods" else "/apis/apps/v1"
    code, found = served.call("GET", f"{group}/namespaces/{kubectl.namespace}/{kind}")
    assert code == 200, found
    items: list[Any] = found["items"]
    return items


def images(pods: list[Any]) -> set[str]:
    """Of those that are to stay."""
    living = (each for each in pods if "deletionTimestamp" not in each["metadata"])
    return {each["spec"]["containers"][0]["image"] for each in living}


def read(kubectl: Kubectl, *what: str) -> Any:
    return json.loads(kubectl("get", *what, "-o", "json"))
