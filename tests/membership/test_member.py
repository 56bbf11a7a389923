"""A node joins: it is known and ready, runs what is bound to it, reports how that goes, and runs on without the API."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.engine.config.policy import Policy
from jettison.engine.scheduling.placement import Taint
from jettison.manifests.times import parse_time
from jettison.membership.registration import RENEW_SECONDS
from jettison.runtimes.kube.client import DeleteOptions, KubeClient, PatchType
from jettison.runtimes.kube.kinds import EVENTS, LEASES, NODES, PODS, Kind
from tests.controllers.staging import is_gone, told, until
from tests.live.served import Served, serving
from tests.membership.joined import ADDRESS, PATIENCE, Joined, client_of, condition, joined, play
from tests.watching import one_by_one

Json = dict[str, Any]

pytestmark = pytest.mark.timeout(300)

SLEEP = ["sleep", "1000"]
DEAF = ["sh", "-c", "trap '' TERM; touch shared/deaf; exec sleep 600"]


def test_the_node_makes_itself_known(served: Served, tmp_path: Path) -> None:
    """With its size, its labels and the operator's taints; and the lease belongs to the node."""

    async def scenario() -> None:
        taint = Taint("only", "tests", "NoSchedule")
        async with joined(served, "m1", tmp_path, taint, labels={"disk": "ssd"}) as member:
            node = await until(lambda: _ready_node(member), seconds=PATIENCE)
            assert node["metadata"]["labels"].items() >= {
                ("kubernetes.io/hostname", "m1"),
                ("kubernetes.io/os", "linux"),
                ("disk", "ssd"),
            }
            assert node["spec"]["taints"] == [
                {"key": "only", "value": "tests", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            ]
            status = node["status"]
            assert (status["capacity"]["memory"], status["allocatable"]["memory"]) == ("512Mi", "511Mi")
            assert status["addresses"][0] == {"type": "InternalIP", "address": "127.0.0.1"}
            assert status["nodeInfo"]["kernelVersion"] == os.uname().release
            assert condition(node, "Ready")["reason"] == "KubeletReady"
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure"):
                assert condition(node, kind)["status"] == "False"
            lease = await until(lambda: _owned_lease(member), seconds=PATIENCE)
            assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
            assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("m1", 40)
            said = await until(lambda: _told(member, "NodeReady"), seconds=PATIENCE)
            assert ("Normal", "NodeReady", "Node m1 status is now: NodeReady") in said
            found = (await member.admin.list(EVENTS, "default", fields="involvedObject.name=m1")).items
            assert {each["involvedObject"]["uid"] for each in found} == {"m1"}, "where kubectl describe looks"

    play(scenario())


def test_what_the_cluster_did_to_the_node_stays(served: Served, tmp_path: Path) -> None:
    """A node that comes back keeps taints, labels and the cordon that others gave it."""

    async def scenario() -> None:
        async with joined(served, "m2", tmp_path, Taint("first", "", "NoSchedule")) as member:
            await until(lambda: _ready_node(member), seconds=PATIENCE)
            patch = {"metadata": {"labels": {"rack": "7"}}, "spec": {"unschedulable": True, "taints": []}}
            await member.admin.patch(NODES, "m2", patch, how=PatchType.MERGE)
        async with joined(served, "m2", tmp_path, Taint("first", "", "NoSchedule"), labels={"disk": "ssd"}) as member:

            async def has_label() -> Json | None:
                node = await member.admin.get(NODES, "m2")
                return node if node["metadata"]["labels"].get("disk") == "ssd" else None

            node = await until(has_label, seconds=PATIENCE)
            assert node is not None
            assert node["metadata"]["labels"]["rack"] == "7"
            assert node["spec"].get("unschedulable") is True
            assert not node["spec"].get("taints")

    play(scenario())


def test_what_an_earlier_kubelet_has_left_is_taken_back(served: Served, tmp_path: Path) -> None:
    """A merge keeps what it does not name. Extended resources stay, as with a kubelet."""
    theirs = {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.9"},
            {"type": "InternalIP", "address": "fd00::9"},
            {"type": "ExternalIP", "address": "8.8.8.8"},
        ],
        "capacity": {"hugepages-32Mi": "64Mi", "example.com/dongle": "4"},
        "allocatable": {"hugepages-32Mi": "64Mi", "example.com/dongle": "4"},
        "images": [{"names": ["nginx:1"], "sizeBytes": 5}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "volumesInUse": ["kubernetes.io/csi/driver^volume"],
        "runtimeHandlers": [{"name": "runc"}],
        "nodeInfo": {"swap": {"capacity": 5}},
    }

    async def scenario() -> None:
        async with client_of(served) as admin:
            await admin.create(NODES, {"metadata": {"name": "m21"}})
            await admin.patch(NODES, "m21", {"status": theirs}, subresource="status")
        async with joined(served, "m21", tmp_path) as member:
            node = await until(lambda: _ready_node(member), seconds=PATIENCE)
            assert node is not None
            status = node["status"]
            assert [each["address"] for each in status["addresses"]] == [ADDRESS, "m21"]
            for amounts in ("capacity", "allocatable"):
                assert "hugepages-32Mi" not in status[amounts]
                assert status[amounts]["example.com/dongle"] == "4"
            assert not {"images", "volumesInUse", "runtimeHandlers"} & status.keys()
            assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 0
            assert "swap" not in status["nodeInfo"]

    play(scenario())


def test_an_unchanged_status_is_told_as_often_as_the_configuration_says(served: Served, tmp_path: Path) -> None:
    """nodeStatusUpdateFrequency and nodeStatusReportFrequency; by default it would take five minutes."""
    often = {"nodeStatusUpdateFrequency": "1s", "nodeStatusReportFrequency": "1s"}
    wishes = Policy.of({"evictionHard": {"memory.available": "1Mi"}, **often})

    async def scenario() -> None:
        async with joined(served, "m5", tmp_path, policy=wishes) as member:
            node = await until(lambda: _ready_node(member), seconds=PATIENCE)
            assert node is not None
            first = condition(node, "Ready")["lastHeartbeatTime"]

            async def is_told_again() -> bool:
                return bool(condition(await member.admin.get(NODES, "m5"), "Ready")["lastHeartbeatTime"] != first)

            assert await until(is_told_again, seconds=PATIENCE)

    play(scenario())


def test_a_deleted_node_is_told_of_and_gets_no_lease(served: Served, tmp_path: Path) -> None:
    """A lease that belongs to a Node that is gone is deleted by Kubernetes, and was created again every ten seconds.
    The next start creates both.
    """

    async def scenario() -> None:
        async with joined(served, "m4", tmp_path) as member:
            assert await until(lambda: _owned_lease(member), seconds=PATIENCE)
            await member.admin.delete(NODES, "m4")

            async def is_told() -> bool:
                said = [each.why for each in member.said.facts if isinstance(each, events.ActionFailed)]
                return any("node m4 was deleted from the API" in why for why in said)

            assert await until(is_told, seconds=PATIENCE)
            await member.admin.delete(LEASES, "m4", "kube-node-lease")
            await asyncio.sleep(RENEW_SECONDS + 2)
            assert await is_gone(member.admin, LEASES, "m4", "kube-node-lease")
            failed = [each.what for each in member.said.facts if isinstance(each, events.ActionFailed)]
            assert "renew the node's lease" not in failed
        async with joined(served, "m4", tmp_path) as member:
            assert await until(lambda: _ready_node(member), seconds=PATIENCE)
            assert await until(lambda: _owned_lease(member), seconds=PATIENCE)

    play(scenario())


def test_a_bound_pod_runs_and_its_status_comes_back(served: Served, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(served, "m3", tmp_path) as member:
            await member.create("web", SLEEP)
            pod = await member.until_ready("web")
            status = pod["status"]
            assert (status["phase"], status["qosClass"]) == ("Running", "BestEffort")
            assert (status["podIP"], status["hostIP"]) == ("127.0.0.1", "127.0.0.1")
            assert status["observedGeneration"] == pod["metadata"]["generation"]
            assert {each["type"]: each["status"] for each in status["conditions"]} == dict.fromkeys(
                ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True"
            )
            assert all(parse_time(each["lastTransitionTime"]) for each in status["conditions"])
            container = status["containerStatuses"][0]
            assert (container["name"], container["ready"], list(container["state"])) == ("main", True, ["running"])
            assert (container["started"], container["lastState"]) == (True, {})
            assert container["containerID"] == f"jettison://{pod['metadata']['uid']}/main/0"
            said = await until(lambda: _about(member, "web"), seconds=PATIENCE)
            assert ("Normal", "Started", "Container started") in said
            version = pod["metadata"]["resourceVersion"]
            await asyncio.sleep(1.5)
            assert (await member.pod("web"))["metadata"]["resourceVersion"] == version, "nothing is told twice"

    play(scenario())


def test_probes_ask_where_the_pod_is_said_to_be(served: Served, tmp_path: Path) -> None:
    """A server that listens at its `podIP` alone, as it learns it from the downward API, was never ready."""
    listen = "import os, socket, time; server = socket.create_server((os.environ['IP'], int(os.environ['PORT'])))"
    with socket.create_server(("127.0.0.9", 0)) as probe:
        port = probe.getsockname()[1]
    where = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}

    async def scenario() -> None:
        async with joined(served, "m6", tmp_path, address="127.0.0.9") as member:
            container = {
                "env": [where, {"name": "PORT", "value": str(port)}],
                "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
            }
            await member.create("there", [sys.executable, "-c", f"{listen}; time.sleep(1000)"], container=container)
            assert (await member.until_ready("there"))["status"]["podIP"] == "127.0.0.9"

    play(scenario())


def test_a_deleted_pod_ends_within_its_grace_and_goes(served: Served, tmp_path: Path) -> None:
    """Its exit code is reported, and a watcher sees how it ended before it is gone."""

    async def scenario() -> None:
        async with joined(served, "m16", tmp_path) as member:
            await member.create("polite", ["sh", "-c", "trap 'kill $!; exit 7' TERM; sleep 600 & wait"])
            pod = await member.until_ready("polite")
            since = (await member.admin.list(PODS, "default")).resource_version
            await member.admin.delete(PODS, "polite", "default")
            seen: list[Json] = []
            async with asyncio.timeout(PATIENCE):
                async for kind, document in one_by_one(member.admin.watch(PODS, since, "default")):
                    if document["metadata"]["name"] != "polite":
                        continue
                    seen.append(document)
                    if kind == "DELETED":
                        break
            assert {each["metadata"]["uid"] for each in seen} == {pod["metadata"]["uid"]}
            last = seen[-1]["status"]
            assert last["phase"] == "Failed"
            assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
            assert condition(seen[-1], "Ready")["status"] == "False"
            assert not member.node.runtime.statuses()

    play(scenario())


@pytest.mark.parametrize("grace", [0, 1])
def test_a_deletion_can_be_hurried(served: Served, tmp_path: Path, grace: int) -> None:
    """A pod that would have had an hour has a second, by force or by a shorter grace period."""

    async def scenario() -> None:
        async with joined(served, f"m{18 + grace}", tmp_path) as member:
            name = f"deaf-{grace}"
            container = {
                "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
                "readinessProbe": {"exec": {"command": ["test", "-e", "shared/deaf"]}, "periodSeconds": 1},
            }
            spec = {"volumes": [{"name": "shared", "emptyDir": {}}], "terminationGracePeriodSeconds": 3600}
            await member.create(name, DEAF, container=container, **spec)
            await member.until_ready(name)
            await member.admin.delete(PODS, name, "default")
            await until(lambda: _is_ending(member), seconds=PATIENCE)
            assert not await is_gone(member.admin, PODS, name, "default")
            assert condition(await member.pod(name), "Ready")["status"] == "True", "until it has really ended"
            await member.admin.delete(PODS, name, "default", DeleteOptions(grace_seconds=grace))
            await until(lambda: is_gone(member.admin, PODS, name, "default"), seconds=PATIENCE)
            await until(lambda: _is_empty(member), seconds=PATIENCE)

    play(scenario())


def test_what_has_ended_is_never_begun_anew(served: Served, tmp_path: Path) -> None:
    """Not by a node that knows how it ended, and not by one that has lost its memory."""

    async def scenario() -> None:
        marks = tmp_path / "marks"
        command = ["sh", "-c", "echo ran >> shared/marks; exit 3"]
        volumes = [{"name": "shared", "hostPath": {"path": str(tmp_path)}}]
        mounts = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
        async with joined(served, "m7", tmp_path / "first") as member:
            await member.create("once", command, restartPolicy="Never", volumes=volumes, container=mounts)
            pod = await member.until_phase("once", "Failed")
            assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        async with joined(served, "m7", tmp_path / "second") as member:
            await member.create("next", SLEEP)
            await member.until_ready("next")
            assert [status.pod.name for status in member.node.runtime.statuses()] == ["next"]
        assert marks.read_text() == "ran\n"

    play(scenario())


def test_a_restarted_agent_finds_its_pods_and_starts_nothing_twice(served: Served, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(served, "m8", tmp_path, keeps_pods=True) as member:
            await member.create("stays", SLEEP)
            before = await member.until_ready("stays")
            await member.create("leaves", SLEEP)
            await member.until_ready("leaves")
        async with joined(served, "m8", tmp_path) as member:
            await member.admin.delete(PODS, "leaves", "default")
            await until(lambda: is_gone(member.admin, PODS, "leaves", "default"), seconds=PATIENCE)
            after = await member.until_ready("stays")
            assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
            assert member.said.count(events.ContainerStarted) == 0

    play(scenario())


def test_a_node_with_another_address_goes_on_with_its_pods(served: Served, tmp_path: Path) -> None:
    """The former address was kept beside the new one, which the API refuses: no status was reported any more."""

    async def scenario() -> None:
        async with joined(served, "m20", tmp_path, address="127.0.0.9", keeps_pods=True) as member:
            await member.create("moved", SLEEP)
            assert (await member.until_ready("moved"))["status"]["podIPs"] == [{"ip": "127.0.0.9"}]
        async with joined(served, "m20", tmp_path) as member:
            await until(lambda: _has_address(member, "moved", "127.0.0.1"), seconds=PATIENCE)
            status = (await member.pod("moved"))["status"]
            assert [status["podIPs"], status["hostIPs"]] == [[{"ip": "127.0.0.1"}]] * 2

    async def _has_address(member: Joined, name: str, address: str) -> bool:
        return bool((await member.pod(name))["status"]["podIP"] == address)

    play(scenario())


def test_a_node_does_not_need_its_server(tmp_path: Path) -> None:
    """While it is away pods go on and end; when it is back, all of that is told. And the complaints are few."""

    async def scenario() -> None:
        folder = tmp_path / "server"
        with serving(folder, "--controllers=-", "--node", "m9") as server:
            port = server.port
            async with joined(server, "m9", tmp_path / "node", keeps_pods=True) as member:
                await member.create("stays", SLEEP)
                await member.create(
                    "ends", ["sh", "-c", "while ! [ -e go ]; do sleep 0.05; done"], restartPolicy="Never"
                )
                await member.until_ready("stays")
                await member.until_ready("ends")
                server.process.terminate()
                await asyncio.to_thread(server.process.wait)
                ends = next(each for each in member.node.runtime.statuses() if each.pod.name == "ends")
                home = tmp_path / "node" / "files" / "pods" / ends.pod.uid / "containers" / "main" / "0"
                (home / "go").touch()
                await until(lambda: _has_phase(member, "ends", "Succeeded"), seconds=PATIENCE)
                # Long enough for every loop to fail several times.
                await asyncio.sleep(1.5)
                assert await _has_phase(member, "stays", "Running")
                with serving(folder, "--controllers=-", "--node", "m9", listen=f"127.0.0.1:{port}"):
                    await member.until_phase("ends", "Succeeded")
                    await member.create("new", SLEEP)
                    await member.until_ready("new")
                    assert member.said.count(events.ContainerStarted) == 3
                    assert member.said.count(events.ActionFailed) < 15
                    await member.node.stop_pods()

    play(scenario())


def test_a_pod_that_vanished_is_ended(served: Served, tmp_path: Path) -> None:
    """Deleted while the node was away and unable to have its say."""

    async def scenario() -> None:
        async with joined(served, "m10", tmp_path, keeps_pods=True) as member:
            await member.create("orphan", SLEEP)
            await member.until_ready("orphan")
        async with client_of(served) as admin:
            await admin.delete(PODS, "orphan", "default", DeleteOptions(grace_seconds=0))
        async with joined(served, "m10", tmp_path) as member:
            await until(lambda: _is_empty(member), seconds=PATIENCE)

    play(scenario())


def test_a_deleted_pod_of_which_nothing_is_left_can_go(served: Served, tmp_path: Path) -> None:
    """The node has lost its memory and its processes; only the node may say that the pod has ended."""

    async def scenario() -> None:
        async with joined(served, "m11", tmp_path / "first") as member:
            await member.create("lost", SLEEP)
            await member.until_ready("lost")
        # Its pods ended with it, which the server has not heard of.
        async with client_of(served) as admin:
            await admin.delete(PODS, "lost", "default")
            since = (await admin.list(PODS, "default")).resource_version
            async with joined(served, "m11", tmp_path / "second") as member:
                async with asyncio.timeout(PATIENCE):
                    async for kind, document in one_by_one(admin.watch(PODS, since, "default")):
                        if kind == "DELETED" and document["metadata"]["name"] == "lost":
                            break
                assert member.said.count(events.ContainerStarted) == 0
            assert document["status"]["phase"] == "Failed"
            ended = document["status"]["containerStatuses"][0]["state"]["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")

    play(scenario())


def test_a_pod_that_may_not_run_here_fails_with_the_reason(served: Served, tmp_path: Path) -> None:
    """The node checks again: labels and taints may have changed since the pod was bound."""

    async def scenario() -> None:
        async with joined(served, "m12", tmp_path) as member:
            await until(lambda: _ready_node(member), seconds=PATIENCE)
            await member.create("large", SLEEP, container={"resources": {"requests": {"memory": "1Gi"}}})
            pod = await member.until_phase("large", "Failed")
            assert pod["status"]["reason"] == "OutOfmemory"
            patch = {"spec": {"taints": [{"key": "away", "effect": "NoExecute"}]}}
            await member.admin.patch(NODES, "m12", patch, how=PatchType.MERGE)
            await until(lambda: _knows_taint(member), seconds=PATIENCE)
            await member.create("unwelcome", SLEEP)
            pod = await member.until_phase("unwelcome", "Failed")
            assert pod["status"]["reason"] == "TaintToleration"

    play(scenario())


def test_what_others_wrote_into_a_status_is_put_right(served: Served, tmp_path: Path) -> None:
    """A node that counted as lost had its pods marked as not ready; now that it is back they are ready again."""

    async def scenario() -> None:
        async with joined(served, "m13", tmp_path) as member:
            await member.create("righted", SLEEP)
            before = await member.until_ready("righted")
            conditions = [{"type": "Ready", "status": "False"}, {"type": "example.com/theirs", "status": "True"}]
            await member.admin.patch(
                PODS, "righted", {"status": {"conditions": conditions}}, "default", subresource="status"
            )
            after = await member.until_ready("righted")
            assert before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"]
            assert condition(after, "example.com/theirs")["status"] == "True"

    play(scenario())


async def _ready_node(member: Joined) -> Json:
    found = (await member.admin.list(NODES, fields=f"metadata.name={member.name}")).items
    return found[0] if found and condition(found[0], "Ready").get("status") == "True" else {}


async def _owned_lease(member: Joined) -> Json:
    if await is_gone(member.admin, LEASES, member.name, "kube-node-lease"):
        return {}
    lease = await member.admin.get(LEASES, member.name, "kube-node-lease")
    return lease if lease["metadata"].get("ownerReferences") else {}


async def _told(member: Joined, reason: str) -> set[tuple[str, str, str]]:
    found = await told(member.admin, member.name, "default")
    return found if any(each[1] == reason for each in found) else set()


async def _about(member: Joined, name: str) -> set[tuple[str, str, str]]:
    return await told(member.admin, name, "default")


async def _is_ending(member: Joined) -> bool:
    return any(status.is_ending for status in member.node.runtime.statuses())


async def _is_empty(member: Joined) -> bool:
    return not member.node.runtime.statuses()


async def _has_phase(member: Joined, name: str, phase: str) -> bool:
    return any(each.pod.name == name and each.phase == phase for each in member.node.runtime.statuses())


async def _knows_taint(member: Joined) -> bool:
    return bool(member.node.keeper.admitter.node.taints)


def test_a_pod_that_a_finalizer_keeps_is_not_asked_to_go_without_end(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    delete = KubeClient.delete

    async def counted(client: KubeClient, kind: Kind, name: str, *arguments: Any) -> Any:
        asked.append(name)
        return await delete(client, kind, name, *arguments)

    async def scenario() -> None:
        async with joined(served, "m17", tmp_path) as member:
            await member.create("held", SLEEP)
            await member.until_ready("held")
            patch = {"metadata": {"finalizers": ["example.org/hold"]}}
            await member.admin.patch(PODS, "held", patch, "default", how=PatchType.MERGE)
            await member.admin.delete(PODS, "held", "default")
            monkeypatch.setattr(KubeClient, "delete", counted)
            await until(lambda: _has_ended(member, "held"), seconds=PATIENCE)
            await until(lambda: _was_asked(asked), seconds=PATIENCE)
            # Once for each state that it sees: what it writes itself makes others.
            await asyncio.sleep(1.5)
            asked.clear()
            await asyncio.sleep(2)
            assert asked == []
            patch["metadata"]["finalizers"] = []
            await member.admin.patch(PODS, "held", patch, "default", how=PatchType.MERGE)
            await until(lambda: is_gone(member.admin, PODS, "held", "default"), seconds=PATIENCE)

    async def _was_asked(asked: list[str]) -> bool:
        return bool(asked)

    async def _has_ended(member: Joined, name: str) -> bool:
        pod = await member.pod(name)
        return bool(pod["status"]["containerStatuses"][0]["state"].get("terminated"))

    play(scenario())
