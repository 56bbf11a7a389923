"""`jettison up --nodes 2`: a whole cluster by one command, with real pods under real pressure."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders import sharing
from tests.live.cluster import PODS, LiveCluster, is_ready, pod
from tests.live.far_node import FarNode, far_node
from tests.live.kubectl import Kubectl
from tests.live.node import python
from tests.live.quick_start import finished

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(300),
]

Json = dict[str, Any]

FLAGS = ("--node-memory", "256Mi", "--eviction-hard", "memory.available<64Mi")
SLEEP = ("sleep", "1000")
PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}
FAR = """
if [ -e data/seen ]; then
    echo again; trap 'echo goodbye; kill $!; exit' TERM; sleep 600 & wait
else
    touch data/seen; echo first; echo last; exit 3
fi
"""
# Leaks where no pod has leaked before, and never again.
LEAK_ONCE = """
import pathlib, time
mark = pathlib.Path("shared/leaked")
held = []
if mark.exists():
    time.sleep(3600)
mark.touch()
while True:
    held.append(bytearray(b'x') * (1 << 20))
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Of two nodes of 256Mi, which leaves nothing behind."""
    found = LiveCluster(tmp_path_factory.mktemp("cluster"), FLAGS)
    found.start()
    yield found
    found.stop()
    for node in found.nodes:
        assert not list(Path("/sys/fs/cgroup").glob(f"*/jettison/{node}"))


def run(cluster: LiveCluster, document: Json) -> Json:
    """Create a pod and wait until it is ready."""
    cluster.create(PODS, document)
    name = document["metadata"]["name"]
    return cluster.ready(f"{PODS}/{name}")


def _path(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def test_nodes_are_ready_and_their_hearts_beat(cluster: LiveCluster) -> None:
    for name in cluster.nodes:
        node = cluster.ready(_path(name))
        assert node["status"]["capacity"]["memory"] == "256Mi"
        assert node["status"]["allocatable"]["memory"] == "192Mi"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{cluster.nodes[0]}"
    first = cluster.get(lease)["spec"]["renewTime"]
    cluster.wait(lambda: cluster.get(lease)["spec"]["renewTime"] > first, "the lease to be renewed")
    election = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/jettison-controllers"
    assert cluster.get(election)["spec"]["holderIdentity"] == "jettison-serve"


def test_the_scheduler_finds_a_node_and_the_pod_runs(cluster: LiveCluster) -> None:
    found = run(cluster, pod("anywhere", SLEEP))
    assert found["spec"]["nodeName"] in cluster.nodes
    pids = cluster.records(found["spec"]["nodeName"])["anywhere"]
    assert Path(f"/proc/{pids[0]}/cmdline").read_bytes() == b"sleep\x001000\x00"


def test_kubectl_reads_logs(cluster: LiveCluster, program: Path, tmp_path: Path) -> None:
    kubectl = Kubectl(program, cluster.served.kubeconfig(), tmp_path)
    script = "if [ -e data/seen ]; then echo again; sleep 600; else touch data/seen; echo first; echo last; exit 3; fi"
    name = f"talks-{kubectl.minor}"
    volumes = {"volumes": [{"name": "data", "emptyDir": {}}]}
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    cluster.create(PODS, pod(name, ("sh", "-c", script), cluster.nodes[0], container=container, **volumes))
    cluster.wait(lambda: b"again" in _log(cluster, name)[1], "the second run")
    assert kubectl("logs", name) == "again\n"
    assert kubectl("logs", name, "--previous") == "first\nlast\n"
    assert kubectl("logs", name, "--previous", "--tail=1") == "last\n"
    assert kubectl("logs", name, "--previous", "--limit-bytes=3") == "fir"
    assert "is not valid for pod" in kubectl.fails("logs", name, "-c", "nobody")
    began = cluster.pod(name)["status"]["startTime"]
    for more in ([], ["--previous"]):
        for line in kubectl("logs", name, "--timestamps", *more).splitlines():
            said, _, text = line.partition(" ")
            assert began.removesuffix("Z") <= said <= datetime.now(UTC).isoformat(), line
            assert text in ("first", "last", "again")
    assert kubectl("logs", name, "--since=1h") == kubectl("logs", name, f"--since-time={began}") == "again\n"
    assert kubectl("logs", name, "--since-time=2999-01-01T00:00:00Z") == ""
    cluster.wait(lambda: not kubectl("logs", name, "--since=1s"), "the line to be older than a second")
    with kubectl.follow(name) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "again\n"
        kubectl("delete", "pod", name, "--wait=false")
        # It ends with the container, not before.
        following.communicate(timeout=60)
        assert following.returncode == 0


def test_a_deployment_that_no_bare_host_can_run_is_one_pod_that_says_why(
    cluster: LiveCluster, program: Path, tmp_path: Path
) -> None:
    """As the first command that most users try; and with a volume that cannot be mounted yet."""
    kubectl = Kubectl(program, cluster.served.kubeconfig(), tmp_path)
    kubectl("create", "deployment", "nginx", "--image=nginx")
    secret = {"name": "late", "projected": {"sources": [{"secret": {"name": "not-there-yet"}}]}}
    cluster.create(PODS, pod("with-secret", SLEEP, volumes=[secret]))
    try:
        cluster.wait(lambda: "ImagePullBackOff" in kubectl("get", "pods"), "the reason in the list")
        cluster.wait(lambda: "ContainerCreating" in kubectl("get", "pods", "with-secret"), "the reason")
        (made,) = (each for each in cluster.pods() if each["metadata"].get("labels", {}).get("app") == "nginx")
        assert made["status"]["phase"] == "Pending"
        (status,) = made["status"]["containerStatuses"]
        assert "give the container a `command`" in status["state"]["waiting"]["message"]
        name = made["metadata"]["name"]
        cluster.wait(lambda: "Failed" in _said_of(cluster, name), "the event")
        cluster.wait(lambda: "FailedMount" in _said_of(cluster, "with-secret"), "the event")
        assert 'Failed to pull image "nginx"' in kubectl("describe", "pod", name)
    finally:
        kubectl("delete", "deployment", "nginx")
        kubectl("delete", "pod", "with-secret")
    cluster.gone(f"{PODS}/{name}")
    cluster.wait(lambda: name not in cluster.records(made["spec"]["nodeName"]), "the node to forget it")


def test_a_replica_set_whose_pods_are_rejected_makes_few(cluster: LiveCluster) -> None:
    """The node answers OutOfcpu at once, as a kubelet does, and would do so again and again."""
    spec = pod("greedy", SLEEP, cluster.nodes[0], container={"resources": {"requests": {"cpu": "9000"}}})
    body = {
        "metadata": {"name": "greedy"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "greedy"}}, "template": spec},
    }
    del spec["metadata"]["name"]
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    cluster.create(sets, body)
    began = time.monotonic()
    try:
        cluster.wait(lambda: "BackOff" in _said_of(cluster, "greedy"), "the set to back off")
        cluster.wait(lambda: time.monotonic() - began > 4, "a storm")
        made = [each for each in cluster.pods() if each["metadata"].get("labels", {}).get("app") == "greedy"]
        assert {each["status"].get("reason") for each in made} <= {"OutOfcpu", None}
        assert 2 <= len(made) <= 3 + math.log2(1 + time.monotonic() - began)
    finally:
        cluster.served.call("DELETE", f"{sets}/greedy")


def test_no_request_is_decoded_where_nodes_are_guarded(cluster: LiveCluster) -> None:
    """A body of 1.3 MB takes a decoder 160 ms. The API listens and works in one process, the agents are in another."""
    guard, api = cluster.processes
    for node in cluster.nodes:
        cluster.ready(_path(node))
        assert json.loads((cluster.state / "node" / node / "node.json").read_bytes())["pid"] == guard
    assert _holds_port(api, cluster.port)
    assert not _holds_port(guard, cluster.port)
    body = {"metadata": {"name": "huge"}, "spec": {}, "more": [{"a": {}}] * 130_000}
    before = _processor_seconds(guard), _processor_seconds(api)
    for _ in range(5):
        assert cluster.served.call("POST", PODS, body)[0] in range(400, 500)
    spent, worked = _processor_seconds(guard) - before[0], _processor_seconds(api) - before[1]
    assert spent < worked / 2


def _holds_port(pid: int, port: int) -> bool:
    """Whether this process listens there."""
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    (inode,) = (row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A")
    links = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            links.add(each.readlink())
    return Path(f"socket:[{inode}]") in links


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_nodes_are_not_guarded_without_their_api(cluster: LiveCluster) -> None:
    """The command ends, says why, and leaves the pods alone."""
    found = run(cluster, pod("stays", SLEEP, cluster.nodes[0]))
    pids = cluster.records(cluster.nodes[0])["stays"]
    os.kill(cluster.processes[1], signal.SIGKILL)
    assert cluster.ended() == 1
    assert cluster.log.read_text().endswith("error: the process `api-server` has ended: killed by signal 9\n")
    cluster.start()
    assert cluster.ready(f"{PODS}/stays")["metadata"]["uid"] == found["metadata"]["uid"]
    assert cluster.records(cluster.nodes[0])["stays"] == pids


def test_a_signal_to_both_processes_ends_them_in_order(cluster: LiveCluster) -> None:
    """A Ctrl-C in a terminal and a stop by systemd reach every process."""
    guard, api = cluster.processes
    assert cluster.process is not None
    assert cluster.process.stdout is not None
    for _ in cluster.nodes:
        assert any(line.endswith(" is ready\n") for line in cluster.process.stdout)
    said = cluster.log.stat().st_size
    for pid in (api, guard):
        os.kill(pid, signal.SIGINT)
    assert cluster.ended() == 0
    assert not Path(f"/proc/{api}").exists()
    with cluster.log.open() as log:
        log.seek(said)
        lines = list(log)
        assert {json.loads(line)["event"] for line in lines} == {"agent_stopped"}, lines
    cluster.start()


def test_down_ends_the_whole_cluster_and_the_next_start_brings_it_back(cluster: LiveCluster) -> None:
    """As if the machine had been switched off and on again: the API has what it had, and its pods run anew."""
    before = {node: run(cluster, pod(f"returns-{node[-1]}", SLEEP, node)) for node in cluster.nodes}
    guard, api = cluster.processes
    pids = [pid for node in cluster.nodes for pid in cluster.records(node)[f"returns-{node[-1]}"]]
    done = finished("down", "--state-dir", str(cluster.state))
    assert (done.returncode, done.stdout) == (0, f"nodes {', '.join(cluster.nodes)} are down\n"), done.stderr
    assert cluster.ended() == 0
    assert [pid for pid in (guard, api, *pids) if Path(f"/proc/{pid}").exists()] == []
    cluster.start()
    run_again = {f"returns-{node[-1]}" for node in cluster.nodes}
    cluster.wait(lambda: run_again <= {name for each in cluster.nodes for name in cluster.records(each)}, "all to run")
    for node in cluster.nodes:
        name = f"returns-{node[-1]}"
        assert cluster.ready(f"{PODS}/{name}")["metadata"]["uid"] == before[node]["metadata"]["uid"]


def test_nothing_starts_twice_when_everything_is_killed_at_once(cluster: LiveCluster) -> None:
    """Server, controllers and agents are gone in an instant; the pods are not, and they are found again."""
    before = {node: run(cluster, pod(f"survivor-{node[-1]}", SLEEP, node)) for node in cluster.nodes}
    pids = {node: cluster.records(node)[f"survivor-{node[-1]}"] for node in cluster.nodes}
    run(cluster, pod("deleted", SLEEP, cluster.nodes[0]))
    cluster.served.call("DELETE", f"{PODS}/deleted")
    cluster.kill()
    cluster.start()
    cluster.gone(f"{PODS}/deleted")
    for node in cluster.nodes:
        name = f"survivor-{node[-1]}"
        cluster.ready(_path(node))
        after = cluster.pod(name)
        assert after["metadata"]["uid"] == before[node]["metadata"]["uid"]
        assert after["status"]["containerStatuses"] == before[node]["status"]["containerStatuses"]
        assert cluster.records(node)[name] == pids[node]
        assert Path(f"/proc/{pids[node][0]}").exists()


def test_a_pod_evicted_under_pressure_is_replaced_on_the_other_node(cluster: LiveCluster, tmp_path: Path) -> None:
    """The founding story of a cluster: the node saves itself, the ReplicaSet has its pod, the neighbours never knew."""
    for node in cluster.nodes:
        run(cluster, pod(f"neighbour-{node[-1]}", SLEEP, node, container=_asking("16Mi")))
    template = sharing(pod("app", python(LEAK_ONCE)), tmp_path)
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "app"}}, "template": template}
    del template["metadata"]["name"]
    cluster.create("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "app"}, "spec": spec})
    evicted = cluster.wait(lambda: next(filter(_is_evicted, _of_app(cluster)), None), "an eviction")
    assert evicted is not None
    where = evicted["spec"]["nodeName"]
    target = next(each for each in evicted["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")
    assert target["message"] == evicted["status"]["message"]
    assert evicted["status"]["message"].startswith("The node was low on resource: memory. Threshold quantity: 64Mi, ")
    assert not is_ready(evicted)

    replacement = cluster.wait(lambda: next(filter(is_ready, _of_app(cluster)), None), "a replacement")
    assert replacement is not None
    assert replacement["spec"]["nodeName"] == next(name for name in cluster.nodes if name != where)
    cluster.wait(lambda: PRESSURE.items() <= _first_taint(cluster, where).items(), "the taint")
    for node in cluster.nodes:
        neighbour = cluster.pod(f"neighbour-{node[-1]}")
        assert neighbour["status"]["containerStatuses"][0]["restartCount"] == 0
        assert is_ready(neighbour)
    reasons = {"Scheduled", "Started", "Evicted", "Killing"}
    cluster.wait(lambda: reasons <= _said_of(cluster, evicted["metadata"]["name"]), "all that there is to say")


def _first_taint(cluster: LiveCluster, node: str) -> Json:
    taints = cluster.get(_path(node))["spec"].get("taints") or [{}]
    first: Json = taints[0]
    return first


def _said_of(cluster: LiveCluster, name: str) -> set[str]:
    said = cluster.get("/api/v1/namespaces/default/events")["items"]
    return {each["reason"] for each in said if each["involvedObject"]["name"] == name}


def _asking(memory: str) -> Json:
    return {"resources": {"requests": {"memory": memory}}}


def _of_app(cluster: LiveCluster) -> list[Json]:
    return [each for each in cluster.pods() if (each["metadata"].get("labels") or {}).get("app") == "app"]


def _is_evicted(document: Json) -> bool:
    # A replacement may be turned away by the same node while its pressure is not yet known.
    status = document.get("status") or {}
    return status.get("reason") == "Evicted" and "low on resource" in status.get("message", "")


def test_a_node_of_its_own_joins_and_leaves(cluster: LiveCluster, program: Path, tmp_path: Path) -> None:
    """Its pods outlive it, and what they print is heard elsewhere."""
    kubectl = Kubectl(program, cluster.served.kubeconfig(), tmp_path)
    with far_node(cluster, tmp_path, FLAGS, starts_quickly=False) as far:
        before = _killed_while_heard(far, kubectl)
        assert f'node "{far.name}" does not answer at 127.0.0.1:' in kubectl.fails("logs", "far")
        with far.up(signal.SIGTERM):
            # It may be ready, from before, while it does not yet say at which port it is now.
            cluster.wait(lambda: _log(cluster, "far")[0] == 200, "the far node to be asked")
            assert cluster.pod("far")["status"]["containerStatuses"] == before["status"]["containerStatuses"]
            _hear_from_afar(kubectl)
            cluster.gone(f"{PODS}/far")
        assert "came late" not in far.log.read_text() + cluster.log.read_text()
        assert not far.cgroups()


def _log(cluster: LiveCluster, name: str) -> tuple[int, bytes]:
    """As kubectl reads it. Each start of kubectl takes 0.1 s of processor time: too much to look again and again."""
    return cluster.served.ask("GET", f"{PODS}/{name}/log", None, cluster.served.token())


def _killed_while_heard(far: FarNode, kubectl: Kubectl) -> Json:
    """The pod in its second run, as it was when its node was killed; its client knows that there is more."""
    volumes = {"volumes": [{"name": "data", "emptyDir": {}}]}
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    cluster = far.cluster
    with ExitStack() as heard:
        with far.up(signal.SIGKILL):
            cluster.create(PODS, pod("far", ("sh", "-c", FAR), far.name, container=mounted, **volumes))
            cluster.wait(lambda: _log(cluster, "far") == (200, b"again\n"), "the second run")
            before = cluster.wait(lambda: _ready_again(cluster.pod("far")), "the second run to be ready")
            following = heard.enter_context(kubectl.follow("far"))
            assert following.stdout is not None
            assert following.stdout.readline() == "again\n"
        assert "unexpected EOF" in following.communicate(timeout=60)[1]
    return before


def _ready_again(document: Json) -> Json:
    statuses = (document.get("status") or {}).get("containerStatuses") or ()
    return document if is_ready(document) and any(each["restartCount"] == 1 for each in statuses) else {}


def _hear_from_afar(kubectl: Kubectl) -> None:
    """Everything that kubectl can ask of a log; the pod is gone afterwards."""
    assert kubectl("logs", "far") == "again\n"
    assert kubectl("logs", "far", "-c", "main", "--previous") == "first\nlast\n"
    assert kubectl("logs", "far", "--previous", "--tail=1") == "last\n"
    assert kubectl("logs", "far", "--previous", "--limit-bytes=3") == "fir"
    assert "is not valid for pod far" in kubectl.fails("logs", "far", "-c", "nobody")
    with kubectl.follow("far") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "again\n"
        kubectl("delete", "pod", "far", "--wait=false")
        assert following.communicate(timeout=60)[0] == "goodbye\n"
        assert following.returncode == 0
