"""A namespace of a real API server with tasks that act as the node, the ReplicaSet and the disruption controller.

The server is the real one, in a process of its own; what runs here is only what would run elsewhere in a cluster.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jettison.engine.budgets.sync import sync_budget
from jettison.engine.workloads.owners import Workloads
from jettison.errors import Conflict, NotFound
from jettison.manifests.budgets import budget_from, budget_status_data, workload_from
from jettison.manifests.pod_view import checked_pod
from jettison.manifests.times import time_text
from jettison.runtimes.kube.client import DeleteOptions, KubeClient, PatchType
from jettison.runtimes.kube.kinds import (
    BUDGETS,
    DAEMON_SETS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Kind,
)
from jettison.runtimes.kube.kubeconfig import Overrides, load_access
from tests.cli.running import run

Json = dict[str, Any]

WORKLOADS: dict[str, Kind] = {
    "ReplicaSet": REPLICA_SETS,
    "ReplicationController": REPLICATION_CONTROLLERS,
    "DaemonSet": DAEMON_SETS,
    "StatefulSet": STATEFUL_SETS,
}
PERIOD = 0.05
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Ran:
    """What a command printed, and how long it took."""

    code: int
    out: list[str]
    err: list[str]
    seconds: float


class Playground:
    """Everything in it carries the namespace's name, so that tests share a server without meeting."""

    def __init__(self, client: KubeClient, kubeconfig: Path, namespace: str) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        # A node selector that only the nodes of this test satisfy.
        self.home = {"play": namespace}

    async def node(self, name: str, *, is_ready: bool = True, **spec: Any) -> str:
        full = f"{self.namespace}-{name}"
        ready = {
            "type": "Ready",
            "status": "True" if is_ready else "False",
            "reason": "KubeletReady",
            "message": "",
            **_transition(),
        }
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": full, "labels": self.home}, "spec": spec}
        await self.client.create(NODES, body)
        # What a new node is tainted with, the node lifecycle controller would take away.
        await self.client.patch(NODES, full, {"spec": {"taints": spec.get("taints")}}, how=PatchType.MERGE)
        status = {"status": {"conditions": [ready], "capacity": {"pods": "110"}, "allocatable": {"pods": "110"}}}
        await self.client.patch(NODES, full, status, how=PatchType.MERGE, subresource="status")
        return full

    async def workload(self, kind: str, name: str, replicas: int = 1, labels: dict[str, str] | None = None) -> Json:
        """Its owner reference."""
        labels = labels or {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER]}}
        spec: Json = {"selector": {"matchLabels": labels}, "template": template}
        if kind != "DaemonSet":
            spec["replicas"] = replicas
        if kind == "StatefulSet":
            spec["serviceName"] = "s"
        version = "apps/v1"
        if kind == "ReplicationController":
            version, spec["selector"] = "v1", labels
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        made = await self.client.create(WORKLOADS[kind], body, self.namespace)
        return {
            "apiVersion": version,
            "kind": kind,
            "name": name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }

    async def pod(
        self,
        name: str,
        node: str = "",
        *,
        owner: Json | None = None,
        labels: dict[str, str] | None = None,
        phase: str = "Running",
        ready: bool = True,
        metadata: Json | None = None,
        **spec: Any,
    ) -> Json:
        body: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {"app": "web"}, **(metadata or {})},
            "spec": {"containers": [_CONTAINER], **({"nodeName": node} if node else {}), **spec},
        }
        if owner:
            body["metadata"]["ownerReferences"] = [owner]
        await self.client.create(PODS, body, self.namespace)
        return await self.become(name, phase, ready=ready)

    async def become(self, name: str, phase: str, *, ready: bool) -> Json:
        condition = {"type": "Ready", "status": "True" if ready else "False", **_transition()}
        status = {"status": {"phase": phase, "conditions": [condition]}}
        return await self.client.patch(PODS, name, status, self.namespace, how=PatchType.MERGE, subresource="status")

    async def budget(self, name: str = "web", app: str = "web", **spec: Any) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        }
        await self.client.create(BUDGETS, body, self.namespace)

    async def pods(self) -> list[Json]:
        return (await self.client.list(PODS, self.namespace)).items

    async def names_on(self, node: str) -> list[str]:
        return sorted(each["metadata"]["name"] for each in await self.pods() if each["spec"].get("nodeName") == node)

    async def run(self, *arguments: str, kubeconfig: Path | None = None) -> Ran:
        """A command of ours against this server, in a thread of its own: the parts go on being played meanwhile.

        An evictor may do all that these commands do, but for deleting pods.
        """
        began = time.monotonic()
        evictor = self.kubeconfig.with_name("evictor.kubeconfig")
        chosen = kubeconfig or (self.kubeconfig if "--disable-eviction" in arguments else evictor)
        result = await asyncio.to_thread(run, *arguments, "--kubeconfig", str(chosen))
        lines = result.stdout.splitlines(), result.stderr.splitlines()
        return Ran(result.exit_code, *lines, time.monotonic() - began)

    async def process(self, *arguments: str) -> Ran:
        """The same as a process; the clock begins with its first line, for starting Python is not what is measured."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "jettison", *arguments, "--kubeconfig", str(self.kubeconfig),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        first = await process.stdout.readline()
        began = time.monotonic()
        rest, err = await process.communicate()
        assert process.returncode is not None
        lines = (first + rest).decode().splitlines(), err.decode().splitlines()
        return Ran(process.returncode, *lines, time.monotonic() - began)

    async def count_budgets(self) -> None:
        """One round of the disruption controller."""
        found = (await self.client.list(BUDGETS, self.namespace)).items
        if not found:
            return
        pods = [checked_pod(each) for each in await self.pods()]
        sets = (await self.client.list(REPLICA_SETS, self.namespace)).items
        workloads = Workloads(replica_sets={each["metadata"]["name"]: workload_from(each) for each in sets})
        for document in found:
            synced = sync_budget(budget_from(document), pods, workloads, time.time_ns())
            if synced.status is not None:
                try:
                    status = budget_status_data(synced.status)
                    await self.client.replace(BUDGETS, {**document, "status": status}, "status")
                except (Conflict, NotFound):
                    continue  # an eviction was faster; the next round counts again

    async def finish_pods(self) -> None:
        """One round of the node agents: what was asked to stop has stopped."""
        for each in await self.pods():
            metadata = each["metadata"]
            if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
                options = DeleteOptions(grace_seconds=0, uid=metadata["uid"])
                try:
                    await self.client.delete(PODS, metadata["name"], self.namespace, options)
                except (NotFound, Conflict):
                    continue

    async def replace_pods(self, node: str, warm_up: float) -> None:
        """One round of the ReplicaSet controller: new pods on this node, Ready a little later."""
        pods = await self.pods()
        for each in (await self.client.list(REPLICA_SETS, self.namespace)).items:
            metadata, wanted = each["metadata"], each["spec"]["replicas"]
            alive = [
                pod for pod in pods if _belongs(pod, metadata["uid"]) and "deletionTimestamp" not in pod["metadata"]
            ]
            for _ in range(wanted - len(alive)):
                owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"]}
                owner |= {"uid": metadata["uid"], "controller": True}
                labels = each["spec"]["template"]["metadata"]["labels"]
                name = f"{metadata['name']}-new{next(_numbers)}"
                await self.pod(name, node, owner=owner, labels=labels, ready=False)
                asyncio.get_running_loop().create_task(self._ready_later(name, warm_up))

    async def _ready_later(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.become(name, "Running", ready=True)

    @asynccontextmanager
    async def busy(self, *rounds: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Play these parts, round after round, while the body runs. A part that fails ends the body at once.

        The last round is played to its end: a request that is cut off may still be carried out, after the next list.
        """
        is_over = False

        async def play() -> None:
            while not is_over:
                for each in rounds:
                    await each()
                await asyncio.sleep(PERIOD)

        async with asyncio.TaskGroup() as group:
            group.create_task(play())
            try:
                yield
            finally:
                is_over = True


_CONTAINER = {"name": "c", "image": "registry.example/app:1"}


def _transition() -> Json:
    return {"lastTransitionTime": time_text(time.time_ns())}


def _belongs(pod: Json, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences") or ())


def play(kubeconfig: Path, scene: Callable[[Playground], Awaitable[None]]) -> None:
    """Run a test in a fresh namespace."""

    async def staged() -> None:
        async with KubeClient(load_access(Overrides(kubeconfig=str(kubeconfig)))) as client:
            namespace = f"play{next(_numbers)}"
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await client.create(NAMESPACES, body)
            await scene(Playground(client, kubeconfig, namespace))

    asyncio.run(staged())
