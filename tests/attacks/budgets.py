"""Many clients evict pods under budgets of ten shapes, while the server is killed and started again.

No budget is ever exceeded, by a count from the watch alone.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.attacks.tally import Tally
from tests.live.quick_http import JSON, MERGE, QuickClient
from tests.live.served import Served, end, start

Json = dict[str, Any]

HANDS = 24
SECONDS = 100.0
SPACE = "/api/v1/namespaces/crowd"
# No other controller may replace pods, or place them.
CONTROLLERS = "--controllers=disruption-controller"


@dataclass(frozen=True, slots=True)
class Application:
    """Pods and their budget: how many healthy ones it promises, and how many of the first pods go in the end.

    Pods of an application that `replaces` belong to a ReplicaSet, and a pod that goes is replaced.
    """

    spec: Json
    promised: int
    going: int
    replaces: bool = False
    unhealthy: int = 0


def applications(each: int) -> dict[str, Application]:
    """Of ten shapes, each with so many pods: a number that twenty divides."""
    least, many, most, ill = each * 3 // 5, each * 3 // 4, each * 3 // 20, each * 17 // 20
    unhealthy = each // 5
    share, part = -(-each * 61 // 100), -(-each * 33 // 100)
    if_healthy, always = ({"unhealthyPodEvictionPolicy": policy} for policy in ("IfHealthyBudget", "AlwaysAllow"))
    return {
        "least": Application({"minAvailable": least}, least, each - least),
        "none": Application({"minAvailable": 0}, 0, each),
        "more": Application({"minAvailable": each * 5 // 4}, each, 0),
        "share": Application({"minAvailable": "61%"}, share, each, replaces=True),
        "whole": Application({"minAvailable": "100%"}, each, 0, replaces=True),
        "most": Application({"maxUnavailable": most}, each - most, each, replaces=True),
        "zero": Application({"maxUnavailable": 0}, each, 0, replaces=True),
        "part": Application({"maxUnavailable": "33%"}, each - part, each, replaces=True),
        "sick": Application({"minAvailable": many, **if_healthy}, many, each - many, unhealthy=unhealthy),
        "ill": Application({"minAvailable": ill, **always}, each - unhealthy, unhealthy, unhealthy=unhealthy),
    }


@dataclass(slots=True)
class Count:
    """Healthy pods of each application, from events alone; it knows nothing of budgets."""

    healthy: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    fewest: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def take(self, kind: str, pod: Json) -> None:
        metadata = pod["metadata"]
        app, name = metadata["labels"]["app"], metadata["name"]
        is_going = kind == "DELETED" or "deletionTimestamp" in metadata
        conditions = pod["status"].get("conditions") or ()
        if not is_going and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
            self.healthy[app].add(name)
        else:
            self.healthy[app].discard(name)
        if is_going:
            self.ended.add(name)
        healthy = len(self.healthy[app])
        self.fewest[app] = min(self.fewest.get(app, healthy), healthy)


class Crowd:
    """All clients of the server."""

    def __init__(self, served: Served, each: int) -> None:
        self._served = served
        self.each = each
        self.applications = applications(each)
        self._trust = served.trust()
        self._token = served.token()
        self._owners: dict[str, Json] = {}
        self._clients: list[QuickClient] = []
        self._hands = [self.client() for _ in range(HANDS)]
        self._free = asyncio.Semaphore(HANDS)
        self.count = Count()
        self.granted: set[str] = set()
        self.refusals = 0

    def client(self) -> QuickClient:
        self._clients.append(QuickClient(self._served.port, self._trust, self._token))
        return self._clients[-1]

    async def leave(self) -> None:
        for client in self._clients:
            client.close()
        await asyncio.sleep(0.1)  # until the transports have noticed

    async def insist(self, method: str, path: str, body: object = None, content_type: str = JSON) -> tuple[int, Json]:
        """Until there is an answer; a request may so be carried out twice."""
        while True:
            async with self._free:
                hand = self._hands.pop()
                try:
                    return await hand.ask(method, path, body, content_type)
                except ConnectionError:
                    pass
                finally:
                    self._hands.append(hand)
            await asyncio.sleep(0.05)

    async def gather(self) -> str:
        """Make everything; the version to count from."""
        await self.insist("POST", "/api/v1/namespaces", {"metadata": {"name": "crowd"}})
        for app, shape in self.applications.items():
            labels = {"app": app}
            selector = {"selector": {"matchLabels": labels}}
            if shape.replaces:
                container = {"name": "c", "image": "i"}
                template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
                body = {"metadata": {"name": app}, "spec": {"replicas": self.each, "template": template, **selector}}
                _, made = await self.insist("POST", "/apis/apps/v1/namespaces/crowd/replicasets", body)
                reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": True}
                self._owners[app] = {**reference, "uid": made["metadata"]["uid"]}
            body = {"metadata": {"name": app}, "spec": {**shape.spec, **selector}}
            code, made = await self.insist("POST", "/apis/policy/v1/namespaces/crowd/poddisruptionbudgets", body)
            assert code == 201, made
        names = [(app, number) for app in self.applications for number in range(self.each)]
        await asyncio.gather(*(self._make(app, f"{app}-{number}", number) for app, number in names))
        _, found = await self.insist("GET", f"{SPACE}/pods")
        for pod in found["items"]:
            self.count.take("ADDED", pod)
        # Before, there were too few, because they came one by one.
        self.count.fewest.clear()
        version: str = found["metadata"]["resourceVersion"]
        return version

    async def _make(self, app: str, name: str, number: int | None = None) -> None:
        metadata: Json = {"name": name, "labels": {"app": app}}
        if app in self._owners:
            metadata["ownerReferences"] = [self._owners[app]]
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "registry.example/app:1"}]}
        code, answer = await self.insist("POST", f"{SPACE}/pods", {"metadata": metadata, "spec": spec})
        assert code in (201, 409), answer
        is_unhealthy = number is not None and number < self.applications[app].unhealthy
        ready = "False" if is_unhealthy else "True"
        status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}
        code, answer = await self.insist("PATCH", f"{SPACE}/pods/{name}/status", status, MERGE)
        assert code == 200, answer

    async def follow(self, since: str) -> None:
        """Count, and play kubelet and ReplicaSet: what goes is gone soon, and what is gone is replaced."""
        async with asyncio.TaskGroup() as group:
            while True:
                async for event in self.client().watch(f"{SPACE}/pods?watch=true&resourceVersion={since}"):
                    pod = event["object"]
                    assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                    since = pod["metadata"]["resourceVersion"]
                    is_new = pod["metadata"]["name"] not in self.count.ended
                    self.count.take(event["type"], pod)
                    if is_new and "deletionTimestamp" in pod["metadata"]:
                        group.create_task(self._finish(pod))
                await asyncio.sleep(0.05)

    async def _finish(self, pod: Json) -> None:
        name, app = pod["metadata"]["name"], pod["metadata"]["labels"]["app"]
        await self.insist("DELETE", f"{SPACE}/pods/{name}", {"gracePeriodSeconds": 0})
        if self.applications[app].replaces:
            await self._make(app, f"{name}x")

    async def evict(self, names: list[str]) -> None:
        """Take a pod, ask for it, put it back where the budget says no; without end."""
        client = self.client()
        while True:
            if not names:
                await asyncio.sleep(0.1)
                continue
            name = names.pop(random.randrange(len(names)))
            try:
                code, answer = await client.ask("POST", f"{SPACE}/pods/{name}/eviction", {"metadata": {"name": name}})
            except ConnectionError:
                names.append(name)
                await asyncio.sleep(random.uniform(0.05, 0.2))
                continue
            if code == 201:
                self.granted.add(name)
            elif code == 429:
                self.refusals += 1
                names.append(name)
                await asyncio.sleep(random.uniform(0.2, 0.8))
            else:
                assert code == 404, answer


class Mortal:
    """A server that can be killed, and comes back at the same address with the same state."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.served = start(folder, CONTROLLERS)

    def kill_and_restart(self) -> None:
        assert end(self.served.process, signal.SIGKILL) == -signal.SIGKILL
        self.served = start(self._folder, CONTROLLERS, listen=f"127.0.0.1:{self.served.port}")


