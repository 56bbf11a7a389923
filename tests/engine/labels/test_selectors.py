"""Label selectors: requirements, LabelSelector objects, canonical texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.labels.requirements import Operator, Requirement, require
from jettison.engine.labels.selectors import (
    NOTHING,
    LabelSelector,
    MatchExpression,
    SelectorObject,
    all_of,
    parse_label_selector,
    select,
)
from jettison.errors import InputError

words = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?", fullmatch=True) | st.sampled_from(
    ["in", "notin"]
)
values = words | st.just("")


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
    everything = select(SelectorObject())
    assert everything == LabelSelector(())
    assert (NOTHING.matches({}), everything.matches({})) == (False, True)
    assert (NOTHING.is_empty, everything.is_empty) == (False, True)
    assert (str(NOTHING), str(everything)) == ("", "")


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


def _requirement(key: str, operator: Operator, texts: list[str], number: int) -> Requirement:
    match operator:
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            return require(key, operator, [])
        case Operator.IN | Operator.NOT_IN:
            return require(key, operator, sorted(set(texts)))
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            return require(key, operator, [str(number)])
        case _:
            return require(key, operator, texts[:1])


requirements = st.builds(
    _requirement, words, st.sampled_from(Operator), st.lists(values, min_size=1, max_size=3), st.integers(0, 2**63 - 1)
)
selectors = st.lists(requirements, max_size=4).map(all_of)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (" \t\r\n", ""),
        ("b , a", "a,b"),
        ("a==b,a=b", "a==b,a=b"),
        ("a=", "a="),
        ("a=,b", "a=,b"),
        ("a in ()", "a in ()"),
        ("a in (,)", "a in ()"),
        ("a in (c,b,c,)", "a in (,b,c)"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("notin notin (in)", "notin notin (in)"),
        ("!a", "!a"),
        ("a>007", "a>007"),
        ("example.com/a!=b", "example.com/a!=b"),
        ("a\0,b", "a,b"),
        ("a=\0b", "a=b"),
        ("a \0,b", "a"),
    ],
)
def test_canonical_texts(text: str, canonical: str) -> None:
    """Sorted by key; sets sorted and without repetitions; a NUL ends the text where a token should begin."""
    assert str(parse_label_selector(text)) == canonical


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!a in (b)", "found 'in', expected: ',' or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a=!", "unable to parse requirement: found '!', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a IN (b)", "unable to parse requirement: found 'IN', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b,(", "unable to parse requirement: found '(', expected: ',', or identifier"),
        ("a>", "unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, "),
        ("a/b/c", 'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key must consist'),
    ],
)
def test_complaints(text: str, complaint: str) -> None:
    """Word for word what a client of Kubernetes sees, down to the missing comma before `expected: '('`."""
    with pytest.raises(InputError) as caught:
        parse_label_selector(text)
    assert str(caught.value).startswith(complaint)


@given(selectors)
def test_the_canonical_text_means_the_same(selector: LabelSelector) -> None:
    """Printing and reading again gives the selector back, keywords as keys and values included."""
    assert parse_label_selector(str(selector)) == selector


@given(st.text(alphabet="ab/-=!(),<>in \0é", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever is read can be printed and read again; whatever is not raises the one error that callers expect."""
    try:
        selector = parse_label_selector(text)
    except InputError:
        return
    assert parse_label_selector(str(selector)) == selector


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ["(" * 10_000, "a," * 5_000, "a in (" + "b," * 5_000, "!" * 10_000, "\ud800" * 10_000])
def test_long_nonsense_is_refused_quickly(text: str) -> None:
    """There is no recursion to exhaust and no backtracking to explode."""
    with pytest.raises(InputError):
        parse_label_selector(text)
