"""Label selectors: requirements, LabelSelector objects, canonical texts."""

from __future__ import annotations

import pytest

from jettison.engine.labels.selectors import (
    EVERYTHING,
    NOTHING,
    MatchExpression,
    Operator,
    SelectorObject,
    require,
    select,
)
from jettison.errors import InputError


@pytest.mark.parametrize(
    ("operator", "values", "absent", "same", "other"),
    [
        (Operator.IN, ["5", "6"], False, True, False),
        (Operator.EQUALS, ["5"], False, True, False),
        (Operator.DOUBLE_EQUALS, ["5"], False, True, False),
        (Operator.NOT_IN, ["5", "6"], True, False, True),
        (Operator.NOT_EQUALS, ["5"], True, False, True),
        (Operator.EXISTS, [], False, True, True),
        (Operator.DOES_NOT_EXIST, [], True, False, False),
        (Operator.GREATER_THAN, ["4"], False, True, False),
        (Operator.LESS_THAN, ["6"], False, True, False),
    ],
)
def test_an_absent_label_satisfies_only_negations(
    operator: Operator, values: list[str], absent: bool, same: bool, other: bool
) -> None:
    """Three labels are tried: none, the value 5, and a value that is neither listed nor a number."""
    requirement = require("a", operator, values)
    assert requirement.matches({"b": "5"}) is absent
    assert requirement.matches({"a": "5"}) is same
    assert requirement.matches({"a": "x"}) is other


@pytest.mark.parametrize("operator", [Operator.GREATER_THAN, Operator.LESS_THAN])
def test_comparisons_are_strict_and_numeric(operator: Operator) -> None:
    """5 is neither above nor below 005, and 10 is above 9 although its text is not."""
    assert not require("a", operator, ["005"]).matches({"a": "5"})
    assert require("a", operator, ["9"]).matches({"a": "10"}) is (operator is Operator.GREATER_THAN)


def test_absent_selects_nothing_and_empty_selects_all() -> None:
    """The difference between `selector: null` and `selector: {}` of a budget; both print as the empty text."""
    assert select(None) == NOTHING
    assert select(SelectorObject()) == EVERYTHING
    assert (NOTHING.matches({}), EVERYTHING.matches({})) == (False, True)
    assert (NOTHING.is_empty, EVERYTHING.is_empty) == (False, True)
    assert (str(NOTHING), str(EVERYTHING)) == ("", "")


def test_an_object_is_the_conjunction_of_its_parts_in_order_of_keys() -> None:
    """Values are sorted in print; repeated ones stay, unlike in the text form."""
    selector = select(
        SelectorObject(
            {"tier": "web", "app": "x"},
            (MatchExpression("env", "NotIn", ("b", "a", "b")), MatchExpression("app", "Exists")),
        )
    )
    assert str(selector) == "app=x,app,env notin (a,b,b),tier=web"
    assert selector.matches({"tier": "web", "app": "x"})
    assert not selector.matches({"tier": "web", "app": "x", "env": "a"})


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        (MatchExpression("a", "in"), '"in" is not a valid label selector operator'),
        (
            MatchExpression("a", "In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            MatchExpression("a", "Exists", ("x", '<"\n')),
            '[values: Invalid value: ["x","\\u003c\\"\\n"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_complaints_about_an_expression(expression: MatchExpression, complaint: str) -> None:
    """Operators are case-sensitive, and lists are shown as Go's JSON has them."""
    with pytest.raises(InputError) as caught:
        select(SelectorObject(match_expressions=(expression,)))
    assert str(caught.value).startswith(complaint)


def test_all_complaints_about_one_requirement_come_together() -> None:
    """In brackets, key first, then operator, then values by position."""
    with pytest.raises(InputError) as caught:
        require("a b", Operator.GREATER_THAN, ["x!"])
    text = str(caught.value)
    assert text.startswith('[key: Invalid value: "a b": name part')
    assert "values[0]: Invalid value: \"x!\": for 'Gt', 'Lt' operators, the value must be an integer, " in text
    assert ', values[0][a b]: Invalid value: "x!": a valid label must be' in text
    assert text.endswith("]")


@pytest.mark.parametrize(("operator", "values"), [(Operator.EQUALS, []), (Operator.LESS_THAN, ["1", "2"])])
def test_comparisons_take_exactly_one_value(operator: Operator, values: list[str]) -> None:
    """A requirement that has nothing to compare with cannot be built."""
    with pytest.raises(InputError, match=r"single value|exactly one value"):
        require("a", operator, values)


def test_an_object_prints_as_go_prints_it() -> None:
    """The event about unmanaged pods carries this text."""
    source = SelectorObject({"b": "2", "a": "1"}, (MatchExpression("c", "In", ("x", "y")),))
    assert str(source) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},"
        "MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},},}"
    )
