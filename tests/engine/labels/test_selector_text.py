"""The text form of label selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.labels.selector_text import parse_label_selector
from jettison.engine.labels.selectors import LabelSelector, Operator, Requirement, all_of, require
from jettison.errors import InputError

words = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?", fullmatch=True) | st.sampled_from(
    ["in", "notin"]
)
values = words | st.just("")


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
