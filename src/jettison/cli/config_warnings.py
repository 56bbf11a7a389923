"""What a kubelet accepts without a word and its operator would rather have known (spec part B: 1, 25, 26, 37, 47)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jettison.agent.amounts import short
from jettison.cli.config_input import ConfigInput
from jettison.cli.findings import Finding
from jettison.cli.provenance import GRACE, HARD, RECLAIM, SOFT, Provenance, thresholds_with_provenance
from jettison.engine.durations import SECOND_NS
from jettison.engine.kubelet_fields import DEFAULT_EVICTION_HARD, KubeletConfig
from jettison.engine.quantity import Quantity
from jettison.engine.signals import ROWS, Signal
from jettison.engine.thresholds import Percentage, Threshold

# Key and sentence.
Warnings = Iterator[tuple[str, str]]

_STEP_NS = 10 * SECOND_NS
_MERGE = "mergeDefaultEvictionSettings"


def config_warnings(given: ConfigInput) -> list[Finding]:
    """Everything worth a second thought, with its place."""
    config, sources = given.policy.config, given.found.sources
    drop_ins = {each.source.name for each in sources.drop_ins}
    said = [
        *_hard_map(config),
        *_ignored(config, config.origins.get(_MERGE) in drop_ins),
        *_periods(config),
        *_reservations(given),
        *_thresholds(given),
    ]
    found = [Finding(warning) for warning in (*sources.warnings, *config.warnings)]
    for key, text in said:
        origin = config.origins.get(key, config.origins.get(key.partition(".")[0], ""))
        found.append(sources.finding(key, text, origin))
    return found


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
    """Of a machine that may be another one; for a given size the same is an error."""
    complaint = given.allocatable.complaint() if given.allocatable is not None and given.is_measured else None
    if complaint is not None:
        yield "", f"on a machine like this one a kubelet would not start: {complaint}"


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
    if amount.nanos >= capacity * 10**9:
        yield each.key, f"is not below {of}: it is always met, and pods are evicted until none is left"
    elif threshold.target(capacity).nanos > capacity * 10**9:
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
