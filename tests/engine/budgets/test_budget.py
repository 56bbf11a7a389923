"""Numbers and percentages of a budget, and its status as a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.budgets.budget import DISRUPTION_ALLOWED, BudgetCondition, BudgetStatus, scaled
from jettison.engine.numbers.strconv import INT64_MAX, INT64_MIN
from jettison.errors import InputError


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
