"""Workloads for a playground, and a task that acts as the nodes: gives pods a place and makes them Ready."""

from __future__ import annotations

import time
from typing import Any

from jettison.errors import Conflict, NotFound
from jettison.manifests.times import time_text
from jettison.runtimes.kube.client import DeleteOptions, KubeClient, PatchType
from jettison.runtimes.kube.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from tests.controllers.staging import until
from tests.maintenance.playground import Playground

Json = dict[str, Any]

NOW = DeleteOptions(grace_seconds=0)


def template(image: str = "app:1", **metadata: Any) -> Json:
    container = {"name": "c", "image": f"registry.example/{image}"}
    return {"metadata": {"labels": {"app": "web"}, **metadata}, "spec": {"containers": [container]}}


async def replica_set(ground: Playground, replicas: int = 1, name: str = "rs", **spec: Any) -> Json:
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            **spec,
        },
    }
    return await ground.client.create(REPLICA_SETS, body, ground.namespace)


async def deployment(ground: Playground, replicas: int = 1, name: str = "web", **spec: Any) -> Json:
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            **spec,
        },
    }
    return await ground.client.create(DEPLOYMENTS, body, ground.namespace)


async def change(client: KubeClient, kind: Any, name: str, namespace: str, **spec: Any) -> Json:
    """A merge into the spec."""
    return await client.patch(kind, name, {"spec": spec}, namespace, how=PatchType.MERGE)


def alive(pods: list[Json]) -> list[Json]:
    """Those that a workload counts."""
    return [
        each
        for each in pods
        if "deletionTimestamp" not in each["metadata"] and each["status"]["phase"] not in ("Succeeded", "Failed")
    ]


async def until_alive(ground: Playground, count: int) -> list[Json]:
    """The pods once there are so many."""

    async def look() -> list[Json] | None:
        found = alive(await ground.pods())
        return found if len(found) == count else None

    found = await until(look)
    assert found is not None
    return found


class Nodes:
    """All nodes in one: one round binds what has no place, starts what is bound, and ends what is to end."""

    def __init__(self, ground: Playground, node: str, broken_image: str = "") -> None:
        self._ground = ground
        self._node = node
        self._broken_image = broken_image

    async def round(self) -> None:
        for pod in await self._ground.pods():
            try:
                await self._advance(pod)
            except (NotFound, Conflict):
                continue  # gone, or changed meanwhile: the next round looks again

    async def _advance(self, pod: Json) -> None:
        metadata, client, space = pod["metadata"], self._ground.client, self._ground.namespace
        name = metadata["name"]
        if "deletionTimestamp" in metadata:
            if not metadata.get("finalizers"):
                await client.delete(PODS, name, space, DeleteOptions(grace_seconds=0, uid=metadata["uid"]))
        elif not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": self._node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            await client.create(PODS, body, space, "binding")
        elif pod["status"]["phase"] == "Pending" and pod["spec"]["containers"][0]["image"] != self._broken_image:
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": time_text(time.time_ns())}
            status = {"status": {"phase": "Running", "conditions": [ready]}}
            await client.patch(PODS, name, status, space, subresource="status")
