"""A Kubernetes API on this machine with its controllers, and nodes in the same event loop where a program wants some.

`processes` has the processes of `jettison serve` and `jettison up --nodes`: there, nodes are never in this loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from jettison.apiserver.access.auth import NODE_PREFIX
from jettison.apiserver.cluster import PEOPLE, Cluster
from jettison.apiserver.connections.endpoint import Endpoint
from jettison.controllers.settings import ACCOUNTS, CONTROLLERS, NAMESPACES
from jettison.errors import JettisonError
from jettison.events import Sink
from jettison.node.cluster_settings import ClusterSettings
from jettison.node.process.child_process import ChildProcess, OtherProcess
from jettison.node.process.frame import Tell, calm_garbage_collector, ended, started
from jettison.runtimes.kube.answers import AnswerReader
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access
from jettison.runtimes.machine.background_tasks import until_one_ends

if TYPE_CHECKING:
    from jettison.node.node import Node

_CONTROLLERS = "controllers"
"""The user that the controllers are; `controllers.kubeconfig` lets them run elsewhere too."""

# Loaded by the process that runs them: a server without them has 2 MB less, and is ready sooner.
_RUNNER = "jettison.controllers.runner"


class LocalCluster:
    """`async with LocalCluster(settings) as cluster:` serves from when the API is ready until the block ends."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        # Those that are open by now, in the order of their settings.
        self.nodes: list[Node] = []
        chosen = frozenset(CONTROLLERS) if settings.controllers is None else settings.controllers
        # The server empties namespaces itself.
        self.controllers = chosen - {NAMESPACES}
        # None: the controllers are in this process.
        self.controller_process: ChildProcess | None = None
        names = (*settings.members, *(each.node_name for each in settings.nodes))
        users = {f"{NODE_PREFIX}{name}": "node" for name in names}
        self._api = Cluster(
            settings.state_dir,
            Endpoint(*settings.listen),
            {**PEOPLE, _CONTROLLERS: "admin", **users},
            switches=settings.control.switches,
            has_accounts=ACCOUNTS in self.controllers,
        )
        self._endpoint: Endpoint | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where the API is served, known once it is."""
        if self._endpoint is None:
            raise JettisonError("the API is not served yet")
        return self._endpoint.url

    def kubeconfig(self, user: str = "admin") -> Path:
        """For kubectl and every other client; written when the API is ready."""
        return self._api.kubeconfig(user)

    def client(self, user: str = "admin", answers: AnswerReader | None = None) -> KubeClient:
        """To be used with `async with`. Over TLS and with a token, as every other client's requests are."""
        return KubeClient(load_access(Overrides(kubeconfig=str(self.kubeconfig(user)))), answers=answers)

    async def __aenter__(self) -> Self:
        self._running = await started(lambda tell: self.run(tell=lambda _: tell()))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        await ended(self._running)

    async def run(self, *sinks: Sink, tell: Tell = lambda _: None) -> None:
        """Serve until cancelled. The API comes first and goes last: everything else talks to it.

        `tell` gets the greeting of the cluster once the API is ready, and that of each node when it is.
        """
        stop, ready = asyncio.Event(), asyncio.Event()
        # Before the store is read, which may be a hundred thousand objects, and again when they are all here.
        calm_garbage_collector()

        def is_ready(endpoint: Endpoint) -> None:
            self._endpoint = endpoint
            calm_garbage_collector()
            ready.set()
            tell(self.settings.greeting(endpoint.url))

        serving = asyncio.create_task(self._api.run(stop, is_ready))
        working = asyncio.create_task(self._work(ready, sinks, tell))
        try:
            await asyncio.wait((serving, working), return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            await asyncio.wait((working,))
            stop.set()
            await serving
        # Nodes or controllers that end by themselves leave a cluster in which nothing happens.
        if not working.cancelled():
            working.result()

    async def control(self, server: OtherProcess) -> None:
        """Run the controllers, once the server is ready. With a token, as anywhere else: what they may see and do is
        what the API says.
        """
        import_module(_RUNNER)
        await server.is_ready.wait()
        calm_garbage_collector()
        async with self.client(_CONTROLLERS) as client:
            await self._reconcile(client)

    async def _reconcile(self, client: KubeClient) -> None:
        """Only while no `jettison controllers` does."""
        runner = import_module(_RUNNER)
        run = partial(runner.run_controllers, client, self.controllers, self.settings.control)
        await runner.own_lease(client).while_held(run)

    async def _work(self, ready: asyncio.Event, sinks: Sequence[Sink], tell: Tell) -> None:
        if self.controller_process is not None:
            # From the beginning: it ends with us, also where the API cannot be served.
            await self.controller_process.run_beside(partial(_start_controllers, ready))
            return
        await ready.wait()
        async with AsyncExitStack() as stack:
            controllers = await stack.enter_async_context(self.client(_CONTROLLERS))
            work: list[Coroutine[Any, Any, Any]] = []
            if self.settings.nodes:
                # A server without nodes starts in half the time without the code of a node.
                members = import_module("jettison.node.cluster.nodes")
                work += await members.joined_nodes(self.settings, self.nodes, sinks, stack, tell)
            if self.controllers:
                work.append(self._reconcile(controllers))
            await until_one_ends(*work, asyncio.Event().wait())
            if self.settings.nodes:
                await members.end_pods(self.nodes)


async def _start_controllers(ready: asyncio.Event, controllers: OtherProcess) -> None:
    await ready.wait()
    controllers.say_ready()
    await asyncio.Event().wait()
