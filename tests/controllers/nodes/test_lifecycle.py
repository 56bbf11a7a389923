"""From heartbeats to conditions, from conditions to taints, how fast, and what pods are told of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from jettison.controllers.machinery.objects import condition_of
from jettison.controllers.nodes.lifecycle import (
    NOT_READY,
    UNREACHABLE,
    Outage,
    outage_of,
    taints_per_second,
    with_taints,
)
from jettison.manifests.times import time_text
from jettison.runtimes.kube.client import DeleteOptions, Document, PatchType
from jettison.runtimes.kube.kinds import LEASES, NODES, PODS
from tests.controllers.staging import ForwardClock, Json, controlled, told, until, until_told
from tests.maintenance.playground import Playground, play

LIFECYCLE = "node-lifecycle-controller"


async def _node(ground: Playground, name: str) -> Json:
    return await ground.client.get(NODES, name)


async def _taints(ground: Playground, name: str) -> set[tuple[str, str]]:
    return {(each["key"], each["effect"]) for each in (await _node(ground, name))["spec"].get("taints") or ()}


async def _until_tainted(ground: Playground, name: str, *expected: tuple[str, str]) -> None:
    async def is_so() -> bool:
        return await _taints(ground, name) == set(expected)

    await until(is_so)


async def _beat(ground: Playground, name: str, status: str = "True") -> None:
    now = time_text(time.time_ns())
    ready = {"type": "Ready", "status": status, "reason": "r", "lastTransitionTime": now, "lastHeartbeatTime": now}
    await ground.client.patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")


async def _renew(ground: Playground, name: str) -> None:
    now = time_text(time.time_ns()).removesuffix("Z") + f".{time.time_ns() // 1000 % 10**6:06d}Z"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
    body |= {"spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}}
    patch = {"spec": {"renewTime": now}}
    if any(each["metadata"]["name"] == name for each in (await ground.client.list(LEASES, "kube-node-lease")).items):
        await ground.client.patch(LEASES, name, patch, "kube-node-lease", how=PatchType.MERGE)
    else:
        await ground.client.create(LEASES, body, "kube-node-lease")


async def _clear(ground: Playground) -> None:
    """Nodes of other tests would count in the outage."""
    for node in (await ground.client.list(NODES)).items:
        await ground.client.delete(NODES, node["metadata"]["name"], options=DeleteOptions())


def test_a_silent_node_is_given_up(kubeconfig: Path) -> None:
    """Unknown after 50 s, unreachable, its pods not ready; a lease alone keeps a node; a heartbeat heals it all."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _clear(ground)
        silent, leased = await ground.node("silent"), await ground.node("leased")
        await ground.pod("p", silent)
        await _renew(ground, leased)
        clock = ForwardClock()
        async with controlled(client, LIFECYCLE, clock=clock):
            await asyncio.sleep(1)
            clock.forward(49)
            await _renew(ground, leased)
            await asyncio.sleep(0.5)
            assert await _taints(ground, silent) == set()
            clock.forward(2)
            await _until_tainted(ground, silent, (UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))
            assert await _taints(ground, leased) == set()
            ready = condition_of(await _node(ground, silent), "Ready")
            assert ready is not None
            assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
            assert ready["message"] == "Kubelet stopped posting node status."
            pressure = condition_of(await _node(ground, silent), "MemoryPressure")
            assert pressure is not None
            assert pressure["reason"] == "NodeStatusNeverUpdated"

            async def is_unready() -> bool:
                pod = condition_of(await client.get(PODS, "p", space), "Ready")
                return pod is not None and pod["status"] == "False"

            await until(is_unready)

            async def is_told() -> bool:
                return ("Warning", "NodeNotReady", "Node is not ready") in await told(client, "p", space)

            await until(is_told)
            await _beat(ground, silent, "False")
            await _until_tainted(ground, silent, (NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute"))
            await _beat(ground, silent)
            await _until_tainted(ground, silent)
        said = ("Normal", "NodeNotReady", f"Node {silent} status is now: NodeNotReady")
        assert said in await told(client, silent, "default")

    play(kubeconfig, scene)


def test_a_node_that_says_itself_that_it_is_not_ready_keeps_the_word_about_its_pods(kubeconfig: Path) -> None:
    """Only what gets onto it is told. That nodes come and go is told in any case."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _clear(ground)
        own, other = await ground.node("own"), await ground.node("other")
        await ground.pod("there", own)
        await ground.pod("late")

        async def is_ready(name: str) -> bool:
            ready = condition_of(await client.get(PODS, name, space), "Ready")
            return ready is not None and ready["status"] == "True"

        async def late_is_unready() -> bool:
            return not await is_ready("late")

        async with controlled(client, LIFECYCLE):
            registered = ("Normal", "RegisteredNode", f"Node {own} event: Registered Node {own} in Controller")
            await until_told(client, own, "default", registered)
            await _beat(ground, own, "False")
            await _until_tainted(ground, own, (NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute"))
            target = {"apiVersion": "v1", "kind": "Node", "name": own}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"}, "target": target}
            await client.create(PODS, binding, space, "binding")
            await until(late_is_unready)
            assert await is_ready("there")
            await client.delete(NODES, other, options=DeleteOptions())
            removed = ("Normal", "RemovingNode", f"Node {other} event: Removing Node {other} from Controller")
            await until_told(client, other, "default", removed)
        assert {reason for _, reason, _ in await told(client, own, "default")} == {"RegisteredNode"}

    play(kubeconfig, scene)


def test_what_was_begun_before_a_restart_is_gone_on_with(kubeconfig: Path) -> None:
    """The node was given up, and the pods were not told."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _clear(ground)
        await ground.node("other")
        silent = await ground.node("silent")
        await ground.pod("p", silent)
        now = time_text(time.time_ns())
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
        await client.patch(NODES, silent, {"status": {"conditions": [unknown]}}, subresource="status")

        async def is_unready() -> bool:
            ready = condition_of(await client.get(PODS, "p", space), "Ready")
            return ready is not None and ready["status"] == "False"

        async with controlled(client, LIFECYCLE):
            await until(is_unready)

    play(kubeconfig, scene)


def test_nodes_lose_their_pods_one_by_one_and_not_all_of_them(kubeconfig: Path) -> None:
    """One every ten seconds; when none is left that is ready, no pod is evicted any more."""

    async def scene(ground: Playground) -> None:
        await _clear(ground)
        names = [await ground.node(name) for name in "abc"]
        clock = ForwardClock()

        async def doomed() -> int:
            taints = [await _taints(ground, name) for name in names]
            return sum((NOT_READY, "NoExecute") in each for each in taints)

        async with controlled(ground.client, LIFECYCLE, clock=clock):
            await asyncio.sleep(0.5)

            async def both_are_closed() -> bool:
                taints = [await _taints(ground, name) for name in names[:2]]
                return all((NOT_READY, "NoSchedule") in each for each in taints)

            for name in names[:2]:
                await _beat(ground, name, "False")
            await until(both_are_closed)
            assert await doomed() == 1
            clock.forward(10)

            async def both() -> bool:
                return await doomed() == 2

            await until(both)
            await _beat(ground, names[2], "False")

            async def none_ready() -> bool:
                return await doomed() == 0

            await until(none_ready)
            for name in names:
                assert (NOT_READY, "NoSchedule") in await _taints(ground, name)

    play(kubeconfig, scene)


def test_conditions_and_cordons_become_taints_and_strangers_stay(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        name = await ground.node("n", taints=[{"key": "mine", "effect": "NoSchedule"}], unschedulable=True)
        mine = ("mine", "NoSchedule")
        async with controlled(ground.client, LIFECYCLE):
            await _until_tainted(ground, name, mine, ("node.kubernetes.io/unschedulable", "NoSchedule"))
            now = time_text(time.time_ns())
            pressure = {"type": "MemoryPressure", "status": "True", "reason": "r", "lastTransitionTime": now}
            await ground.client.patch(NODES, name, {"status": {"conditions": [pressure]}}, subresource="status")
            await ground.client.patch(NODES, name, {"spec": {"unschedulable": None}}, how=PatchType.MERGE)
            await _until_tainted(ground, name, mine, ("node.kubernetes.io/memory-pressure", "NoSchedule"))
            pressure["status"] = "Unknown"
            await ground.client.patch(NODES, name, {"status": {"conditions": [pressure]}}, subresource="status")
            await _until_tainted(ground, name, mine)

    play(kubeconfig, scene)


def _saying(status: str | None, **labels: str) -> Document:
    conditions = [] if status is None else [{"type": "Ready", "status": status}]
    return {"metadata": {"name": "n", "labels": labels}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("up", "down", "expected"),
    [
        (0, 0, Outage.NONE),
        (1, 0, Outage.NONE),
        (0, 1, Outage.FULL),
        (1, 2, Outage.NONE),
        (1, 3, Outage.PARTIAL),
        (9, 11, Outage.PARTIAL),
        (46, 54, Outage.NONE),
        (45, 55, Outage.PARTIAL),
        (0, 100, Outage.FULL),
    ],
)
def test_the_share_of_nodes_that_are_down(up: int, down: int, expected: Outage) -> None:
    nodes = [_saying("True")] * up + [_saying(("False", "Unknown", None)[each % 3]) for each in range(down)]
    assert outage_of(nodes) is expected


def test_excluded_nodes_do_not_count() -> None:
    excluded = {"metadata": {"name": "x", "labels": {"node.kubernetes.io/exclude-disruption": ""}}, "status": {}}
    assert outage_of([_saying("True"), *[excluded] * 9]) is Outage.NONE
    assert outage_of([_saying("False"), {**_saying("True"), **excluded}]) is Outage.FULL


@pytest.mark.parametrize(
    ("outage", "nodes", "rate"),
    [
        (Outage.NONE, 3, 0.1),
        (Outage.PARTIAL, 50, 0.0),
        (Outage.PARTIAL, 51, 0.01),
        (Outage.FULL, 51, 0.0),
    ],
)
def test_large_clusters_go_slowly_and_small_ones_stop(outage: Outage, nodes: int, rate: float) -> None:
    assert taints_per_second(outage, nodes) == rate


def test_a_taint_that_stays_keeps_its_time_and_its_place() -> None:
    taints = [
        {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule", "timeAdded": "then"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "then"},
        {"key": "node.kubernetes.io/disk-pressure", "effect": "NoExecute", "value": "an operator's own"},
    ]
    node = {"metadata": {"name": "n"}, "spec": {"taints": taints}}
    kept = with_taints(
        node,
        {"node.kubernetes.io/disk-pressure", "node.kubernetes.io/unschedulable"},
        {"node.kubernetes.io/unreachable"},
        "now",
    )
    assert kept == [
        taints[0],
        taints[2],
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "now"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "now"},
    ]
