"""A Kubernetes API on this machine with its controllers, and nodes in the same process where there are any.

`jettison serve` is one without nodes, whose controllers have a process of their own; `jettison up --nodes` has
everything in one; a test can serve one in its own event loop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from jettison.apiserver.access.auth import NODE_PREFIX
from jettison.apiserver.cluster import PEOPLE, Cluster
from jettison.apiserver.connections.endpoint import Endpoint
from jettison.apiserver.verbs.log_query import LogSource
from jettison.controllers.runner import MAKERS, run_controllers
from jettison.errors import JettisonError
from jettison.events import Sink
from jettison.node.cluster_settings import ClusterSettings
from jettison.node.controller_process import ControllerProcess, split
from jettison.node.process import Tell, ended, greet, started, until_one_ends, until_told
from jettison.runtimes.kube.answers import AnswerReader
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access

if TYPE_CHECKING:
    from jettison.agent.sinks.log import LogSink
    from jettison.node.node import Node

_CONTROLLERS = "controllers"
"""The user that the controllers are; `controllers.kubeconfig` lets them run elsewhere too."""


def carry_out(settings: ClusterSettings) -> None:
    """All that `jettison serve` and `jettison up --nodes` are once their command line has been read."""
    if not settings.nodes:
        _serve(LocalCluster(settings))
        return
    cluster = LocalCluster(settings, owns_process=True)
    # All of them or none: while some are still to come there is nothing to compare.
    reloader = import_module("jettison.node.guarding").Reloader
    reload = reloader(lambda: cluster.nodes if len(cluster.nodes) == len(settings.nodes) else ()).reload
    until_told(partial(_run, cluster), is_verbose=settings.nodes[0].is_verbose, reload=reload)


def _serve(cluster: LocalCluster) -> None:
    """The controllers have a process of their own: it is split off before anything is open."""
    if cluster.controllers:
        cluster.controller_process = split(cluster.control)
        if cluster.controller_process is None:
            return
    until_told(partial(_run, cluster))


async def _run(cluster: LocalCluster, log: LogSink) -> None:
    await cluster.run(log, tell=lambda greeting: greet(greeting, sys.stdout))


class LocalCluster:
    """`async with LocalCluster(settings) as cluster:` serves from when the API is ready until the block ends."""

    def __init__(self, settings: ClusterSettings, *, owns_process: bool = False) -> None:
        self.settings = settings
        # The process is this cluster's alone, and may be protected as a whole.
        self._owns_process = owns_process
        # Those that are open by now, in the order of their settings.
        self.nodes: list[Node] = []
        self.controllers = frozenset(MAKERS) if settings.controllers is None else settings.controllers
        # None: the controllers are in this process.
        self.controller_process: ControllerProcess | None = None
        names = (*settings.members, *(each.node_name for each in settings.nodes))
        users = {f"{NODE_PREFIX}{name}": "node" for name in names}
        self._logs: dict[str, LogSource] = {}
        self._api = Cluster(
            settings.state_dir,
            Endpoint(*settings.listen),
            {**PEOPLE, _CONTROLLERS: "admin", **users},
            local_logs=self._logs,
            switches=settings.control.switches,
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

    def greeting(self) -> str:
        """What to try first."""
        names = ", ".join(each.node_name for each in self.settings.nodes)
        served = f"serving {self.url}, try: kubectl --kubeconfig {self.kubeconfig()} get"
        return f"{served} nodes\nnodes: {names}" if names else f"{served} namespaces"

    async def run(self, *sinks: Sink, tell: Tell = lambda _: None) -> None:
        """Serve until cancelled. The API comes first and goes last: everything else talks to it.

        `tell` gets the greeting of the cluster once the API is ready, and that of each node when it is.
        """
        stop, ready = asyncio.Event(), asyncio.Event()

        def is_ready(endpoint: Endpoint) -> None:
            self._endpoint = endpoint
            ready.set()
            tell(self.greeting())

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

    async def control(self) -> None:
        """Run the controllers. With a token, as anywhere else: what they may see and do is what the API says."""
        async with self.client(_CONTROLLERS) as client:
            await run_controllers(client, self.controllers, self.settings.control)

    async def _work(self, ready: asyncio.Event, sinks: Sequence[Sink], tell: Tell) -> None:
        if self.controller_process is not None:
            # From the beginning: it ends with us, also where the API cannot be served.
            await self.controller_process.run(ready)
            return
        await ready.wait()
        async with AsyncExitStack() as stack:
            controllers = await stack.enter_async_context(self.client(_CONTROLLERS))
            work: list[Coroutine[Any, Any, Any]] = []
            if self.settings.nodes:
                # A server without nodes starts in half the time without the code of a node.
                join = import_module("jettison.node.cluster_nodes").joined_nodes
                work += await join(self, controllers, self._logs, sinks, stack, tell)
                if self._owns_process:
                    stack.callback(import_module("jettison.node.cluster_nodes").protected(self.nodes[0]).end)
            if self.controllers:
                work.append(run_controllers(controllers, self.controllers, self.settings.control))
            await until_one_ends(*work, asyncio.Event().wait())
