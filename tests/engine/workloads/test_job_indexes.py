"""The short form of a Job's completed indexes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.workloads.job_indexes import Indexes, parse_indexes

INT32_MAX = 2**31 - 1


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ((), ""),
        ((3,), "3"),
        ((0, 1), "0,1"),
        ((0, 1, 2), "0-2"),
        ((0, 2, 3, 5, 6, 7), "0,2,3,5-7"),
    ],
)
def test_the_text_is_kubernetes_own(indexes: tuple[int, ...], text: str) -> None:
    made = Indexes().with_indexes(indexes)
    assert str(made) == text
    assert parse_indexes(text, 10) == made


@given(st.sets(st.integers(0, 60)), st.integers(0, 70), st.integers(0, 70))
def test_it_is_a_set(indexes: set[int], count: int, end: int) -> None:
    made = Indexes().with_indexes(indexes)
    assert len(made) == len(indexes)
    assert [each for each in range(62) if each in made] == sorted(indexes)
    assert parse_indexes(str(made), 61) == made
    assert made.first_missing(count, end) == [each for each in range(end) if each not in indexes][:count]


def test_what_cannot_be_is_left_out() -> None:
    """Also a status that names more than there are, or two thousand million."""
    assert str(parse_indexes("x,1,-3,2-y,3-4,9-12", 10)) == "1,3,4,9"
    everything = parse_indexes(f"0-{INT32_MAX}", INT32_MAX)
    assert len(everything) == INT32_MAX
    assert everything.first_missing(5, INT32_MAX) == []
