"""Thresholds: how the operator's maps become records, and when a record is met (spec §2, §5.4).

"Hard" means a grace period of zero and nothing else: a soft threshold with `0s` is a hard one in every respect. For
memory the kernel has an alarm; at which usage of a cgroup it is to ring is said here as well (spec §4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import TypeVar

from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Layout, MemoryStats, Reading
from jettison.engine.numbers.durations import duration_text, parse_duration
from jettison.engine.numbers.quantity import NANO, Quantity, binary, parse, wrapped
from jettison.engine.numbers.strconv import fraction_of, parse_percentage
from jettison.errors import Complaint, DurationError, InputError, PolicyError
from jettison.values import frozen

REARM_NS = 10 * 10**9
"""An alarm is set anew once strictly more than this has passed: what is inactive changes all the time."""


@frozen
class Percentage:
    """A share of the capacity, as the 32-bit float the kubelet keeps."""

    fraction: float

    def __str__(self) -> str:
        return f"{self.fraction * 100:.6g}%"


Amount = Quantity | Percentage


def resolve(amount: Amount, capacity: int) -> Quantity:
    """The amount in units; percentages are of `capacity`."""
    return _share(amount.fraction, capacity) if isinstance(amount, Percentage) else amount


@lru_cache(maxsize=256)
def _share(fraction: float, capacity: int) -> Quantity:
    """The same at every look: a node's capacities hardly change."""
    return binary(fraction_of(fraction, capacity))


@lru_cache(maxsize=256)
def _share_nanos(fraction: float, capacity: int) -> int:
    return _share(fraction, capacity).nanos


@frozen
class Threshold:
    """Signal, amount, grace period and minimum reclaim."""

    signal: Signal
    amount: Amount
    grace_ns: int = 0
    minimum_reclaim: Amount | None = None
    # Derived from a threshold that does not exist: kept in the list, never met.
    is_inert: bool = False
    # The amount in 10⁻⁹; of a share it is 0. It is compared at every look.
    nanos: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.amount, Quantity):
            object.__setattr__(self, "nanos", self.amount.nanos)

    @property
    def is_hard(self) -> bool:
        """Evicts at once, and with the shortest grace."""
        return self.grace_ns == 0

    def quantity(self, capacity: int) -> Quantity:
        """The amount below which the threshold is crossed."""
        return resolve(self.amount, capacity)

    def target(self, capacity: int) -> Quantity:
        """The amount at which it is resolved once it was met: the threshold plus its minimum reclaim."""
        quantity = self.quantity(capacity)
        if self.minimum_reclaim is None:
            return quantity
        return quantity + resolve(self.minimum_reclaim, capacity)

    def is_crossed(self, reading: Reading) -> bool:
        """Strictly below the amount; to have exactly as much as asked for is enough."""
        amount = self.amount
        nanos = _share_nanos(amount.fraction, reading.capacity) if isinstance(amount, Percentage) else self.nanos
        return not self.is_inert and nanos > reading.available * NANO

    def is_unresolved(self, reading: Reading) -> bool:
        """Below the amount plus the minimum reclaim."""
        return not self.is_inert and self.target(reading.capacity).nanos > reading.available * NANO

    def is_same(self, other: Threshold) -> bool:
        """The same wish, whatever the minimum reclaim."""
        return (
            self.signal == other.signal
            and self.grace_ns == other.grace_ns
            and self.is_inert == other.is_inert
            and self.amount == other.amount
        )

    def __str__(self) -> str:
        grace = "" if self.is_hard else f" for {duration_text(self.grace_ns)}"
        return f"{self.signal}<{self.amount}{grace}"


TextMap = Mapping[str, str]
T = TypeVar("T")


