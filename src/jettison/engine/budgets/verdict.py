"""May this pod be evicted through the API? The eviction handler's decision, without its reads, writes and retries.

A verdict is a value: the handler turns a refusal into an HTTP answer, and the drain plan into a forecast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from jettison.engine.budgets.budget import ALWAYS_ALLOW, EXACT, SYNC_FAILED, ApiSwitches, Budget, BudgetStatus
from jettison.engine.labels.selectors import select
from jettison.engine.numbers.strconv import quote
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.pods.pod import PENDING
from jettison.errors import InputError
from jettison.values import frozen

MOST_DISRUPTED_PODS: Final = 2000
RETRY_AFTER_SECONDS: Final = 10

_VIOLATION: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class Allowance(Enum):
    """Why a pod may go. The handler treats each of them differently when it deletes the pod."""

    EXEMPT = auto()
    """Pending, finished or terminating: no budget is asked."""
    UNGUARDED = auto()
    """No budget selects it."""
    UNHEALTHY = auto()
    """Not ready, so its going takes nothing from the healthy: the budget stays untouched."""
    GRANTED = auto()
    """The budget has room, and one disruption of it is spent."""


class Refusal(Enum):
    """Why a pod may not go."""

    SEVERAL_BUDGETS = auto()
    UNPROCESSED = auto()
    NEGATIVE = auto()
    OVERFULL = auto()
    EXHAUSTED = auto()


@frozen
class Allowed:
    """The pod may go. `status` is what must be written to the budget first; None: nothing. `further` has what was
    granted by other budgets of the same pod.
    """

    allowance: Allowance
    budget: Budget | None = None
    status: BudgetStatus | None = None
    further: tuple[Allowed, ...] = ()


@frozen
class Refused:
    """The pod must stay for now. Message and cause are the API's; None seconds mean: do not send Retry-After.

    That matters: clients obey even a 0, and repeat the request ten times at once.
    """

    refusal: Refusal
    message: str
    cause: str | None = None
    retry_after_seconds: int | None = None
    budget: Budget | None = None


Verdict = Allowed | Refused


def judge_eviction(pod: ApiPod, budgets: Iterable[Budget], now_ns: int, switches: ApiSwitches = EXACT) -> Verdict:
    """The whole decision for one pod, given all budgets; those of other namespaces do not count.

    An unready pod is let go while the application is healthy enough without it, or always if the budget says so.
    Surprise: where no healthy pod is required (`minAvailable: 0`), this does not help; see `spend`.
    """
    return judge_guarded(pod, (each for each in budgets if _guards(each, pod)), now_ns, switches)


def judge_guarded(pod: ApiPod, budgets: Iterable[Budget], now_ns: int, switches: ApiSwitches = EXACT) -> Verdict:
    """As above, given only the budgets that select the pod: a caller that keeps parsed selectors has found them.

    They are not asked for where the pod needs none.
    """
    if pod.is_terminating or pod.is_ended or pod.phase == PENDING:
        # The disruption is done already, or nothing has begun that it could disrupt.
        return Allowed(Allowance.EXEMPT)
    guarding = list(budgets)
    if len(guarding) > 1 and not switches.join_budgets:
        return Refused(Refusal.SEVERAL_BUDGETS, _SEVERAL)
    if not guarding:
        return Allowed(Allowance.UNGUARDED)
    return _joined([_ask(budget, pod, now_ns, switches) for budget in guarding])


def _ask(budget: Budget, pod: ApiPod, now_ns: int, switches: ApiSwitches) -> Verdict:
    if not pod.is_ready and _spares_unhealthy(budget, switches):
        return Allowed(Allowance.UNHEALTHY, budget)
    return spend(budget, pod.name, now_ns)


def _joined(verdicts: Sequence[Verdict]) -> Verdict:
    """One refusal is enough. Budgets that the pod does not touch are left alone, unless there are no others."""
    allowed: list[Allowed] = []
    for verdict in verdicts:
        if isinstance(verdict, Refused):
            return verdict
        allowed.append(verdict)
    granted = [each for each in allowed if each.allowance is Allowance.GRANTED]
    if len(granted) > 1:
        return replace(granted[0], further=tuple(granted[1:]))
    return granted[0] if granted else allowed[0]


def spend(budget: Budget, pod_name: str, now_ns: int) -> Verdict:
    """Take one disruption from the budget. The handler repeats this with a fresh budget when its write conflicts.

    The numbers are trusted as they are: whether the pod was counted as healthy is not looked at.
    """
    status = budget.status
    if status.observed_generation < budget.generation:
        return unprocessed(budget)
    if status.disruptions_allowed < 0:
        return Refused(Refusal.NEGATIVE, _forbidden(budget, "pdb disruptions allowed is negative"), budget=budget)
    if len(status.disrupted_pods) > MOST_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        return Refused(Refusal.OVERFULL, _forbidden(budget, why), budget=budget)
    if status.disruptions_allowed == 0:
        return Refused(Refusal.EXHAUSTED, _VIOLATION, _exhaustion(budget), budget=budget)
    # Not `replace`, which takes longer than the rest of the verdict.
    spent = BudgetStatus(
        status.observed_generation,
        status.disruptions_allowed - 1,
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods,
        {**status.disrupted_pods, pod_name: now_ns},
        status.conditions,
    )
    if spent.disruptions_allowed == 0:
        spent = spent.with_condition(spent.allowance(now_ns))
    return Allowed(Allowance.GRANTED, budget, spent)


def _forbidden(budget: Budget, why: str) -> str:
    return f"poddisruptionbudget.policy {quote(budget.name)} is forbidden: {why}"


def unprocessed(budget: Budget) -> Refused:
    """The budget's numbers are older than the budget; also the answer when an unhealthy pod changed meanwhile."""
    cause = f"The disruption budget {budget.name} is still being processed by the server."
    return Refused(Refusal.UNPROCESSED, _VIOLATION, cause, RETRY_AFTER_SECONDS, budget)


def _guards(budget: Budget, pod: ApiPod) -> bool:
    """A budget whose selector makes no sense guards nothing, at least here; its sync complains."""
    if budget.namespace != pod.namespace:
        return False
    try:
        return select(budget.selector).matches(pod.labels)
    except InputError:
        return False


def _spares_unhealthy(budget: Budget, switches: ApiSwitches) -> bool:
    status = budget.status
    if budget.unhealthy_policy == ALWAYS_ALLOW:
        return True
    # A status that is not of this budget says nothing about how many are needed; 0 is what a new one has.
    needs_none = switches.free_unready_pods and status.observed_generation >= budget.generation
    return status.current_healthy >= status.desired_healthy and (status.desired_healthy > 0 or needs_none)


def _exhaustion(budget: Budget) -> str:
    """Why nothing is allowed, as far as the status tells.

    The last text is common for a moment: after the last disruption was spent, until the next sync, the number of
    healthy pods is still the old one.
    """
    status = budget.status
    condition = status.disruption_allowed
    complaint = condition if condition and condition.status == "False" and condition.message else None
    nothing = f"The disruption budget {budget.name} does not allow evicting pods currently"
    if complaint and complaint.reason == SYNC_FAILED:
        return f"{nothing} because it failed sync: {complaint.message}"
    if status.current_healthy <= status.desired_healthy:
        return (
            f"The disruption budget {budget.name} needs {status.desired_healthy} healthy pods "
            f"and has {status.current_healthy} currently"
        )
    return f"{nothing} ({complaint.reason}): {complaint.message}" if complaint else nothing
