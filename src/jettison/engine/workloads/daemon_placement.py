"""On which nodes belongs a pod of a DaemonSet? On all that it was made for and whose taints it bears.

Capacity is not asked here: that is the scheduler's business, and a node that is full keeps its daemon pod waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from jettison.engine.scheduling.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, first_untolerated

_PREFIX: Final = "node.kubernetes.io/"


def _bears(name: str, effect: str) -> Toleration:
    return Toleration(f"{_PREFIX}{name}", "Exists", "", effect)


AUTOMATIC_TOLERATIONS: Final = (
    _bears("not-ready", NO_EXECUTE),
    _bears("unreachable", NO_EXECUTE),
    _bears("disk-pressure", NO_SCHEDULE),
    _bears("memory-pressure", NO_SCHEDULE),
    _bears("pid-pressure", NO_SCHEDULE),
    _bears("unschedulable", NO_SCHEDULE),
)
"""What every daemon pod bears, in Kubernetes' order: neither a cordon nor a silent node is a reason to leave."""

HOST_NETWORK_TOLERATION: Final = _bears("network-unavailable", NO_SCHEDULE)
"""Only for pods on the host's own network: they may be what makes the network available."""


class Placement(NamedTuple):
    """A node that must not get a new pod may still have to keep the one it has."""

    should_run: bool
    may_stay: bool


NOT_HERE: Final = Placement(should_run=False, may_stay=False)


def place_daemon(taints: Iterable[Taint], tolerations: Sequence[Toleration], *, is_chosen: bool) -> Placement:
    """`is_chosen`: node name, node selector and required affinity of the template choose this node."""
    if not is_chosen:
        return NOT_HERE
    taints = tuple(taints)
    if first_untolerated(taints, tolerations) is None:
        return Placement(should_run=True, may_stay=True)
    evicting = (each for each in taints if each.effect == NO_EXECUTE)
    return Placement(should_run=False, may_stay=first_untolerated(evicting, tolerations) is None)
