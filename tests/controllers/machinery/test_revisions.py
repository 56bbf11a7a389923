"""Revisions against a real server: numbered, named, adopted, and right also while the cache knows nothing yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jettison.clock import SystemClock
from jettison.controllers.machinery.event_recorder import EventRecorder
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.controllers.machinery.revisions import RevisionHistory, Revisions, data_of, surplus, template_of
from jettison.controllers.settings import ControllerSettings
from jettison.controllers.stateful_set import HASH_LABEL, OWNER_KIND
from jettison.engine.workloads.template_hash import template_hash
from jettison.errors import ApiError
from jettison.runtimes.kube.cache import Caches
from jettison.runtimes.kube.client import DeleteOptions, KubeClient
from jettison.runtimes.kube.kinds import CONTROLLER_REVISIONS, STATEFUL_SETS
from tests.controllers.staging import Json, until
from tests.controllers.workloads import change, template
from tests.maintenance.playground import Playground, play

SET: Json = {"metadata": {"name": "db", "namespace": "s"}, "spec": {"template": template()}}


def _revisions(client: KubeClient) -> tuple[Revisions, Caches]:
    clock = SystemClock()
    caches = Caches(client, clock)
    around = Surroundings(client, caches, EventRecorder(client, clock), clock, ControllerSettings())
    return Revisions(around, OWNER_KIND, HASH_LABEL), caches


@asynccontextmanager
async def _informed(client: KubeClient) -> AsyncIterator[Revisions]:
    """With a cache that is kept up."""
    revisions, caches = _revisions(client)
    running = asyncio.create_task(caches.run())
    await caches.listed()
    try:
        yield revisions
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _set(ground: Playground, **metadata: Any) -> Json:
    spec = {"serviceName": "db", "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", **metadata}, "spec": spec}
    return await ground.client.create(STATEFUL_SETS, body, ground.namespace)


async def _until_known(revisions: Revisions, owner: Json, *numbers: int) -> RevisionHistory:
    """The history once the cache has caught up."""

    async def look() -> RevisionHistory | None:
        found = await revisions.history(owner)
        # One that was just made is what the server has answered.
        is_cached = all(each == _as_cached(each) for each in found.revisions)
        return found if is_cached and [each["revision"] for each in found.revisions] == list(numbers) else None

    found = await until(look)
    assert found is not None
    return found


def _as_cached(document: Json) -> Json:
    """A cache has no managedFields."""
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    return {**document, "metadata": metadata}


def _name(history: RevisionHistory) -> str:
    name: str = history.latest["metadata"]["name"]
    return name


def test_a_revision_is_a_patch_that_brings_the_template_back() -> None:
    data = data_of(SET)
    assert data == {"spec": {"template": {**template(), "$patch": "replace"}}}
    assert list(data["spec"]["template"]) == ["$patch", "metadata", "spec"]
    assert template_of({"data": data}, {"spec": {"template": "another"}}) == template()


@pytest.mark.parametrize("data", [None, {}, {"spec": 1}, {"spec": {"template": [1]}}])
def test_a_patch_of_no_template_changes_none(data: Any) -> None:
    assert template_of({"data": data}, SET) == template()


@pytest.mark.parametrize(
    ("limit", "counts_live", "gone"),
    [
        (0, False, "bd"),
        (1, False, "b"),
        (2, False, ""),
        (2, True, "bd"),
        (3, True, "b"),
        (9, True, ""),
        (None, True, ""),
    ],
)
def test_beyond_the_limit_the_oldest_idle_ones_go(limit: int | None, counts_live: bool, gone: str) -> None:
    every = [{"metadata": {"name": name}} for name in "abcd"]
    found = surplus(every, {"a", "c"}, limit, counts_live=counts_live)
    assert "".join(each["metadata"]["name"] for each in found) == gone


def test_one_revision_per_template_and_the_newest_has_the_highest_number(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        first = await _set(ground, annotations={"kubernetes.io/change-cause": "why"})
        async with _informed(client) as revisions:
            old = await revisions.history(first)
            assert (await _until_known(revisions, first, 1)).latest == _as_cached(old.latest)
            container = template("app:2")["spec"]["containers"]
            second = await change(client, STATEFUL_SETS, "db", space, template={"spec": {"containers": container}})
            new = await revisions.history(second)
            await _until_known(revisions, second, 1, 2)
            back = await revisions.history(first)
            again = await _until_known(revisions, first, 2, 3)
        assert (_name(old), _name(again)) == (_name(back),) * 2 != (_name(new),) * 2
        assert back.latest["data"] == old.latest["data"] == data_of(first)
        assert [_name(RevisionHistory([each], 0)) for each in again.former] == [_name(new)]
        # Byte by byte as Go would write it.
        assert json.dumps(back.latest["data"]) == json.dumps(data_of(first), sort_keys=True)
        metadata = old.latest["metadata"]
        assert metadata["annotations"] == {"kubernetes.io/change-cause": "why"}
        assert revisions.hash_of(old.latest) == metadata["labels"][HASH_LABEL] == _name(old)[len("db-") :]

    play(kubeconfig, scene)


def test_a_late_cache_makes_no_second_one(kubeconfig: Path) -> None:
    """It has nothing to say here at all."""

    async def scene(ground: Playground) -> None:
        made = await _set(ground)
        revisions, _ = _revisions(ground.client)
        first, second = await revisions.history(made), await revisions.history(made)
        assert first == second
        assert len((await ground.client.list(CONTROLLER_REVISIONS, ground.namespace)).items) == 1
        nothing = RevisionHistory([{"metadata": {"name": "another"}}], 0)
        assert await revisions.named(made, _name(first), nothing) == first.latest
        assert await revisions.named(made, "no-such", nothing) is None
        stranger = {"metadata": {**made["metadata"], "uid": "x"}}
        assert await revisions.named(stranger, _name(first), nothing) is None

    play(kubeconfig, scene)


def test_a_name_that_is_taken_is_left_to_its_owner(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        made = await _set(ground)
        name = f"db-{template_hash(made['spec']['template'])}"
        taken = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 7, "data": {"a": 1}}
        await client.create(CONTROLLER_REVISIONS, {**taken, "metadata": {"name": name}}, space)
        async with _informed(client) as revisions:
            found = await revisions.history(made)
            assert (_name(found) != name, found.collisions, found.latest["revision"]) == (True, 1, 1)
            known = {**made, "status": {"collisionCount": 1}}
            assert await _until_known(revisions, known, 1) == found._replace(revisions=[_as_cached(found.latest)])

    play(kubeconfig, scene)


def test_orphans_are_adopted_with_their_numbers(kubeconfig: Path) -> None:
    """A set that was deleted without its dependents and made again has its history back, and makes none of its own."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        before = await _set(ground)
        async with _informed(client) as revisions:
            old = (await revisions.history(before)).latest
        await client.delete(STATEFUL_SETS, "db", space, DeleteOptions(propagation="Background"))
        orphan = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": before["metadata"]["uid"]}]}}
        await client.patch(CONTROLLER_REVISIONS, old["metadata"]["name"], orphan, space)
        made = await _set(ground)
        blind, _ = _revisions(client)
        with pytest.raises(ApiError, match="already exists"):
            await blind.history(made)
        async with _informed(client) as revisions:
            found = await revisions.history(made)
        assert (found.latest["metadata"]["uid"], found.collisions) == (old["metadata"]["uid"], 0)
        assert found.latest["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]

    play(kubeconfig, scene)
