"""Rules about amounts: thresholds against the node's size, its reservations, one another, and what was on record."""

from __future__ import annotations

from collections.abc import Iterator

from jettison.engine.config.allocatable import PodMemory
from jettison.engine.config.provenance import GRACE, HARD, RECLAIM, SOFT, Provenance
from jettison.engine.lint.config_rules import STEP_NS
from jettison.engine.lint.subjects import ConfiguredNode, Objection
from jettison.engine.node.amounts import short, whole
from jettison.engine.node.signals import ROWS, Resource, Signal
from jettison.engine.node.thresholds import Percentage, Threshold
from jettison.engine.numbers.quantity import Quantity
from jettison.engine.pods.pod import MEMORY

Objections = Iterator[Objection]

# Reserving all but this share is taken for a mistake: the first pod of any size brings pressure that stays.
_LEAST_SHARE = 0.02
# Amounts of one percentage that are no further apart than this are taken for equal.
_ALIKE = 0.9


def over_reserved(node: ConfiguredNode) -> Objections:
    """More reserved than there is: a kubelet does not start, in its own words, with the arithmetic behind them."""
    complaint = None if node.allocatable is None else node.allocatable.complaint()
    if complaint is not None:
        memory = node.pod_memory
        said = f"a kubelet would not start: {complaint}{'' if memory is None else f' {_sum(memory)}'}"
        yield Objection("", said, "reserve less")


def no_room_for_pods(node: ConfiguredNode) -> Objections:
    """What is reserved and what the threshold keeps free leave nothing, or next to nothing."""
    memory = node.pod_memory
    if memory is None or memory.reserved <= 0 or next(over_reserved(node), None) is not None:
        return
    fix = "reserve less, or lower evictionHard.memory.available"
    if memory.left <= 0:
        said = "pods are always under pressure, even before the first of them has started"
        yield Objection(_reserved_by(node), f"{said}: {_sum(memory)}", fix)
    elif memory.left < memory.capacity * _LEAST_SHARE:
        said = f"pods may use {_bytes(memory.left)} of {_bytes(memory.capacity)}, less than {_LEAST_SHARE:.0%}"
        yield Objection(_reserved_by(node), f"{said}, which is taken for a mistake: {_sum(memory)}", fix)


def threshold_out_of_reach(node: ConfiguredNode) -> Objections:
    """Pods are held to what is not reserved, so the node's own memory does not fall below what is reserved.

    What is reserved counts as used by the system, whether or not anything uses it: a threshold on the node's memory
    that is smaller is not reached by pods. A hard one has a copy on the pods' own limit, which comes instead, and
    early; a soft one has none.
    """
    memory = node.pod_memory
    if memory is not None and memory.reserved > memory.left >= memory.capacity * _LEAST_SHARE:
        share = f"pods may use {_bytes(memory.left)} of {_bytes(memory.capacity)}"
        free = f"they go while the node has {_bytes(memory.capacity - memory.left)} free"
        unless = "as long as the system does not use what is reserved for it"
        never = f"memory.available<{_bytes(memory.threshold)} of the node itself is not reached before"
        yield Objection(
            _reserved_by(node), f"{share}; {free}, {unless}; {never}: {_sum(memory)}", "reserve what the system uses"
        )
    for each in node.listed:
        yield from _held_back(node, each)


