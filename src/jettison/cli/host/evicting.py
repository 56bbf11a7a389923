"""`jettison evict` on this machine. `cli/cluster/evict` loads it only where no cluster is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from jettison.agent.http import LONGEST_WAIT
from jettison.cli.host.ordering import give, node_of
from jettison.cli.inspect.watched_node import WatchedNode, find_node, find_nodes
from jettison.cli.output import remark
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import ObservationError
from jettison.maintenance.settings import DryRun, EvictionSettings


def nodes_meant(state_dir: Path, node_name: str | None, *, is_named: bool) -> Sequence[WatchedNode]:
    """The nodes of this machine that are meant: with a running agent, and with pods that are not those of an API."""
    if node_name is not None:
        return [find_node(state_dir, node_name)]
    try:
        found = find_nodes(state_dir)
    except ObservationError:
        if is_named:
            raise
        return []  # another user's state, which does not concern a user of a cluster
    if is_named:
        return found or [find_node(state_dir, None)]
    return [node for node in found if node.is_live and not (node.card is not None and node.card.is_member)]


def evict_here(nodes: Sequence[WatchedNode], names: Sequence[str], namespace: str, settings: EvictionSettings) -> int:
    """One after the other. There is no budget on a bare host, so none is asked."""
    code = 0
    grace = -1 if settings.grace_seconds is None else settings.grace_seconds
    wait = min(settings.timeout_ns // SECOND_NS, LONGEST_WAIT) or LONGEST_WAIT
    for name in names:
        pod = f"{namespace}/{name}" if namespace and "/" not in name else name
        if settings.dry_run is not DryRun.NONE:
            click.echo(f'pod "{pod}" evicted on node {node_of(nodes, pod).name} (dry run)')
            continue
        done = give(nodes, "evict", pod, grace, wait if settings.waits else 0)
        remark("note", f"node `{done.node.name}` of this machine; --kubeconfig and --server choose a cluster")
        code = max(code, done.tell("evicted") if settings.waits else 0)
    return code
