"""Rules about settings that a kubelet accepts although they rarely do what is meant (spec §1.3, §9.2, §10.2)."""

from __future__ import annotations

from collections.abc import Iterator

from jettison.engine.config.kubelet_fields import DEFAULT_EVICTION_HARD, FIELDS
from jettison.engine.config.provenance import GRACE, HARD, RECLAIM, SOFT
from jettison.engine.lint.subjects import ConfiguredNode, Objection
from jettison.engine.node.signals import Signal
from jettison.engine.numbers.durations import SECOND_NS

Objections = Iterator[Objection]

STEP_NS = 10 * SECOND_NS
"""Between two looks of a kubelet."""

_MERGE = "mergeDefaultEvictionSettings"


def odd_file(node: ConfiguredNode) -> Objections:
    """What was odd about the files, and about the values that they make together."""
    yield from (Objection("", said) for said in (*node.remarks, *node.config.warnings))


def defaults_dropped(node: ConfiguredNode) -> Objections:
    """A map of hard thresholds replaces the default map: what it leaves out is not guarded."""
    hard = node.config.eviction_hard
    if hard is None:
        return  # the engine has said so
    missing = [signal for signal in DEFAULT_EVICTION_HARD if signal not in hard]
    fix = "set mergeDefaultEvictionSettings: true, or write every signal that is to be guarded"
    if not hard:
        yield Objection(HARD, "an empty map: there are no hard thresholds at all", fix)
    elif missing:
        yield Objection(HARD, f"has no threshold for {', '.join(missing)}, as the defaults have", fix)


def missing_signal(node: ConfiguredNode) -> Objections:
    """Signals without which a node dies of what they measure, and that no default covers or that were left out."""
    guarded = {each.threshold.signal for each in node.listed}
    if Signal.MEMORY_AVAILABLE not in guarded:
        said = "no threshold guards memory.available: the kernel's OOM killer chooses instead of an eviction"
        yield Objection(HARD, said, "set evictionHard.memory.available")
    if Signal.PID_AVAILABLE not in guarded:
        pids = node.capacities.get(Signal.PID_AVAILABLE)
        share = "" if pids is None else f", e.g. {max(pids // 50, 1)} of {pids}"
        said = "no threshold guards pid.available, and no default does: a fork bomb in a pod stops the node"
        yield Objection(HARD, said, f"set evictionHard.pid.available{share}, or podPidsLimit")


def ignored_setting(node: ConfiguredNode) -> Objections:
    """Entries that belong to nothing."""
    config = node.config
    soft, hard = config.eviction_soft or {}, config.eviction_hard or {}
    for signal in config.eviction_soft_grace_period or {}:
        if signal not in soft:
            yield Objection(f"{GRACE}.{signal}", "has no effect: evictionSoft has no such signal")
    for signal in config.eviction_minimum_reclaim or {}:
        if signal not in soft and signal not in hard:
            yield Objection(f"{RECLAIM}.{signal}", "has no effect: there is no threshold for this signal")
    for field, entries in ((HARD, hard), (SOFT, soft)):
        for signal in entries:
            if signal.startswith("containerfs."):
                said = "is replaced by the threshold of the filesystem that holds writable layers"
                yield Objection(f"{field}.{signal}", said)
    if node.merges_in_drop_in and config.merge_default_eviction_settings:
        yield Objection(_MERGE, "has no effect in a drop-in: the defaults were merged before")


def no_condition(node: ConfiguredNode) -> Objections:
    """Without a transition period no condition outlives the instant in which it is seen."""
    if node.config.eviction_pressure_transition_period <= 0:
        said = "no node condition is ever reported; eviction itself works, but pods keep being scheduled here"
        yield Objection("evictionPressureTransitionPeriod", said, "set it to 5m, or leave it out")


def pod_grace_period(node: ConfiguredNode) -> Objections:
    """How long soft evictions let pods take, which is seldom what is expected."""
    grace = node.config.eviction_max_pod_grace_period
    if grace < 0:
        said = "a negative value does not mean the pod's own period: pods get 1s"
        yield Objection(
            "evictionMaxPodGracePeriod", said, "set it to the longest period that pods may take, in seconds"
        )
    elif grace == 0 and node.config.eviction_soft:
        said = "soft evictions give pods 1s to end, as hard ones do"
        yield Objection(
            "evictionMaxPodGracePeriod", said, "set it to the longest period that pods may take, in seconds"
        )


def unheeded_setting(node: ConfiguredNode) -> Objections:
    """What a kubelet would do and a node of ours does not, where the operator asks for it."""
    config = node.config
    for row in FIELDS:
        name = row.key or row.flag or ""
        value = getattr(config, row.attribute)
        if row.unheeded and name in config.origins and value != row.acted_by:
            yield Objection(name, f"has no effect: {row.unheeded}")
    if config.volume_stats_period < 0:
        yield Objection("volumeStatsAggPeriod", "has no effect: volumes are measured even where it is negative")


def unread_setting(node: ConfiguredNode) -> Objections:
    """The fields of a KubeletConfiguration that have nothing to do with eviction, in one line."""
    if node.unread:
        yield Objection("", f"not read, because it does not concern eviction: {', '.join(node.unread)}")
