"""THE table of rules: one row says everything about one rule.

`docs/lint.md` has a section for each, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from jettison.engine.lint import config_rules, threshold_rules, workload_rules
from jettison.engine.lint.subjects import ConfiguredNode, Objection, Objects, Severity
from jettison.values import frozen


class RuleNeeds(StrEnum):
    """What a rule cannot be asked without."""

    CONFIG = "a configuration"
    SIZE = "a configuration and the node's size"
    PAST = "a configuration and readings on record"
    OBJECTS = "manifests or a cluster"


@frozen
class LintRule:
    """One rule; of the two functions one is None."""

    name: str
    severity: Severity
    needs: RuleNeeds
    # One sentence: what is wrong where it applies.
    summary: str
    of_node: Callable[[ConfiguredNode], Iterator[Objection]] | None = None
    of_objects: Callable[[Objects], Iterator[Objection]] | None = None
    # Where the size was measured on the machine that runs the check, the configuration may be for another one.
    is_about_size: bool = False


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

INVALID = LintRule("invalid-setting", _ERROR, RuleNeeds.CONFIG, "A kubelet would not start with this configuration.")
"""What parsing and validation find; it has no function, because there is no configuration to ask."""

UNREADABLE = LintRule("unreadable-file", _ERROR, RuleNeeds.OBJECTS, "A file cannot be read, or is not what it says.")
"""It has no function either."""

RULES: tuple[LintRule, ...] = (
    INVALID,
    UNREADABLE,
    LintRule(
        "odd-file",
        _WARNING,
        RuleNeeds.CONFIG,
        "A file has fields or values that are passed over.",
        config_rules.odd_file,
    ),
    LintRule(
        "defaults-dropped",
        _WARNING,
        RuleNeeds.CONFIG,
        "A map of hard thresholds replaces all default ones.",
        config_rules.defaults_dropped,
    ),
    LintRule(
        "ignored-setting", _WARNING, RuleNeeds.CONFIG, "An entry belongs to no threshold.", config_rules.ignored_setting
    ),
    LintRule(
        "no-condition",
        _WARNING,
        RuleNeeds.CONFIG,
        "The node never reports pressure.",
        config_rules.no_condition,
    ),
    LintRule(
        "pod-grace-period",
        _WARNING,
        RuleNeeds.CONFIG,
        "Soft evictions give pods one second.",
        config_rules.pod_grace_period,
    ),
    LintRule(
        "unheeded-setting",
        _WARNING,
        RuleNeeds.CONFIG,
        "A kubelet heeds this setting and a node of Jettison does not.",
        config_rules.unheeded_setting,
    ),
    LintRule(
        "unread-setting",
        _WARNING,
        RuleNeeds.CONFIG,
        "Fields that do not concern eviction.",
        config_rules.unread_setting,
    ),
    LintRule(
        "threshold-out-of-reach",
        _WARNING,
        RuleNeeds.SIZE,
        "Reservations keep a threshold from being reached in time.",
        threshold_rules.threshold_out_of_reach,
    ),
    LintRule("never-met", _WARNING, RuleNeeds.CONFIG, "A threshold is a share of nothing.", threshold_rules.never_met),
    LintRule(
        "grace-below-tick",
        _WARNING,
        RuleNeeds.CONFIG,
        "A grace period is shorter than the time between two looks.",
        threshold_rules.grace_below_tick,
    ),
    LintRule(
        "minimum-reclaim-above-capacity",
        _WARNING,
        RuleNeeds.SIZE,
        "Threshold and minimum reclaim are more than the node has.",
        threshold_rules.minimum_reclaim_above_capacity,
    ),
    LintRule(
        "soft-not-above-hard",
        _WARNING,
        RuleNeeds.CONFIG,
        "A soft threshold is not above the hard one of its signal.",
        threshold_rules.soft_not_above_hard,
    ),
    LintRule(
        "image-collection-collides",
        _WARNING,
        RuleNeeds.CONFIG,
        "Pods are evicted for images before images are collected.",
        threshold_rules.image_collection_collides,
    ),
    LintRule(
        "percentages-differ",
        _WARNING,
        RuleNeeds.SIZE,
        "A percentage is another amount of the node than of what pods may use.",
        threshold_rules.percentages_differ,
    ),
    LintRule(
        "growth-outruns-threshold",
        _WARNING,
        RuleNeeds.PAST,
        "More was used up between two looks than the threshold keeps free.",
        threshold_rules.growth_outruns_threshold,
    ),
    LintRule(
        "over-reserved",
        _ERROR,
        RuleNeeds.SIZE,
        "More is reserved than the node has.",
        threshold_rules.over_reserved,
        is_about_size=True,
    ),
    LintRule(
        "no-room-for-pods",
        _ERROR,
        RuleNeeds.SIZE,
        "Reservations and the threshold leave pods nothing.",
        threshold_rules.no_room_for_pods,
        is_about_size=True,
    ),
    LintRule(
        "always-met",
        _ERROR,
        RuleNeeds.SIZE,
        "A threshold is not below what the node has.",
        threshold_rules.always_met,
        is_about_size=True,
    ),
    LintRule(
        "missing-signal",
        _NOTE,
        RuleNeeds.CONFIG,
        "Memory or process ids are not guarded.",
        config_rules.missing_signal,
    ),
    LintRule(
        "daemonset-without-priority",
        _WARNING,
        RuleNeeds.OBJECTS,
        "Pods of a DaemonSet are evicted and made again in a loop.",
        of_objects=workload_rules.daemon_set_without_priority,
    ),
    LintRule(
        "invalid-budget",
        _ERROR,
        RuleNeeds.OBJECTS,
        "A budget's selector or number cannot be used.",
        of_objects=workload_rules.invalid_budget,
    ),
    LintRule(
        "budget-matches-nothing",
        _WARNING,
        RuleNeeds.OBJECTS,
        "A budget selects no pod.",
        of_objects=workload_rules.budget_matches_nothing,
    ),
    LintRule(
        "budgets-overlap",
        _WARNING,
        RuleNeeds.OBJECTS,
        "A pod has two budgets, so it is never evicted.",
        of_objects=workload_rules.budgets_overlap,
    ),
    LintRule(
        "budget-never-satisfied",
        _ERROR,
        RuleNeeds.OBJECTS,
        "A budget wants more healthy pods than there are.",
        of_objects=workload_rules.budget_never_satisfied,
    ),
    LintRule(
        "single-replica-budget",
        _WARNING,
        RuleNeeds.OBJECTS,
        "The only replica must always be there.",
        of_objects=workload_rules.single_replica_budget,
    ),
    LintRule(
        "budget-blocks-drain",
        _WARNING,
        RuleNeeds.OBJECTS,
        "A budget wants all of its pods to be there.",
        of_objects=workload_rules.budget_blocks_drain,
    ),
)

BY_NAME = {rule.name: rule for rule in RULES}


def check_node(node: ConfiguredNode) -> Iterator[tuple[LintRule, Objection]]:
    """What the rules say about a configuration, in the order of the table."""
    for rule in RULES:
        if rule.of_node is not None:
            yield from ((rule, each) for each in rule.of_node(node))


def check_objects(objects: Objects) -> Iterator[tuple[LintRule, Objection]]:
    """What the rules say about workloads and budgets, in the order of the table."""
    for rule in RULES:
        if rule.of_objects is not None:
            yield from ((rule, each) for each in rule.of_objects(objects))
