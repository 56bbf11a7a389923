"""The scheduler against the real server: which pod goes where, which goes for which, and what people are told."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.controllers.machinery.objects import condition_of, is_terminating
from jettison.errors import ApiError, JettisonError, NotFound, RuntimeFailure
from jettison.runtimes.kube.client import DeleteOptions, KubeClient, PatchType
from jettison.runtimes.kube.kinds import NODES, PODS, PRIORITY_CLASSES, Kind
from tests.controllers.staging import Json, controlled, is_gone, told, until
from tests.live.served import serving
from tests.maintenance.playground import Playground, play

SCHEDULER = "scheduler"
PATIENCE = 30.0


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Path]:
    """A server without the nodes of other tests: the scheduler takes what there is."""
    with serving(tmp_path / "state", "--controllers=-") as server:
        yield server.kubeconfig()


async def _node(ground: Playground, name: str, labels: Json | None = None, pods: int = 110, **spec: Any) -> str:
    """4 cpus, 4 GiB."""
    full = f"{ground.namespace}-{name}"
    room = {"cpu": "4", "memory": "4Gi", "pods": str(pods)}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": full, "labels": labels or {}}, "spec": spec}
    await ground.client.create(NODES, body)
    # What a new node is tainted with, the node lifecycle controller would take away.
    await ground.client.patch(NODES, full, {"spec": {"taints": spec.get("taints")}}, how=PatchType.MERGE)
    status = {"status": {"capacity": room, "allocatable": room}}
    await ground.client.patch(NODES, full, status, how=PatchType.MERGE, subresource="status")
    return full


async def _pod(ground: Playground, name: str, cpu: str = "", memory: str = "", **spec: Any) -> Json:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    metadata: Json = {"name": name, "labels": spec.pop("labels", {"app": "web"})}
    if owner := spec.pop("owner", None):
        metadata["ownerReferences"] = [owner]
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 3, **spec},
    }
    return await ground.client.create(PODS, body, ground.namespace)


async def _priority(ground: Playground, name: str, value: int, policy: str = "PreemptLowerPriority") -> str:
    full = f"{ground.namespace}-{name}"
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": full},
        "value": value,
        "preemptionPolicy": policy,
    }
    await ground.client.create(PRIORITY_CLASSES, body)
    return full


async def _on(ground: Playground, name: str) -> str:
    found: str = (await ground.client.get(PODS, name, ground.namespace))["spec"].get("nodeName", "")
    return found


async def _placed(ground: Playground, name: str) -> str:
    async def look() -> str:
        return await _on(ground, name)

    return await until(look, seconds=PATIENCE)


async def _unschedulable(ground: Playground, name: str, *, reason: str = "Unschedulable") -> str:
    """The message of its condition."""

    async def look() -> str:
        condition = condition_of(await ground.client.get(PODS, name, ground.namespace), "PodScheduled")
        is_so = condition is not None and condition.get("reason") == reason
        return str(condition["message"]) if is_so and condition else ""

    return await until(look, seconds=PATIENCE)


async def _said(ground: Playground, name: str, reason: str) -> set[tuple[str, str]]:
    """Type and message of the events with this reason."""

    async def look() -> set[tuple[str, str]]:
        events = await told(ground.client, name, ground.namespace)
        return {(kind, message) for kind, why, message in events if why == reason}

    return await until(look, seconds=PATIENCE)


async def _free(ground: Playground, name: str) -> None:
    await ground.client.delete(PODS, name, ground.namespace, DeleteOptions(grace_seconds=0))


def test_a_pod_gets_the_node_that_suits_it(alone: Path) -> None:
    """Selectors, taints, cordons and room; the event and the condition are Kubernetes'."""

    async def scene(ground: Playground) -> None:
        disk = await _node(ground, "disk", labels={"disk": "ssd"})
        taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        tainted = await _node(ground, "tainted", taints=[taint])
        await _node(ground, "cordoned", unschedulable=True)
        async with controlled(ground.client, SCHEDULER):
            await _pod(ground, "plain")
            assert await _placed(ground, "plain") == disk
            await _pod(ground, "tolerant", tolerations=[{**taint, "operator": "Equal"}], nodeSelector={})
            assert await _placed(ground, "tolerant") == tainted  # emptier than the other
            field = {"key": "metadata.name", "operator": "In", "values": [tainted]}
            required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
            await _pod(ground, "pinned", affinity=affinity, tolerations=[{"operator": "Exists"}])
            assert await _placed(ground, "pinned") == tainted
            assert await _said(ground, "plain", "Scheduled") == {
                ("Normal", f"Successfully assigned {ground.namespace}/plain to {disk}")
            }
        condition = condition_of(await ground.client.get(PODS, "plain", ground.namespace), "PodScheduled")
        assert condition is not None
        assert condition["status"] == "True"

    play(alone, scene)


