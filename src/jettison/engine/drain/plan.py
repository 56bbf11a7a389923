"""What would a drain do? Spends the budgets pod by pod, as the eviction handler would, and says which pod goes when.

A *wave* is what may go without waiting for another pod. Between two waves the pods of the first are gone, their
replacements are Ready on other nodes and the disruption controller has counted again. Two assumptions make that a
forecast: a pod with a controller is replaced by one as healthy as itself, and nothing else changes. So a pod that
is not Ready now is never counted on, which is what blocks the drain of a crash-looping service in a real cluster too.
Nor is a *stranded* one: no node can take its replacement. A drain evicts it all the same if its budget has room, but
the room does not come back.

The budgets' statuses are trusted as they are, like the handler does; no workload needs to be read.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from jettison.engine.budgets.budget import ALWAYS_ALLOW, SYNC_FAILED, Budget
from jettison.engine.budgets.sync import guarded_pods
from jettison.engine.budgets.verdict import MOST_DISRUPTED_PODS, Allowance, Allowed, Refusal, Refused, judge_eviction
from jettison.engine.drain.filters import Choice, DrainSelection, Remark
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.scheduling.choice import unsuitability
from jettison.engine.scheduling.nodes import NodeOffer
from jettison.engine.scheduling.pods import PlaceablePod
from jettison.errors import InputError
from jettison.values import frozen

_MOST_NAMES: Final = 5
_WHY: Final = {
    Allowance.EXEMPT: "pending, finished or terminating: no budget is asked",
    Allowance.UNGUARDED: "no budget",
    Allowance.UNHEALTHY: "not Ready, so the budget is not spent",
    Allowance.GRANTED: "the budget has room",
}


class PodFate(StrEnum):
    """What becomes of a pod, in the words of the answer."""

    GOES = "goes"
    """In its node's first wave: at once, or as soon as the nodes before are empty."""
    WAITS = "waits"
    """In a later wave: its budget must recover first."""
    BLOCKED = "blocked"
    """Never, unless something is changed."""
    STAYS = "stays"
    """A drain leaves it alone."""
    REFUSED = "refused"
    """Its presence makes the drain of the node refuse to start."""


@frozen
class PodPlan:
    """One pod's part. `wave` counts from 1 over all nodes; 0: none."""

    pod: ApiPod
    fate: PodFate
    why: str
    wave: int = 0
    budgets: tuple[str, ...] = ()
    # The pods whose replacements must be Ready first.
    waits_for: tuple[str, ...] = ()
    remedy: str = ""
    # It goes, and no node can take its replacement.
    is_stranded: bool = False


@frozen
class NodePlan:
    """One node's part. Nodes are emptied one after the other."""

    node: str
    pods: tuple[PodPlan, ...]

    @property
    def is_emptied(self) -> bool:
        """Would the drain of this node succeed?"""
        return not any(each.fate in (PodFate.BLOCKED, PodFate.REFUSED) for each in self.pods)


@frozen
class DrainPlan:
    """The whole forecast."""

    nodes: tuple[NodePlan, ...]

    @property
    def waves(self) -> int:
        """How many there are."""
        return max((pod.wave for node in self.nodes for pod in node.pods), default=0)

    @property
    def is_complete(self) -> bool:
        """Would the drain of every node succeed?"""
        return all(node.is_emptied for node in self.nodes)

    @property
    def stranded(self) -> int:
        """How many pods go whose replacements stay Pending."""
        return sum(pod.is_stranded for node in self.nodes for pod in node.pods)


def plan_drain(
    selections: Sequence[tuple[str, DrainSelection]],
    pods: Iterable[ApiPod],
    budgets: Iterable[Budget],
    now_ns: int,
    stranded: Collection[str] = (),
) -> DrainPlan:
    """Plan the nodes in order. `pods` are those of the namespaces concerned, on whatever node; `stranded` is what
    `stranded_pods` found among those that go.
    """
    ledger = _Ledger(budgets, pods, now_ns, stranded)
    waves = 0
    nodes = []
    for node, selection in selections:
        if selection.errors:
            nodes.append(NodePlan(node, tuple(map(_held, selection.choices))))
            continue
        plans = ledger.plan_node(selection.going, waves + 1)
        waves = max((plan.wave for plan in plans.values()), default=waves)
        nodes.append(NodePlan(node, tuple(plans.get(str(each.pod)) or _left(each) for each in selection.choices)))
    return DrainPlan(tuple(nodes))