def parse_thresholds(
    hard: TextMap,
    soft: TextMap,
    grace_periods: TextMap,
    minimum_reclaims: TextMap,
    *,
    guards_allocatable: bool,
) -> tuple[Threshold, ...]:
    """Hard ones, soft ones, then the implicit copies that guard the pods' own memory limit.

    Raises a PolicyError with every complaint; its `leading` ones are those that Kubernetes could have reported.
    """
    complaints: list[Complaint] = []
    hard_amounts: dict[Signal, Amount] = _parse_map("evictionHard", hard, _threshold_amount, complaints)
    soft_amounts: dict[Signal, Amount] = _parse_map("evictionSoft", soft, _threshold_amount, complaints)
    before = len(complaints)
    graces = _parse_map("evictionSoftGracePeriod", grace_periods, _grace_period, complaints)
    can_pair = len(complaints) == before
    reclaims: dict[Signal, Amount] = _parse_map("evictionMinimumReclaim", minimum_reclaims, _reclaim_amount, complaints)
    if can_pair:
        complaints += [
            Complaint(
                f"evictionSoftGracePeriod.{signal}",
                f"grace period must be specified for the soft eviction threshold {signal}",
            )
            for signal in soft_amounts
            if signal not in graces
        ]
    if complaints:
        raise PolicyError(complaints)
    found = [Threshold(signal, amount, 0, reclaims.get(signal)) for signal, amount in hard_amounts.items()]
    found += [
        Threshold(signal, amount, graces[signal], reclaims.get(signal)) for signal, amount in soft_amounts.items()
    ]
    if guards_allocatable:
        found += _allocatable_copies(found)
    return tuple(found)


def _allocatable_copies(thresholds: Iterable[Threshold]) -> list[Threshold]:
    """Percentages are then of the pods' limit, because the capacity comes from that reading."""
    return [
        replace(threshold, signal=Signal.ALLOCATABLE_MEMORY_AVAILABLE)
        for threshold in thresholds
        if threshold.signal is Signal.MEMORY_AVAILABLE and threshold.is_hard
    ]


def _parse_map(
    field: str, texts: TextMap, parse_entry: Callable[[str, str], T | None], complaints: list[Complaint]
) -> dict[Signal, T]:
    found: dict[Signal, T] = {}
    for name in sorted(texts):
        try:
            entry = parse_entry(_signal(name), texts[name])
        except InputError as error:
            complaints.append(Complaint(f"{field}.{name}", str(error)))
        else:
            if entry is not None:
                found[Signal(name)] = entry
    return found


def _signal(text: str) -> Signal:
    try:
        return Signal(text)
    except ValueError:
        raise InputError(f"unsupported eviction signal {text}") from None


def _threshold_amount(signal: str, text: str) -> Amount | None:
    if not text.endswith("%"):
        quantity = parse(text)
        if quantity.sign <= 0:
            raise InputError(f"eviction threshold {signal} must be positive: {quantity}")
        return quantity
    if text in ("0%", "100%"):
        return None  # the documented way to switch one signal off
    fraction = parse_percentage(text)
    if fraction < 0:
        raise InputError(f"eviction percentage threshold {signal} must be >= 0%: {text}")
    if fraction > 1:
        raise InputError(f"eviction percentage threshold {signal} must be <= 100%: {text}")
    return Percentage(fraction)


def _grace_period(_signal: str, text: str) -> int:
    grace = parse_duration(text)
    if grace < 0:
        raise DurationError(f"invalid eviction grace period specified: {text}, must be a positive value")
    return grace


def _reclaim_amount(signal: str, text: str) -> Amount:
    if text.endswith("%"):
        fraction = parse_percentage(text)
        if fraction <= 0:
            raise InputError(f"eviction percentage minimum reclaim {signal} must be positive: {text}")
        return Percentage(fraction)
    quantity = parse(text)
    if quantity.sign < 0:
        raise InputError(f"negative eviction minimum reclaim specified for {signal}")
    return quantity


_SLOTS = (
    (Signal.CONTAINERFS_AVAILABLE, True),
    (Signal.CONTAINERFS_AVAILABLE, False),
    (Signal.CONTAINERFS_INODES_FREE, True),
    (Signal.CONTAINERFS_INODES_FREE, False),
)
_FROM_NODEFS = {
    Signal.CONTAINERFS_AVAILABLE: Signal.NODEFS_AVAILABLE,
    Signal.CONTAINERFS_INODES_FREE: Signal.NODEFS_INODES_FREE,
}
_FROM_IMAGEFS = {
    Signal.CONTAINERFS_AVAILABLE: Signal.IMAGEFS_AVAILABLE,
    Signal.CONTAINERFS_INODES_FREE: Signal.IMAGEFS_INODES_FREE,
}


