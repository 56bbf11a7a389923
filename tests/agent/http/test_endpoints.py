"""What the agent serves, asked through a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jettison import events
from jettison.agent.http.client import Response, fetch
from jettison.agent.http.endpoints import MOST_PODS, MOST_RECORDS, Sources, probe_family, public_routes, routes
from jettison.agent.http.server import HttpServer
from jettison.agent.journal.journal import Journal
from jettison.agent.sinks.journal import JournalSink
from jettison.agent.sinks.kubernetes_events import KubernetesEvents
from jettison.agent.sinks.metrics import Metrics
from jettison.engine.config.policy import IMPROVED
from jettison.engine.node.evictions import PodCondition
from jettison.engine.node.snapshot import NodeStats, PodUsage, Snapshot
from jettison.errors import ObservationError
from jettison.manifests.summary import parse_summary
from jettison.runtimes.protocol import ContainerStatus, PodStatus, ProbeCount
from jettison.runtimes.stats import NodeDetails
from tests.builders import GI, MI, memory_used, node, pod, policy, snapshot

POLICY = policy(
    {"memory.available": "1Gi", "nodefs.available": "10%"}, {"memory.available": "200Gi"}, switches=IMPROVED
)
PODS = [pod("web", memory="64Mi"), pod("dns", 2_000_000_000)]
SEEN = snapshot(1893456000, node(), PODS, {"web": memory_used(80 * MI), "dns": memory_used(MI)})

Ask = Callable[[str], Response]


class World:
    """Everything the server is told."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = SEEN
        self.complaint: str | None = None
        self.failure: ObservationError | None = None
        self.statuses = [PodStatus(PODS[0], "Running"), PodStatus(PODS[1], "Failed", "Evicted", "low")]

    async def details(self, *, has_stalls: bool) -> NodeDetails:
        if self.failure is not None:
            raise self.failure
        return NodeDetails(0, None, None, {}, {})


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def sources(world: World, tmp_path: Path) -> Iterator[Sources]:
    journal = Journal.open(tmp_path / "journal")
    sink = JournalSink(journal, "node1")
    happened = KubernetesEvents("node1")
    happened.take(events.PodRejected(PODS[0], "NodeAffinity", "no"), 10**9)
    happened.take(events.OutOfMemoryKill(None, "", 1), 2 * 10**9)
    for number in range(60):
        sink.take(events.PodAdmitted(PODS[number % 2]), number)
    with ThreadPoolExecutor(1) as executor:
        yield Sources(
            lambda: POLICY,
            lambda: world.snapshot,
            world.details,
            lambda: world.statuses,
            Metrics().text,
            lambda: world.complaint,
            tmp_path / "journal",
            happened,
            executor,
        )
    journal.close()


@pytest.fixture
def ask(sources: Sources, tmp_path: Path) -> Ask:
    return asking(sources, tmp_path)


def asking(sources: Sources, tmp_path: Path) -> Ask:
    async def asked(path: str) -> Response:
        server = HttpServer(routes(sources))
        await server.listen_unix(tmp_path / "agent.sock")
        try:
            return await asyncio.to_thread(fetch, tmp_path / "agent.sock", path)
        finally:
            await server.close()

    return lambda path: asyncio.run(asked(path))


def document(response: Response) -> Any:
    assert (response.status, response.content_type) == (200, "application/json")
    return json.loads(response.body)


def test_the_summary_is_what_a_kubelet_would_say(ask: Ask) -> None:
    answer = ask("/stats/summary")

    assert document(answer)["node"]["nodeName"] == "node1"
    stats, usages = parse_summary(answer.body)
    assert stats == SEEN.node
    assert {uid: usage.working_set for uid, usage in usages.items()} == {"web": 80 * MI, "dns": MI}


def test_the_reduced_summary_has_only_memory(ask: Ask) -> None:
    reduced = document(ask("/stats/summary?only_cpu_and_memory=true"))
    whole = document(ask("/stats/summary?only_cpu_and_memory=false"))

    assert set(reduced["node"]) == {"nodeName", "memory"}
    assert "fs" in whole["node"]


def test_a_failed_measurement_is_told_to_a_client_and_to_a_scraper(ask: Ask, world: World) -> None:
    assert b"\nresource_scrape_error 0\n" in ask("/metrics/resource").body
    world.failure = ObservationError("cannot read `/proc/stat`: denied")

    answer = ask("/stats/summary")
    assert (answer.status, answer.body) == (500, b"Internal Error: cannot read `/proc/stat`: denied\n")
    assert b"\nresource_scrape_error 1\n" in ask("/metrics/resource").body


