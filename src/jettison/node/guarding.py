"""Guards a node until it is told to stop: all that `jettison up` is once its command line has been read."""

from __future__ import annotations

import sys

from jettison.agent.sinks.log import LogSink
from jettison.node.node import Node
from jettison.node.process import greet, until_told
from jettison.node.reloading import Reloader
from jettison.node.settings import NodeSettings


def carry_out(settings: NodeSettings) -> None:
    """Returns when it was told to stop."""
    nodes: list[Node] = []
    reload = Reloader(lambda: nodes).reload
    until_told(lambda log: _guard(settings, log, nodes), is_verbose=settings.is_verbose, reload=reload)


async def _guard(settings: NodeSettings, log: LogSink, nodes: list[Node]) -> None:
    node = await Node(settings, log, owns_process=True).open()
    nodes.append(node)
    try:
        say_where(node)
        await node.run(lambda greeting: greet(greeting, sys.stdout))
    finally:
        await node.close()


def say_where(node: Node) -> None:
    """The port is not known before."""
    listen = node.settings.listen
    if listen is not None and node.port is not None:
        host = f"[{listen[0]}]" if ":" in listen[0] else listen[0]
        greet(f"listening on http://{host}:{node.port}", sys.stderr)
