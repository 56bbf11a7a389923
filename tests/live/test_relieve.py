"""`jettison relieve` beside a node of ours, which stands in for a kubelet, under real memory pressure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jettison.agent.journal.reading import read_journal
from tests.live.cluster import PODS, LiveCluster, pod
from tests.live.node import PYTHON
from tests.live.quick_start import Process, jettison

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(300),
]

Json = dict[str, Any]
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
# The kubelet's threshold is reached only if relief does nothing.
FLAGS = (
    "--node-memory", "256Mi", "--eviction-hard", "memory.available<32Mi", "--eviction-pressure-transition-period", "1s",
)  # fmt: skip
HOLD = "import time\nheld = bytearray(b'x') * ({0} << 20)\ntime.sleep(3600)"
LEAK = "import time\nheld = []\nwhile True:\n    held.append(bytearray(b'x') * (1 << 20))\n    time.sleep(0.02)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(tmp_path_factory.mktemp("relieved"), FLAGS, count=1)
    found.start()
    found.ready(f"/api/v1/nodes/{found.nodes[0]}")
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def _cleared(cluster: LiveCluster) -> Iterator[None]:
    yield
    for each in cluster.pods():
        cluster.served.call("DELETE", f"{PODS}/{each['metadata']['name']}", {"gracePeriodSeconds": 0})
    for each in cluster.get(BUDGETS)["items"]:
        cluster.served.call("DELETE", f"{BUDGETS}/{each['metadata']['name']}")
    cluster.wait(lambda: not cluster.pods(), "the pods to go")
    cluster.wait(lambda: not _has_pressure(cluster), "the pressure to end")


def _has_pressure(cluster: LiveCluster) -> bool:
    conditions = cluster.get(f"/api/v1/nodes/{cluster.nodes[0]}")["status"]["conditions"]
    return any(each["type"] == "MemoryPressure" and each["status"] == "True" for each in conditions)


@contextmanager
def relieving(cluster: LiveCluster, folder: Path, *flags: str) -> Iterator[Process]:
    (node,) = cluster.nodes
    words = ["relieve", "--node", node, "--kubeconfig", str(cluster.served.kubeconfig()), "--state-dir", str(folder)]
    # This node is a part of the machine; a kubelet's is all of it.
    words += ["--within", f"jettison/{node}", *flags]
    with (folder.parent / "relieve.log").open("w") as log:
        process = jettison(words, log)
    assert process.stdout is not None
    with process.stdout as said:
        try:
            assert "is ready" in said.readline(), (folder.parent / "relieve.log").read_text()
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def run(cluster: LiveCluster, name: str, program: str, **spec: Any) -> Json:
    cluster.create(PODS, pod(name, [PYTHON, "-S", "-c", program], cluster.nodes[0], **spec))
    return cluster.ready(f"{PODS}/{name}")


def facts(cluster: LiveCluster, folder: Path, event: str) -> list[str]:
    journal = folder / "node" / cluster.nodes[0] / "journal"
    return [name for record in read_journal(journal) if record.event == event for _, name, _ in record.pods]


def test_a_budget_spares_the_first_and_the_next_that_frees_enough_goes(cluster: LiveCluster, tmp_path: Path) -> None:
    """The kubelet would take `leak`; a small pod would go for nothing; so `large` goes, before the kubelet acts."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "leak"}}}
    cluster.create(BUDGETS, {"metadata": {"name": "leak"}, "spec": spec})
    run(cluster, "small", HOLD.format(1))
    run(cluster, "large", HOLD.format(60))
    folder = tmp_path / "state"
    with relieving(cluster, folder, "--enforce", "--at", "memory.available<96Mi"):
        cluster.wait(lambda: cluster.find(f"{LEASES}/jettison-relieve-{cluster.nodes[0]}"), "the lease")
        cluster.create(PODS, pod("leak", [PYTHON, "-S", "-c", LEAK], cluster.nodes[0]))
        cluster.gone(f"{PODS}/large")
        found = cluster.wait(lambda: facts(cluster, folder, "eviction_withdrawn"), "the refusal on record")
        assert set(found) == {"leak"}
        cluster.wait(lambda: "large" in facts(cluster, folder, "pod_evicted"), "the eviction on record")
        assert cluster.pod("small")["status"]["phase"] == "Running"
        # The leak goes on, and in the end the kubelet takes it: budgets mean nothing to it.
        ended = cluster.wait(lambda: _ended(cluster, "leak"), "the kubelet to evict")
        assert ended["status"]["reason"] == "Evicted"
        cluster.wait(lambda: facts(cluster, folder, "pod_end_seen") == ["leak"], "the kubelet's eviction on record")