def _held_back(node: ConfiguredNode, each: Provenance) -> Objections:
    """A threshold on the node's memory without a copy on the pods' own."""
    found, config = node.allocatable, node.config
    is_held = found is not None and "pods" in config.enforce_node_allocatable and config.cgroups_per_qos
    if found is None or not is_held or each.threshold.signal is not Signal.MEMORY_AVAILABLE:
        return
    if each.threshold.is_hard and node.pod_memory is not None:
        return  # its copy guards the pods
    capacity, limit = found.measured[MEMORY].value, found.enforced[MEMORY].value
    amount = whole(each.threshold.quantity(capacity))
    # A system that uses half of what is reserved for it is no surprise.
    if capacity - limit < 2 * amount:
        return
    kept = f"pods are held to {_bytes(limit)} of {_bytes(capacity)}, so {_bytes(capacity - limit)} stay free of them"
    instead = (
        "the kernel kills in the pods' cgroup before" if node.pod_memory is None else "the hard threshold comes first"
    )
    unless = f"unless the system itself uses more than {_bytes(capacity - limit - amount)}"
    fix = f"set it above {_bytes(capacity - limit)}, or reserve less"
    yield Objection(each.key, f"is out of reach: {kept}; {instead}, {unless}", fix)


def always_met(node: ConfiguredNode) -> Objections:
    """Pressure that a node can never leave, whatever is evicted."""
    for each in node.listed:
        capacity = node.capacities.get(each.threshold.signal)
        amount = _amount(each.threshold, capacity)
        # A filesystem without a size, as /proc is, measures nothing.
        if each.derived_from is None and capacity and amount is not None:
            resource = ROWS[each.threshold.signal].resource
            left = capacity - whole(amount)
            if left <= 0:
                size = short(capacity, resource)
                below = f"is not below the node's {size} ({size} - {short(amount, resource)} = {short(left, resource)})"
                yield Objection(each.key, f"{below}: it is always met, and pods are evicted until none is left")


def never_met(node: ConfiguredNode) -> Objections:
    """A share of nothing."""
    for each in _own(node):
        amount = each.threshold.amount
        # Not `<= 0`: NaN is no less than anything.
        if isinstance(amount, Percentage) and not amount.fraction > 0:
            yield Objection(each.key, "can never be met", "write a share above 0%, or leave the signal out")


def grace_below_tick(node: ConfiguredNode) -> Objections:
    """A grace period that ends before a kubelet looks again."""
    for each in _own(node):
        threshold = each.threshold
        key = f"{GRACE}.{threshold.signal}"
        if each.field == SOFT and threshold.is_hard:
            said = "a grace period of 0 makes this a hard threshold in every respect"
            yield Objection(key, said, "move the threshold to evictionHard, or give it a minute")
        elif each.field == SOFT and threshold.grace_ns < STEP_NS:
            said = "shorter than the 10s between two looks, so it is met at the second"
            yield Objection(key, said, "write a multiple of 10s")


def minimum_reclaim_above_capacity(node: ConfiguredNode) -> Objections:
    """More is to be free than there is."""
    for each in _own(node):
        threshold = each.threshold
        capacity = node.capacities.get(threshold.signal)
        amount = _amount(threshold, capacity)
        if capacity is None or amount is None or not amount.nanos < capacity * 10**9 < threshold.target(capacity).nanos:
            continue
        resource = ROWS[threshold.signal].resource
        target, of = short(threshold.target(capacity), resource), f"the node's {short(capacity, resource)}"
        said = (
            f"threshold and minimum reclaim make {target} of {of}: once met it is never resolved, and pods are evicted"
        )
        yield Objection(
            f"{RECLAIM}.{threshold.signal}", f"{said} until none is left", "write a smaller minimum reclaim"
        )


def soft_not_above_hard(node: ConfiguredNode) -> Objections:
    """The hard threshold is met first, and the soft one never matters."""
    hard = {each.threshold.signal: each.threshold for each in node.listed if each.field == HARD}
    for each in _own(node):
        signal = each.threshold.signal
        if each.field == SOFT and signal in hard and _is_above(each.threshold, hard[signal], node) is False:
            said = f"is not above the hard threshold of {hard[signal].amount}, which is met first"
            yield Objection(f"{SOFT}.{signal}", said, f"write more than {hard[signal].amount}")


