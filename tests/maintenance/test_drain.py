"""Draining through budgets, with deadlines that hold. What kubectl prints is in `test_recorded`."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from jettison.errors import ApiError
from jettison.runtimes.kube.client import DeleteOptions
from jettison.runtimes.kube.kinds import NAMESPACES, NODES, PODS
from tests.maintenance.playground import Json, Playground, play

VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


def ready(pods: list[Json]) -> int:
    """How many would answer a request."""
    return sum(
        "deletionTimestamp" not in pod["metadata"]
        and any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"])
        for pod in pods
        if pod["status"].get("conditions")
    )


def test_a_service_with_a_budget_is_never_without_a_ready_pod(kubeconfig: Path) -> None:
    """The founding story: two replicas on one node, one may be missing."""

    async def scene(world: Playground) -> None:
        one, other = await world.node("n1"), await world.node("n2")
        owner = await world.workload("ReplicaSet", "web", 2)
        for name in ("web-a", "web-b"):
            await world.pod(name, one, owner=owner)
        await world.budget(maxUnavailable=1)
        await world.count_budgets()
        seen: list[int] = []

        async def count_ready() -> None:
            seen.append(ready(await world.pods()))

        parts = (world.finish_pods, partial(world.replace_pods, other, 0.5), world.count_budgets, count_ready)
        async with world.busy(*parts):
            ran = await world.process("drain", one, "--timeout=60s")
        assert (ran.code, ran.out[-1]) == (0, f"node/{one} drained"), ran
        assert [line.rpartition(": ")[2] for line in ran.err] == [VIOLATION]
        assert sorted(line for line in ran.out if line.endswith(" evicted")) == [
            "pod/web-a evicted",
            "pod/web-b evicted",
        ]
        assert await world.names_on(one) == []
        assert len(await world.names_on(other)) == 2
        assert min(seen) == 1

    play(kubeconfig, scene)


def test_two_nodes_are_emptied_one_after_the_other_through_one_budget(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        nodes = [await world.node("n1"), await world.node("n2")]
        target = await world.node("n3")
        owner = await world.workload("ReplicaSet", "web", 4)
        for index in range(4):
            await world.pod(f"web-{index}", nodes[index % 2], owner=owner)
        await world.budget(minAvailable=3)
        await world.count_budgets()
        seen: list[int] = []

        async def count_ready() -> None:
            seen.append(ready(await world.pods()))

        parts = (world.finish_pods, partial(world.replace_pods, target, 0.2), world.count_budgets, count_ready)
        async with world.busy(*parts):
            ran = await world.run("drain", *nodes, "--timeout=60s")
        assert ran.code == 0, ran
        assert ran.out[:2] == [f"node/{node} cordoned" for node in nodes]
        first, second = (ran.out.index(f"node/{node} drained") for node in nodes)
        evicted = [index for index, line in enumerate(ran.out) if line.endswith(" evicted")]
        assert [index < first for index in evicted] == [True, True, False, False]
        assert second == len(ran.out) - 1
        assert len(await world.names_on(target)) == 4
        assert min(seen) == 3

    play(kubeconfig, scene)


def test_the_timeout_ends_the_patience_that_the_server_asks_for(kubeconfig: Path) -> None:
    """A budget that no controller has counted: `Retry-After: 10`, which makes kubectl ignore its timeout for 100 s."""

    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        owner = await world.workload("ReplicaSet", "web")
        await world.pod("web-a", node, owner=owner)
        await world.budget(minAvailable=1)
        ran = await world.process("drain", node, "--timeout=2s", "--progress")
        assert ran.code == 1
        assert 1.9 <= ran.seconds < 10
        late = f'error when evicting pods/"web-a" -n "{world.namespace}": global timeout reached: 2s'
        assert late in ran.err
        assert any("The disruption budget web is still being processed by the server." in line for line in ran.err)
        assert await world.names_on(node) == ["web-a"]

    play(kubeconfig, scene)


def test_the_timeout_ends_the_wait_for_a_pod_that_does_not_stop(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        owner = await world.workload("ReplicaSet", "web")
        await world.pod("web-a", node, owner=owner)
        evicting = await world.run("drain", node, "--timeout=1500ms")
        text = f'error when waiting for pod "web-a" in namespace "{world.namespace}" to terminate'
        assert f"{text}: context deadline exceeded" in evicting.err
        assert evicting.code == 1
        assert 1.5 <= evicting.seconds < 10
        deleting = await world.run("drain", node, "--timeout=1s", "--disable-eviction")
        assert deleting.err == [
            f'There are pending pods in node "{node}" when an error occurred: context deadline exceeded',
            "pod/web-a",
            f'error: unable to drain node "{node}" due to error: context deadline exceeded, continuing command...',
            "There are pending nodes to be drained:",
            f" {node}",
            "error: context deadline exceeded",
        ]

    play(kubeconfig, scene)


def test_what_is_wrong_on_several_nodes_is_one_line_for_each(kubeconfig: Path) -> None:
    """As with kubectl, which prints line by line only where one node is left."""

    async def scene(world: Playground) -> None:
        first, second = await world.node("n1"), await world.node("n2")
        for pod in ("web-a", "web-b"):
            await world.pod(pod, first)
        await world.pod("web-c", second)
        ran = await world.run("drain", first, second, "--force", "--timeout=1s")
        where = f'in namespace "{world.namespace}" to terminate: context deadline exceeded'
        a, b, c = (f'error when waiting for pod "web-{each}" {where}' for each in "abc")
        assert ran.err[-2:] == [f"[{a}, {b}]", c]

    play(kubeconfig, scene)


def test_a_refused_cordon_stops_the_drain(kubeconfig: Path, viewer: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        owner = await world.workload("ReplicaSet", "web")
        await world.pod("web-a", node, owner=owner)
        ran = await world.run("drain", node, kubeconfig=viewer)
        assert (ran.code, ran.out) == (1, [])
        assert ran.err[0].startswith(f'error: unable to cordon node "{node}": nodes "{node}" is forbidden: User ')
        assert ran.err[1:] == [f"error: nothing is evicted because of nodes that are not cordoned: {node}"]
        assert "deletionTimestamp" not in (await world.pods())[0]["metadata"]

    play(kubeconfig, scene)


def test_a_viewer_is_refused_pod_by_pod_on_a_cordoned_node(kubeconfig: Path, viewer: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1", unschedulable=True)
        owner = await world.workload("ReplicaSet", "web")
        await world.pod("web-a", node, owner=owner)
        ran = await world.run("drain", node, kubeconfig=viewer)
        assert ran.code == 1
        assert ran.out == [f"node/{node} already cordoned", f"evicting pod {world.namespace}/web-a"]
        prefix = f'error when evicting pods/"web-a" -n "{world.namespace}": pods "web-a" is forbidden: User '
        assert ran.err[-1].startswith(prefix)

    play(kubeconfig, scene)


def test_a_new_pod_of_the_same_name_elsewhere_is_left_alone(kubeconfig: Path) -> None:
    """kubectl follows the name and evicts a StatefulSet's pod again on the node where it had found a new home."""

    async def scene(world: Playground) -> None:
        one, other = await world.node("n1"), await world.node("n2")
        owner = await world.workload("StatefulSet", "db")
        await world.pod("db-0", one, owner=owner)
        await world.budget(minAvailable=1)
        await world.count_budgets()
        draining = asyncio.create_task(world.run("drain", one, "--timeout=30s"))
        await asyncio.sleep(2)
        await world.client.delete(PODS, "db-0", world.namespace, DeleteOptions(grace_seconds=0))
        fresh = await world.pod("db-0", other, owner=owner)
        ran = await draining
        assert (ran.code, ran.out[-1]) == (0, f"node/{one} drained"), ran
        (kept,) = await world.pods()
        assert kept["metadata"]["uid"] == fresh["metadata"]["uid"]
        assert "deletionTimestamp" not in kept["metadata"]

    play(kubeconfig, scene)


