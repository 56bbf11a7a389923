"""When was a node last heard of, and what its conditions become when that is too long ago."""

from __future__ import annotations

from typing import Final, NamedTuple

from jettison.clock import Clock
from jettison.controllers.machinery.object_state import condition_of
from jettison.manifests.times import parse_time, time_text
from jettison.runtimes.kube.client import Document

SILENCE_NS: Final = 50 * 10**9
STARTUP_SILENCE_NS: Final = 60 * 10**9
"""For a node that has never posted a status."""

_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_STOPPED: Final = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
_NEVER: Final = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")


class _Sign(NamedTuple):
    """What a heartbeat changes, and when we saw it change: by our clock, whatever the node's says."""

    uid: str
    posted: str | None
    renewed: str | None
    seen_ns: int


class Heartbeats:
    """The last sign of life of every node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._signs: dict[str, _Sign] = {}

    def is_silent(self, node: Document, lease: Document | None) -> bool:
        """Whether neither its status nor its lease has moved for too long."""
        metadata = node["metadata"]
        ready = condition_of(node, "Ready")
        posted = None if ready is None else ready.get("lastHeartbeatTime") or ""
        renewed = None if lease is None else (lease.get("spec") or {}).get("renewTime")
        now_ns = self._clock.monotonic_ns()
        sign = self._signs.get(metadata["name"])
        if sign is None or sign[:3] != (metadata["uid"], posted, renewed):
            is_new = sign is None or sign.uid != metadata["uid"]
            never_ns = self._age_ns(node) if is_new and ready is None else 0
            sign = self._signs[metadata["name"]] = _Sign(metadata["uid"], posted, renewed, now_ns - never_ns)
        return now_ns - sign.seen_ns > (STARTUP_SILENCE_NS if ready is None else SILENCE_NS)

    def forget(self, name: str) -> None:
        """It is no node any more."""
        self._signs.pop(name, None)

    def _age_ns(self, node: Document) -> int:
        return self._clock.now_ns() - parse_time(node["metadata"]["creationTimestamp"])


def unknown_conditions(node: Document, now_ns: int) -> list[Document]:
    """The conditions that change when nothing is known any more; empty where that has been said already."""
    now = time_text(now_ns)
    changed = []
    for kind in _CONDITIONS:
        known = condition_of(node, kind)
        if known is not None and known.get("status") == "Unknown":
            continue
        reason, message = _NEVER if known is None else _STOPPED
        heartbeat = {"lastHeartbeatTime": node["metadata"]["creationTimestamp"]} if known is None else known
        said = {"type": kind, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": now}
        changed.append({**heartbeat, **said})
    return changed