def test_a_pod_that_fits_nowhere_says_why_and_comes_when_it_can(alone: Path) -> None:
    """Kubernetes' words, for the filter and for the preemption; the next change that helps is enough."""

    async def scene(ground: Playground) -> None:
        async with controlled(ground.client, SCHEDULER):
            await _pod(ground, "first", memory="3Gi")
            assert await _unschedulable(ground, "first") == "no nodes available to schedule pods"
            small = await _node(ground, "small")
            assert await _placed(ground, "first") == small
            tainted = await _node(ground, "tainted", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
            await _pod(ground, "second", memory="2Gi")
            message = await _unschedulable(ground, "second")
            assert message == (
                "0/2 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s). "
                "no new claims to deallocate, preemption: 0/2 nodes are available: "
                "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
            )
            assert ("Warning", message) in await _said(ground, "second", "FailedScheduling")
            await _free(ground, "first")
            assert await _placed(ground, "second") == small
            await _pod(ground, "third", memory="3Gi")
            await _unschedulable(ground, "third")
            await ground.client.patch(NODES, tainted, {"spec": {"taints": None}}, how=PatchType.MERGE)
            assert await _placed(ground, "third") == tainted

    play(alone, scene)


def test_gates_and_other_schedulers_are_respected(alone: Path) -> None:
    """A gated pod says so; a pod of another scheduler is left alone."""

    async def scene(ground: Playground) -> None:
        await _node(ground, "n")
        async with controlled(ground.client, SCHEDULER):
            await _pod(ground, "gated", schedulingGates=[{"name": "example.com/wait"}])
            await _pod(ground, "foreign", schedulerName="another")
            message = await _unschedulable(ground, "gated", reason="SchedulingGated")
            assert message == "Scheduling is blocked due to non-empty scheduling gates"
            await _pod(ground, "last")
            await _placed(ground, "last")
            assert not await _on(ground, "gated")
            foreign = await ground.client.get(PODS, "foreign", ground.namespace)
            assert condition_of(foreign, "PodScheduled") is None
            opened = {"spec": {"schedulingGates": None}}
            await ground.client.patch(PODS, "gated", opened, ground.namespace, how=PatchType.MERGE)
            await _placed(ground, "gated")

    play(alone, scene)


def test_the_most_important_pod_comes_first(alone: Path) -> None:
    """Room for one, three that want it."""

    async def scene(ground: Playground) -> None:
        high = await _priority(ground, "high", 1000)
        node = await _node(ground, "n")
        for name in ("a", "b"):
            await _pod(ground, name, cpu="3")
        await _pod(ground, "important", cpu="3", priorityClassName=high)
        async with controlled(ground.client, SCHEDULER):
            assert await _placed(ground, "important") == node
            await _unschedulable(ground, "a")
            await _unschedulable(ground, "b")

    play(alone, scene)


def test_preemption_ends_the_least_important_and_waits_for_it(alone: Path) -> None:
    """Why the victim goes and where the preemptor waits; no other pod goes meanwhile, and none takes its place."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        low, high = await _priority(ground, "low", -5), await _priority(ground, "high", 1000)
        never = await _priority(ground, "never", 2000, "Never")
        node = await _node(ground, "n")
        async with controlled(client, SCHEDULER):
            await _pod(ground, "victim", cpu="2", priorityClassName=low)
            await _pod(ground, "spared", cpu="2")
            await _placed(ground, "victim")
            await _placed(ground, "spared")
            await _pod(ground, "polite", cpu="2", priorityClassName=never)
            assert (await _unschedulable(ground, "polite")).endswith(
                "1 Insufficient cpu. "
                "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
            )
            await client.delete(PODS, "polite", space)
            urgent = await _pod(ground, "urgent", cpu="2", priorityClassName=high)
            assert await _unschedulable(ground, "urgent") == "0/1 nodes are available: 1 Insufficient cpu."
            victim = await client.get(PODS, "victim", space)
            why = condition_of(victim, "DisruptionTarget")
            assert is_terminating(victim)
            assert why is not None
            assert (why["status"], why["reason"]) == ("True", "PreemptionByScheduler")
            assert why["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
            assert victim["metadata"]["deletionGracePeriodSeconds"] == 3
            assert (await client.get(PODS, "urgent", space))["status"]["nominatedNodeName"] == node
            said = f"Preempted by pod {urgent['metadata']['uid']} on node {node}"
            assert await _said(ground, "victim", "Preempted") == {("Normal", said)}
            # Something happens, and the preemptor is looked at again.
            await _node(ground, "other", unschedulable=True)
            assert (await _said_again(ground, "urgent")).endswith(
                "no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node."
            )
            assert not is_terminating(await client.get(PODS, "spared", space))
            await _pod(ground, "thief", cpu="2")
            await _unschedulable(ground, "thief")
            await _free(ground, "victim")
            assert await _placed(ground, "urgent") == node
            assert not await _on(ground, "thief")
            assert not is_terminating(await client.get(PODS, "spared", space))

    play(alone, scene)


async def _said_again(ground: Playground, name: str) -> str:
    async def look() -> str:
        condition = condition_of(await ground.client.get(PODS, name, ground.namespace), "PodScheduled")
        message = str(condition["message"]) if condition else ""
        return message if "nominated" in message else ""

    return await until(look, seconds=PATIENCE)


def test_a_pod_that_waits_for_a_place_gives_way_to_the_more_important(alone: Path) -> None:
    """No other pod is ended for that, and the one that gave way waits for nothing any more."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        middle, high = await _priority(ground, "middle", 10), await _priority(ground, "high", 1000)
        node = await _node(ground, "n")
        async with controlled(client, SCHEDULER):
            await _pod(ground, "victim", cpu="2")
            await _pod(ground, "spared", cpu="2", priorityClassName=high)
            await _placed(ground, "victim")
            await _placed(ground, "spared")
            await _pod(ground, "first", cpu="2", priorityClassName=middle)
            await _waits_for(ground, "first", node)
            await _pod(ground, "second", cpu="2", priorityClassName=high)
            await _waits_for(ground, "second", node)
            await _waits_for(ground, "first", "")
            await _free(ground, "victim")
            assert await _placed(ground, "second") == node
            assert not await _on(ground, "first")
            assert not is_terminating(await client.get(PODS, "spared", space))

    play(alone, scene)


async def _waits_for(ground: Playground, name: str, node: str) -> None:
    async def look() -> bool:
        status = (await ground.client.get(PODS, name, ground.namespace)).get("status") or {}
        return bool(status.get("nominatedNodeName", "") == node)

    await until(look, seconds=PATIENCE)


def test_budgets_are_a_wish(alone: Path) -> None:
    """A pod without a budget goes first; a guarded one goes if no other can."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        high = await _priority(ground, "high", 1000)
        first, second = await _node(ground, "a"), await _node(ground, "b")
        owner = await ground.workload("ReplicaSet", "web", 2)
        await ground.budget(minAvailable=1)
        async with controlled(client, SCHEDULER, "disruption-controller"):
            for name, node, app in (("guarded", first, "web"), ("free", second, "other")):
                whose = owner if app == "web" else None
                await _pod(ground, name, cpu="3", nodeName=node, labels={"app": app}, owner=whose)
                await ground.become(name, "Running", ready=True)
            await _pod(ground, "urgent", cpu="3", priorityClassName=high)
            await _free_when_going(ground, "free")
            assert await _placed(ground, "urgent") == second
            assert not is_terminating(await client.get(PODS, "guarded", space))
            await _pod(ground, "urgent2", cpu="3", priorityClassName=high)
            await _free_when_going(ground, "guarded")
            assert await _placed(ground, "urgent2") == first

    play(alone, scene)


async def _free_when_going(ground: Playground, name: str) -> None:
    async def look() -> bool:
        return is_terminating(await ground.client.get(PODS, name, ground.namespace))

    await until(look, seconds=PATIENCE)
    await _free(ground, name)


def test_a_preemption_survives_a_restart(alone: Path) -> None:
    """The next scheduler knows from the API which pod waits for which, and ends no other."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        high = await _priority(ground, "high", 1000)
        node = await _node(ground, "n")
        async with controlled(client, SCHEDULER):
            for name in ("a", "b"):
                await _pod(ground, name, cpu="2")
                await _placed(ground, name)
            await _pod(ground, "urgent", cpu="2", priorityClassName=high)
            assert await _unschedulable(ground, "urgent")
        going = [each["metadata"]["name"] for each in await ground.pods() if is_terminating(each)]
        async with controlled(client, SCHEDULER):
            await _said_again(ground, "urgent")
            assert [each["metadata"]["name"] for each in await ground.pods() if is_terminating(each)] == going
            assert len(going) == 1
            await _free(ground, going[0])
            assert await _placed(ground, "urgent") == node
        assert not await is_gone(client, PODS, ({"a", "b"} - set(going)).pop(), space)

    play(alone, scene)


def test_500_pods_on_10_nodes_at_once(alone: Path) -> None:
    """Spread evenly, none beyond what a node has; the scheduler is ended and started in the middle of it."""

    async def scene(ground: Playground) -> None:
        nodes = [await _node(ground, f"n{number}", pods=52) for number in range(10)]
        owner = await ground.workload("ReplicaSet", "web", 500)
        names = [f"p{number}" for number in range(500)]
        limit = asyncio.Semaphore(16)

        async def create(name: str) -> None:
            async with limit:
                await _pod(ground, name, cpu="70m", memory="64Mi", owner=owner)

        await asyncio.gather(*map(create, names))

        async def bound() -> int:
            return sum(1 for each in await ground.pods() if each["spec"].get("nodeName"))

        async def some() -> bool:
            return await bound() >= 100

        async def all_of_them() -> bool:
            return await bound() == 500

        async with controlled(ground.client, SCHEDULER):
            await until(some, seconds=60)
        async with controlled(ground.client, SCHEDULER):
            await until(all_of_them, seconds=60)
        counts = Counter(each["spec"]["nodeName"] for each in await ground.pods())
        assert counts.keys() == set(nodes)
        assert set(counts.values()) <= {49, 50, 51}

    play(alone, scene)


def test_a_full_cluster_is_never_overfilled(alone: Path) -> None:
    """More pods than places, while pods end all the time: no node ever has more than it can hold."""

    async def scene(ground: Playground) -> None:
        nodes = [await _node(ground, f"n{number}") for number in range(3)]
        for number in range(40):
            await _pod(ground, f"p{number}", cpu="1")
        most: Counter[str] = Counter()

        async def look() -> bool:
            pods = await ground.pods()
            placed = [each for each in pods if each["spec"].get("nodeName")]
            for name, count in Counter(each["spec"]["nodeName"] for each in placed).items():
                most[name] = max(most[name], count)
            for each in placed[:3]:
                try:
                    await _free(ground, each["metadata"]["name"])
                except NotFound:
                    continue
            return not pods

        async with controlled(ground.client, SCHEDULER):
            await until(look, seconds=60)
        assert most == Counter(dict.fromkeys(nodes, 4))

    play(alone, scene)


def test_a_pod_that_another_client_binds_is_counted_there(alone: Path) -> None:
    """Bound by hand while the scheduler runs: its room is taken, and no pod is bound twice."""

    async def scene(ground: Playground) -> None:
        first, second = await _node(ground, "a"), await _node(ground, "b")
        async with controlled(ground.client, SCHEDULER):
            await _pod(ground, "by-hand", cpu="3", schedulerName="me")
            target = {"apiVersion": "v1", "kind": "Node", "name": first}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "by-hand"}, "target": target}
            await ground.client.create(PODS, body, ground.namespace, "binding")
            await _pod(ground, "ours", cpu="3")
            assert await _placed(ground, "ours") == second
            await _pod(ground, "late", cpu="3")
            assert "2 Insufficient cpu" in await _unschedulable(ground, "late")

    play(alone, scene)