def _is_above(soft: Threshold, hard: Threshold, node: ConfiguredNode) -> bool | None:
    if isinstance(soft.amount, Percentage) and isinstance(hard.amount, Percentage):
        return soft.amount.fraction > hard.amount.fraction
    capacity = node.capacities.get(soft.signal)
    amounts = _amount(soft, capacity), _amount(hard, capacity)
    return None if amounts[0] is None or amounts[1] is None else amounts[1] < amounts[0]


def image_collection_collides(node: ConfiguredNode) -> Objections:
    """Images are collected from `high` percent on; an eviction threshold above what is free then comes earlier."""
    free = 100 - node.policy.images.high_percent
    fix = "lower imageGCHighThresholdPercent, or the threshold"
    for each in node.listed:
        if each.threshold.signal is not Signal.IMAGEFS_AVAILABLE:
            continue
        amount, capacity = each.threshold.amount, node.capacities.get(each.threshold.signal)
        if isinstance(amount, Percentage):
            # A 32-bit 15% is a little more than 15%.
            is_before = amount.fraction * 100 > free + 0.001
        else:
            is_before = capacity is not None and whole(amount) * 100 > capacity * free
        if is_before:
            said = f"is met before image collection starts at {free}% free (imageGCHighThresholdPercent)"
            yield Objection(each.key, said, fix)


def percentages_differ(node: ConfiguredNode) -> Objections:
    """One percentage of two capacities: of the node, and of what pods may use."""
    for each in node.listed:
        threshold = each.threshold
        is_copy = threshold.signal is Signal.ALLOCATABLE_MEMORY_AVAILABLE
        if not is_copy or not isinstance(threshold.amount, Percentage):
            continue
        sizes = node.capacities.get(Signal.MEMORY_AVAILABLE), node.capacities.get(threshold.signal)
        if sizes[0] is None or sizes[1] is None:
            continue
        of_node, of_pods = (whole(threshold.quantity(size)) for size in (sizes[0], sizes[1]))
        if of_pods >= of_node * _ALIKE:
            continue
        said = f"is {_bytes(of_node)} of the node's {_bytes(sizes[0])} and {_bytes(of_pods)} of the {_bytes(sizes[1])}"
        yield Objection(
            each.key, f"{said} that pods may use, where it counts first", "write an amount instead of a share"
        )


def growth_outruns_threshold(node: ConfiguredNode) -> Objections:
    """What was seen to happen between two looks would pass through the whole of what the threshold keeps free."""
    for each in _own(node):
        threshold = each.threshold
        fall, capacity = node.falls.get(threshold.signal), node.capacities.get(threshold.signal)
        amount = _amount(threshold, capacity)
        if fall is None or amount is None or not threshold.is_hard or whole(amount) >= fall.amount:
            continue
        resource = ROWS[threshold.signal].resource
        seen = f"{short(fall.amount, resource)} within {fall.passed_ns / 10**9:.1f} s"
        said = f"is less than what was used up between two looks: {seen}; the node can run dry before the next look"
        yield Objection(
            each.key, said, f"set it above {short(fall.amount, resource)}; `jettison recommend` computes it"
        )


def _own(node: ConfiguredNode) -> list[Provenance]:
    """As they are written; those that are derived say the same again."""
    return [each for each in node.listed if each.derived_from is None]


def _amount(threshold: Threshold, capacity: int | None) -> Quantity | None:
    if isinstance(threshold.amount, Percentage):
        return None if capacity is None else threshold.quantity(capacity)
    return threshold.amount


def _reserved_by(node: ConfiguredNode) -> str:
    return "systemReserved" if MEMORY in node.policy.system_reserved else "kubeReserved"


def _sum(memory: PodMemory) -> str:
    parts = f"{_bytes(memory.capacity)} of memory - {_bytes(memory.reserved)} reserved"
    below = ", which is not above 0" if memory.left <= 0 else ""
    return f"{parts} - {_bytes(memory.threshold)} kept free by memory.available = {_bytes(memory.left)} for pods{below}"


def _bytes(amount: int) -> str:
    return short(amount, Resource.MEMORY)
