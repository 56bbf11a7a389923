"""Which pods go for one that fits nowhere? Pods of lower priority go, as few and as unimportant as will do.

Disruption budgets are a wish here: pods that theirs would let go are taken first, but if there are no others then
those that it would not. Upstream's own reading of budgets is kept: one with an empty selector guards no pod here, and
neither is a pod without labels guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from jettison.engine.budgets.budget import Budget
from jettison.engine.labels.selectors import LabelSelector, select
from jettison.engine.scheduling.choice import NodeRefusal, fit_error, shortage, unsuitability
from jettison.engine.scheduling.nodes import ClusterLoad, NodeLoad, NodeRoom, Tally
from jettison.engine.scheduling.pods import PlaceablePod
from jettison.errors import InputError
from jettison.values import frozen

# What Kubernetes says first, of every pod that asks for no devices: claims to devices could be given back, too.
_NO_CLAIMS: Final = "no new claims to deallocate"
_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_WAITING: Final = "not eligible due to a terminating pod on the nominated node."
_NO_VICTIMS: Final = NodeRefusal(("No preemption victims found for incoming pod",))
_NOT_HELPFUL: Final = NodeRefusal(("Preemption is not helpful for scheduling",))
# Makes all priorities positive, so that a sum grows with every pod.
_OFFSET: Final = 2**31

Budgets = Callable[[str], Iterable[Budget]]
"""The budgets of a namespace."""


@frozen
class Preemption:
    """These go from the node so that the pod can come; the most important first."""

    node: str
    victims: tuple[PlaceablePod, ...]
    violations: int = 0


@frozen
class NoPreemption:
    """No pod goes. `keeps_nomination`: because the pod is waiting for some that are going already."""

    message: str
    keeps_nomination: bool = False


def preempt(
    pod: PlaceablePod, cluster: ClusterLoad, refusals: Mapping[str, NodeRefusal], budgets: Budgets
) -> Preemption | NoPreemption:
    """For a pod that all nodes have refused, and why."""
    obstacle = _obstacle(pod, cluster, refusals)
    if obstacle is not None:
        return NoPreemption(f"{_NO_CLAIMS}, preemption: {obstacle}", keeps_nomination=True)
    guards = Guards(budgets)
    outcomes: dict[str, Preemption | NodeRefusal] = {}
    for name, why in refusals.items():
        load = None if why.is_final else cluster.load(name)
        outcomes[name] = _NOT_HELPFUL if load is None else victims_on(pod, load, guards)
    possible = [each for each in outcomes.values() if isinstance(each, Preemption)]
    if possible:
        return min(possible, key=_cost)
    remaining = [each for each in outcomes.values() if isinstance(each, NodeRefusal)]
    return NoPreemption(f"{_NO_CLAIMS}, preemption: {fit_error(remaining)}")


def victims_on(pod: PlaceablePod, load: NodeLoad, guards: Guards) -> Preemption | NodeRefusal:
    """The pods that must go from one node, or why that would not help.

    All of lower priority are taken away and then, from the most important on, given back as far as there is room;
    those that a budget wants to keep before all others.
    """
    lower = sorted((each for each in load.pods.values() if each.priority < pod.priority), key=_importance)
    if not lower:
        return _NO_VICTIMS
    tally = load.tally_for(pod).copy()
    for each in lower:
        tally.add(each.claim, -1)
    room = load.offer.room
    why = unsuitability(pod, load.offer) or shortage(pod.claim, tally, room)
    if why is not None:
        return why
    violating, harmless = (_unspared(pod, each, tally, room) for each in guards.divide(lower))
    return Preemption(load.offer.name, tuple(sorted((*violating, *harmless), key=_importance)), len(violating))


def _unspared(
    pod: PlaceablePod, candidates: Iterable[PlaceablePod], tally: Tally, room: NodeRoom
) -> list[PlaceablePod]:
    """The pods that cannot stay; the others are added to what is taken."""
    victims = []
    for each in candidates:
        tally.add(each.claim)
        if shortage(pod.claim, tally, room) is not None:
            tally.add(each.claim, -1)
            victims.append(each)
    return victims


def _obstacle(pod: PlaceablePod, cluster: ClusterLoad, refusals: Mapping[str, NodeRefusal]) -> str | None:
    """While the pods that were told to go are still going, no other pod is."""
    if not pod.may_preempt:
        return _NEVER
    name = cluster.nomination_of(pod.key)
    load = cluster.load(name)
    if load is None or (name in refusals and refusals[name].is_final):
        return None
    is_waiting = any(each.is_preempted and each.priority < pod.priority for each in load.pods.values())
    return _WAITING if is_waiting else None


def _importance(pod: PlaceablePod) -> tuple[int, int, tuple[str, str]]:
    """The higher priority first, then the one that has been running longer; upstream leaves the rest to chance."""
    return -pod.priority, pod.started_ns, pod.key


def _cost(preemption: Preemption) -> tuple[int, int, int, int, int, str]:
    """The fewest budgets violated, the least important of most important victims, the smallest sum of priorities,
    the fewest victims, and last the node whose most important victim began latest; then by name, upstream by chance.
    """
    victims = preemption.victims
    highest = max((each.priority for each in victims), default=-_OFFSET)
    began_ns = min((each.started_ns for each in victims if each.priority == highest), default=0)
    total = sum(each.priority + _OFFSET for each in victims)
    return preemption.violations, highest, total, len(victims), -began_ns, preemption.node


class Guards:
    """The budgets of those namespaces that come into question, each selector read once."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._known: dict[str, list[tuple[Budget, LabelSelector]]] = {}

    def divide(self, pods: Sequence[PlaceablePod]) -> tuple[list[PlaceablePod], list[PlaceablePod]]:
        """Pods that must stay if all before them went, and those that may go; a budget counts for each node anew."""
        left: dict[tuple[str, str], int] = {}
        guarded: list[PlaceablePod] = []
        others: list[PlaceablePod] = []
        for pod in pods:
            is_violation = False
            for budget, selector in self._of(pod.key[0]) if pod.labels else ():
                if not selector.matches(pod.labels) or pod.key[1] in budget.status.disrupted_pods:
                    continue
                key = (budget.namespace, budget.name)
                left[key] = left.get(key, budget.status.disruptions_allowed) - 1
                is_violation = is_violation or left[key] < 0
            (guarded if is_violation else others).append(pod)
        return guarded, others

    def _of(self, namespace: str) -> list[tuple[Budget, LabelSelector]]:
        if namespace not in self._known:
            found = self._known[namespace] = []
            for budget in self._budgets(namespace):
                try:
                    selector = select(budget.selector)
                except InputError:
                    continue
                if not selector.is_empty:
                    found.append((budget, selector))
        return self._known[namespace]
