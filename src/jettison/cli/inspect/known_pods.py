"""The pods of a node as v1 documents: from the agent if it answers, else from the records it left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from jettison.agent.http.pod_statuses import pod_list
from jettison.cli.inspect.recorded_pods import recorded_statuses
from jettison.cli.inspect.watched_node import WatchedNode
from jettison.errors import ObservationError

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KnownPods:
    """Sorted by namespace and name. `note` says so when nobody answered."""

    items: list[Document]
    note: str = ""


def known_pods(node: WatchedNode) -> KnownPods:
    """All of them, ended ones included."""
    try:
        return KnownPods(_sorted(node.ask("/pods")["items"]))
    except ObservationError as failure:
        # Through JSON and back, so that it is in every respect what the agent would have sent.
        recorded = msgspec.json.decode(msgspec.json.encode(pod_list(recorded_statuses(node.records))))
        return KnownPods(_sorted(recorded["items"]), f"{failure}: this is what its records say")


def _sorted(items: list[Document]) -> list[Document]:
    return sorted(items, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))
