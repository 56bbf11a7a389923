"""Settings that a kubelet accepts silently although they rarely do what is meant (spec §1.3, §9.2, §10.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from jettison.agent.amounts import short, whole
from jettison.cli.policy.config_input import ConfigInput
from jettison.cli.policy.policy_input import GRACE, HARD, RECLAIM, SOFT, Finding, Provenance, thresholds_with_provenance
from jettison.engine.config.allocatable import PodMemory, pod_memory
from jettison.engine.config.kubelet_fields import ALL_KEYS, BY_KEY, DEFAULT_EVICTION_HARD, FIELDS, KubeletConfig
from jettison.engine.node.signals import ROWS, Resource, Signal
from jettison.engine.node.thresholds import Percentage, Threshold
from jettison.engine.numbers.durations import SECOND_NS
from jettison.engine.numbers.quantity import Quantity
from jettison.engine.pods.pod import MEMORY

# Key and sentence.
Warnings = Iterator[tuple[str, str]]

_STEP_NS = 10 * SECOND_NS
# Reserving all but this share is taken for a mistake: the first pod of any size brings pressure that stays.
_LEAST_SHARE = 0.02
_MERGE = "mergeDefaultEvictionSettings"


def node_findings(given: ConfigInput) -> tuple[list[Finding], list[Finding]]:
    """Errors and warnings about a policy on a node: the same for `config check` and for every command that begins one.

    An error is what a kubelet would not start with, or what no node of that size can ever recover from. Of the machine
    that `config check` happens to run on both are warnings: the configuration may be for another one.
    """
    impossible = [_placed(given, key, text) for key, text in (*_reservations(given), *_always_met(given))]
    if not given.is_measured:
        return impossible, _warnings(given)
    return [], [*_warnings(given), *map(_of_this_machine, impossible)]


def _of_this_machine(finding: Finding) -> Finding:
    """What names the node's size says enough."""
    is_sized = finding.message.startswith("is not below")
    return finding if is_sized else replace(finding, message=f"on a machine like this one {finding.message}")


def _warnings(given: ConfigInput) -> list[Finding]:
    config, sources = given.policy.config, given.found.sources
    drop_ins = {each.source.name for each in sources.drop_ins}
    said = [
        *_hard_map(config),
        *_ignored(config, config.origins.get(_MERGE) in drop_ins),
        *_periods(config),
        *_unheeded(config),
        *_unread(given),
        *_small_share(given),
        *_thresholds(given),
    ]
    found = [Finding(warning) for warning in (*sources.warnings, *config.warnings)]
    return found + [_placed(given, key, text) for key, text in said]


def _placed(given: ConfigInput, key: str, text: str) -> Finding:
    origins = given.policy.config.origins
    return given.found.sources.finding(key, text, origins.get(key, origins.get(key.partition(".")[0], "")))


def _hard_map(config: KubeletConfig) -> Warnings:
    hard = config.eviction_hard
    if hard is None:
        return  # the engine has said so
    missing = [signal for signal in DEFAULT_EVICTION_HARD if signal not in hard]
    if not hard:
        yield HARD, "an empty map: there are no hard thresholds at all"
    elif missing:
        yield HARD, f"has no threshold for {', '.join(missing)}, as the defaults have"


def _ignored(config: KubeletConfig, merges_in_drop_in: bool) -> Warnings:
    soft, hard = config.eviction_soft or {}, config.eviction_hard or {}
    for signal in config.eviction_soft_grace_period or {}:
        if signal not in soft:
            yield f"{GRACE}.{signal}", "has no effect: evictionSoft has no such signal"
    for signal in config.eviction_minimum_reclaim or {}:
        if signal not in soft and signal not in hard:
            yield f"{RECLAIM}.{signal}", "has no effect: there is no threshold for this signal"
    for field, entries in ((HARD, hard), (SOFT, soft)):
        for signal in entries:
            if signal.startswith("containerfs."):
                yield f"{field}.{signal}", "is replaced by the threshold of the filesystem that holds writable layers"
    if merges_in_drop_in and config.merge_default_eviction_settings:
        yield _MERGE, "has no effect in a drop-in: the defaults were merged before"


