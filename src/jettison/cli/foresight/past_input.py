"""What a node's signals read before now: in earlier summaries, or watched for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence

from jettison.agent.journal.recorded_readings import Past
from jettison.cli.policy.node_input import read_summary, shown
from jettison.cli.policy.seen_node import SeenNode
from jettison.engine.foresight.trends import Series
from jettison.engine.node.signals import readings
from jettison.engine.node.snapshot import NodeStats
from jettison.errors import InputError
from jettison.manifests.node_files import newest_time


def past_in_files(paths: Sequence[str], seen: SeenNode) -> Past:
    """Earlier summaries of the same node, and the one that it is about."""
    stats = []
    for path in paths:
        node, _ = read_summary(path)
        if node.name and seen.name and node.name != seen.name:
            raise InputError(f"--earlier: `{shown(path)}` is about node `{node.name}`, the summary about `{seen.name}`")
        stats.append(node)
    return past_in([*stats, seen.case.snapshot.node])


def past_in(stats: Sequence[NodeStats]) -> Past:
    """In the order of their times; two of one time are one."""
    past = Past()
    found: dict[object, dict[int, int]] = {}
    for node in sorted(stats, key=lambda each: newest_time(each) or 0):
        for signal, reading in readings(node).items():
            at_ns = reading.time_ns or newest_time(node) or time.time_ns()
            known = past.series.get(signal)
            if known is None or known.capacity != reading.capacity:
                found[signal] = {}
            found[signal][at_ns] = reading.available
            past.series[signal] = Series(reading.capacity, sorted(found[signal].items()))
    return past