@frozen
class LayoutThresholds:
    """The operator's thresholds with those of the container filesystem derived from the disk layout.

    The pass that first sees the layout works with `first`: upstream appends the derived records too late for it.
    """

    first: tuple[Threshold, ...]
    all: tuple[Threshold, ...]
    # The operator set containerfs thresholds, which Kubernetes does not support: they are replaced.
    conflicts: bool


# What Go's allocator gives for this many thresholds of 64 bytes, from the number where it gives more than asked for.
# Odd, because it keeps 8 bytes of each place for itself.
_ROOMS = (13, 15, 17, 19, 21, 23, 27, 31, 35, 41, 47)
_EXACT_ROOMS = 11


def list_room(hard: TextMap, soft: TextMap, thresholds: Sequence[Threshold], *, guards_allocatable: bool) -> int:
    """How many thresholds fit into the list that upstream has parsed before it must be moved.

    That decides which of the operator's own containerfs thresholds are seen by the first step (`for_layout`).
    """
    if not guards_allocatable:
        first, second = (sum(text not in ("0%", "100%") for text in texts.values()) for texts in (hard, soft))
        return _grown(_grown(0, 0, first), first, second)
    # Counted by what was copied: the operator may have set `allocatableMemory.available` as well.
    copies = len(_allocatable_copies(thresholds))
    own = len(thresholds) - copies
    return _grown(_grown(0, 0, own), own, copies)


def _grown(room: int, length: int, added: int) -> int:
    """The room of a list after so many were appended: what is needed, or twice as much as before."""
    needed = length + added
    if needed <= room:
        return room
    wanted = max(2 * room, needed)
    return wanted if wanted <= _EXACT_ROOMS else next((each for each in _ROOMS if each >= wanted), wanted)


def for_layout(thresholds: Sequence[Threshold], layout: Layout, room: int | None = None) -> LayoutThresholds:
    """containerfs is whichever filesystem holds the writable layers, so its thresholds are that filesystem's.

    The first step goes on with the list as it was. A threshold of the operator's that is replaced in place is replaced
    there, too, but not when a record that had to be appended before it has moved the list: then the first step sees
    what the operator wrote. `room` is how many records the list has place for; None: enough.
    """
    conflicts = any(threshold.signal in _FROM_NODEFS for threshold in thresholds)
    if layout.is_split and not layout.has_image_fs:
        return LayoutThresholds(tuple(thresholds), tuple(thresholds), conflicts)
    sources = _FROM_IMAGEFS if layout.has_image_fs and not layout.is_split else _FROM_NODEFS
    derived = {slot: _derive(thresholds, slot, sources) for slot in _SLOTS}
    first, replaced, added = list(thresholds), list(thresholds), list[Threshold]()
    # Of two records in one slot (a hard one, and a soft one with a grace of 0s) only the last is replaced.
    configured = {(each.signal, each.is_hard): index for index, each in enumerate(thresholds)}
    for slot, record in derived.items():
        if slot not in configured:
            added.append(record)
            continue
        replaced[configured[slot]] = record
        if room is None or len(thresholds) + len(added) <= room:
            first[configured[slot]] = record
    return LayoutThresholds(tuple(first), (*replaced, *added), conflicts)


def _derive(thresholds: Iterable[Threshold], slot: tuple[Signal, bool], sources: Mapping[Signal, Signal]) -> Threshold:
    signal, is_hard = slot
    found = [each for each in thresholds if each.signal is sources[signal] and each.is_hard is is_hard]
    if not found:
        return Threshold(signal, Percentage(0.0), is_inert=True)
    return replace(found[-1], signal=signal)


def is_watched(threshold: Threshold) -> bool:
    """Only memory has an alarm."""
    return threshold.signal in (Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE)


def memory_alarm_usage(threshold: Threshold, memory: MemoryStats | None) -> int | None:
    """Capacity minus the threshold plus what is inactive; None when a number is missing.

    The kernel counts usage, inactive page cache included; eviction counts the working set, without it.
    """
    if memory is None or memory.usage is None or memory.working_set is None or memory.available is None:
        return None
    capacity = wrapped(memory.available + memory.working_set)
    inactive = wrapped(memory.usage - memory.working_set)
    return (binary(capacity) - threshold.quantity(capacity) + binary(inactive)).value
