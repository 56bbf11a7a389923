"""Which setting each threshold of a policy comes from: its map, its signal there, and what it was derived from."""

from __future__ import annotations

from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Disks, Layout
from jettison.engine.node.thresholds import Threshold, parse_thresholds
from jettison.values import frozen

HARD, SOFT = "evictionHard", "evictionSoft"
GRACE, RECLAIM = "evictionSoftGracePeriod", "evictionMinimumReclaim"

_CONTAINERFS = {
    Signal.CONTAINERFS_AVAILABLE: (Signal.NODEFS_AVAILABLE, Signal.IMAGEFS_AVAILABLE),
    Signal.CONTAINERFS_INODES_FREE: (Signal.NODEFS_INODES_FREE, Signal.IMAGEFS_INODES_FREE),
}
_POSITIONS = {signal: position for position, signal in enumerate(Signal)}


@frozen
class Provenance:
    """A threshold, its map in the configuration, and the signal it was copied from where it is derived."""

    threshold: Threshold
    field: str
    derived_from: Signal | None = None

    @property
    def signal(self) -> Signal:
        """Under which the configuration has it."""
        return self.derived_from or self.threshold.signal

    @property
    def key(self) -> str:
        """Of the entry that decides the amount: `evictionHard.memory.available`."""
        return self.key_in(self.field)

    def key_in(self, field: str) -> str:
        """Of this signal's entry in any of the maps."""
        return f"{field}.{self.signal}"


def thresholds_with_provenance(policy: Policy, layout: Layout) -> list[Provenance]:
    """Every threshold that can be met in this layout, in the order of the signal table, hard before soft."""
    fields = _fields(policy)
    found = []
    for index, threshold in enumerate(policy.layouts[layout].all):
        if threshold.is_inert:
            continue
        is_configured = index < len(fields)
        field = fields[index][0] if is_configured else HARD if threshold.is_hard else SOFT
        source = fields[index][1] if is_configured else None
        if threshold.signal in _CONTAINERFS:
            source = _CONTAINERFS[threshold.signal][layout.disks is Disks.DEDICATED]
        found.append(Provenance(threshold, field, source))
    return sorted(found, key=lambda each: (_POSITIONS[each.threshold.signal], each.threshold.grace_ns))


def _fields(policy: Policy) -> list[tuple[str, Signal | None]]:
    """The map of each of the policy's own thresholds: hard ones, soft ones, then the copies for allocatable memory.

    Not by `is_hard`: a soft threshold with a grace period of 0s is hard in every respect but this one.
    """
    config = policy.config
    hard = len(parse_thresholds(config.eviction_hard or {}, {}, {}, {}, guards_allocatable=False))
    written = parse_thresholds(
        config.eviction_hard or {},
        config.eviction_soft or {},
        config.eviction_soft_grace_period or {},
        {},
        guards_allocatable=False,
    )
    fields: list[tuple[str, Signal | None]] = [(HARD if index < hard else SOFT, None) for index in range(len(written))]
    memory = Signal.MEMORY_AVAILABLE
    copies = [(field, memory) for (field, _), each in zip(fields, written, strict=True) if _is_copied(each)]
    return fields + copies[: len(policy.thresholds) - len(fields)]


def _is_copied(threshold: Threshold) -> bool:
    return threshold.signal is Signal.MEMORY_AVAILABLE and threshold.is_hard
