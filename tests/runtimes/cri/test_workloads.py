"""What is read back from the marks that a kubelet leaves on its containers."""

from __future__ import annotations

import pytest

from jettison.runtimes.cri.workloads import told_priority


@pytest.mark.parametrize(
    ("score", "cgroup", "priority"),
    [
        (-997, "kubepods/besteffort/pod1/c", 2_000_001_000),
        (-997, "x/kubepods/burstable/pod1/c", 2_000_001_000),
        (-997, "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-c.scope", 2_000_001_000),
        (-997, "kubepods/pod1/c", None),
        (-997, "kubepods.slice/kubepods-pod1.slice/cri-c.scope", None),
        (-997, "system.slice/burstable", None),
        (1000, "kubepods/besteffort/pod1/c", None),
        (0, "kubepods/burstable/pod1/c", None),
    ],
)
def test_the_score_of_guaranteed_pods_tells_node_critical_ones_of_other_classes(
    score: int, cgroup: str, priority: int | None
) -> None:
    """A Guaranteed pod has it in any case, so there it tells nothing."""
    assert told_priority(score, cgroup) == priority
