"""Numbers and percentages of a budget, its status as a value, and both positions of every switch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.budgets.budget import (
    ALWAYS_ALLOW,
    BETTER,
    DISRUPTION_ALLOWED,
    EXACT,
    ApiSwitches,
    Budget,
    BudgetCondition,
    BudgetStatus,
    scaled,
)
from jettison.engine.budgets.sync import sync_budget
from jettison.engine.budgets.verdict import Allowance, Allowed, Refusal, Refused, judge_eviction
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.numbers.strconv import INT64_MAX, INT64_MIN
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.owners import Workloads
from jettison.errors import InputError

NOW = 1_700_000_000 * 10**9
READY = ApiPod("p", phase="Running", is_ready=True)
UNREADY = ApiPod("p", phase="Running")
JOINS = ApiSwitches(join_budgets=True)


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (3, 10, 3, 3),
        (-1, 10, -1, -1),
        ("30%", 7, 3, 2),
        ("67%", 3, 3, 2),
        ("66%", 3, 2, 1),
        ("1%", 4, 1, 0),
        ("0%", 4, 0, 0),
        ("200%", 4, 8, 8),
        ("-10%", 5, 0, -1),
        ("+007%", 100, 7, 7),
        ("50%", -3, -1, -2),
        (f"{INT64_MAX}%", INT64_MAX, INT64_MIN, INT64_MIN),
    ],
)
def test_percentages_round_as_asked(value: int | str, total: int, up: int, down: int) -> None:
    """There is no bound at 100 %, and what overflows 64 bits becomes the smallest integer, as on amd64."""
    assert scaled(value, total, round_up=True) == up
    assert scaled(value, total, round_up=False) == down


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("10", "invalid type: string is not a percentage"),
        ("", "invalid type: string is not a percentage"),
        ("%", 'invalid value "%": strconv.Atoi: parsing "": invalid syntax'),
        ("10%%", 'invalid value "10%%": strconv.Atoi: parsing "10%": invalid syntax'),
        ("5.5%", 'invalid value "5.5%": strconv.Atoi: parsing "5.5": invalid syntax'),
        ("99999999999999999999%", 'strconv.Atoi: parsing "99999999999999999999": value out of range'),
    ],
)
def test_what_is_no_percentage_is_refused(value: str, complaint: str) -> None:
    """A number in quotes is not a number."""
    with pytest.raises(InputError) as caught:
        scaled(value, 10, round_up=True)
    assert str(caught.value).startswith("invalid value for IntOrString: ")
    assert str(caught.value).endswith(complaint)


@given(st.integers(0, 1000), st.integers(0, 2**31 - 1))
def test_floats_do_not_blur_real_sizes(percent: int, total: int) -> None:
    """Up to 1000 % of two thousand million pods the 64-bit float agrees with exact arithmetic."""
    assert scaled(f"{percent}%", total, round_up=True) == -(-percent * total // 100)
    assert scaled(f"{percent}%", total, round_up=False) == percent * total // 100


def test_a_condition_is_replaced_in_place_and_its_time_moves_only_when_it_flips() -> None:
    """Everything else about it is new: reason, message, generation."""
    other = BudgetCondition("Other", "True", changed_ns=1)
    old = BudgetCondition(DISRUPTION_ALLOWED, "False", "SyncFailed", "boom", 3, changed_ns=5)
    status = BudgetStatus(observed_generation=4, conditions=(old, other))

    kept = status.with_condition(status.allowance(now_ns=9))
    assert kept.conditions == (BudgetCondition(DISRUPTION_ALLOWED, "False", "InsufficientPods", "", 4, 5), other)

    flipped = BudgetStatus(disruptions_allowed=1, conditions=(old,))
    flipped = flipped.with_condition(flipped.allowance(now_ns=9))
    assert flipped.conditions == (BudgetCondition(DISRUPTION_ALLOWED, "True", "SufficientPods", "", 0, 9),)


def test_a_first_condition_is_appended() -> None:
    """Conditions of others are left alone."""
    other = BudgetCondition("Other", "True")
    status = BudgetStatus(conditions=(other,))
    assert status.disruption_allowed is None
    assert status.with_condition(status.allowance(2)).conditions == (other, status.allowance(2))


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