class _Forgetful(KubeClient):
    """A connection that breaks after every third binding was done, before its answer came; and before every fifth."""

    bindings = 0

    async def create(self, kind: Kind, body: Json, namespace: str = "", subresource: str = "") -> Json:
        if subresource != "binding":
            return await super().create(kind, body, namespace, subresource)
        self.bindings += 1
        number = self.bindings
        if number % 5 == 0:
            raise RuntimeFailure("the request was lost")
        answer = await super().create(kind, body, namespace, subresource)
        if number % 3 == 0:
            raise RuntimeFailure("the answer was lost")
        return answer


def test_a_lost_answer_is_not_a_second_decision(alone: Path) -> None:
    """Whether the binding was done or not, the pod counts on that node until that is known."""

    async def scene(ground: Playground) -> None:
        for number in range(4):
            await _node(ground, f"n{number}")
        for number in range(40):
            await _pod(ground, f"p{number}", cpu="1")

        async def all_told() -> bool:
            conditions = [condition_of(each, "PodScheduled") for each in await ground.pods()]
            return Counter(each["status"] for each in conditions if each) == {"True": 16, "False": 24}

        async with _Forgetful(ground.client.access) as client, controlled(client, SCHEDULER):
            await until(all_told, seconds=PATIENCE)
            assert client.bindings > 16
        counts = Counter(each["spec"].get("nodeName") for each in await ground.pods())
        del counts[None]
        assert set(counts.values()) == {4}

    play(alone, scene)