async def _await(look: Callable[[], bool], what: Callable[[], object], tasks: list[asyncio.Task[None]]) -> None:
    deadline = time.monotonic() + SECONDS
    while not look():
        for task in tasks:
            if task.done():
                task.result()
        assert time.monotonic() < deadline, what()
        await asyncio.sleep(0.05)


async def _play(mortal: Mortal, kills: int, each: int) -> Crowd:
    crowd = Crowd(mortal.served, each)
    try:
        await _evict_all(crowd, mortal, kills)
    finally:
        await crowd.leave()
    return crowd


async def _evict_all(crowd: Crowd, mortal: Mortal, kills: int) -> None:
    since = await crowd.gather()
    shapes = crowd.applications.items()
    names = [f"{app}-{number}" for app in crowd.applications for number in range(crowd.each)]
    wanted = Counter({app: shape.going for app, shape in shapes if shape.going})
    tasks = [asyncio.create_task(crowd.follow(since))]
    tasks += [asyncio.create_task(crowd.evict(names)) for _ in range(crowd.each)]

    def gone() -> Counter[str]:
        return Counter(name.partition("-")[0] for name in crowd.count.ended if not name.endswith("x"))

    for number in range(kills):
        some = wanted.total() * (number + 1) // (kills + 1)
        await _await(lambda some=some: gone().total() >= some, gone, tasks)  # type: ignore[misc]
        await asyncio.sleep(random.uniform(0, 0.05))
        await asyncio.to_thread(mortal.kill_and_restart)
    await _await(lambda: gone() >= wanted, lambda: (gone(), crowd.count.fewest), tasks)
    await asyncio.sleep(1)  # a second more of asking for what must not be granted
    for task in tasks:
        assert not task.done(), task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert gone() == wanted


def evict_in_a_crowd(folder: Path, kills: int, each: int = 200) -> Tally:
    """So many clients, and ten times as many pods.

    Pods that are replaced all go, the others as far as their budget lets them, and never one more.
    """
    tally = Tally("budgets under kills", kills)
    mortal = Mortal(folder)
    try:
        crowd = asyncio.run(_play(mortal, kills, each))
    finally:
        end(mortal.served.process, signal.SIGKILL)
    for app, shape in crowd.applications.items():
        fewest = crowd.count.fewest.get(app, each)
        tally.check(fewest >= shape.promised, f"{app}: {fewest} healthy pods, {shape.promised} were promised")
    tally.check(crowd.granted <= crowd.count.ended, "an acknowledged eviction was forgotten")
    going = sum(shape.going for shape in crowd.applications.values())
    tally.check(len(crowd.count.ended) >= going, f"{len(crowd.count.ended)} pods went, {going} may")
    tally.seen["evictions"] = len(crowd.count.ended)
    tally.seen["refusals"] = crowd.refusals
    return tally
