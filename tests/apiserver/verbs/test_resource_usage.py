"""The metrics API: what nodes say, from their texts to what `kubectl top` reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.verbs.node_client import NodeClient, NodeQuestion
from jettison.apiserver.verbs.resource_usage import NODE, Scrape, Usage, UsageSample, parse_scrape, usages
from jettison.errors import ApiError
from tests.apiserver.served import Served

ROOT = "/apis/metrics.k8s.io/v1beta1"
NODES, PODS = f"{ROOT}/nodes", f"{ROOT}/namespaces/default/pods"
SECOND = 10**9


def text(time_ms: int, cpu: float, start: float = 5.0, memory: int = 2048) -> str:
    """What a node with one pod of one container says."""
    about = '{container="main",namespace="default",pod="web"}'
    return f"""# HELP node_cpu_usage_seconds_total x
node_cpu_usage_seconds_total {2 * cpu} {time_ms}
node_memory_working_set_bytes 4096 {time_ms}
container_cpu_usage_seconds_total{about} {cpu} {time_ms}
container_memory_working_set_bytes{about} {memory} {time_ms}
container_start_time_seconds{about} {start}
resource_scrape_error 0
"""


WEB = ("default", "web", "main")


def test_an_answer_is_read() -> None:
    assert parse_scrape(text(1500, 0.25)).samples == {
        NODE: UsageSample(SECOND // 2, 4096, 1500),
        WEB: UsageSample(SECOND // 4, 2048, 1500, 5.0),
    }


@pytest.mark.parametrize(
    "line",
    [
        "node_cpu_usage_seconds_total 1e999 5",
        "node_cpu_usage_seconds_total NaN 5",
        "node_cpu_usage_seconds_total 1",
        "node_cpu_usage_seconds_total - 5",
        "node_memory_working_set_bytes 1e400",
        'container_cpu_usage_seconds_total{container="a",pod="b"} 1 5',
        'container_cpu_usage_seconds_total{container="A\\"",namespace="n",pod="b"} 1 5',
        'container_cpu_usage_seconds_total{container="a",namespace="n",pod="b"',
        'container_cpu_usage_seconds_total{x="' + "y" * 5000 + '"} 1 5',
        "\0\0\0",
    ],
)
def test_a_line_of_another_form_is_passed_over(line: str) -> None:
    assert parse_scrape(line).samples == {}


def test_the_use_is_between_two_answers_of_one_run() -> None:
    before = parse_scrape(text(1000, 1.0))
    assert usages(before, parse_scrape(text(3000, 2.0)))[WEB] == Usage(SECOND // 2, 2048, 3000, 2000)
    assert WEB not in usages(before, parse_scrape(text(3000, 0.5)))
    assert WEB not in usages(before, parse_scrape(text(3000, 2.0, start=6.0)))
    assert usages(before, parse_scrape(text(1000, 1.0))) == {}
    assert usages(Scrape({}), before) == {}


class ScriptedNodes(NodeClient):
    """Nodes that say what a test wants: each text once, and then nothing but refusals."""

    def __init__(self, **texts: list[str]) -> None:
        self.texts = texts
        self.asked: list[str] = []

    async def read(self, question: NodeQuestion, most_bytes: int) -> bytes:
        assert (question.path, most_bytes) == ("/metrics/resource", 4 * 2**20)
        self.asked.append(question.node)
        if not self.texts.get(question.node):
            raise ApiError("it does not answer", code=503)
        return self.texts[question.node].pop(0).encode()


@pytest.fixture
def nodes() -> ScriptedNodes:
    return ScriptedNodes(n1=[text(1000, 1.0), text(3000, 2.0)])


@pytest.fixture
def api(tmp_path: Path, nodes: ScriptedNodes) -> Iterator[Served]:
    """With two nodes, of which one does not answer, and a pod on each."""
    served = Served(tmp_path, nodes=nodes, usage_pause_seconds=0.0)
    for name in ("n1", "n2"):
        assert served.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"disk": name}}}).code == 201
    containers = [{"name": "main", "image": "i"}]
    for name, node in (("web", "n1"), ("other", "n2"), ("waits", "")):
        served.pod(name, node=node, labels={"app": name}, containers=containers)
    try:
        yield served
    finally:
        served.close()


def names(answer: Any) -> list[str]:
    assert answer.code == 200, answer.content
    return [each["metadata"]["name"] for each in answer.body["items"]]


def test_nodes_as_kubectl_top_reads_them(api: Served) -> None:
    """A node that does not answer is left out, as metrics-server leaves it out."""
    answer = api.get(NODES)
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("NodeMetricsList", "metrics.k8s.io/v1beta1")
    (node,) = answer.body["items"]
    assert node == {
        "metadata": {"name": "n1", "labels": {"disk": "n1"}, "creationTimestamp": "1970-01-01T00:00:03Z"},
        "timestamp": "1970-01-01T00:00:03Z",
        "window": "2s",
        "usage": {"cpu": "1", "memory": "4Ki"},
    }
    one = api.get(f"{NODES}/n1").body
    assert (one["kind"], one["usage"]) == ("NodeMetrics", node["usage"])
    missing = api.get(f"{NODES}/n2")
    assert (missing.code, missing.message) == (404, 'nodemetrics.metrics.k8s.io "n2" not found')


def test_pods_with_their_containers(api: Served, nodes: ScriptedNodes) -> None:
    (pod,) = api.get(PODS).body["items"]
    assert pod["metadata"] == {
        "name": "web", "namespace": "default", "labels": {"app": "web"}, "creationTimestamp": "1970-01-01T00:00:03Z",
    }  # fmt: skip
    assert pod["containers"] == [{"name": "main", "usage": {"cpu": "500m", "memory": "2Ki"}}]
    assert names(api.get(f"{ROOT}/pods", query="labelSelector=app%3Dweb")) == ["web"]
    assert names(api.get(f"{ROOT}/pods", query="labelSelector=app%3Dother")) == []
    assert api.get(f"{PODS}/waits").message == 'podmetrics.metrics.k8s.io "waits" not found'
    # An answer is kept: n1 was asked twice in all.
    assert nodes.asked.count("n1") == 2


def test_an_ephemeral_container_counts_while_it_is_measured(api: Served, nodes: ScriptedNodes) -> None:
    """And the pod is shown without one that has ended."""
    added = [{"name": name, "image": "i"} for name in ("debugger", "ended")]
    path = "/api/v1/namespaces/default/pods/web/ephemeralcontainers"
    assert api.patch(path, {"spec": {"ephemeralContainers": added}}).code == 200
    both = [text(*each) + text(*each).replace('"main"', '"debugger"') for each in ((1000, 1.0), (3000, 2.0))]
    nodes.texts["n1"] = both
    (pod,) = api.get(PODS).body["items"]
    assert [each["name"] for each in pod["containers"]] == ["main", "debugger"]


def test_what_a_node_says_of_other_nodes_pods_does_not_count(api: Served, nodes: ScriptedNodes) -> None:
    lies = [line.replace('pod="web"', 'pod="other"') for line in (text(1000, 1.0), text(3000, 9.0))]
    nodes.texts["n1"] = lies
    assert names(api.get(PODS)) == []


def test_other_verbs_and_roles(api: Served) -> None:
    assert api.get(NODES, token="viewer").code == 200
    assert api.get(NODES, token="evictor").code == 403
    assert api.get(NODES, token="node").code == 403
    assert api.post(NODES, {}).code == 405
    assert api.get(f"{ROOT}/nodes", query="watch=true").code == 405


def test_discovery_names_the_group(api: Served) -> None:
    groups = {each["name"]: each["preferredVersion"]["version"] for each in api.get("/apis").body["groups"]}
    assert groups["metrics.k8s.io"] == "v1beta1"
    listed = api.get(ROOT).body["resources"]
    assert [(each["name"], each["kind"], each["namespaced"], each["verbs"]) for each in listed] == [
        ("nodes", "NodeMetrics", False, ["get", "list"]),
        ("pods", "PodMetrics", True, ["get", "list"]),
    ]
    assert all("storageVersionHash" not in each for each in listed)


def test_a_table_for_kubectl_get(api: Served) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = api.get(NODES, accept=accept).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "CPU", "Memory", "Window"]
    assert table["rows"][0]["cells"] == ["n1", "1", "4Ki", "2s"]
    table = api.get(PODS, accept=accept).body
    assert table["rows"][0]["cells"] == ["web", "500m", "2Ki", "2s"]
