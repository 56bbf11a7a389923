"""Pods to be evicted: thousands of them on one node that says it is well, and budgets that guard them or none."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.harness.load import Server, drive
from tests.live.served import Served

Json = dict[str, Any]

NODE = "bench"
# The budgets keep so few of them that every eviction is granted, as long as their numbers are kept true.
KEPT = 5
# So many connections set the scene; no measurement uses this number.
_HANDS = 16
_PATIENCE_SECONDS = 60.0


class Crowd:
    """A namespace full of pods. Every scene has its own, and clears it away."""

    def __init__(self, served: Served, server: Server, namespace: str) -> None:
        self._served = served
        self._server = server
        self.namespace = namespace
        self._base = f"/api/v1/namespaces/{namespace}"
        self._budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"

    def gather(self, pods: int, budgets: int) -> None:
        """Make everything, and return when the controllers have counted it."""
        self._call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        groups = max(budgets, 1)
        for number in range(budgets):
            spec = {"minAvailable": KEPT, "selector": {"matchLabels": {"group": str(number)}}}
            self._call("POST", self._budgets, {"metadata": {"name": f"budget-{number}"}, "spec": spec})
        bodies = (_pod(f"pod-{number:05d}", str(number % groups)) for number in range(pods))
        drive(self._server, [self._server.request("POST", f"{self._base}/pods", body) for body in bodies], _HANDS)
        patch = "application/merge-patch+json"
        paths = (f"{self._base}/pods/pod-{number:05d}/status" for number in range(pods))
        running = [self._server.request("PATCH", path, _RUNNING, patch) for path in paths]
        drive(self._server, running, _HANDS, code=200)
        self._await_counts(pods // groups if budgets else None)

    def evictions(self, pods: int, budgets: int) -> Iterator[bytes]:
        """Of as many pods as the budgets let go."""
        for number in range(pods - KEPT * budgets):
            name = f"pod-{number:05d}"
            body = {"apiVersion": "policy/v1", "kind": "Eviction"}
            body |= {"metadata": {"name": name, "namespace": self.namespace}}  # type: ignore[dict-item]
            yield self._server.request("POST", f"{self._base}/pods/{name}/eviction", json.dumps(body).encode())

    def touches(self, pods: int, rounds: int) -> Iterator[bytes]:
        """Small changes, each of which is one event."""
        for turn, number in itertools.product(range(rounds), range(pods)):
            body = json.dumps({"metadata": {"annotations": {"turn": str(turn)}}}).encode()
            path = f"{self._base}/pods/pod-{number:05d}"
            yield self._server.request("PATCH", path, body, "application/merge-patch+json")

    def clear(self) -> None:
        """No node runs the pods, so this client reports that they have ended."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        self._call("DELETE", f"{self._base}/pods", options)
        self._call("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def _await_counts(self, healthy: int | None) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while healthy is not None:
            items = self._call("GET", self._budgets)["items"]
            if all(each.get("status", {}).get("currentHealthy") == healthy for each in items):
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"the controllers do not count to {healthy}: {items[0].get('status')}")
            time.sleep(0.1)

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        code, answer = self._served.call(method, path, body)
        assert code < 300, answer
        found: Json = answer
        return found


def beat(served: Served) -> None:
    """Make the node, or let it give a sign of life: pods of a silent one are taken to be unhealthy after 50 s."""
    served.call("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
    code, node = served.call("GET", f"/api/v1/nodes/{NODE}")
    assert code == 200, node
    # Whatever a controller has written meanwhile: this is about the status alone.
    del node["metadata"]["resourceVersion"]
    code, answer = served.call("PUT", f"/api/v1/nodes/{NODE}/status", {**node, "status": {"conditions": [ready]}})
    assert code == 200, answer


def _pod(name: str, group: str) -> bytes:
    """With the weight of a small real one: 1.5 kB once the server has filled it in."""
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "env": [{"name": f"VARIABLE_{number}", "value": "x" * 12} for number in range(3)],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    }
    metadata = {"name": name, "labels": {"app": "web", "group": group}}
    return json.dumps({"metadata": metadata, "spec": {"nodeName": NODE, "containers": [container]}}).encode()


_RUNNING = json.dumps({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}).encode()
