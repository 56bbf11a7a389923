"""Records real drains for `tests/simulator/test_agreement.py`: which pods go from a node, and when.

    sudo .venv/bin/python -m tests.live.drain_recorder tests/simulator/data/drains.json

A StatefulSet is recorded, because its pods keep their names: what went when can be compared pod by pod. Its budget lets
one go at a time: a drain asks for all of them at once, and which of two requests comes first is chance.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.live.cluster import PODS, LiveCluster, pod
from tests.live.test_drain import BUDGETS, by_jettison, cordon, on, ready_pods

Json = dict[str, Any]

STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"

# Replicas, how many of them must be available, and after how many seconds a pod is ready.
DRAINS = ((3, 2, 2), (4, 3, 3), (2, 1, 7))


def record(cluster: LiveCluster, replicas: int, available: int, ready: int) -> Json:
    """All pods are on the first node, which is drained; the second one takes them."""
    app = f"set-{replicas}-{ready}"
    one, other = (f"/api/v1/nodes/{node}" for node in cluster.nodes)
    cordon(cluster, other, is_cordoned=True)
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": ready, "periodSeconds": 1}
    template = pod(app, ("sleep", "1000"), container={"readinessProbe": probe})
    del template["metadata"]["name"]
    selector = {"matchLabels": {"app": app}}
    spec = {"replicas": replicas, "selector": selector, "template": template, "serviceName": app}
    cluster.create(BUDGETS, {"metadata": {"name": app}, "spec": {"minAvailable": available, "selector": selector}})
    cluster.create(STATEFUL_SETS, {"metadata": {"name": app}, "spec": {**spec, "podManagementPolicy": "Parallel"}})
    cluster.wait(lambda: len(ready_pods(cluster, app)) == replicas, "all replicas")
    path = f"{BUDGETS}/{app}"
    cluster.wait(lambda: cluster.get(path)["status"].get("currentHealthy") == replicas, "the budget")
    cordon(cluster, other, is_cordoned=False)
    found = drained(cluster, app)
    cluster.wait(lambda: [on(each) for each in ready_pods(cluster, app)] == [cluster.nodes[1]] * replicas, "all back")
    cordon(cluster, one, is_cordoned=False)
    cluster.served.call("DELETE", f"{STATEFUL_SETS}/{app}")
    cluster.wait(lambda: not any(app in each["metadata"]["name"] for each in cluster.pods()), f"{app} to go")
    return {"replicas": replicas, "minAvailable": available, "ready": ready, **found}


def drained(cluster: LiveCluster, app: str) -> Json:
    """When each pod was told to go, and when the drain was over, in seconds since it began."""
    connection = cluster.served.connect()
    headers = {"Authorization": f"Bearer {cluster.served.token()}"}
    version = cluster.get(PODS)["metadata"]["resourceVersion"]
    connection.request("GET", f"{PODS}?watch=true&resourceVersion={version}&timeoutSeconds=120", None, headers)
    response = connection.getresponse()
    times: dict[str, float] = {}

    def follow(lines: Iterator[bytes]) -> None:
        for line in lines:
            metadata = json.loads(line)["object"]["metadata"]
            if metadata["name"].startswith(app) and "deletionTimestamp" in metadata:
                times.setdefault(metadata["name"].rpartition("-")[2], time.monotonic())

    threading.Thread(target=follow, args=(iter(response.readline, b""),), daemon=True).start()
    code, out, err = by_jettison(cluster, cluster.nodes[0], Path())
    ended = time.monotonic()
    assert code == 0, (out, err)
    # The command takes a second to start: the first eviction is where the drain begins.
    began = min(times.values())
    gone = [[name, round(moment - began, 3)] for name, moment in sorted(times.items(), key=lambda each: each[1])]
    return {"gone": gone, "drained": round(ended - began, 3)}


def main() -> None:
    """Write them all."""
    with tempfile.TemporaryDirectory() as directory:
        cluster = LiveCluster(Path(directory), ("--node-memory", "256Mi"))
        cluster.start()
        try:
            for node in cluster.nodes:
                cluster.ready(f"/api/v1/nodes/{node}")
            found = [record(cluster, *each) for each in DRAINS]
        finally:
            cluster.stop()
    lines = ",\n".join(json.dumps(each) for each in found)
    Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