class _Unkind(KubeClient):
    """A server that breaks over the bindings of all pods but one, or never answers them, until it is well again."""

    failure: JettisonError | None = None
    read_failure: JettisonError | None = None
    bindings = 0

    async def get(self, kind: Kind, name: str, namespace: str = "", subresource: str = "") -> Json:
        if self.read_failure and kind == PODS:
            raise self.read_failure
        return await super().get(kind, name, namespace, subresource)

    async def create(self, kind: Kind, body: Json, namespace: str = "", subresource: str = "") -> Json:
        if self.failure and subresource == "binding" and body["metadata"]["name"] != "ordinary":
            self.bindings += 1
            raise self.failure
        return await super().create(kind, body, namespace, subresource)


@pytest.mark.parametrize("failure", [ApiError("broken", code=500), RuntimeFailure("no answer")], ids=["500", "silence"])
def test_pods_that_cannot_be_bound_do_not_keep_others_waiting(alone: Path, failure: JettisonError) -> None:
    """As many of them as there are writers. They are not tried without a pause, and not forgotten either."""

    async def scene(ground: Playground) -> None:
        node = await _node(ground, "n", pods=17)
        for number in range(16):
            await _pod(ground, f"p{number}")

        async def all_bound() -> bool:
            return len(await ground.names_on(node)) == 17

        async with _Unkind(ground.client.access) as client:
            client.failure = failure

            async def all_tried() -> bool:
                return client.bindings >= 16

            began = time.monotonic()
            async with controlled(client, SCHEDULER):
                await until(all_tried)
                await _pod(ground, "ordinary")
                assert await _placed(ground, "ordinary") == node
                # The shortest pause is a tenth of a second.
                await asyncio.sleep(0.3)
                assert client.bindings <= 16 * (1 + (time.monotonic() - began) / 0.1)
                client.failure = None
                await until(all_bound, seconds=PATIENCE)

    play(alone, scene)


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_pod_that_was_not_bound_takes_no_room(alone: Path, is_readable: bool) -> None:
    """The server said 500, perhaps also to the look at what it did: the only place on the only node is for the next."""

    async def scene(ground: Playground) -> None:
        node = await _node(ground, "n", pods=1)
        async with _Unkind(ground.client.access) as client:
            client.failure = ApiError("broken", code=500)
            client.read_failure = None if is_readable else client.failure

            async def is_tried() -> bool:
                return bool(client.bindings)

            async with controlled(client, SCHEDULER):
                await _pod(ground, "refused")
                await until(is_tried)
                await _pod(ground, "ordinary")
                assert await _placed(ground, "ordinary") == node

    play(alone, scene)
