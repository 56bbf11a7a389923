"""May this pod be evicted? The worked examples were executed against a real API server."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.budgets.budget import (
    ALWAYS_ALLOW,
    DISRUPTION_ALLOWED,
    Budget,
    BudgetCondition,
    BudgetStatus,
)
from jettison.engine.budgets.verdict import (
    MOST_DISRUPTED_PODS,
    Allowance,
    Allowed,
    Refusal,
    Refused,
    judge_eviction,
    spend,
    unprocessed,
)
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.pods.api_pod import ApiPod

NOW = 1_700_000_000 * 10**9
READY = ApiPod("p", phase="Running", is_ready=True)
UNREADY = ApiPod("p", phase="Running")
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


def guard(allowed: int, healthy: int, desired: int, *, policy: str = "", observed: int = 1) -> Budget:
    status = BudgetStatus(observed, allowed, healthy, desired)
    return Budget("pdb", generation=1, selector=SelectorObject(), unhealthy_policy=policy, status=status)


def test_a_granted_eviction_is_entered_and_spent() -> None:
    """While something is left the condition is not touched, not even created."""
    budget = guard(2, 5, 3)
    spent = replace(budget.status, disruptions_allowed=1, disrupted_pods={"p": NOW})
    assert judge_eviction(READY, [budget], NOW) == Allowed(Allowance.GRANTED, budget, spent)


def test_the_last_disruption_turns_the_condition() -> None:
    """Its observed generation is that of the status."""
    verdict = judge_eviction(READY, [guard(1, 4, 3)], NOW)
    assert isinstance(verdict, Allowed)
    assert verdict.status is not None
    assert verdict.status.disruptions_allowed == 0
    condition = BudgetCondition(DISRUPTION_ALLOWED, "False", "InsufficientPods", "", 1, NOW)
    assert verdict.status.conditions == (condition,)


@pytest.mark.parametrize(
    ("pod", "budget", "allowance"),
    [
        (UNREADY, guard(0, 4, 4), Allowance.UNHEALTHY),
        (UNREADY, guard(0, 0, 4, policy=ALWAYS_ALLOW), Allowance.UNHEALTHY),
        (UNREADY, guard(0, 0, 0, policy=ALWAYS_ALLOW, observed=0), Allowance.UNHEALTHY),
        (UNREADY, guard(2, 2, 0), Allowance.GRANTED),
        (replace(UNREADY, phase="Unknown"), guard(0, 4, 4), Allowance.UNHEALTHY),
        (replace(READY, phase=""), guard(1, 4, 4), Allowance.GRANTED),
        (replace(READY, phase="Pending"), guard(0, 0, 4), Allowance.EXEMPT),
        (replace(READY, phase="Succeeded"), guard(0, 0, 4), Allowance.EXEMPT),
        (replace(READY, phase="Failed"), guard(0, 0, 4), Allowance.EXEMPT),
        (replace(READY, is_terminating=True), guard(0, 0, 4), Allowance.EXEMPT),
        (replace(READY, namespace="other"), guard(0, 0, 4), Allowance.UNGUARDED),
        (READY, replace(guard(0, 0, 4), selector=None), Allowance.UNGUARDED),
        (READY, replace(guard(0, 0, 4), selector=SelectorObject({"app": "web"})), Allowance.UNGUARDED),
        (
            READY,
            replace(guard(0, 0, 4), selector=SelectorObject(match_expressions=(MatchExpression("a", "?"),))),
            Allowance.UNGUARDED,
        ),
    ],
)
def test_which_pods_may_go(pod: ApiPod, budget: Budget, allowance: Allowance) -> None:
    """Only a granted eviction writes to the budget; the shortcut for unready pods needs `desired > 0`."""
    verdict = judge_eviction(pod, [budget], NOW)
    assert isinstance(verdict, Allowed)
    assert verdict.allowance is allowance
    assert (verdict.status is not None) is (allowance is Allowance.GRANTED)


@pytest.mark.parametrize(
    ("pod", "budget", "refusal", "cause"),
    [
        (
            READY,
            guard(0, 3, 3),
            Refusal.EXHAUSTED,
            "The disruption budget pdb needs 3 healthy pods and has 3 currently",
        ),
        (READY, guard(0, 4, 3), Refusal.EXHAUSTED, "The disruption budget pdb does not allow evicting pods currently"),
        (
            UNREADY,
            guard(0, 3, 4),
            Refusal.EXHAUSTED,
            "The disruption budget pdb needs 4 healthy pods and has 3 currently",
        ),
        (
            UNREADY,
            guard(0, 0, 0),
            Refusal.EXHAUSTED,
            "The disruption budget pdb needs 0 healthy pods and has 0 currently",
        ),
        (
            READY,
            guard(5, 9, 1, observed=0),
            Refusal.UNPROCESSED,
            "The disruption budget pdb is still being processed by the server.",
        ),
    ],
)
def test_which_pods_must_stay(pod: ApiPod, budget: Budget, refusal: Refusal, cause: str) -> None:
    """Only numbers that are too old ask the client to come back: it would repeat other refusals ten times."""
    verdict = judge_eviction(pod, [budget], NOW)
    retry = 10 if refusal is Refusal.UNPROCESSED else None
    assert verdict == Refused(refusal, VIOLATION, cause, retry, budget)


@pytest.mark.parametrize(
    ("status", "reason", "message", "healthy", "ending"),
    [
        ("False", "SyncFailed", "boom", 3, "does not allow evicting pods currently because it failed sync: boom"),
        ("False", "SyncFailed", "", 4, "does not allow evicting pods currently"),
        ("False", "InsufficientPods", "I say so", 3, "needs 3 healthy pods and has 3 currently"),
        (
            "False",
            "InsufficientPods",
            "I say so",
            4,
            "does not allow evicting pods currently (InsufficientPods): I say so",
        ),
        ("True", "SyncFailed", "boom", 4, "does not allow evicting pods currently"),
    ],
)
def test_the_cause_prefers_a_failed_sync_then_the_numbers_then_the_condition(
    status: str, reason: str, message: str, healthy: int, ending: str
) -> None:
    """A condition counts only when it is False and says something."""
    budget = guard(0, healthy, 3)
    condition = BudgetCondition(DISRUPTION_ALLOWED, status, reason, message)
    verdict = spend(replace(budget, status=budget.status.with_condition(condition)), "p", NOW)
    assert isinstance(verdict, Refused)
    assert verdict.cause == f"The disruption budget pdb {ending}"


def test_two_budgets_are_one_too_many() -> None:
    """Not for a pod that needs none, though."""
    budgets = [guard(5, 9, 1), replace(guard(5, 9, 1), name="other")]
    verdict = judge_eviction(READY, budgets, NOW)
    assert isinstance(verdict, Refused)
    assert verdict.refusal is Refusal.SEVERAL_BUDGETS
    assert verdict.message.startswith("This pod has more than one PodDisruptionBudget, ")
    assert (verdict.cause, verdict.retry_after_seconds) == (None, None)
    assert judge_eviction(replace(READY, phase="Pending"), budgets, NOW) == Allowed(Allowance.EXEMPT)


@pytest.mark.parametrize(
    ("count", "allowed", "message"),
    [
        (MOST_DISRUPTED_PODS + 1, 5, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"),
        (MOST_DISRUPTED_PODS + 1, 0, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"),
        (MOST_DISRUPTED_PODS + 1, -1, "pdb disruptions allowed is negative"),
        (0, -1, "pdb disruptions allowed is negative"),
    ],
)
def test_a_budget_that_cannot_be_right_forbids(count: int, allowed: int, message: str) -> None:
    """A negative number is noticed before a full map, a full map before an exhausted budget."""
    budget = guard(allowed, 9, 1)
    crowded = replace(budget.status, disrupted_pods={f"p{number}": 0 for number in range(count)})
    verdict = spend(replace(budget, status=crowded), "p", NOW)
    assert isinstance(verdict, Refused)
    assert verdict.refusal in (Refusal.NEGATIVE, Refusal.OVERFULL)
    assert verdict.message == f'poddisruptionbudget.policy "pdb" is forbidden: {message}'
    assert verdict.cause is None


def test_a_map_with_two_thousand_entries_takes_one_more() -> None:
    """The bound is checked before the entry is made."""
    budget = guard(5, 9, 1)
    full = replace(budget.status, disrupted_pods={f"p{number}": 0 for number in range(MOST_DISRUPTED_PODS)})
    verdict = spend(replace(budget, status=full), "new", NOW)
    assert isinstance(verdict, Allowed)
    assert verdict.status is not None
    assert len(verdict.status.disrupted_pods) == MOST_DISRUPTED_PODS + 1


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_budget_is_never_overspent(allowed: int, wanted: int) -> None:
    """Of N evictions against a budget of k exactly min(N, k) are granted, and each is on record."""
    budget = guard(allowed, 30, 5)
    granted = 0
    for number in range(wanted):
        verdict = spend(budget, f"p{number}", NOW)
        if isinstance(verdict, Allowed) and verdict.status is not None:
            budget = replace(budget, status=verdict.status)
            granted += 1
    assert granted == min(allowed, wanted)
    assert len(budget.status.disrupted_pods) == granted


def test_the_answer_to_a_pod_that_changed_meanwhile() -> None:
    """The handler gives it when the deletion of an unhealthy pod meets a conflict: try again in ten seconds."""
    assert unprocessed(guard(1, 1, 1)).retry_after_seconds == 10