def test_before_the_first_look_there_is_nothing_to_say(ask: Ask, world: World) -> None:
    world.snapshot = None

    for path in ("/stats/summary", "/rank"):
        answer = ask(path)
        assert (answer.status, answer.body) == (500, b"Internal Error: the node has not been measured yet\n")


def test_health_is_ok_or_says_what_is_wrong(ask: Ask, world: World) -> None:
    assert ask("/healthz").body == b"ok\n"

    world.complaint = "no look for 60 seconds"
    answer = ask("/healthz")

    assert (answer.status, answer.body) == (500, b"no look for 60 seconds\n")


def test_metrics_are_in_prometheus_format(ask: Ask) -> None:
    answer = ask("/metrics")

    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# TYPE kubelet_evictions counter" in answer.body


def test_the_configuration_is_shown_as_the_kubelet_shows_it(ask: Ask) -> None:
    found = document(ask("/configz"))

    assert found["kubeletconfig"]["evictionHard"] == {"memory.available": "1Gi", "nodefs.available": "10%"}
    assert found["jettison"]["profile"] == "improved"
    assert "hard_before_soft" in found["jettison"]["switches"]


def test_pods_are_a_list_with_ended_ones_in_it(ask: Ask) -> None:
    found = document(ask("/pods"))

    assert (found["kind"], found["apiVersion"]) == ("PodList", "v1")
    assert [(each["metadata"]["name"], each["status"]["phase"]) for each in found["items"]] == [
        ("web", "Running"),
        ("dns", "Failed"),
    ]


def test_the_order_is_shown_for_every_signal_that_was_measured(ask: Ask) -> None:
    found = document(ask("/rank"))

    assert (found["time"], found["node"]) == ("2030-01-01T00:00:00Z", "node1")
    assert len(found["signals"]) == 8
    memory = found["signals"][0]
    assert (memory["signal"], memory["available"], memory["capacity"]) == ("memory.available", 100 * GI, 128 * GI)
    assert memory["thresholds"] == [
        {"threshold": "memory.available<1Gi", "isHard": True, "amount": GI, "isCrossed": False},
        {"threshold": "memory.available<200Gi for 30s", "isHard": False, "amount": 200 * GI, "isCrossed": True},
    ]
    assert memory["order"] == [
        {
            "namespace": "default",
            "name": "web",
            "uid": "web",
            "isCritical": False,
            "qosClass": "Burstable",
            "priority": 0,
            "exceedsRequest": True,
            "usage": 80 * MI,
            "request": 64 * MI,
            "excess": 16 * MI,
        },
        {
            "namespace": "default",
            "name": "dns",
            "uid": "dns",
            "isCritical": True,
            "qosClass": "BestEffort",
            "priority": 2_000_000_000,
            "exceedsRequest": True,
            "usage": MI,
            "request": 0,
            "excess": MI,
        },
    ]


def test_a_pod_without_statistics_is_shown_without_numbers(ask: Ask, world: World) -> None:
    world.snapshot = replace(SEEN, node=NodeStats("n", processes=SEEN.node.processes), usages={"web": PodUsage()})

    (pids,) = document(ask("/rank"))["signals"]

    assert [(each["name"], each["usage"], each["excess"]) for each in pids["order"]] == [
        ("web", 0, 0),
        ("dns", None, None),
    ]


def test_records_come_newest_first_and_not_all_at_once(ask: Ask) -> None:
    def times(path: str) -> list[int]:
        return [each["time"] for each in document(ask(path))["records"]]

    assert times("/journal") == list(range(59, 9, -1))
    assert times("/journal?limit=3") == [59, 58, 57]
    assert times("/journal?pod=default/web&limit=3") == [58, 56, 54]
    assert times("/journal?pod=stranger") == []
    assert len(times(f"/journal?limit={MOST_RECORDS * 10}")) == 60


@pytest.mark.parametrize("limit", ["-1", "", "x", "9" * 5000, "²"])
def test_a_limit_that_is_no_number_is_refused(ask: Ask, limit: str) -> None:
    from urllib.parse import quote

    assert ask(f"/journal?limit={quote(limit)}").status == 400


def test_an_answer_is_never_larger_than_the_agent_can_afford(sources: Sources, tmp_path: Path) -> None:
    ask = asking(replace(sources, most_record_bytes=300), tmp_path)
    assert len(document(ask("/journal"))["records"]) == 1


