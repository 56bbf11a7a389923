"""Selectors made ready for many objects answer as they do one requirement after the other, and in time."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.labels.field_selectors import FieldSelector, FieldTerm
from jettison.engine.labels.matching import FieldMatcher, LabelMatcher
from jettison.engine.labels.requirements import Operator, require
from jettison.engine.labels.selectors import NOTHING, LabelSelector, all_of

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["", "x", "1", "2", "99999999999999999999"])
NUMBERS = st.sampled_from(["0", "1", "2"])
REQUIREMENTS = st.one_of(
    st.builds(lambda key, operator: require(key, operator, ()), KEYS, st.sampled_from(["exists", "!"]).map(Operator)),
    st.builds(
        lambda key, operator, value: require(key, operator, [value]),
        KEYS,
        st.sampled_from(["=", "==", "!="]).map(Operator),
        VALUES,
    ),
    st.builds(
        lambda key, operator, values: require(key, operator, sorted(values)),
        KEYS,
        st.sampled_from(["in", "notin"]).map(Operator),
        st.sets(VALUES, min_size=1),
    ),
    st.builds(
        lambda key, operator, value: require(key, operator, [value]),
        KEYS,
        st.sampled_from(["gt", "lt"]).map(Operator),
        NUMBERS,
    ),
)
LABELS = st.dictionaries(KEYS, VALUES | st.just("-3"))
TERMS = st.builds(FieldTerm, KEYS, VALUES, st.booleans())


@given(st.lists(REQUIREMENTS, max_size=5).map(all_of) | st.just(NOTHING), LABELS)
def test_labels(selector: LabelSelector, labels: dict[str, str]) -> None:
    assert LabelMatcher(selector).matches(labels) == selector.matches(labels)


@given(st.lists(TERMS, max_size=4).map(tuple).map(FieldSelector), LABELS)
def test_fields(selector: FieldSelector, fields: dict[str, str]) -> None:
    found = FieldMatcher(selector)
    assert found.matches(fields) == selector.matches(fields)
    assert set(found.fields) == {term.field for term in selector.terms}


def test_the_length_of_a_selector_does_not_matter() -> None:
    """One after the other, 10,000 requirements take a second for 1,000 objects."""
    every = [
        *(require(f"n{number}", Operator.DOES_NOT_EXIST, ()) for number in range(10_000)),
        *(require("a", Operator.NOT_EQUALS, [f"v{number}"]) for number in range(10_000)),
        *(require("a", Operator.GREATER_THAN, [str(number)]) for number in range(10_000)),
        require("a", Operator.IN, [str(number) for number in range(20_000)]),
    ]
    long = LabelMatcher(all_of(every))
    short = LabelMatcher(all_of([require("a", Operator.GREATER_THAN, ["9"]), require("b", Operator.EXISTS, ())]))
    labels = {"a": "15000", "b": "x"}
    assert [long.matches(labels), short.matches(labels)] == [True, True]
    took = []
    for matcher in (short, long):
        began = time.process_time()
        for _ in range(5000):
            matcher.matches(labels)
        took.append(time.process_time() - began)
    assert took[1] < 20 * took[0]
