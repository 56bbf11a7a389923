"""Records real storms for `tests/simulator/test_agreement.py`: how soon evicted pods are replaced, and how often.

    sudo .venv/bin/python -m tests.live.storm_recorder tests/simulator/data/storms.json

The pods of a ReplicaSet take more memory each second until one of them is evicted, and their replacements do the same.
Where they grow slowly each lives longer than 10 s, and a replacement comes at once. Where one grows fast, on the only
node, it fails as soon as it is made, and its controller makes it ever more rarely.
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
from tests.live.node import GROW, python
from tests.live.test_drain import cordon

Json = dict[str, Any]

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
CONFIG = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard: {memory.available: 64Mi}
evictionPressureTransitionPeriod: 2s
"""

# A name, nodes, replicas, MiB a second of each pod, and for how many seconds it is watched.
STORMS = (("slow", 2, 4, 4, 150), ("fast", 1, 1, 50, 100))


def record(cluster: LiveCluster, name: str, nodes: int, replicas: int, rate: int, seconds: int) -> Json:
    """When each pod was made, bound, running and failed, in seconds since the first one was made."""
    for number, node in enumerate(cluster.nodes):
        cordon(cluster, f"/api/v1/nodes/{node}", is_cordoned=number >= nodes)
    times: dict[str, dict[str, float]] = {}
    connection = cluster.served.connect()
    # The last wait is longer than the usual 30 s without a word.
    connection.timeout = 300
    headers = {"Authorization": f"Bearer {cluster.served.token()}"}
    version = cluster.get(PODS)["metadata"]["resourceVersion"]
    connection.request("GET", f"{PODS}?watch=true&resourceVersion={version}&timeoutSeconds=300", None, headers)
    response = connection.getresponse()

    def follow(lines: Iterator[bytes]) -> None:
        for line in lines:
            found = json.loads(line)["object"]
            its = times.setdefault(found["metadata"]["name"], {"made": time.monotonic()})
            if found["spec"].get("nodeName"):
                its.setdefault("bound", time.monotonic())
            its.setdefault(found["status"]["phase"].lower(), time.monotonic())

    threading.Thread(target=follow, args=(iter(response.readline, b""),), daemon=True).start()
    asked = {"resources": {"requests": {"memory": "20Mi"}}}
    template = pod(name, python(GROW.format(pause=1 / rate)), container=asked)
    del template["metadata"]["name"]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    cluster.create(REPLICA_SETS, {"metadata": {"name": name}, "spec": spec})
    time.sleep(seconds)
    pods = [dict(each) for each in times.values()]
    cluster.served.call("DELETE", f"{REPLICA_SETS}/{name}")
    cluster.wait(lambda: not cluster.pods(), f"{name} to go")
    began = min(each["made"] for each in pods)
    since = [{key: round(value - began, 3) for key, value in each.items() if key != "pending"} for each in pods]
    return {"name": name, "nodes": nodes, "replicas": replicas, "seconds": seconds, "pods": since}


def main() -> None:
    """Write them all."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "kubelet.yaml"
        config.write_text(CONFIG)
        cluster = LiveCluster(Path(directory), ("--node-memory", "256Mi", "--config", str(config)))
        cluster.start()
        try:
            for node in cluster.nodes:
                cluster.ready(f"/api/v1/nodes/{node}")
            found = [record(cluster, *each) for each in STORMS]
        finally:
            cluster.stop()
    lines = ",\n".join(json.dumps(each).replace('{"made"', '\n  {"made"') for each in found)
    Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
