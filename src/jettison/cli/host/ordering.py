"""`jettison restart`, `delete` and `down`, and what they share with `evict` and `exec`.

They share how to find the node that has the pod, and how long to wait until an order is carried out.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click
import msgspec
from msgspec import Struct
from msgspec.json import Decoder

from jettison.agent.http import LONGEST_WAIT
from jettison.agent.journal.reading import PodQuery
from jettison.agent.safe_text import printable
from jettison.cli.inspect.watched_node import (
    WatchedNode,
    all_nodes_options,
    find_nodes,
    names_of,
    watched_nodes_options,
)
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.output import remark
from jettison.errors import InputError, JettisonError, ObservationError
from jettison.manifests.files.decoding import decode
from jettison.values import frozen

Callback = Callable[..., Any]

_OWN_GRACE = -1

grace_option: Callable[[Callback], Callback] = click.option(
    "--grace-period",
    "grace",
    type=WholeNumber(_OWN_GRACE, LONGEST_WAIT),
    default=_OWN_GRACE,
    metavar="SECONDS",
    help="The time between SIGTERM and SIGKILL; -1: the pod's own. At least 2 s.",
)
timeout_option: Callable[[Callback], Callback] = click.option(
    "--timeout",
    "wait_seconds",
    type=WholeNumber(0, LONGEST_WAIT),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until it is done; 0: not at all.",
)

_PAUSE_SECONDS = 0.1


class _Said(msgspec.Struct):
    namespace: str
    name: str
    uid: str = ""
    manifest: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    is_done: bool = msgspec.field(default=False, name="isDone")


@frozen
class Done:
    """What became of an order about a pod."""

    node: WatchedNode
    said: _Said

    @property
    def pod(self) -> str:
        """`namespace/name`."""
        return f"{self.said.namespace}/{self.said.name}"

    def tell(self, what: str) -> int:
        """As kubectl words it; the exit code."""
        if self.said.is_done:
            click.echo(printable(f'pod "{self.pod}" {what}'))
            return 0
        remark("note", f"pod `{self.pod}` is not done yet: `jettison pods` shows its state")
        return 1


def give(nodes: Sequence[WatchedNode], order: str, pod: str, grace: int, wait_seconds: int) -> Done:
    """Order something about a pod, on the node that has it."""
    node = node_of(nodes, pod)
    seconds = None if grace == _OWN_GRACE else grace
    data = node.order(order, wait_seconds, pod=pod, grace=seconds)
    try:
        return Done(node, msgspec.json.decode(data, type=_Said))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ObservationError(f"cannot understand the agent of node `{node.name}`: {error}") from error


def node_of(nodes: Sequence[WatchedNode], pod: str) -> WatchedNode:
    """The node with a running agent that knows the pod; where several know it, the user has to choose."""
    live = [node for node in nodes if node.is_live]
    if not live:
        raise JettisonError(f"no agent runs for {names_of(nodes)}: `jettison up` starts one")
    if len(live) == 1:
        return live[0]
    query = PodQuery.parse(pod)
    knowing = [node for node in live if knows(node, query)]
    if not knowing:
        raise JettisonError(f"there is no pod `{pod}` on {names_of(live)}")
    if len(knowing) > 1:
        raise InputError(f"pod `{pod}` is on nodes {', '.join(node.name for node in knowing)}: --node-name chooses")
    return knowing[0]


def knows(node: WatchedNode, query: PodQuery) -> bool:
    """Whether the pod is there, or was deleted by hand."""
    items = [item["metadata"] for item in node.ask("/pods")["items"]]
    held = [each.partition("/") for each in node.held]
    names = [(each["namespace"], each["name"], each["uid"]) for each in items]
    return any(query.matches(each) for each in (*names, *((namespace, name, "") for namespace, _, name in held)))


@click.command(short_help="End a pod of this machine and start it again.")
@click.argument("pod")
@grace_option
@timeout_option
@watched_nodes_options
def restart_command(nodes: Sequence[WatchedNode], pod: str, grace: int, wait_seconds: int) -> int:
    """End POD with its grace period and start it again, with empty volumes and a count of restarts from 0.

    Works also for a pod that has ended, was evicted, or was deleted by hand. The node admits it like a new pod: under
    pressure it may be refused. POD is a name, `namespace/name`, or a uid.
    """
    done = give(nodes, "restart", pod, grace, wait_seconds)
    if done.said.is_done and done.said.phase == "Failed":
        raise JettisonError(f"pod `{done.pod}` was ended, but may not start: {done.said.reason}: {done.said.message}")
    return done.tell("restarted")


@click.command(short_help="End a pod of this machine, and keep it away.")
@click.argument("pod")
@grace_option
@timeout_option
@watched_nodes_options
def delete_command(nodes: Sequence[WatchedNode], pod: str, grace: int, wait_seconds: int) -> int:
    """End POD and forget it; its logs stay until they are collected.

    A pod of a manifest stays away, also after a restart of the agent, until the manifest changes, or `jettison restart
    POD`. Remove the file to be rid of the pod for good. POD is a name, `namespace/name`, or a uid.
    """
    done = give(nodes, "delete", pod, grace, wait_seconds)
    if done.said.manifest:
        remark("note", f"it starts again when `{done.said.manifest}` changes, or with `jettison restart {done.pod}`")
    return done.tell("deleted")


class _Answer(Struct):
    pods: int


_ANSWER = Decoder(_Answer)


@click.command(short_help="End the pods of a node of this machine, and its agent.")
@click.option("--keep-pods", is_flag=True, help="End only the agent; the next `up` takes its pods over.")
@timeout_option
@all_nodes_options
def down_command(nodes: Sequence[WatchedNode], keep_pods: bool, wait_seconds: int) -> int:
    """End every pod of the node with its own grace period, then the agent: the opposite of `jettison up`.

    The next `up` starts the pods of the manifests again. A service manager that restarts the agent does so too: there,
    stop the service. Of a cluster (`up --nodes`) all nodes go down, and their API with them; it keeps its objects, so
    the next `up --nodes` starts their pods again.
    """
    together = _fellows(nodes)
    agents = _processes(together)
    answer = decode(_ANSWER, nodes[0].order("down", pods="keep" if keep_pods else "end"), "the agent's answer")
    others = [] if keep_pods else [each for each in together if each.name != nodes[0].name]
    count = answer.pods + sum(_pods(each) for each in others)
    if count:
        remark("note", f"ending {count} pod{'' if count == 1 else 's'} of {_named(together, '`')}")
    deadline = time.monotonic() + wait_seconds
    while left := [each for each in together if each.is_live]:
        if time.monotonic() >= deadline:
            if not wait_seconds:
                return 0
            raise JettisonError(f"node `{left[0].name}` is still on its way down: {_left(left[0])}")
        time.sleep(_PAUSE_SECONDS)
    for descriptor in agents:
        select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        os.close(descriptor)
    verb, whose = ("is", "its") if len(together) == 1 else ("are", "their")
    click.echo(f"{_named(together)} {verb} down" + (f"; {whose} pods run on, unguarded" if keep_pods else ""))
    return 0


def _fellows(nodes: Sequence[WatchedNode]) -> list[WatchedNode]:
    """The nodes that one process guards, which go down together: all of these, or with the only one of these."""
    if not any(each.is_live for each in nodes):
        raise JettisonError(f"no agent runs for {names_of(nodes)}")
    found = [
        each
        for each in find_nodes(nodes[0].directory.parents[1])
        if each.is_live and each.agent_pid == nodes[0].agent_pid
    ]
    if any(each.name not in [fellow.name for fellow in found] for each in nodes):
        raise InputError(f"which node is meant? --node-name is one of {', '.join(each.name for each in nodes)}")
    return found


def _processes(nodes: Sequence[WatchedNode]) -> list[int]:
    """A descriptor of what guards a cluster: its API ends after its nodes, and the next one cannot begin before. None
    where it cannot be told whether it is one: a node goes down all the same.
    """
    with suppress(OSError, ObservationError):
        card, pid = nodes[0].card, nodes[0].agent_pid
        return [os.pidfd_open(pid)] if card is not None and card.is_member and pid else []
    return []


def _pods(node: WatchedNode) -> int:
    with suppress(ObservationError):
        return len(node.ask("/pods")["items"])
    return 0


def _named(nodes: Sequence[WatchedNode], quote: str = "") -> str:
    names = ", ".join(f"{quote}{each.name}{quote}" for each in nodes)
    return f"node{'' if len(nodes) == 1 else 's'} {names}"


def _left(node: WatchedNode) -> str:
    try:
        items = node.ask("/pods")["items"]
    except ObservationError as failure:
        return str(failure)
    names = [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in items]
    return f"not gone yet: {', '.join(names)}" if names else "all pods are gone"
