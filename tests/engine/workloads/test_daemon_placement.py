"""Which nodes a daemon pod belongs on, and which it may stay on."""

from __future__ import annotations

import pytest

from jettison.engine.scheduling.taints import Taint
from jettison.engine.workloads.daemon_placement import AUTOMATIC_TOLERATIONS, Placement, place_daemon

STAYS = Placement(should_run=False, may_stay=True)
RUNS = Placement(should_run=True, may_stay=True)
LEAVES = Placement(should_run=False, may_stay=False)


@pytest.mark.parametrize(
    ("taint", "placement"),
    [
        (None, RUNS),
        (Taint("bad", "", "NoSchedule"), STAYS),
        (Taint("bad", "", "NoExecute"), LEAVES),
        (Taint("bad", "", "PreferNoSchedule"), RUNS),
        (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"), RUNS),
        (Taint("node.kubernetes.io/memory-pressure", "", "NoSchedule"), RUNS),
        (Taint("node.kubernetes.io/not-ready", "", "NoExecute"), RUNS),
        # Surprise: a node that is not ready also has this one, so it gets no new daemon pod until it is.
        (Taint("node.kubernetes.io/not-ready", "", "NoSchedule"), STAYS),
        (Taint("node.kubernetes.io/network-unavailable", "", "NoSchedule"), STAYS),
    ],
)
def test_taints_decide(taint: Taint | None, placement: Placement) -> None:
    taints = [] if taint is None else [taint]
    assert place_daemon(taints, AUTOMATIC_TOLERATIONS, is_chosen=True) == placement


def test_a_node_that_was_not_chosen_has_none() -> None:
    assert place_daemon([], AUTOMATIC_TOLERATIONS, is_chosen=False) == LEAVES
