"""The story that budgets are for, with nothing played: two real nodes, a Deployment, a budget, and a drain.

Two replicas are on one node and one may be missing. The first is evicted, the second only when the first one's
replacement is ready on the other node; and whenever the service is asked, a pod answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import PODS, LiveCluster, is_ready, pod
from tests.live.kubectl import Kubectl, installed_kubectl

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(300),
]

Json = dict[str, Any]

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
# Long enough that a drain that did not wait would be seen.
SECONDS_TO_READY = 2
# A pod whose end ends the watching: everything before it was seen.
LAST_WORD = "last-word"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(tmp_path_factory.mktemp("drained"), ("--node-memory", "256Mi"))
    found.start()
    for node in found.nodes:
        found.ready(f"/api/v1/nodes/{node}")
    yield found
    found.stop()


class Watcher:
    """Counts from the watch stream alone how many pods of the service would answer a request."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._pods: dict[str, bool] = {}
        self.counts: list[int] = []

    def follow(self, lines: Iterator[bytes]) -> None:
        for line in lines:
            event = json.loads(line)
            document = event["object"]
            if event["type"] == "DELETED" and document["metadata"]["name"] == LAST_WORD:
                return
            if event["type"] == "BOOKMARK" or (document["metadata"].get("labels") or {}).get("app") != self._app:
                continue
            is_gone = event["type"] == "DELETED" or "deletionTimestamp" in document["metadata"]
            self._pods[document["metadata"]["uid"]] = not is_gone and is_ready(document)
            self.counts.append(sum(self._pods.values()))


@contextmanager
def watching(cluster: LiveCluster, watcher: Watcher) -> Iterator[None]:
    """From what is there now until the body has ended."""
    connection = cluster.served.connect()
    headers = {"Authorization": f"Bearer {cluster.served.token()}"}
    version = cluster.get(PODS)["metadata"]["resourceVersion"]
    for each in cluster.pods():
        watcher.follow(iter([json.dumps({"type": "ADDED", "object": each}).encode()]))
    watcher.counts.clear()
    connection.request("GET", f"{PODS}?watch=true&resourceVersion={version}&timeoutSeconds=120", None, headers)
    response = connection.getresponse()
    thread = threading.Thread(target=watcher.follow, args=(iter(response.readline, b""),))
    thread.start()
    try:
        yield
    finally:
        cluster.create(PODS, pod(LAST_WORD, ("true",)))
        cluster.served.call("DELETE", f"{PODS}/{LAST_WORD}?gracePeriodSeconds=0")
        thread.join(130)
        connection.close()


def by_jettison(cluster: LiveCluster, node: str, _: Path) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "jettison", "drain", node, "--kubeconfig", str(cluster.served.kubeconfig())]
    done = subprocess.run([*command, "--timeout=120s"], capture_output=True, text=True, timeout=150, check=False)
    return done.returncode, done.stdout, done.stderr


def by_kubectl(cluster: LiveCluster, node: str, home: Path) -> tuple[int, str, str]:
    program = installed_kubectl() or pytest.skip("no kubectl is installed")
    kubectl = Kubectl(program, cluster.served.kubeconfig("evictor"), home)
    with kubectl.start("drain", node, "--timeout=120s") as process:
        out, err = process.communicate(timeout=150)
    return process.returncode, out, err


@pytest.mark.parametrize("drain", [by_jettison, by_kubectl])
def test_the_service_is_never_without_a_ready_pod(cluster: LiveCluster, tmp_path: Path, drain: Any) -> None:
    app = drain.__name__.replace("_", "-")
    one, other = (f"/api/v1/nodes/{node}" for node in cluster.nodes)
    cordon(cluster, other, is_cordoned=True)
    deploy(cluster, app)
    cordon(cluster, other, is_cordoned=False)
    watcher = Watcher(app)
    with watching(cluster, watcher):
        code, out, err = drain(cluster, cluster.nodes[0], tmp_path)
        assert code == 0, (out, err)
        cluster.wait(
            lambda: [on(each) for each in ready_pods(cluster, app)] == [cluster.nodes[1]] * 2, "both to be back"
        )
    assert f"node/{cluster.nodes[0]} drained" in out
    assert sum(line.startswith(f"pod/{app}-") and line.endswith(" evicted") for line in out.splitlines()) == 2
    assert REFUSED in err
    assert min(watcher.counts) == 1
    cordon(cluster, one, is_cordoned=False)
    cluster.served.call("DELETE", f"{DEPLOYMENTS}/{app}")
    cluster.wait(lambda: not any(app in each["metadata"]["name"] for each in cluster.pods()), f"{app} to go")


def deploy(cluster: LiveCluster, app: str) -> None:
    """Two replicas with a budget, ready and counted."""
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": SECONDS_TO_READY, "periodSeconds": 1}
    template = pod(app, ("sleep", "1000"), container={"readinessProbe": probe})
    del template["metadata"]["name"]
    selector = {"matchLabels": {"app": app}}
    spec = {"replicas": 2, "selector": selector, "template": template}
    cluster.create(BUDGETS, {"metadata": {"name": app}, "spec": {"maxUnavailable": 1, "selector": selector}})
    cluster.create(DEPLOYMENTS, {"metadata": {"name": app}, "spec": spec})
    cluster.wait(lambda: len(ready_pods(cluster, app)) == 2, "two replicas")
    assert {on(each) for each in ready_pods(cluster, app)} == {cluster.nodes[0]}
    cluster.wait(lambda: cluster.get(f"{BUDGETS}/{app}")["status"].get("currentHealthy") == 2, "the budget")


def ready_pods(cluster: LiveCluster, app: str) -> list[Json]:
    return [
        each
        for each in cluster.pods()
        if (each["metadata"].get("labels") or {}).get("app") == app
        and is_ready(each)
        and "deletionTimestamp" not in each["metadata"]
    ]


def on(document: Json) -> str:
    found: str = document["spec"].get("nodeName", "")
    return found


def cordon(cluster: LiveCluster, path: str, *, is_cordoned: bool) -> None:
    """Read and written until no write of the node itself came between the two."""

    def is_written() -> bool:
        document = cluster.get(path)
        document["spec"]["unschedulable"] = is_cordoned
        code, answer = cluster.served.call("PUT", path, document)
        assert code in (200, 409), answer
        return code == 200

    cluster.wait(is_written, f"the cordon of {path}")
