"""20 clients evict 200 pods under budgets of four shapes: none is ever exceeded, by an independent count."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.controllers.object_state import condition_of, is_terminating
from jettison.errors import ApiError, NotFound
from jettison.runtimes.kube.client import DeleteOptions
from jettison.runtimes.kube.kinds import PODS
from tests.controllers.staging import Json, until
from tests.live.served import Served, serving
from tests.maintenance.playground import Playground, play

CLIENTS = 20
PODS_EACH = 50
SECONDS = 25.0
BARE = "bare"
# Application: the budget, and how many healthy pods it promises of 50. The pods of the first are not replaced.
BUDGETS: dict[str, tuple[Json, int]] = {
    BARE: ({"minAvailable": 30}, 30),
    "share": ({"minAvailable": "61%"}, 31),
    "number": ({"maxUnavailable": 7}, 43),
    "part": ({"maxUnavailable": "33%"}, 33),
}


@pytest.fixture
def busy_server(tmp_path: Path) -> Iterator[Served]:
    """With its controllers in the same process, as people run it."""
    with serving(tmp_path / "state") as server:
        yield server


class _Count:
    """Healthy pods of each application, from the watch alone; it knows nothing of budgets but their promises."""

    def __init__(self) -> None:
        self.healthy: dict[str, set[str]] = defaultdict(set)
        self.fewest: dict[str, int] = {}

    def take(self, kind: str, pod: Json) -> None:
        app, name = pod["metadata"]["labels"]["app"], pod["metadata"]["name"]
        ready = condition_of(pod, "Ready")
        if kind != "DELETED" and ready and ready["status"] == "True" and not is_terminating(pod):
            self.healthy[app].add(name)
        else:
            self.healthy[app].discard(name)
        self.fewest[app] = min(self.fewest.get(app, PODS_EACH), len(self.healthy[app]))


async def _follow(ground: Playground, since: str, count: _Count, owners: dict[str, Json]) -> None:
    """Count, and play kubelet and ReplicaSet: what goes is gone soon, and what is gone is replaced."""
    async with asyncio.TaskGroup() as group:
        async for event in ground.client.watch(PODS, since, ground.namespace):
            if event.kind == "BOOKMARK":
                continue
            count.take(event.kind, event.object)
            if event.kind == "MODIFIED" and is_terminating(event.object):
                group.create_task(_finish(ground, event.object, owners))


async def _finish(ground: Playground, pod: Json, owners: dict[str, Json]) -> None:
    name, app = pod["metadata"]["name"], pod["metadata"]["labels"]["app"]
    try:
        await ground.client.delete(PODS, name, ground.namespace, DeleteOptions(grace_seconds=0))
    except NotFound:
        return
    if app != BARE:
        await ground.pod(f"{name}x", pod["spec"]["nodeName"], owner=owners[app], labels={"app": app})


async def _evict(ground: Playground, names: list[str], granted: set[str]) -> None:
    """Take a pod, ask for it, put it back where the budget says no; for ever."""
    while True:
        if not names:
            await asyncio.sleep(0.01)
            continue
        name = names.pop(random.randrange(len(names)))
        try:
            await ground.client.evict(name, ground.namespace)
        except NotFound:
            continue
        except ApiError as error:
            if error.code != 429:
                raise
            names.append(name)
            await asyncio.sleep(0.01)
        else:
            granted.add(name)


def test_no_budget_is_ever_exceeded(busy_server: Served) -> None:
    """The replaced ones go all, the others as far as their budget lets them, and never one more."""

    async def scene(ground: Playground) -> None:
        node = await ground.node("n")
        owners = {}
        for app, (spec, _) in BUDGETS.items():
            owners[app] = await ground.workload("ReplicaSet", app, PODS_EACH, {"app": app})
            for number in range(PODS_EACH):
                await ground.pod(f"{app}-{number}", node, owner=owners[app], labels={"app": app})
            await ground.budget(app, app, **spec)
        names = [f"{app}-{number}" for app in BUDGETS for number in range(PODS_EACH)]
        wanted = len(names) - BUDGETS[BARE][1]
        count, granted = _Count(), set[str]()
        before = await ground.client.list(PODS, ground.namespace)
        for pod in before.items:
            count.healthy[pod["metadata"]["labels"]["app"]].add(pod["metadata"]["name"])
        tasks = [asyncio.create_task(_evict(ground, names, granted)) for _ in range(CLIENTS)]
        tasks.append(asyncio.create_task(_follow(ground, before.resource_version, count, owners)))

        async def all_granted() -> bool:
            return len(granted) >= wanted

        await until(all_granted, seconds=SECONDS)
        await asyncio.sleep(1)  # a second more of asking for what must not be granted
        assert not [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(granted) == wanted
        for app, (_, promised) in BUDGETS.items():
            assert count.fewest[app] >= promised, (app, count.fewest)
        assert count.fewest[BARE] == BUDGETS[BARE][1]

    play(busy_server.kubeconfig(), scene)
