"""Each switch of evictions through the API: what upstream decides, and what is better."""

from __future__ import annotations

from dataclasses import replace

from jettison.engine.budgets.budget import ALWAYS_ALLOW, Budget, BudgetStatus
from jettison.engine.budgets.switches import BETTER, EXACT, ApiSwitches
from jettison.engine.budgets.sync import sync_budget
from jettison.engine.budgets.verdict import Allowance, Allowed, Refusal, Refused, judge_eviction
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.owners import Workloads

NOW = 1_700_000_000 * 10**9
READY = ApiPod("p", phase="Running", is_ready=True)
UNREADY = ApiPod("p", phase="Running")
JOINS = ApiSwitches(join_budgets=True)


def guard(name: str, allowed: int, healthy: int = 5, desired: int = 3, policy: str = "") -> Budget:
    status = BudgetStatus(1, allowed, healthy, desired)
    return Budget(name, generation=1, selector=SelectorObject(), unhealthy_policy=policy, status=status)


def test_unready_pods_go_where_no_healthy_one_is_required() -> None:
    budget = guard("a", 0, 0, 0)
    verdict = judge_eviction(UNREADY, [budget], NOW)
    assert isinstance(verdict, Refused)
    assert verdict.refusal is Refusal.EXHAUSTED
    frees = ApiSwitches(free_unready_pods=True)
    assert judge_eviction(UNREADY, [budget], NOW, frees) == Allowed(Allowance.UNHEALTHY, budget)
    # A ready one has to wait, and so does every pod until the budget was counted: 0 is what a new status has.
    assert isinstance(judge_eviction(READY, [budget], NOW, frees), Refused)
    fresh = replace(budget, generation=2)
    assert isinstance(judge_eviction(UNREADY, [fresh], NOW, frees), Refused)


def test_several_budgets_are_asked_and_spent_together() -> None:
    first, second = guard("a", 2), guard("b", 1)
    assert isinstance(judge_eviction(READY, [first, second], NOW), Refused)
    verdict = judge_eviction(READY, [first, second], NOW, JOINS)
    assert isinstance(verdict, Allowed)
    spent = [each.status for each in (verdict, *verdict.further)]
    assert [each.disruptions_allowed for each in spent if each is not None] == [1, 0]
    assert all(each is not None and each.disrupted_pods == {"p": NOW} for each in spent)


def test_one_refusal_of_several_is_enough_and_spends_nothing() -> None:
    for budgets in ([guard("a", 2), guard("b", 0)], [guard("b", 0), guard("a", 2)]):
        verdict = judge_eviction(READY, budgets, NOW, JOINS)
        assert isinstance(verdict, Refused)
        assert verdict.budget is not None
        assert verdict.budget.name == "b"


def test_of_several_budgets_only_those_are_spent_that_an_unready_pod_costs() -> None:
    lenient, exact = guard("a", 2, policy=ALWAYS_ALLOW), guard("b", 1, healthy=1)
    verdict = judge_eviction(UNREADY, [lenient, exact], NOW, JOINS)
    assert isinstance(verdict, Allowed)
    assert (verdict.allowance, verdict.budget, verdict.further) == (Allowance.GRANTED, exact, ())
    other = replace(lenient, name="c")
    assert judge_eviction(UNREADY, [lenient, other], NOW, JOINS) == Allowed(Allowance.UNHEALTHY, lenient)


def test_a_budget_that_cannot_be_counted_says_why() -> None:
    broken = SelectorObject(match_expressions=(MatchExpression("app", "Sometimes", ()),))
    budget = Budget("a", generation=2, selector=broken, min_available=1)
    wanted = {EXACT: (0, Refusal.UNPROCESSED), BETTER: (2, Refusal.EXHAUSTED)}
    for switches, (observed, refusal) in wanted.items():
        sync = sync_budget(budget, [], Workloads(), NOW, switches)
        assert sync.status is not None
        assert (sync.status.observed_generation, sync.status.disruptions_allowed) == (observed, 0)
        mended = replace(budget, selector=SelectorObject(), status=sync.status)
        verdict = judge_eviction(READY, [mended], NOW, switches)
        assert isinstance(verdict, Refused)
        assert verdict.refusal is refusal
        assert ("because it failed sync" in str(verdict.cause)) == (switches is BETTER)
