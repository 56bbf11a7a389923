"""Owners as the real server has them, how often it is asked for them, and how soon the end of one is noticed.

Events are a kind that the server has and no cache follows. The caches here are never filled: all is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jettison.controllers.garbage.owners import (
    MOST_ANSWERS,
    REMEMBERED_SECONDS,
    Bond,
    Item,
    OwnerBonds,
    Ownership,
    RecentAnswers,
)
from jettison.controllers.machinery.event_recorder import EventRecorder
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.controllers.settings import ControllerSettings
from jettison.errors import NotFound
from jettison.runtimes.kube.cache import RESYNC_SECONDS, Caches
from jettison.runtimes.kube.client import DeleteOptions, KubeClient, PatchType
from jettison.runtimes.kube.kinds import CONFIG_MAPS, EVENTS, NAMESPACES, NODES, PODS, REPLICA_SETS
from jettison.runtimes.kube.kubeconfig import Access
from tests.controllers.staging import ForwardClock, Json, StandingClock
from tests.controllers.workloads import replica_set
from tests.maintenance.playground import Playground, play


class _Counting(KubeClient):
    """Counts what it asks for; and can act as if events were not served any more, which our server cannot."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.asked: list[str] = []
        self.serves_events = True

    async def request(
        self, method: str, path: str, params: Mapping[str, str] | None = None, body: object = None, **more: Any
    ) -> Json:
        if method == "GET":
            self.asked.append(path.rpartition("/")[2])
        if not self.serves_events and "/events/" in path:
            raise NotFound("the server could not find the requested resource")
        answer = await super().request(method, path, params, body, **more)
        if not self.serves_events and path == "/api/v1":
            answer["resources"] = [each for each in answer["resources"] if each["kind"] != "Event"]
        return answer


@dataclass
class Scene:
    ground: Playground
    client: _Counting
    bonds: OwnerBonds
    clock: ForwardClock

    async def event(self, name: str = "owner") -> Json:
        """Made, and the reference to it."""
        space = self.ground.namespace
        about = {"kind": "Pod", "name": "p", "namespace": space}
        body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about}
        made = await self.ground.client.create(EVENTS, body, space)
        return _reference("v1", "Event", name, made["metadata"]["uid"])

    async def judge(self, reference: Json) -> Bond:
        return await self.bonds.judge(Item(PODS, (self.ground.namespace, "p")), reference)

    def asked(self) -> list[str]:
        """Since this was last called."""
        found, self.client.asked = self.client.asked, []
        return found


def _reference(api_version: str, kind: str, name: str, uid: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}


