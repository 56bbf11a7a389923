"""Making room for a critical pod: which pods to end so that it fits (spec §13).

The search is greedy and keeps upstream's oddities, because they decide: the last of identical pods wins, and taking a
pod moves the last one of the pool into its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jettison.engine.node.evictions import DISRUPTION_TARGET, TERMINATION_BY_KUBELET, Eviction, PodCondition
from jettison.engine.numbers.quantity import wrapped
from jettison.engine.pods.admission import Shortage
from jettison.engine.pods.pod import CPU, MEMORY, Pod, Qos, integer_request
from jettison.values import frozen

PREEMPTING = "Preempting"
MESSAGE = "Preempted in order to admit critical pod"
CONDITION_MESSAGE = "Pod was preempted by Kubelet to accommodate a critical pod."


@frozen
class MissingResource:
    """So much of one resource is missing."""

    resource: str
    quantity: int


@frozen
class Victims:
    """Which pods to end, in order; or why that would not help."""

    pods: tuple[Pod, ...] = ()
    refusal: str | None = None


@frozen
class Recovery:
    """What became of a failed admission: orders to carry out, or reasons that remain, or an error."""

    evictions: tuple[Eviction, ...] = ()
    remaining: tuple[str, ...] = ()
    error: str | None = None


def handle_admission_failure(
    incoming: Pod, running: Sequence[Pod], shortages: Sequence[Shortage], other_reasons: Sequence[str] = ()
) -> Recovery:
    """A critical pod that lacks only resources gets room made for it; anything else stays refused.

    Where something besides resources is in the way, ending pods would not help, so no pod is ended.
    """
    if not incoming.is_critical:
        return Recovery(remaining=(*(each.predicate for each in shortages), *other_reasons))
    if other_reasons:
        return Recovery(remaining=tuple(other_reasons))
    found = victims(incoming, running, requirements_of(shortages))
    if found.refusal is not None:
        return Recovery(error=f"preemption: error finding a set of pods to preempt: {found.refusal}")
    resource = shortages[0].resource if shortages else ""
    return Recovery(tuple(preemption_of(pod, resource) for pod in found.pods))


def requirements_of(shortages: Iterable[Shortage]) -> list[MissingResource]:
    """What has to be freed for each shortage."""
    return [MissingResource(each.resource, each.missing) for each in shortages]


def victims(incoming: Pod, running: Sequence[Pod], requirements: Sequence[MissingResource]) -> Victims:
    """The fewest Guaranteed pods, then the fewest Burstable ones, then BestEffort ones, whose end frees enough."""
    pool = [pod for pod in running if is_preemptable(incoming, pod)]
    best_effort = [pod for pod in pool if pod.qos == Qos.BEST_EFFORT]
    burstable = [pod for pod in pool if pod.qos == Qos.BURSTABLE]
    guaranteed = [pod for pod in pool if pod.qos == Qos.GUARANTEED]
    left: Sequence[MissingResource] = _subtract(requirements, [*best_effort, *burstable, *guaranteed])
    if left:
        return _refusal(left)
    from_guaranteed, left = _pick(guaranteed, _subtract(requirements, [*best_effort, *burstable]))
    if left:
        return _refusal(left)
    from_burstable, left = _pick(burstable, _subtract(requirements, [*best_effort, *from_guaranteed]))
    if left:
        return _refusal(left)
    from_best_effort, left = _pick(best_effort, _subtract(requirements, [*from_burstable, *from_guaranteed]))
    return _refusal(left) if left else Victims((*from_best_effort, *from_burstable, *from_guaranteed))


def _refusal(left: Sequence[MissingResource]) -> Victims:
    listed = "".join(f"(res: {each.resource}, q: {each.quantity}), " for each in left)
    return Victims(refusal=f"no set of running pods found to reclaim resources: [{listed}]")


def is_preemptable(incoming: Pod, pod: Pod) -> bool:
    """Critical pods push others aside, and higher priorities lower ones where both have one."""
    if incoming.is_critical and not pod.is_critical:
        return True
    return incoming.priority is not None and pod.priority is not None and incoming.priority > pod.priority


def preemption_of(pod: Pod, resource: str = "") -> Eviction:
    """The order for one victim. It gets its own termination period, so the order carries none.

    `resource` is what was missing first; it labels the metric.
    """
    condition = PodCondition(DISRUPTION_TARGET, "True", TERMINATION_BY_KUBELET, CONDITION_MESSAGE, pod.generation)
    return Eviction(pod, MESSAGE, None, resource, None, condition, PREEMPTING)


def _subtract(requirements: Sequence[MissingResource], pods: Iterable[Pod]) -> list[MissingResource]:
    pods = list(pods)
    left = []
    for requirement in requirements:
        quantity = requirement.quantity
        for pod in pods:
            quantity = wrapped(quantity - integer_request(pod, requirement.resource))
            if quantity <= 0:
                break
        if quantity > 0:
            left.append(MissingResource(requirement.resource, quantity))
    return left


def _pick(pool: Sequence[Pod], requirements: list[MissingResource]) -> tuple[list[Pod], list[MissingResource]]:
    """Pods of the pool, and what is missing still: the whole pool does, unless a request is below zero."""
    pool, picked = list(pool), []
    while requirements and pool:
        chosen = _closest(pool, requirements)
        picked.append(pool[chosen])
        pool[chosen] = pool[-1]
        pool.pop()
        requirements = _subtract(requirements, picked[-1:])
    return picked, requirements


def _closest(pool: Sequence[Pod], requirements: Sequence[MissingResource]) -> int:
    best, best_distance = 0, len(requirements) + 1.0
    for index, pod in enumerate(pool):
        distance = _distance(pod, requirements)
        if distance < best_distance or (distance == best_distance and _size(pod) <= _size(pool[best])):
            best, best_distance = index, distance
    return best


def _distance(pod: Pod, requirements: Sequence[MissingResource]) -> float:
    total = 0.0
    for requirement in requirements:
        left = wrapped(requirement.quantity - integer_request(pod, requirement.resource))
        if left > 0:
            share = float(left) / float(requirement.quantity)
            total += share * share
    return total


def _size(pod: Pod) -> tuple[int, int]:
    return integer_request(pod, MEMORY), integer_request(pod, CPU)
