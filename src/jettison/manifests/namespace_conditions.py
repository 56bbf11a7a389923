"""The conditions of a namespace that is being deleted: what it is waiting for.

Our API server empties its namespaces itself, and for others there is a controller; both say it in these words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jettison.manifests.times import time_text

Json = dict[str, Any]
Left = Mapping[str, Sequence[Mapping[str, Any]]]
"""By `PLURAL.GROUP`, the metadata of what is still there."""

_REMAINING: Final = "NamespaceContentRemaining"
_FINALIZERS: Final = "NamespaceFinalizersRemaining"
# The conditions of a namespace from which everything is gone, in the order in which they are written.
_FINE: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    _REMAINING: ("ContentRemoved", "All content successfully removed"),
    _FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


def terminating_conditions(old: Sequence[Json], left: Left, now_ns: int) -> list[Json]:
    """The conditions, given those it had and what is left. A time moves only when its status does."""
    held = _held(left)
    known = {each["type"]: each for each in old}
    found = [each for each in old if each["type"] not in _FINE]
    for kind, (reason, message) in _FINE.items():
        status = "True" if kind in held else "False"
        reason, message = held.get(kind, (reason, message))
        former = known.get(kind, {})
        since = former["lastTransitionTime"] if former.get("status") == status else time_text(now_ns)
        found.append(
            {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
        )
    return found


def _held(left: Left) -> dict[str, tuple[str, str]]:
    counts = sorted(f"{resource} has {len(items)} resource instances" for resource, items in left.items() if items)
    finalizers = Counter(each for items in left.values() for item in items for each in item.get("finalizers") or ())
    held = {}
    if counts:
        held[_REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(counts)}")
    if finalizers:
        listed = ", ".join(sorted(f"{name} in {number} resource instances" for name, number in finalizers.items()))
        message = f"Some content in the namespace has finalizers remaining: {listed}"
        held[_FINALIZERS] = ("SomeFinalizersRemain", message)
    return held