def _ended(cluster: LiveCluster, name: str) -> Json:
    found = cluster.find(f"{PODS}/{name}")
    return found if (found.get("status") or {}).get("phase") == "Failed" else {}


def test_an_observer_touches_nothing_and_its_prediction_is_scored(cluster: LiveCluster, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    run(cluster, "steady", HOLD.format(20))
    with relieving(cluster, folder):
        cluster.create(PODS, pod("leak", [PYTHON, "-S", "-c", LEAK], cluster.nodes[0]))
        cluster.wait(lambda: _ended(cluster, "leak"), "the kubelet to evict")
        cluster.wait(lambda: facts(cluster, folder, "pod_end_seen") == ["leak"], "the kubelet's eviction on record")
        assert facts(cluster, folder, "eviction_started") == []
        words = [sys.executable, "-m", "jettison", "relieve", "report", "--state-dir", str(folder), "-o", "json"]
        told = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        assert ([each["pod"] for each in told["hits"]], told["misses"]) == (["default/leak"], [])
        # From twice the kubelet's threshold to the threshold itself, at some 50 MiB a second.
        assert told["medianLeadNs"] > 0
    assert cluster.pod("steady")["status"]["phase"] == "Running"


def test_of_two_that_relieve_one_node_one_acts(cluster: LiveCluster, tmp_path: Path) -> None:
    first, second = tmp_path / "first" / "state", tmp_path / "second" / "state"
    for each in (first, second):
        each.parent.mkdir()
    at = ("--enforce", "--at", "memory.available<96Mi")
    path = f"{LEASES}/jettison-relieve-{cluster.nodes[0]}"
    with relieving(cluster, first, *at):
        held = cluster.wait(lambda: cluster.find(path).get("spec", {}).get("holderIdentity"), "the lease")
        with relieving(cluster, second, *at):
            # Between the two thresholds it grows no further: on a busy machine the kubelet would be as quick.
            cluster.create(PODS, pod("large", [PYTHON, "-S", "-c", HOLD.format(185)], cluster.nodes[0]))
            cluster.gone(f"{PODS}/large")
            cluster.wait(lambda: facts(cluster, first, "pod_evicted") == ["large"], "the holder's eviction")
            assert facts(cluster, second, "eviction_started") == []
            assert cluster.find(path)["spec"]["holderIdentity"] == held


@pytest.mark.parametrize(
    ("flags", "why", "code"),
    [
        (("--at", "memory.available<32Mi"), "not above the kubelet's own hard threshold", 2),
        (("--at", "nodefs.available<20%"), "a kubelet frees images first", 2),
        (("--at", "memory.available<99Gi"), "pods would go until none is left", 2),
        (("--within", "no/such/cgroup"), "--within `no/such/cgroup`: there is no such cgroup below `", 2),
        (("--within", "jettison"), "no kubelet has its pods below `", 2),
        (("--node", "nowhere"), 'nodes "nowhere" not found', 1),
    ],
)
def test_what_cannot_relieve_says_why(
    cluster: LiveCluster, tmp_path: Path, flags: tuple[str, ...], why: str, code: int
) -> None:
    words = [sys.executable, "-m", "jettison", "relieve", "--node", cluster.nodes[0], "--state-dir", str(tmp_path)]
    words += ["--kubeconfig", str(cluster.served.kubeconfig()), *flags]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert why in ended.stderr
    assert "Traceback" not in ended.stderr
