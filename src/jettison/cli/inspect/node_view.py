"""One look at a node for `top`: live from its agent, or the last step that is on record."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from jettison.agent.http.endpoints import rank_document
from jettison.agent.journal.reading import read_journal
from jettison.agent.journal.recorded_steps import step_from
from jettison.agent.journal.records import STEP
from jettison.cli.inspect.watched_node import WatchedNode
from jettison.engine.node.pressure import History
from jettison.errors import ManifestError, ObservationError
from jettison.manifests.times import parse_time

# An agent with nothing to do looks every 10 s. Asked for readings older than a second it looks at once, which takes it
# some milliseconds; the times it tells have whole seconds.
_OLD_NS = 2 * 10**9
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class NodeView:
    """`ranking` is what the agent answers to /rank; `note` says so when it did not."""

    ranking: dict[str, Any]
    history: History
    note: str = ""

    @property
    def time_ns(self) -> int:
        """When the node was measured."""
        return parse_time(self.ranking["time"])


def look(node: WatchedNode) -> NodeView:
    """Raises ObservationError when neither the agent nor the journal knows anything."""
    try:
        ranking = node.ask("/rank")
        if time.time_ns() - parse_time(ranking["time"]) > _OLD_NS:
            time.sleep(_LOOK_SECONDS)
            ranking = node.ask("/rank")
        return NodeView(ranking, node.history)
    except ObservationError as failure:
        recorded = _last_on_record(node)
        if recorded is None:
            raise ObservationError(f"{failure}, and no step is on record") from failure
        return NodeView(recorded, node.history, f"{failure}: this is the last step on record")


def _last_on_record(node: WatchedNode) -> dict[str, Any] | None:
    for record in read_journal(node.journal, newest_first=True):
        if record.kind != STEP:
            continue
        try:
            step = step_from(record.data)
        except ManifestError:
            continue  # of another version of this program
        for each in reversed(step.looks):
            if each.snapshot is not None:
                return rank_document(step.policy, each.snapshot)
    return None
