"""Pods that no other controller removes: orphans, the abandoned, and the oldest of too many that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jettison.controllers.garbage.pods import PodGarbageController, _surplus
from jettison.controllers.machinery.event_recorder import EventRecorder
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.controllers.settings import ControllerSettings
from jettison.runtimes.kube.cache import Caches
from jettison.runtimes.kube.client import KubeClient, PatchType
from jettison.runtimes.kube.kinds import NODES, PODS
from tests.controllers.staging import ForwardClock, Json, is_gone
from tests.maintenance.playground import Playground, play
from tests.watching import one_by_one


def _ended(name: str, created: str, phase: str = "Failed", reason: str = "") -> Json:
    return {"metadata": {"name": name, "creationTimestamp": created}, "status": {"phase": phase, "reason": reason}}


PILE = [
    _ended("running", "2030-01-01T00:00:00Z", "Running"),
    _ended("pending", "2030-01-01T00:00:00Z", "Pending"),
    _ended("done-old", "2030-01-01T00:00:01Z", "Succeeded"),
    _ended("failed-b", "2030-01-01T00:00:02Z"),
    _ended("failed-a", "2030-01-01T00:00:02Z"),
    _ended("evicted-new", "2030-01-01T00:00:09Z", reason="Evicted"),
    _ended("evicted-old", "2030-01-01T00:00:05Z", reason="Evicted"),
]


@pytest.mark.parametrize(
    ("most_ended", "most_evicted", "expected"),
    [
        (12_500, None, []),
        (5, None, []),
        (4, None, ["evicted-old"]),
        (2, None, ["evicted-old", "evicted-new", "done-old"]),
        (1, None, ["evicted-old", "evicted-new", "done-old", "failed-a"]),
        (0, None, []),
        (0, 1, ["evicted-old"]),
        (0, 0, ["evicted-old", "evicted-new"]),
        (3, 1, ["evicted-old", "evicted-new"]),
        (4, 1, ["evicted-old"]),
    ],
)
def test_evicted_pods_go_first_then_the_oldest(most_ended: int, most_evicted: int | None, expected: list[str]) -> None:
    assert [each["metadata"]["name"] for each in _surplus(PILE, most_ended, most_evicted)] == expected


@asynccontextmanager
async def _collector(client: KubeClient, clock: ForwardClock, **settings: Any) -> AsyncIterator[PodGarbageController]:
    """Over caches that keep up; rounds are the test's."""
    caches = Caches(client, clock)
    around = Surroundings(client, caches, EventRecorder(client, clock), clock, ControllerSettings(**settings))
    controller = PodGarbageController(around)
    running = asyncio.create_task(caches.run())
    try:
        await caches.listed()
        yield controller
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_orphans_go_after_forty_seconds(kubeconfig: Path) -> None:
    """Not before, not while their node is there, and not when it is back in time."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await ground.pod("orphan", f"{space}-ghost")
        await ground.pod("housed", await ground.node("n"))
        await ground.pod("waiting", "", phase="Pending", ready=False)
        await ground.pod("late", f"{space}-late")
        clock = ForwardClock()
        async with _collector(client, clock) as controller:
            await controller.collect()
            clock.forward(39)
            await controller.collect()
            assert not await is_gone(client, PODS, "orphan", space)
            clock.forward(2)
            late = await ground.node("late")
            await controller.collect()
            assert await is_gone(client, PODS, "orphan", space)
            for name in ("housed", "waiting", "late"):
                assert not await is_gone(client, PODS, name, space), name
            await client.delete(NODES, late)

    play(kubeconfig, scene)


def test_an_orphan_says_why_it_went(kubeconfig: Path) -> None:
    """On its way out it becomes Failed and gets the condition; a watcher sees both."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await ground.pod("orphan", f"{space}-ghost")
        since = (await client.list(PODS, space)).resource_version
        clock = ForwardClock()
        async with _collector(client, clock) as controller:
            await controller.collect()
            clock.forward(41)
            await controller.collect()
        async for event in one_by_one(client.watch(PODS, since, space)):
            if event.kind == "DELETED":
                break
        status = event.object["status"]
        said = next(each for each in status["conditions"] if each["type"] == "DisruptionTarget")
        assert status["phase"] == "Failed"
        assert (said["status"], said["reason"], said["message"]) == (
            "True",
            "DeletionByPodGC",
            "PodGC: node no longer exists",
        )
        assert status["observedGeneration"] == said["observedGeneration"] == 1

    play(kubeconfig, scene)


def test_the_abandoned_go_at_once(kubeconfig: Path) -> None:
    """Terminating on a node that is out of service, or on none; others are their kubelet's."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        dead, alive = await ground.node("dead"), await ground.node("alive")
        taint = [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]
        await client.patch(NODES, dead, {"spec": {"taints": taint}}, how=PatchType.MERGE)
        unready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await client.patch(NODES, dead, unready, subresource="status")
        for name, node in (("stuck", dead), ("staying", dead), ("graceful", alive)):
            await ground.pod(name, node)
        for name in ("stuck", "graceful"):
            await client.delete(PODS, name, space)
        async with _collector(client, ForwardClock()) as controller:
            await controller.collect()
            assert await is_gone(client, PODS, "stuck", space)
            assert not await is_gone(client, PODS, "staying", space)
            assert not await is_gone(client, PODS, "graceful", space)

    play(kubeconfig, scene)


def test_evicted_leftovers_are_limited(kubeconfig: Path) -> None:
    """Where the operator says so."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        for name in "abc":
            await ground.pod(name, node, phase="Failed")
            reason = {"status": {"reason": "Evicted"}}
            await client.patch(PODS, name, reason, space, how=PatchType.MERGE, subresource="status")
        async with _collector(client, ForwardClock(), evicted_pods=1) as controller:
            await controller.collect()
        assert [each["metadata"]["name"] for each in await ground.pods()] == ["c"]

    play(kubeconfig, scene)
