"""The processes of `jettison serve` and `jettison up --nodes`.

`serve` is the API server, with its controllers in a child. With `up --nodes` it is the other way round: the process
that the operator starts guards the nodes, and API server and controllers are the child. What a client sends to the API
is decoded there, in another interpreter, so no request can keep a node from its guard; and the agent's protection
(locked memory, priority, cgroup) is for the agent alone. Each process loads what it runs, after the fork.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from jettison.node.cluster_settings import ClusterSettings
from jettison.node.process.child_process import OtherProcess, split
from jettison.node.process.frame import greet, until_told

if TYPE_CHECKING:
    from jettison.agent.sinks.log import LogSink
    from jettison.node.cluster.local_cluster import LocalCluster

# A server that is told to end closes its connections and its store, and a disk may be slow.
_LEAVE_SECONDS = 30.0


def carry_out(settings: ClusterSettings) -> None:
    """All that both commands are once their command line has been read."""
    if settings.nodes:
        _guard_beside_an_api(settings)
    else:
        _serve(_cluster(settings))


def _serve(cluster: LocalCluster) -> None:
    if cluster.controllers:
        cluster.controller_process = split("controllers", cluster.control)
        if cluster.controller_process is None:
            return
    until_told(partial(_run, cluster))


async def _run(cluster: LocalCluster, log: LogSink) -> None:
    await cluster.run(log, tell=lambda greeting: greet(greeting, sys.stdout))


def _guard_beside_an_api(settings: ClusterSettings) -> None:
    api = split("api-server", partial(_serve_nodes, settings), leave_seconds=_LEAVE_SECONDS)
    if api is not None:
        import_module("jettison.node.cluster.nodes").guard_until_told(settings, api)


async def _serve_nodes(settings: ClusterSettings, guard: OtherProcess) -> None:
    """For nodes that join from the process beside this one."""
    names = (*settings.members, *(each.node_name for each in settings.nodes))
    await _cluster(replace(settings, nodes=(), members=names)).run(tell=lambda _: guard.say_ready())


def _cluster(settings: ClusterSettings) -> LocalCluster:
    made: LocalCluster = import_module("jettison.node.cluster.local_cluster").LocalCluster(settings)
    return made
