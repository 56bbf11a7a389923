"""A real node in the test's own process that has joined a real server. Pods are processes, without cgroups."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jettison.agent.safe_text import printable
from jettison.engine.config.policy import Policy
from jettison.engine.scheduling.placement import Taint
from jettison.events import Fact
from jettison.membership.missing_pods import CONFIRM_SECONDS
from jettison.node.member import run_member
from jettison.node.node import Node
from jettison.node.settings import NodeSettings
from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.kube.kubeconfig import Overrides, load_access
from tests.controllers.staging import until
from tests.live.served import Served

Json = dict[str, Any]

NODES = tuple(f"m{number}" for number in range(1, 23))
PATIENCE = 30.0
ADDRESS = "127.0.0.1"


class Said:
    """Everything that the node said, for failures and for tests of what it says."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def take(self, fact: Fact, time_ns: int) -> None:
        self.facts.append(fact)
        print(printable(str(fact))[:300], file=sys.stderr)

    def count(self, kind: type[Fact]) -> int:
        return sum(isinstance(fact, kind) for fact in self.facts)


@dataclass
class Joined:
    """The node, and the server as its administrator sees it."""

    name: str
    admin: KubeClient
    node: Node
    said: Said

    async def create(self, name: str, command: list[str], **spec: Any) -> Json:
        """A pod that is bound to this node."""
        container = {
            "name": "main",
            "image": "registry.example/none:1",
            "command": command,
            **spec.pop("container", {}),
        }
        whole = {"nodeName": self.name, "terminationGracePeriodSeconds": 1, "containers": [container], **spec}
        return await self.admin.create(PODS, {"metadata": {"name": name}, "spec": whole}, "default")

    async def pod(self, name: str) -> Json:
        return await self.admin.get(PODS, name, "default")

    async def until_phase(self, name: str, phase: str) -> Json:
        async def look() -> Json | None:
            found = await self.pod(name)
            return found if (found.get("status") or {}).get("phase") == phase else None

        found = await until(look, seconds=PATIENCE)
        assert found is not None
        return found

    async def until_ready(self, name: str) -> Json:
        async def look() -> Json | None:
            found = await self.pod(name)
            return found if condition(found, "Ready").get("status") == "True" else None

        found = await until(look, seconds=PATIENCE)
        assert found is not None
        return found


def condition(document: Json, kind: str) -> Json:
    found = (document.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})


def client_of(served: Served, user: str = "admin") -> KubeClient:
    answers = None if user == "admin" else BoundedAnswers()
    return KubeClient(load_access(Overrides(kubeconfig=str(served.kubeconfig(user)))), answers=answers)


def settings_of(name: str, directory: Path, *taints: Taint, **more: Any) -> NodeSettings:
    more.setdefault("policy", Policy.of({"evictionHard": {"memory.available": "1Mi"}}))
    return NodeSettings(
        name,
        directory / "state",
        directory / "files",
        node_memory=512 * 2**20,
        uses_cgroups=False,
        taints=taints,
        **more,
    )


def play(scenario: Coroutine[Any, Any, None]) -> None:
    """Run it. A client that is cancelled in the middle of a TLS handshake leaves its socket to the garbage collector
    (httpcore tidies up after errors, not after cancellations), which would be told to whatever test comes next."""
    asyncio.run(scenario)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@asynccontextmanager
async def joined(
    served: Served,
    name: str,
    directory: Path,
    *taints: Taint,
    keeps_pods: bool = False,
    confirm_seconds: float = CONFIRM_SECONDS,
    address: str = ADDRESS,
    **more: Any,
) -> AsyncIterator[Joined]:
    """A node that guards and reports during the body. Its pods end with it unless they are to be found again."""
    said = Said()
    async with client_of(served) as admin, client_of(served, name) as client:
        node = await Node(settings_of(name, directory, *taints, **more), said).open()
        running = asyncio.create_task(run_member(node, client, address, confirm_seconds=confirm_seconds))
        try:
            yield Joined(name, admin, node, said)
            assert not running.done(), running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if not keeps_pods:
                await node.stop_pods()
            await node.close()
