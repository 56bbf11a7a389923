"""The namespace controller, on a server that leaves namespaces to it, as Kubernetes' does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver import cluster as serving
from jettison.apiserver.connections.endpoint import Endpoint
from jettison.errors import NotFound
from jettison.runtimes.kube.kinds import CONFIG_MAPS, NAMESPACES, PODS
from tests.controllers.staging import controlled, until
from tests.maintenance.playground import Playground, play


class _Idle:
    """In the place of what empties namespaces in our server."""

    def __init__(self, *_: object) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def untidy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(serving, "Housekeeping", _Idle)
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    made = serving.Cluster(tmp_path, Endpoint("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: loop.run_until_complete(made.run(stop, lambda _: ready.set())))
    thread.start()
    assert ready.wait(30)
    yield made.kubeconfig("admin")
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()


async def is_gone(ground: Playground) -> bool:
    try:
        await ground.client.get(NAMESPACES, ground.namespace)
    except NotFound:
        return True
    return False


def test_a_namespace_goes_with_everything_in_it_pods_first(untidy: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, namespace = ground.client, ground.namespace
        containers = [{"name": "c", "image": "i"}]
        held = {"name": "held", "finalizers": ["example.com/hold"]}
        pod = {"metadata": held, "spec": {"containers": containers}}
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, namespace)
        text = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "text"}, "data": {"a": "b"}}
        await client.create(CONFIG_MAPS, text, namespace)
        await client.delete(NAMESPACES, namespace)
        async with controlled(client, "namespace-controller"):

            async def is_told() -> bool:
                return bool((await client.get(PODS, "held", namespace))["metadata"].get("deletionTimestamp"))

            await until(is_told)
            assert await client.get(CONFIG_MAPS, "text", namespace), "what a pod needs stays until it is gone"
            await client.patch(PODS, "held", {"metadata": {"finalizers": None}}, namespace)

            await until(partial(is_gone, ground))
        left: list[Any] = (await client.list(CONFIG_MAPS, namespace)).items
        assert left == []

    play(untidy, scene)


def test_a_namespace_says_what_it_is_waiting_for(untidy: Path) -> None:
    """Otherwise a user of `kubectl delete namespace` that does not return has nothing to look at."""

    async def scene(ground: Playground) -> None:
        client, namespace = ground.client, ground.namespace
        held = {"name": "text", "finalizers": ["example.com/hold"]}
        await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held}, namespace)
        await client.delete(NAMESPACES, namespace)
        async with controlled(client, "namespace-controller"):

            async def conditions() -> dict[str, Any]:
                status = (await client.get(NAMESPACES, namespace))["status"]
                return {each["type"]: (each["status"], each["message"]) for each in status.get("conditions") or ()}

            async def is_told() -> bool:
                return bool(await conditions())

            await until(is_told)
            found = await conditions()
            assert found["NamespaceContentRemaining"] == (
                "True",
                "Some resources are remaining: configmaps. has 1 resource instances",
            )
            assert found["NamespaceFinalizersRemaining"] == (
                "True",
                "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
            )
            assert found["NamespaceDeletionContentFailure"][0] == "False"
            await client.patch(CONFIG_MAPS, "text", {"metadata": {"finalizers": None}}, namespace)

            await until(partial(is_gone, ground))

    play(untidy, scene)