def _left(choice: Choice) -> PodPlan:
    return PodPlan(choice.pod, PodFate.STAYS, choice.message or "a drain does not touch it")


def _held(choice: Choice) -> PodPlan:
    """A pod of a node where the filters found something to refuse."""
    if choice.remark is Remark.ERROR:
        return PodPlan(choice.pod, PodFate.REFUSED, f"cannot delete {choice.message}")
    if choice.goes:
        return PodPlan(choice.pod, PodFate.BLOCKED, "nothing is evicted from a node with refused pods")
    return _left(choice)


def stranded_pods(
    pods: Iterable[PlaceablePod], ready_nodes: Iterable[NodeOffer], drained: Collection[str]
) -> frozenset[str]:
    """Which of these pods, as `namespace/name`, could be placed nowhere if they were new?

    A drain cordons all its nodes before it evicts a pod, so a drained node takes only pods that tolerate that.
    """
    nodes = [replace(each, is_cordoned=True) if each.name in drained else each for each in ready_nodes]
    answers: dict[Hashable, bool] = {}
    stranded = []
    for pod in pods:
        # Replicas ask for the same, and there may be thousands of nodes to ask.
        wish = pod.tolerations, pod.affinity
        if wish not in answers:
            unbound = replace(pod, node="")
            answers[wish] = all(unsuitability(unbound, node) is not None for node in nodes)
        if answers[wish]:
            stranded.append(str(pod))
    return frozenset(stranded)


@frozen
class _Guard:
    """A budget at some point of a plan, with the pods it guards."""

    budget: Budget
    pods: tuple[ApiPod, ...]
    # The pods that take from it in this wave, and those that took before; replacements of the latter must be Ready.
    spending: tuple[str, ...] = ()
    spenders: tuple[str, ...] = ()
    # Ready pods that went and are not replaced.
    lost: tuple[str, ...] = ()

    @property
    def allowed(self) -> int:
        """How many more may go."""
        return self.budget.status.disruptions_allowed