SECRET = "hunter2"
CONFIDENTIAL = {
    "metadata": {
        "name": "web",
        "labels": {"key": SECRET},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET},
    },
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "command": ["app", SECRET],
                "args": [SECRET],
                "env": [{"name": "PASSWORD", "value": SECRET}],
                "livenessProbe": {
                    "exec": {"command": [SECRET]},
                    "httpGet": {"port": 1, "httpHeaders": [{"name": "Authorization", "value": SECRET}]},
                },
                "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
            }
        ],
        "volumes": [{"name": "v", "hostPath": {"path": f"/{SECRET}"}}],
    },
}


def test_every_user_may_ask_over_tcp_and_no_answer_tells_what_a_manifest_holds(
    world: World, sources: Sources, tmp_path: Path
) -> None:
    """Only the owner of the socket reads commands, variables, annotations and messages, which quote them."""
    container = ContainerStatus("c", "terminated", reason="Error", message=SECRET, exit_code=1)
    condition = PodCondition("Ready", "False", "Odd", SECRET)
    said = PodStatus(PODS[0], "Failed", "InvalidPod", SECRET, document=CONFIDENTIAL, containers=(container,))
    world.statuses = [replace(said, conditions=(condition,)), PodStatus(PODS[1], "Failed", "Evicted", "low")]

    async def ask_both() -> tuple[dict[str, tuple[int, str]], str]:
        server = HttpServer(routes(sources), public_routes(sources))
        await server.listen_unix(tmp_path / "agent.sock")
        port = await server.listen_tcp("127.0.0.1", 0)
        try:
            paths = sorted(routes(sources))
            answers = {path: await asyncio.to_thread(_over_tcp, port, path) for path in paths}
            return answers, (await asyncio.to_thread(fetch, tmp_path / "agent.sock", "/pods")).body.decode()
        finally:
            await server.close()

    answers, private = asyncio.run(ask_both())
    assert SECRET in private
    assert {path: status for path, (status, _) in answers.items() if status != 200} == {"/journal": 403, "/events": 403}
    assert [path for path, (_, body) in answers.items() if SECRET in body] == []
    web, dns = json.loads(answers["/pods"][1])["items"]
    assert (web["metadata"]["name"], web["status"]["phase"], web["status"]["reason"]) == ("web", "Failed", "InvalidPod")
    assert web["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert web["status"]["conditions"] == [{"type": "Ready", "status": "False", "reason": "Odd"}]
    assert dns["status"]["message"] == "low"


def _over_tcp(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_metrics_have_what_is_left_and_what_pods_use(ask: Ask, world: World) -> None:
    lines = ask("/metrics").body.decode().splitlines()

    for line in (
        f'jettison_signal_available{{signal="memory.available"}} {100 * GI}',
        f'jettison_threshold{{signal="memory.available",type="hard"}} {GI}',
        f'jettison_threshold_headroom{{signal="memory.available",type="hard"}} {99 * GI}',
        f'jettison_threshold_headroom{{signal="memory.available",type="soft"}} {-100 * GI}',
        f'pod_memory_working_set_bytes{{namespace="default",pod="web"}} {80 * MI}',
    ):
        assert line in lines
    world.snapshot = None
    before = ask("/metrics").body.decode()
    assert "# TYPE jettison_threshold_headroom gauge\n" in before
    assert "\njettison_threshold_headroom{" not in before


def test_metrics_are_bounded(world: World, ask: Ask) -> None:
    many = [pod(f"p{number}") for number in range(MOST_PODS + 5)]
    world.snapshot = snapshot(1893456000, node(), many, {each.uid: memory_used(MI) for each in many})

    text = ask("/metrics").body.decode()

    assert text.count("\npod_memory_working_set_bytes{") == MOST_PODS


def test_events_are_kubernetes_events_oldest_first(ask: Ask) -> None:
    document = msgspec.json.decode(ask("/events").body)

    assert (document["kind"], document["apiVersion"]) == ("EventList", "v1")
    found = [(each["involvedObject"]["kind"], each["reason"], each["lastTimestamp"]) for each in document["items"]]
    assert found == [("Pod", "NodeAffinity", "1970-01-01T00:00:01Z"), ("Node", "SystemOOM", "1970-01-01T00:00:02Z")]


def test_the_loopback_tells_no_events(sources: Sources) -> None:
    """They quote manifests."""
    assert "/events" in routes(sources)
    assert "/events" not in public_routes(sources)


def test_probes_are_counted_with_a_kubelets_labels() -> None:
    family = probe_family([ProbeCount(pod("a"), "c", "readiness", "failed", 3)])
    labels = (
        ("container", "c"),
        ("namespace", "default"),
        ("pod", "a"),
        ("pod_uid", pod("a").uid),
        ("probe_type", "Readiness"),
        ("result", "failed"),
    )
    assert list(family.read()) == [("prober_probe_total", labels, 3)]
