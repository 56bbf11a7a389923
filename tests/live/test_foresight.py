"""Rank, decide, explain, next and lint on a node of a cluster: its kubelet's port, behind the API server's proxy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.cli.policy.seen_node import ended_pod
from tests.builders import MI
from tests.cli.running import run
from tests.live.cluster import PODS, LiveCluster, pod

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
]

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
FLAGS = ["--runtime", "host", "--node-memory", "128Mi", "--eviction-hard", "memory.available<16Mi"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """One node with a pod that uses more than it asked for, one that does not, and a budget that blocks."""
    cluster = LiveCluster(tmp_path_factory.mktemp("foresight"), FLAGS, count=1)
    cluster.start()
    try:
        cluster.ready(f"/api/v1/nodes/{cluster.nodes[0]}")
        for name, request in (("greedy", "1Mi"), ("modest", "64Mi")):
            asked = {"resources": {"requests": {"memory": request}}}
            cluster.create(PODS, pod(name, ["/bin/sh", "-c", "exec sleep 600"], cluster.nodes[0], container=asked))
        selector = {"matchLabels": {"app": "nothing"}}
        budget = {"metadata": {"name": "idle"}, "spec": {"maxUnavailable": 0, "selector": selector}}
        cluster.create(BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **budget})
        cluster.ready(f"{PODS}/greedy")
        cluster.ready(f"{PODS}/modest")
        yield cluster
        cluster.served.call("DELETE", f"{BUDGETS}/idle")
    finally:
        cluster.stop()


def answer(cluster: LiveCluster, *arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--kubeconfig", str(cluster.served.kubeconfig("admin")), "-o", "json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


def test_a_pod_of_a_cluster_is_explained(cluster: LiveCluster) -> None:
    """Nothing is starved, so it is told what would make it the victim."""
    (node,) = cluster.nodes
    found = answer(cluster, "explain", "greedy", "--node", node)

    assert (found["node"], found["outcome"], found["changes"]["when"]) == (node, "not evicted", "if")
    whole = answer(cluster, "explain", "--node", node)
    assert (whole["kind"], whole["decision"]["action"]) == ("NodeExplanation", "nothing")
    amounts = {each["signal"]: each["threshold"]["value"] for each in whole["thresholds"]}
    assert amounts["memory.available"] == 16 * MI


def test_pods_of_a_node_of_a_cluster_are_ranked(cluster: LiveCluster) -> None:
    (node,) = cluster.nodes
    found = answer(cluster, "rank", "--node", node)

    assert (found["kind"], found["node"], found["signal"]) == ("Ranking", node, "memory.available")
    assert {each["name"] for each in found["candidates"]} == {"greedy", "modest"}
    assert found["notes"] == []


def test_a_pod_that_waits_for_its_image_is_no_candidate(cluster: LiveCluster) -> None:
    """A kubelet, which would have no numbers for it, evicts such a pod first. A node of ours does not evict it."""
    (node,) = cluster.nodes
    cluster.create(PODS, pod("waiting", [], node, container={"image": "no-such-image"}))
    cluster.wait(lambda: cluster.pod("waiting")["status"].get("containerStatuses"), "the node to say why it waits")
    try:
        found = answer(cluster, "rank", "--node", node)
        assert {each["name"] for each in found["candidates"]} == {"greedy", "modest"}
    finally:
        cluster.served.call("DELETE", f"{PODS}/waiting", {"gracePeriodSeconds": 0})
        cluster.gone(f"{PODS}/waiting")


def test_a_node_of_a_cluster_is_decided_on_again_and_again(cluster: LiveCluster, tmp_path: Path) -> None:
    """By the thresholds of its kubelet, or by those of the command line; the next call knows what one remembered."""
    (node,) = cluster.nodes
    history = str(tmp_path / "history.json")
    first = answer(cluster, "decide", "--node", node, "--history", history)

    amounts = {each["signal"]: each["amount"] for each in first["thresholds"]}
    assert (first["decision"]["action"], amounts["memory.available"]) == ("nothing", "16Mi")
    assert "from the next step on" not in {each["state"] for each in first["thresholds"]}
    soft = ("--eviction-soft=memory.available<128Mi", "--eviction-soft-grace-period=memory.available=1h")
    since = {
        each["since"]
        for _ in range(2)
        for each in answer(cluster, "decide", "--node", node, "--history", history, *soft)["thresholds"]
        if each["signal"] == "memory.available" and not each["hard"]
    }
    assert len(since) == 1
    assert None not in since


def test_a_node_of_a_cluster_is_observed_for_a_trend(cluster: LiveCluster) -> None:
    (node,) = cluster.nodes
    found = answer(cluster, "next", "--node", node, "--observe", "1s", "--interval", "0.2")

    memory = next(each for each in found["signals"] if each["signal"] == "memory.available")
    assert memory["capacity"] == 128 * MI
    assert {each["name"] for each in memory["next"]} == {"greedy", "modest"}


def test_the_configuration_and_the_objects_of_a_cluster_are_checked(cluster: LiveCluster) -> None:
    (node,) = cluster.nodes
    found = answer(cluster, "lint", "--kube", "--node", node)["findings"]

    assert {(each["rule"], each["source"]) for each in found} >= {
        ("budget-matches-nothing", "cluster"),
        ("defaults-dropped", f"node {node}"),
    }
    # The node answers with every default, `failCgroupV1: true` among them: no operator asked for it.
    assert {"single-replica-budget", "unheeded-setting"}.isdisjoint(each["rule"] for each in found)


def test_a_pod_that_has_ended_is_told_with_its_message(cluster: LiveCluster) -> None:
    """What its node saw then is not in the API; what became of it is."""
    (node,) = cluster.nodes
    cluster.create(PODS, pod("brief", ["/bin/true"], node, restartPolicy="Never"))
    cluster.wait(lambda: cluster.pod("brief")["status"]["phase"] == "Succeeded", "the pod to end")
    admin = str(cluster.served.kubeconfig("admin"))

    done = run("explain", "brief", "--node", node, "--kubeconfig", admin)

    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        f"error: `default/brief` has ended on node `{node}`: Succeeded; what its node saw then is not on" in done.stderr
    )


def test_the_words_about_an_evicted_pod_are_those_of_its_node() -> None:
    metadata = {"namespace": "shop", "name": "web", "uid": "u"}
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "}
    found = ended_pod({"metadata": metadata, "status": status})
    assert found == ("shop", "web", "u", "Evicted: The node was low on resource: memory.")


def test_what_the_api_refuses_is_one_line(cluster: LiveCluster) -> None:
    admin, viewer = (str(cluster.served.kubeconfig(user)) for user in ("admin", "viewer"))
    done = run("explain", "greedy", "--node", "no-such-node", "--kubeconfig", admin)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no-such-node" in done.stderr
    done = run("next", "--node", cluster.nodes[0], "--kubeconfig", viewer)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "orbidden" in done.stderr