class _Ledger:
    """The budgets as they would be at some point of the plan."""

    def __init__(
        self, budgets: Iterable[Budget], pods: Iterable[ApiPod], now_ns: int, stranded: Collection[str]
    ) -> None:
        self._now_ns = now_ns
        self._stranded = stranded
        # Ready pods that went and whose replacements stay Pending, as `namespace/name`.
        self._missing: set[str] = set()
        self._guards: dict[str, _Guard] = {}
        self._guarding: dict[tuple[str, str], list[str]] = {}
        pods = list(pods)
        for budget in budgets:
            guarded = _matching(budget, pods)
            self._guards[str(budget)] = _Guard(budget, guarded)
            for pod in guarded:
                self._guarding.setdefault((pod.namespace, pod.name), []).append(str(budget))

    def plan_node(self, pods: Sequence[ApiPod], first: int) -> dict[str, PodPlan]:
        """Wave after wave, until all pods are gone or nothing moves any more; by `namespace/name`."""
        plans: dict[str, PodPlan] = {}
        stuck: list[tuple[ApiPod, Refused]] = []
        remaining, wave = list(pods), first
        while remaining:
            stuck, gone = [], []
            for pod in remaining:
                verdict = judge_eviction(pod, [guard.budget for guard in self._of(pod)], self._now_ns)
                if isinstance(verdict, Refused):
                    stuck.append((pod, verdict))
                else:
                    gone.append(pod)
                    plans[str(pod)] = self._take(pod, verdict, wave, is_first=wave == first)
            if not self._recover(gone) and not gone:
                break
            remaining, wave = [pod for pod, _ in stuck], wave + 1
        return plans | {str(pod): self._blocked(pod, refused) for pod, refused in stuck}

    def _of(self, pod: ApiPod) -> list[_Guard]:
        names = self._guarding.get((pod.namespace, pod.name), ())
        return [self._guards[name] for name in names]

    def _take(self, pod: ApiPod, verdict: Allowed, wave: int, *, is_first: bool) -> PodPlan:
        why, name = _WHY[verdict.allowance], str(verdict.budget) if verdict.budget else ""
        waits_for: tuple[str, ...] = ()
        if verdict.budget is not None and verdict.status is not None:
            guard = self._guards[name]
            waits_for = () if is_first else guard.spenders
            why = f"{why} (allows {verdict.status.disruptions_allowed + 1})"
            self._guards[name] = replace(
                guard, budget=replace(guard.budget, status=verdict.status), spending=(*guard.spending, str(pod))
            )
        fate = PodFate.GOES if is_first else PodFate.WAITS
        budgets = (name,) if name else ()
        return PodPlan(pod, fate, why, wave, budgets, waits_for, is_stranded=self._is_stranded(pod))

    def _blocked(self, pod: ApiPod, refused: Refused) -> PodPlan:
        guards = self._of(pod)
        return PodPlan(
            pod,
            PodFate.BLOCKED,
            refused.cause or refused.message,
            budgets=tuple(str(guard.budget) for guard in guards),
            remedy=self._lack_of_nodes(refused, guards) or _remedy(pod, refused, guards),
        )

    def _lack_of_nodes(self, refused: Refused, guards: Sequence[_Guard]) -> str:
        """Said where the budget would have room again if only the pods that went had come up elsewhere."""
        if refused.refusal is not Refusal.EXHAUSTED:
            return ""
        (guard,) = guards
        status = guard.budget.status
        missing = [name for pod in guard.pods if (name := str(pod)) in self._missing]
        if not missing or status.current_healthy + len(missing) <= status.desired_healthy:
            return ""
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return (
            f"no other node can take the replacement of {missing[0]}{others}: uncordon one, or add one "
            "that is Ready and that the pod's node selector and tolerations allow"
        )

    def _is_stranded(self, pod: ApiPod) -> bool:
        return str(pod) in self._stranded and _is_replaced(pod) and not pod.is_ended

    def _recover(self, gone: Sequence[ApiPod]) -> bool:
        """Replacements are Ready and the controller has counted again; does any budget allow more than before?"""
        is_better = False
        lost = {str(pod) for pod in gone if not _is_replaced(pod)}
        stranded = {str(pod) for pod in gone if self._is_stranded(pod)}
        self._missing |= {str(pod) for pod in gone if str(pod) in stranded and _is_healthy(pod)}
        for name, guard in self._guards.items():
            recovered = _recovered(guard, lost, stranded)
            is_better |= recovered.allowed > guard.allowed
            self._guards[name] = recovered
        return is_better


def _is_healthy(pod: ApiPod) -> bool:
    """As far as a budget counts it."""
    return pod.is_ready and not pod.is_terminating


def _matching(budget: Budget, pods: Iterable[ApiPod]) -> tuple[ApiPod, ...]:
    """A selector that makes no sense guards nothing; its sync complains."""
    try:
        return tuple(guarded_pods(budget, pods))
    except InputError:
        return ()


def _is_replaced(pod: ApiPod) -> bool:
    """A DaemonSet's pod that a drain takes off has lost its DaemonSet, and would return to this node only anyway."""
    return pod.controller is not None and pod.controller.kind != "DaemonSet"


def _is_neglected(budget: Budget) -> bool:
    status = budget.status
    condition = status.disruption_allowed
    return (
        status.observed_generation < budget.generation
        or status.disruptions_allowed < 0
        or len(status.disrupted_pods) > MOST_DISRUPTED_PODS
        or (condition is not None and condition.reason == SYNC_FAILED)
    )


def _recovered(guard: _Guard, lost: set[str], stranded: set[str]) -> _Guard:
    """Without the pods that are not replaced, and with a Pending one for each that is stranded.

    A budget that its controller neglects or cannot compute stays as it is.
    """
    status = guard.budget.status
    if _is_neglected(guard.budget):
        return guard
    leaving = [pod for pod in guard.pods if str(pod) in lost]
    gone = [*leaving, *(pod for pod in guard.pods if str(pod) in stranded)]
    healthy = status.current_healthy - sum(map(_is_healthy, gone))
    allowed = max(healthy - status.desired_healthy, 0) if status.expected_pods > 0 else 0
    # Evictions that were granted to other clients hold the budget as our own do.
    others = (f"{guard.budget.namespace}/{name}" for name in status.disrupted_pods)
    awaited = tuple(name for name in guard.spending or tuple(others) if name not in stranded)
    status = replace(status, current_healthy=healthy, disruptions_allowed=allowed, disrupted_pods={})
    remaining = (pod for pod in guard.pods if str(pod) not in lost)
    return _Guard(
        budget=replace(guard.budget, status=status),
        pods=tuple(pod.but(is_ready=False) if str(pod) in stranded else pod for pod in remaining),
        spenders=awaited or guard.spenders,
        lost=(*guard.lost, *map(str, leaving)),
    )