def test_progress_counts_pods_and_names_the_budget(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        owner = await world.workload("ReplicaSet", "web", 2)
        for name in ("web-a", "web-b"):
            await world.pod(name, node, owner=owner)
        await world.pod("free", node, owner=owner, labels={"app": "free"})
        await world.budget(minAvailable=2)
        await world.count_budgets()
        async with world.busy(world.finish_pods):
            ran = await world.run("drain", node, "--timeout=3s", "--progress")
        progress = [line for line in ran.err if line.startswith("progress: ")]
        assert f"progress: node/{node}: 1 of 3 pods gone, 2 refused" in progress
        cause = "The disruption budget web needs 2 healthy pods and has 2 currently"
        assert f"progress: node/{node}: 2 refused in {world.namespace}: {cause}" in progress
        assert progress[-1] == f"progress: node/{node}: 1 of 3 pods gone, 2 failed"

    play(kubeconfig, scene)


def test_nodes_are_found_by_their_labels_too(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        await world.client.patch(NODES, node, {"metadata": {"labels": {"rack": world.namespace}}})
        ran = await world.run("drain", "-l", f"rack={world.namespace}")
        assert (ran.code, ran.out, ran.err) == (0, [f"node/{node} cordoned", f"node/{node} drained"], [])
        nothing = await world.run("drain", "-l", "rack=nowhere")
        assert (nothing.code, nothing.out, nothing.err) == (0, [], [])

    play(kubeconfig, scene)


def test_one_missing_node_among_others_stops_everything(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        ran = await world.run("drain", f"node/{node}", "no1", "no2")
        assert (ran.code, ran.out) == (1, [])
        assert ran.err == [f'Error from server (NotFound): nodes "{name}" not found' for name in ("no1", "no2")]
        assert "unschedulable" not in (await world.client.get(NODES, node))["spec"]

    play(kubeconfig, scene)


def test_long_lists_are_read_in_pieces(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        owner = await world.workload("ReplicaSet", "web", 7)
        for index in range(7):
            await world.pod(f"web-{index}", node, owner=owner)
        async with world.busy(world.finish_pods):
            ran = await world.run("drain", node, "--chunk-size=2", "--timeout=30s")
        assert (ran.code, sum(line.endswith(" evicted") for line in ran.out)) == (0, 7)

    play(kubeconfig, scene)


def test_pods_that_should_be_gone_for_long_can_be_ignored(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        await world.pod("stuck", node, terminationGracePeriodSeconds=1)
        await world.client.delete(PODS, "stuck", world.namespace)
        await asyncio.sleep(3.5)
        ran = await world.run("drain", node, "--skip-wait-for-delete-timeout=1", "--timeout=10s")
        assert (ran.code, ran.out) == (0, [f"node/{node} cordoned", f"node/{node} drained"])

    play(kubeconfig, scene)


def test_pods_of_a_dying_namespace_are_waited_for(kubeconfig: Path) -> None:
    """Nothing new may be made there, not even an eviction, so kubectl waits for the namespace to do it."""

    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        owner = await world.workload("ReplicaSet", "web")
        await world.pod("web-a", node, owner=owner, metadata={"finalizers": ["example.com/keep"]})
        await world.client.delete(PODS, "web-a", world.namespace)
        await world.client.delete(NAMESPACES, world.namespace)
        with pytest.raises(ApiError, match="because it is being terminated"):
            await world.client.evict("web-a", world.namespace)
        draining = asyncio.create_task(world.run("drain", node, "--timeout=30s"))
        await asyncio.sleep(2)
        await world.client.patch(PODS, "web-a", {"metadata": {"finalizers": None}}, world.namespace)
        async with world.busy(world.finish_pods):
            ran = await draining
        assert (ran.code, ran.err) == (0, []), ran
        assert "pod/web-a evicted" in ran.out

    play(kubeconfig, scene)
