"""Node allocatable: what pods may ask for, and what they are held to (spec §12).

Two numbers that look alike and are not: *allocatable* is what the scheduler may hand out and has the hard thresholds
subtracted; *enforced* is the limit of the pods' cgroup and has not. The room between them is where eviction works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import Signal
from jettison.engine.node.thresholds import Threshold, parse_thresholds
from jettison.engine.numbers.quantity import ZERO, Quantity, binary, decimal
from jettison.engine.pods.pod import EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY
from jettison.values import frozen

_PID = "pid"
_PODS = "pods"


@frozen
class HugePages:
    """Pages of one size that the kernel has set aside."""

    page_size_kb: int
    count: int


@frozen
class MachineCapacity:
    """What the node has."""

    cores: int
    memory: int
    # None when the size of nodefs is not known.
    ephemeral_storage: Quantity | None = None
    huge_pages: Sequence[HugePages] = ()
    pids: int | None = None


@frozen
class Allocatable:
    """Every figure of §12; the maps are by resource name."""

    capacity: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]
    reservation: Mapping[str, Quantity]
    hard_eviction: Mapping[str, Quantity]
    enforced: Mapping[str, Quantity]
    # Like capacity, without `pods` and before the check whether storage is isolated: reservations must fit into it.
    measured: Mapping[str, Quantity]

    @property
    def over_reserved(self) -> list[str]:
        """Resources of which more is reserved than there is; with any, a kubelet refuses to start."""
        # By subtraction: what Go makes of `NaN%` is less than any capacity, and still leaves less than nothing.
        left = {name: self.measured.get(name, ZERO) - kept for name, kept in self.reservation.items()}
        return sorted(name for name, rest in left.items() if rest.sign < 0)

    def complaint(self) -> str | None:
        """Why this configuration is impossible, or None."""
        said = [
            f'Resource "{name}" has a reservation of {self.reservation[name]} but capacity of '
            f"{self.measured.get(name, ZERO)}. Expected capacity >= reservation."
            for name in self.over_reserved
        ]
        return f"invalid Node Allocatable configuration. {' '.join(said)}" if said else None


@frozen
class PodMemory:
    """Memory that pods may use together before the first of them is evicted, and the sum that it comes from.

    It is the pods' cgroup that `allocatableMemory.available` watches, with the amount of `memory.available`: what is
    reserved counts as used, whether or not anything uses it.
    """

    capacity: int
    reserved: int
    # What the hard threshold keeps free, of the pods' own memory.
    threshold: int

    @property
    def left(self) -> int:
        """Below 0 where pods are under pressure before the first of them has started."""
        return self.capacity - self.reserved - self.threshold


def pod_memory(found: Allocatable, thresholds: Sequence[Threshold]) -> PodMemory | None:
    """None where no threshold guards the memory of the pods."""
    guards = [each for each in thresholds if each.signal is Signal.ALLOCATABLE_MEMORY_AVAILABLE and each.is_hard]
    if not guards:
        return None
    # Not from the limit of the pods' cgroup, which is never below 0.
    reserved = found.reservation.get(MEMORY, ZERO) - found.hard_eviction.get(MEMORY, ZERO)
    threshold = max(each.quantity(found.enforced[MEMORY].value).value for each in guards)
    return PodMemory(found.measured[MEMORY].value, reserved.value, threshold)


def node_allocatable(machine: MachineCapacity, policy: Policy) -> Allocatable:
    """Capacity, reservations and what is left of it."""
    config = policy.config
    measured = _measured(machine)
    capacity = {
        name: amount
        for name, amount in measured.items()
        if name != _PID and (name != EPHEMERAL_STORAGE or config.local_storage_capacity_isolation)
    }
    pods = config.max_pods
    if config.pods_per_core > 0:
        pods = min(pods, machine.cores * config.pods_per_core)
    hard = {} if config.allocatable_ignore_eviction else _hard_reservation(_hard_thresholds(policy), measured)
    kept = (policy.system_reserved, policy.kube_reserved)
    reservation = {name: _total(name, (*kept, hard)) for name in measured if name != _PID}
    reservation = {name: amount for name, amount in reservation.items() if amount}
    capacity[_PODS] = decimal(pods)
    allocatable = {name: _left(amount, reservation.get(name)) for name, amount in capacity.items()}
    for name, amount in capacity.items():
        if name.startswith(HUGEPAGES_PREFIX):
            allocatable[MEMORY] = _left(allocatable[MEMORY], amount)
    enforced = {name: _left(amount, _total(name, kept)) for name, amount in measured.items()}
    return Allocatable(capacity, allocatable, reservation, hard, enforced, measured)


def cpu_shares(milli_cpu: int) -> int:
    """The weight of a cgroup that may use so much cpu; the kernel knows 2 to 262144."""
    return min(max(milli_cpu * 1024 // 1000, 2), 262144)


def _measured(machine: MachineCapacity) -> dict[str, Quantity]:
    measured = {"cpu": Quantity(machine.cores * 1000, -3), MEMORY: binary(machine.memory)}
    for pages in machine.huge_pages:
        size = pages.page_size_kb * 1024
        measured[f"{HUGEPAGES_PREFIX}{binary(size)}"] = binary(size * pages.count)
    if machine.ephemeral_storage is not None:
        measured[EPHEMERAL_STORAGE] = machine.ephemeral_storage
    if machine.pids is not None:
        measured[_PID] = decimal(machine.pids)
    return measured


def _hard_thresholds(policy: Policy) -> Sequence[Threshold]:
    """The hard map alone: soft thresholds, minimum reclaims and implicit copies reserve nothing."""
    return parse_thresholds(policy.config.eviction_hard or {}, {}, {}, {}, guards_allocatable=False)


def _hard_reservation(thresholds: Sequence[Threshold], measured: Mapping[str, Quantity]) -> dict[str, Quantity]:
    reserves = {Signal.MEMORY_AVAILABLE: MEMORY, Signal.NODEFS_AVAILABLE: EPHEMERAL_STORAGE}
    return {
        reserves[each.signal]: each.quantity(measured.get(reserves[each.signal], ZERO).value)
        for each in thresholds
        if each.signal in reserves
    }


def _total(name: str, kept: Sequence[Mapping[str, Quantity]]) -> Quantity:
    total = ZERO
    for each in kept:
        total = total + each.get(name, ZERO)
    return total


def _left(amount: Quantity, taken: Quantity | None) -> Quantity:
    left = amount if taken is None else amount - taken
    return left if left.sign >= 0 else ZERO
