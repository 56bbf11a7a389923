"""Amounts, short for people and exact for programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.agent.amounts import amount_data
from jettison.engine.node.amounts import precise, short, signed
from jettison.engine.node.signals import Resource
from jettison.engine.numbers.quantity import parse

MEMORY, INODES = Resource.MEMORY, Resource.INODES


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (-1536, "-1.5Ki"),
        (100 * 2**20, "100Mi"),
        (100 * 2**20 + 1, "100.0Mi"),
        (2**30 - 1, "1.0Gi"),
        (3 * 2**60, "3Ei"),
        (2**70, "over 1024Ei"),
        (-(2**70), "-over 1024Ei"),
        pytest.param(10**9999, "over 1024Ei", id="huge"),
    ],
)
def test_bytes_have_one_decimal_at_most(number: int, expected: str) -> None:
    assert short(number, MEMORY) == expected


def test_other_things_are_counted_as_they_are() -> None:
    assert short(1234567, INODES) == "1234567"
    assert short(10**9999, INODES) == "over 10^30"


def test_the_exact_number_stands_beside_a_rounded_one() -> None:
    assert precise(10737418400, MEMORY) == "10.0Gi (10737418400)"
    assert precise(10 * 2**30, MEMORY) == "10Gi"
    assert precise(4711, INODES) == "4711"


def test_differences_have_a_sign() -> None:
    assert [signed(parse(text), MEMORY) for text in ("1Mi", "-1Mi", "0")] == ["+1Mi", "-1Mi", "0"]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("100Mi", {"text": "100Mi", "value": 100 * 2**20}),
        ("100m", {"text": "100m", "value": 1}),
        ("-1", {"text": "-1", "value": -1}),
        ("1000E", {"text": "1", "value": None}),
    ],
)
def test_data_is_a_text_and_a_number_of_64_bits(text: str, data: object) -> None:
    assert amount_data(parse(text)) == data


@given(st.integers(-(2**69), 2**69))
def test_short_is_never_off_by_more_than_a_twentieth_of_its_unit(number: int) -> None:
    text = short(number, MEMORY)
    units = dict(zip(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), (1024**power for power in range(1, 7)), strict=True))
    unit = units.get(text[-2:], 1)
    digits = text[:-2] if unit > 1 else text
    assert abs(float(digits) * unit - number) <= 0.0501 * unit + abs(number) * 1e-12