def _unheeded(config: KubeletConfig) -> Warnings:
    """What a kubelet would do and a node of ours does not, where the operator asks for it."""
    for row in FIELDS:
        name = row.key or row.flag or ""
        value = getattr(config, row.attribute)
        if row.unheeded and name in config.origins and value != row.acted_by:
            yield name, f"has no effect: {row.unheeded}"
    if config.volume_stats_period < 0:
        yield "volumeStatsAggPeriod", "has no effect: volumes are measured even where it is negative"


def _unread(given: ConfigInput) -> Warnings:
    """The fields of a KubeletConfiguration that have nothing to do with eviction, in one line."""
    documents = [each.source.document for each in given.found.sources.files]
    keys = {key for each in documents if isinstance(each, Mapping) for key in each}
    if unread := sorted(keys & (ALL_KEYS - BY_KEY.keys() - {"apiVersion", "kind"})):
        yield "", f"not read, because it does not concern eviction: {', '.join(unread)}"


def _periods(config: KubeletConfig) -> Warnings:
    if config.eviction_pressure_transition_period <= 0:
        yield (
            "evictionPressureTransitionPeriod",
            "no node condition is ever reported; eviction itself works, but pods keep being scheduled here",
        )
    grace = config.eviction_max_pod_grace_period
    if grace < 0:
        yield "evictionMaxPodGracePeriod", "a negative value does not mean the pod's own period: pods get 1s"
    elif grace == 0 and config.eviction_soft:
        yield "evictionMaxPodGracePeriod", "soft evictions give pods 1s to end, as hard ones do"


def _reservations(given: ConfigInput) -> Warnings:
    """More reserved than there is, in Kubernetes' words; and the arithmetic behind it."""
    complaint = None if given.allocatable is None else given.allocatable.complaint()
    memory = _pod_memory(given)
    if complaint is not None:
        yield "", f"a kubelet would not start: {complaint}{'' if memory is None else f' {_sum(memory)}'}"
    elif memory is not None and memory.left <= 0 < memory.reserved:
        said = "pods are always under pressure, even before the first of them has started"
        yield _reserved_by(given), f"{said}: {_sum(memory)}"
    elif memory is not None and memory.reserved > 0 and memory.left < memory.capacity * _LEAST_SHARE:
        said = f"pods may use {_bytes(memory.left)} of {_bytes(memory.capacity)}, less than {_LEAST_SHARE:.0%}"
        yield _reserved_by(given), f"{said}, which is taken for a mistake: {_sum(memory)}"


def _small_share(given: ConfigInput) -> Warnings:
    """The trap: what is reserved counts as used by the system, so it moves the point at which pods go."""
    memory = _pod_memory(given)
    if memory is not None and memory.reserved > memory.left >= memory.capacity * _LEAST_SHARE:
        share = f"pods may use {_bytes(memory.left)} of {_bytes(memory.capacity)}"
        free = f"they go while the node has {_bytes(memory.reserved)} free"
        unless = "as long as the system does not use what is reserved for it"
        yield _reserved_by(given), f"{share}; {free}, {unless}: {_sum(memory)}"


def _pod_memory(given: ConfigInput) -> PodMemory | None:
    return None if given.allocatable is None else pod_memory(given.allocatable, given.policy.thresholds)


def _reserved_by(given: ConfigInput) -> str:
    return "systemReserved" if MEMORY in given.policy.system_reserved else "kubeReserved"


def _sum(memory: PodMemory) -> str:
    parts = f"{_bytes(memory.capacity)} of memory - {_bytes(memory.reserved)} reserved"
    below = ", which is not above 0" if memory.left <= 0 else ""
    return f"{parts} - {_bytes(memory.threshold)} kept free by memory.available = {_bytes(memory.left)} for pods{below}"


def _bytes(amount: int) -> str:
    return short(amount, Resource.MEMORY)


