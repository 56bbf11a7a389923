"""Node allocatable (spec §12, §16 example 56)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jettison.engine.config.allocatable import Allocatable, HugePages, MachineCapacity, cpu_shares, node_allocatable
from jettison.engine.numbers.quantity import Quantity, binary
from tests.builders import GI, policy

KEPT: dict[str, Any] = {
    "kubeReserved": {"memory": "1Gi"},
    "systemReserved": {"memory": "512Mi", "pid": "1000"},
}
HARD = {"memory.available": "100Mi", "nodefs.available": "10%"}


def texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def found(hard: dict[str, str] | None = None, *, pages: int = 0, **fields: Any) -> Allocatable:
    machine = MachineCapacity(4, 16 * GI, binary(100 * GI), [HugePages(2048, pages)] if pages else [], 32768)
    return node_allocatable(machine, policy(HARD if hard is None else hard, **(KEPT | fields)))


def test_a_threshold_that_is_no_number_reserves_everything() -> None:
    """Go makes the smallest integer of it, cannot negate that, and so subtracts more than there is."""
    result = found({"memory.available": "NaN%"}, kubeReserved={}, systemReserved={})
    assert texts(result.reservation) == {"memory": "-9223372036854775808"}
    assert texts(result.allocatable)["memory"] == "0"
    assert result.over_reserved == ["memory"]


def test_what_pods_may_ask_for_and_what_they_are_held_to() -> None:
    """Allocatable has the hard thresholds subtracted, the limit of the pods' cgroup has not."""
    result = found()
    assert texts(result.capacity) == {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    assert texts(result.reservation) == {"memory": "1636Mi", "ephemeral-storage": "10737418400"}
    assert texts(result.allocatable) == {
        "cpu": "4",
        "memory": "14748Mi",
        "ephemeral-storage": "96636764000",
        "pods": "110",
    }
    assert texts(result.hard_eviction) == {"memory": "100Mi", "ephemeral-storage": "10737418400"}
    assert texts(result.enforced) == {"cpu": "4", "memory": "14848Mi", "ephemeral-storage": "100Gi", "pid": "31768"}
    assert result.over_reserved == []
    assert result.complaint() is None


def test_huge_pages_are_taken_from_memory() -> None:
    """All of them, whether used or not; and from allocatable only."""
    result = found(pages=512)
    assert texts(result.allocatable)["memory"] == "13724Mi"
    assert texts(result.allocatable)["hugepages-2Mi"] == "1Gi"
    assert texts(result.enforced)["memory"] == "14848Mi"


@pytest.mark.parametrize(
    ("fields", "reserved"),
    [
        ({"soft": {"memory.available": "1Gi"}}, "100Mi"),
        ({"reclaim": {"memory.available": "1Gi"}}, "100Mi"),
        ({"flags": [("experimental-allocatable-ignore-eviction", "true")]}, None),
    ],
)
def test_what_is_reserved_for_eviction(fields: dict[str, Any], reserved: str | None) -> None:
    """Hard thresholds only, unless the operator says to ignore them."""
    assert texts(found(**fields).hard_eviction).get("memory") == reserved


def test_more_reserved_than_there_is() -> None:
    """Nothing is left, and a kubelet refuses to start; the text names every resource."""
    result = found(systemReserved={"memory": "20Gi", "cpu": "5"})
    assert texts(result.allocatable)["memory"] == "0"
    assert result.over_reserved == ["cpu", "memory"]
    assert result.complaint() == (
        'invalid Node Allocatable configuration. Resource "cpu" has a reservation of 5 but capacity of 4. '
        'Expected capacity >= reservation. Resource "memory" has a reservation of 21604Mi but capacity of 16Gi. '
        "Expected capacity >= reservation."
    )


def test_all_of_it_may_be_reserved() -> None:
    """Pods then get nothing, but it is no mistake."""
    result = found({}, kubeReserved={}, systemReserved={"memory": "16Gi"})
    assert (result.over_reserved, result.complaint()) == ([], None)
    assert texts(result.allocatable)["memory"] == texts(result.enforced)["memory"] == "0"


def test_only_the_hard_map_itself_reserves() -> None:
    """Neither a soft threshold that is hard by its grace period nor the implicit copy."""
    result = found({"pid.available": "5%"}, soft={"memory.available": "1Gi"}, grace="0s", guards_allocatable=True)
    assert texts(result.hard_eviction) == {}


@pytest.mark.parametrize(("per_core", "pods"), [(0, "110"), (1, "4"), (10, "40"), (1000, "110")])
def test_the_number_of_pods(per_core: int, pods: str) -> None:
    """The smaller of the two limits, where there are two."""
    assert texts(found(podsPerCore=per_core).capacity)["pods"] == pods


def test_storage_counts_only_where_it_is_isolated() -> None:
    """And only where the size of the disk is known."""
    assert "ephemeral-storage" not in found(localStorageCapacityIsolation=False).capacity
    unknown = node_allocatable(MachineCapacity(1, GI), policy(HARD))
    assert set(unknown.capacity) == {"cpu", "memory", "pods"}


@pytest.mark.parametrize(("milli", "shares"), [(4000, 4096), (0, 2), (1, 2), (300_000, 262144), (1000, 1024)])
def test_cpu_shares(milli: int, shares: int) -> None:
    """The kernel knows 2 to 262144."""
    assert cpu_shares(milli) == shares