def _staged(kubeconfig: Path, scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def staged(ground: Playground) -> None:
        clock = ForwardClock()
        async with _Counting(ground.client.access) as client:
            caches, events = Caches(client, clock), EventRecorder(client, clock)
            around = Surroundings(client, caches, events, clock, ControllerSettings())
            await scene(Scene(ground, client, OwnerBonds(around, Ownership(caches)), clock))

    play(kubeconfig, staged)


def test_an_owner_that_is_there_is_asked_for_at_every_second_look(kubeconfig: Path) -> None:
    """Once for all its dependents, and its end is noticed then."""

    async def scene(stage: Scene) -> None:
        owner = await stage.event()
        for _ in range(3):
            assert await stage.judge(owner) is Bond.SOLID
        assert stage.asked() == ["v1", "owner"]
        # The next resync, as late as it may come.
        stage.clock.forward(1.25 * RESYNC_SECONDS)
        assert await stage.judge(owner) is Bond.SOLID
        assert stage.asked() == []
        await stage.ground.client.delete(EVENTS, "owner", stage.ground.namespace)
        # And the one after it, as soon as it may come after an early one.
        stage.clock.forward(0.25 * RESYNC_SECONDS)
        assert await stage.judge(owner) is Bond.DANGLING
        assert REMEMBERED_SECONDS <= 2 * 0.75 * RESYNC_SECONDS

    _staged(kubeconfig, scene)


@pytest.mark.parametrize("kind", ["ReplicaSet", "Event"])
def test_an_owner_that_is_gone_is_asked_for_once(kubeconfig: Path, kind: str) -> None:
    """A set of 2,000 pods has one owner. That the kind is served still is asked for where we know it by discovery."""

    async def scene(stage: Scene) -> None:
        version = "v1" if kind == "Event" else "apps/v1"
        for _ in range(3):
            assert await stage.judge(_reference(version, kind, "gone", "u1")) is Bond.DANGLING
        assert stage.asked() == (["v1", "gone", "v1"] if kind == "Event" else ["gone"])

    _staged(kubeconfig, scene)


def test_each_part_of_a_reference_counts(kubeconfig: Path) -> None:
    """The right uid under a wrong name, of a wrong kind, in a wrong namespace, and a wrong uid under the right name."""

    async def scene(stage: Scene) -> None:
        owner = await stage.event()
        for wrong in (
            {**owner, "name": "no-such"},
            {**owner, "kind": "Pod"},
            {**owner, "kind": "ReplicaSet", "apiVersion": "apps/v1"},
            {**owner, "uid": "another"},
        ):
            assert await stage.judge(wrong) is Bond.DANGLING
        elsewhere = Item(PODS, (f"{stage.ground.namespace}-other", "p"))
        assert await stage.bonds.judge(elsewhere, owner) is Bond.DANGLING
        assert await stage.judge(owner) is Bond.SOLID

    _staged(kubeconfig, scene)


def test_of_a_kind_that_is_followed_the_end_is_noticed_at_once(kubeconfig: Path) -> None:
    """That the server knew it before the cache did must not outlive what the cache hears afterwards."""

    async def scene(stage: Scene) -> None:
        client, space = stage.ground.client, stage.ground.namespace
        made = await replica_set(stage.ground, 0)
        owner = _reference("apps/v1", "ReplicaSet", "rs", made["metadata"]["uid"])
        assert await stage.judge(owner) is Bond.SOLID
        await client.delete(REPLICA_SETS, "rs", space, DeleteOptions(propagation="Background"))
        assert await stage.judge(owner) is Bond.DANGLING

    _staged(kubeconfig, scene)


def test_an_owner_that_waits_is_asked_for_each_time(kubeconfig: Path) -> None:
    async def scene(stage: Scene) -> None:
        client, space = stage.ground.client, stage.ground.namespace
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        made = await client.create(CONFIG_MAPS, body, space)
        owner = _reference("v1", "ConfigMap", "owner", made["metadata"]["uid"])
        await client.delete(CONFIG_MAPS, "owner", space, DeleteOptions(propagation="Foreground"))
        assert await stage.judge(owner) is Bond.WAITING
        await client.patch(CONFIG_MAPS, "owner", {"metadata": {"finalizers": None}}, space, how=PatchType.MERGE)
        assert await stage.judge(owner) is Bond.DANGLING

    _staged(kubeconfig, scene)


def test_a_kind_that_is_not_served_is_asked_about_once(kubeconfig: Path) -> None:
    """Until it may have come."""

    async def scene(stage: Scene) -> None:
        for _ in range(3):
            assert await stage.judge(_reference("example.com/v1", "Widget", "w", "u")) is Bond.SOLID
        assert stage.asked() == ["v1"]
        stage.clock.forward(REMEMBERED_SECONDS)
        assert await stage.judge(_reference("example.com/v1", "Widget", "w", "u")) is Bond.SOLID
        assert stage.asked() == ["v1"]

    _staged(kubeconfig, scene)


def test_a_kind_that_is_served_no_more_takes_no_dependent_with_it(kubeconfig: Path) -> None:
    """Its objects are not found then, and may be there again when the kind is."""

    async def scene(stage: Scene) -> None:
        first, second = await stage.event("first"), await stage.event("second")
        assert await stage.judge(first) is Bond.SOLID
        stage.client.serves_events = False
        assert await stage.judge(second) is Bond.SOLID
        stage.client.serves_events = True
        stage.clock.forward(REMEMBERED_SECONDS)
        await stage.ground.client.delete(EVENTS, "second", stage.ground.namespace)
        assert await stage.judge(second) is Bond.DANGLING

    _staged(kubeconfig, scene)


def test_a_namespaced_owner_of_an_object_without_a_namespace_is_not_judged(kubeconfig: Path) -> None:
    """Whereas an owner without one may have dependents anywhere."""

    async def scene(stage: Scene) -> None:
        space = stage.ground.namespace
        assert await stage.bonds.judge(Item(NODES, ("", "n")), await stage.event()) is Bond.SOLID
        uid = (await stage.ground.client.get(NAMESPACES, space))["metadata"]["uid"]
        for item in (Item(NODES, ("", "n")), Item(PODS, (space, "p"))):
            assert await stage.bonds.judge(item, _reference("v1", "Namespace", space, uid)) is Bond.SOLID
            assert await stage.bonds.judge(item, _reference("v1", "Namespace", space, "another")) is Bond.DANGLING

    _staged(kubeconfig, scene)


def test_an_answer_is_good_for_its_time_only() -> None:
    """Counted from when it was given: looking it up makes it no younger."""
    clock = StandingClock()
    answers: RecentAnswers[str, int] = RecentAnswers(clock, 10.0)
    assert answers.get("q") is None
    answers.note("q", 1)
    clock.forward(9.5)
    assert answers.get("q") == 1
    clock.forward(0.5)
    assert answers.get("q") is None
    answers.note("q", 2)
    assert answers.get("q") == 2


def test_the_latest_answer_counts() -> None:
    clock = StandingClock()
    answers: RecentAnswers[str, int] = RecentAnswers(clock, 10.0)
    answers.note("q", 1)
    clock.forward(6)
    answers.note("q", 2)
    clock.forward(6)
    assert answers.get("q") == 2


def test_there_are_never_more_than_so_many() -> None:
    """The oldest make room."""
    clock = StandingClock()
    answers: RecentAnswers[int, int] = RecentAnswers(clock, 10.0)
    for number in range(3 * MOST_ANSWERS):
        answers.note(number, number)
    assert len(answers._answers) == MOST_ANSWERS
    assert answers.get(2 * MOST_ANSWERS - 1) is None
    assert answers.get(2 * MOST_ANSWERS) == 2 * MOST_ANSWERS
    clock.forward(10)
    answers.note(-1, 1)
    assert len(answers._answers) == 1
