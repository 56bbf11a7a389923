"""The socket of a running node, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jettison.agent.agent import TICK_SECONDS, Agent
from jettison.agent.http.endpoints import Sources, public_routes, routes
from jettison.agent.http.server import HttpServer, Route
from jettison.agent.sinks.kubernetes_events import KubernetesEvents
from jettison.agent.sinks.metrics import Metrics
from jettison.clock import Clock
from jettison.engine.node.snapshot import Snapshot
from jettison.runtimes.protocol import Hosting

SOCKET_NAME = "agent.sock"

FRESH_NS = 500 * 10**6
"""A request for readings older than this makes the agent measure again: one client sees a node live, and a thousand
clients cannot keep it busy."""

STALE_NS = round(3.5 * TICK_SECONDS * 10**9)
"""An agent that has not looked for so long is not guarding anything."""


class HostService:
    """Listens from `open` to `close`."""

    def __init__(
        self,
        agent: Agent,
        runtime: Hosting,
        metrics: Metrics,
        events: KubernetesEvents,
        journal: Path,
        clock: Clock,
        orders: Mapping[str, Route],
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._executor = ThreadPoolExecutor(1, "jettison-journal")
        sources = Sources(
            lambda: agent.policy,
            self._snapshot,
            runtime.statuses,
            metrics.text,
            self.complaint,
            journal,
            events,
            self._executor,
        )
        self._server = HttpServer(routes(sources), public_routes(sources), orders)

    async def open(self, socket: Path, listen: tuple[str, int] | None) -> int | None:
        """The TCP port, if one was asked for."""
        await self._server.listen_unix(socket)
        return None if listen is None else await self._server.listen_tcp(*listen)

    async def close(self) -> None:
        """Hang up."""
        await self._server.close()
        self._executor.shutdown()

    def _snapshot(self) -> Snapshot | None:
        """The newest, by the wall clock. What is asked for next will be newer."""
        newest = self._agent.snapshot
        if newest is None:
            return None
        if self._age_ns(newest) > FRESH_NS:
            self._agent.look_soon()
        return newest.shifted(self._clock.now_ns() - self._clock.steady_ns())

    def complaint(self) -> str | None:
        """Why the node is not guarded as it should be, or None."""
        newest = self._agent.snapshot
        if newest is None:
            return "the node has not been looked at yet"
        age_ns = self._age_ns(newest)
        return f"the node was last looked at {age_ns // 10**9} s ago" if age_ns > STALE_NS else None

    def _age_ns(self, snapshot: Snapshot) -> int:
        return self._clock.steady_ns() - snapshot.now_ns
