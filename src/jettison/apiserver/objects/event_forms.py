"""Events have two forms, one for each group, and are kept in the older one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

# New name → name in the core group.
_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_OLD_NAMES: Final = {old: new for new, old in _NAMES.items()}


def stored_event(event: Mapping[str, Any]) -> Json:
    """An event of events.k8s.io as it is kept."""
    return {_NAMES.get(key, key): value for key, value in event.items()}


def shown_event(event: Mapping[str, Any]) -> Json:
    """A kept event as events.k8s.io shows it."""
    return {_OLD_NAMES.get(key, key): value for key, value in event.items()}