def _remedy(pod: ApiPod, refused: Refused, guards: Sequence[_Guard]) -> str:
    """What the operator must do, or wait for, before this pod may go."""
    if refused.refusal is Refusal.SEVERAL_BUDGETS:
        names = " and ".join(str(guard.budget) for guard in guards)
        return f"let only one budget select the pod, now {names} do"
    (guard,) = guards
    status = guard.budget.status
    condition = status.disruption_allowed
    if condition is not None and condition.reason == SYNC_FAILED:
        return f"mend what the disruption controller complains about: {condition.message}"
    match refused.refusal:
        case Refusal.UNPROCESSED:
            generations = f"generation {guard.budget.generation}, it has seen {status.observed_generation}"
            return f"the disruption controller must process the budget ({generations}): does it run?"
        case Refusal.OVERFULL:
            waiting = f"{len(status.disrupted_pods)} evictions, more than {MOST_DISRUPTED_PODS}"
            return f"the disruption controller must confirm {waiting}: does it run?"
        case Refusal.NEGATIVE:
            return f"the disruption controller must count again, the budget allows {status.disruptions_allowed}"
        case _:
            return _way_out(pod, guard)


def _way_out(pod: ApiPod, guard: _Guard) -> str:
    """Of a budget that is spent."""
    if guard.budget.status.expected_pods <= 0:
        return _countable(guard)
    ways = [_more_ready(guard) or _other_numbers(guard)]
    if not pod.is_ready and guard.budget.unhealthy_policy != ALWAYS_ALLOW:
        ways.append(f"set unhealthyPodEvictionPolicy to {ALWAYS_ALLOW}, for this pod is not Ready")
    return ", or ".join(ways)


def _countable(guard: _Guard) -> str:
    """Where no pods are expected none may go, however many there are."""
    budget = guard.budget
    if budget.min_available is None and budget.max_unavailable is None:
        return "set minAvailable or maxUnavailable, a budget with neither allows nothing"
    if all(pod.controller is None for pod in guard.pods):
        return f"set minAvailable to a number, {_rule(budget)} does not count pods without a controller"
    return "scale up the workload or delete the pod, the workload wants no pods at all"


def _more_ready(guard: _Guard) -> str:
    """Enough pods are there, they are just not Ready."""
    status = guard.budget.status
    lacking = status.desired_healthy + 1 - status.current_healthy
    if lacking <= 0:
        return "the disruption controller must count again"
    unready = [pod for pod in guard.pods if pod.is_active and not pod.is_ready]
    if len(unready) < lacking:
        return ""
    return f"{lacking} more Ready {_pods(lacking)}, not Ready now: {_names(unready)}"


def _other_numbers(guard: _Guard) -> str:
    """Even with every pod Ready there would be no room. More pods help only where the rule does not grow with them."""
    budget = guard.budget
    needed = budget.status.desired_healthy
    way = f"raise {_rule(budget)}" if budget.max_unavailable is not None else f"lower {_rule(budget)}"
    if isinstance(budget.min_available, int) and budget.max_unavailable is None:
        short = needed + 1 - sum(pod.is_active for pod in guard.pods)
        way = f"add {short} {_pods(short)} or {way}"
    because = f"{needed} healthy {_pods(needed)} must remain"
    if guard.lost:
        because += f" and no controller replaces {', '.join(guard.lost[:_MOST_NAMES])}"
    return f"{way}: {because}"


def _rule(budget: Budget) -> str:
    if budget.max_unavailable is not None:
        return f"maxUnavailable `{budget.max_unavailable}`"
    return f"minAvailable `{budget.min_available}`"


def _pods(count: int) -> str:
    return "pod" if count == 1 else "pods"


def _names(pods: Sequence[ApiPod]) -> str:
    names = [str(pod) for pod in pods[:_MOST_NAMES]]
    rest = len(pods) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")
