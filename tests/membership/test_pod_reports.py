"""What is told of a pod while the cache is behind: it must come out right, whatever was told in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from jettison.clock import SystemClock
from jettison.engine.node.evictions import PodCondition
from jettison.manifests.pods import pod_from
from jettison.membership.pod_reports import PodReports
from jettison.runtimes.kube.cache import Cache, Caches
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.protocol import ContainerStatus, Hosting, PodStatus
from tests.controllers.staging import until
from tests.live.served import Served
from tests.membership.joined import ADDRESS, PATIENCE, client_of, condition, play

Json = dict[str, Any]

pytestmark = pytest.mark.timeout(300)


class Showing:
    """Of a node that hosts pods only what it says of them."""

    def __init__(self) -> None:
        self.shown: list[PodStatus] = []

    def statuses(self) -> Sequence[PodStatus]:
        return self.shown


def in_run(document: Json, number: int, *, is_up: bool) -> PodStatus:
    container = ContainerStatus(
        "main", "running" if is_up else "terminated", exit_code=None if is_up else 3, restarts=number, is_ready=is_up
    )
    ready = PodCondition("Ready", "True") if is_up else PodCondition("Ready", "False", "ContainersNotReady")
    return PodStatus(pod_from(document, "api"), "Running", conditions=(ready,), containers=(container,))


@asynccontextmanager
async def hearing(cache: Cache) -> AsyncIterator[None]:
    """During the body the cache keeps up; before and after, it stands still."""
    running = asyncio.create_task(cache.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_what_is_as_it_was_two_reports_ago_is_told_again(served: Served) -> None:
    """A container ends and is restarted at once, and the cache hears of both together: the pod is ready again."""

    async def scenario() -> None:
        async with client_of(served) as client:
            spec = {"nodeName": "nowhere", "containers": [{"name": "main", "image": "registry.example/none:1"}]}
            made = await client.create(PODS, {"metadata": {"name": "twice"}, "spec": spec}, "default")
            cache = Caches(client, SystemClock()).of(PODS, fields="spec.nodeName=nowhere")
            node = Showing()
            reports = PodReports(client, cache, cast(Hosting, node), lambda _: False, ADDRESS, SystemClock())

            async def is_heard() -> bool:
                newest = await client.get(PODS, "twice", "default")
                return [each["metadata"]["resourceVersion"] for each in cache] == [
                    newest["metadata"]["resourceVersion"]
                ]

            async def told(number: int, *, is_up: bool) -> None:
                node.shown = [in_run(made, number, is_up=is_up)]
                await reports.report()

            async with hearing(cache):
                await until(is_heard, seconds=PATIENCE)
                await told(0, is_up=True)
                await until(is_heard, seconds=PATIENCE)
            await told(0, is_up=False)
            await told(1, is_up=True)
            async with hearing(cache):
                await until(is_heard, seconds=PATIENCE)
            await reports.report()

            found = await client.get(PODS, "twice", "default")
            assert found["status"]["containerStatuses"][0]["restartCount"] == 1
            assert condition(found, "Ready")["status"] == "True"
            assert "reason" not in condition(found, "Ready")

    play(scenario())