def _always_met(given: ConfigInput) -> Warnings:
    """Pressure that a node can never leave, whatever is evicted."""
    for each in thresholds_with_provenance(given.policy, given.capacities.layout):
        capacity = given.capacities.by_signal.get(each.threshold.signal)
        amount = _amount(each.threshold, capacity)
        # A filesystem without a size, as /proc is, measures nothing.
        if each.derived_from is None and capacity and amount is not None:
            resource = ROWS[each.threshold.signal].resource
            left = capacity - whole(amount)
            if left <= 0:
                size = short(capacity, resource)
                below = f"is not below the node's {size} ({size} - {short(amount, resource)} = {short(left, resource)})"
                yield each.key, f"{below}: it is always met, and pods are evicted until none is left"


def _thresholds(given: ConfigInput) -> Warnings:
    listed = thresholds_with_provenance(given.policy, given.capacities.layout)
    for each in listed:
        if each.derived_from is None:
            yield from _threshold(each, given)
    hard = {each.threshold.signal: each.threshold for each in listed if each.field == HARD}
    for each in listed:
        signal = each.threshold.signal
        if each.field == SOFT and each.derived_from is None and signal in hard:
            yield from _soft_and_hard(each.threshold, hard[signal], given.capacities.by_signal)
    yield from _image_collection(given, listed)


def _threshold(each: Provenance, given: ConfigInput) -> Warnings:
    threshold = each.threshold
    resource = ROWS[threshold.signal].resource
    if each.field == SOFT and threshold.is_hard:
        yield f"{GRACE}.{threshold.signal}", "a grace period of 0 makes this a hard threshold in every respect"
    elif each.field == SOFT and threshold.grace_ns < _STEP_NS:
        yield f"{GRACE}.{threshold.signal}", "shorter than the 10s between two looks, so it is met at the second"
    capacity = given.capacities.by_signal.get(threshold.signal)
    amount = _amount(threshold, capacity)
    # Not `<= 0`: NaN is no less than anything.
    if isinstance(threshold.amount, Percentage) and not threshold.amount.fraction > 0:
        yield each.key, "can never be met"
    if capacity is None or amount is None:
        return
    of = f"the node's {short(capacity, resource)}"
    if amount.nanos < capacity * 10**9 < threshold.target(capacity).nanos:
        target = short(threshold.target(capacity), resource)
        said = (
            f"threshold and minimum reclaim make {target} of {of}: once met it is never resolved, and pods are evicted"
        )
        yield f"{RECLAIM}.{threshold.signal}", f"{said} until none is left"


def _amount(threshold: Threshold, capacity: int | None) -> Quantity | None:
    if isinstance(threshold.amount, Percentage):
        return None if capacity is None else threshold.quantity(capacity)
    return threshold.amount


def _soft_and_hard(soft: Threshold, hard: Threshold, by_signal: Mapping[Signal, int]) -> Warnings:
    capacity = by_signal.get(soft.signal)
    if isinstance(soft.amount, Percentage) and isinstance(hard.amount, Percentage):
        is_above = soft.amount.fraction > hard.amount.fraction
    else:
        amounts = _amount(soft, capacity), _amount(hard, capacity)
        if amounts[0] is None or amounts[1] is None:
            return
        is_above = amounts[1] < amounts[0]
    if not is_above:
        yield f"{SOFT}.{soft.signal}", f"is not above the hard threshold of {hard.amount}, which is met first"


def _image_collection(given: ConfigInput, listed: list[Provenance]) -> Warnings:
    """Images are collected from `high` percent on; an eviction threshold above what is free then comes earlier."""
    free = 100 - given.policy.images.high_percent
    for each in listed:
        amount = each.threshold.amount
        if each.threshold.signal is not Signal.IMAGEFS_AVAILABLE or not isinstance(amount, Percentage):
            continue
        # A 32-bit 15% is a little more than 15%.
        if amount.fraction * 100 > free + 0.001:
            said = f"is met before image collection starts at {free}% free (imageGCHighThresholdPercent)"
            yield each.key, said
