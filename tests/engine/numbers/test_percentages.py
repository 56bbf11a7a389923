"""Percentages in 32-bit floats (spec §2.4, §16 examples 12 and 13)."""

from __future__ import annotations

import math

import pytest

from jettison.engine.numbers.percentages import fraction_of, parse_percentage
from jettison.errors import InputError
from tests.builders import GI


@pytest.mark.parametrize(
    ("text", "capacity", "amount"),
    [
        ("29%", 100, 28),
        ("57%", 100, 56),
        ("7%", 100, 7),
        ("10%", 3, 0),
        ("10%", 50 * GI, 5368709200),
        ("10%", 100 * GI, 10737418400),
        ("15%", 100 * GI, 16106128000),
        ("1%", 33554432000, 335544312),
        ("5%", 6553600, 327680),
        ("5%", 32768, 1638),
        ("100.0%", 1000, 1000),
        ("0.0%", 1000, 0),
        ("-0%", 1000, 0),
        ("150%", 1000, 1500),
    ],
)
def test_a_percentage_of_a_capacity_is_truncated(text: str, capacity: int, amount: int) -> None:
    """The 32 bits show: 29 % of 100 is 28, and 10 % of 100Gi is 160 bytes more than a tenth."""
    assert fraction_of(parse_percentage(text), capacity) == amount


@pytest.mark.parametrize(
    ("text", "same"),
    [("5%%", "5%"), ("1e1%", "10%"), ("0x1p3%", "8%"), ("1_0%", "10%"), ("+5%", "5%"), (".5%", "0.5%"), ("5.%", "5%")],
)
def test_go_reads_more_than_decimals(text: str, same: str) -> None:
    """Every trailing `%` goes; exponents, hexadecimal floats and underscores are numbers."""
    assert parse_percentage(text) == parse_percentage(same)


@pytest.mark.parametrize(
    "text", [" 5%", "5 %", "%", "5,5%", "_5%", "5__0%", "0x5%", "five%", "1e%", "\u0663%", "--5%", "0x1p3.5%", "nan1%"]
)
def test_what_go_does_not_read(text: str) -> None:
    """With Go's own words; white space is never trimmed."""
    number = text.rstrip("%")
    with pytest.raises(InputError) as refusal:
        parse_percentage(text)
    assert str(refusal.value) == f'strconv.ParseFloat: parsing "{number}": invalid syntax'


@pytest.mark.parametrize("text", ["1e39%", "9" * 10_000 + "%", "0x1p200%", "1e" + "9" * 100 + "%", "-1e300%"])
def test_what_no_32_bits_hold(text: str) -> None:
    """Out of range is an error, not infinity."""
    with pytest.raises(InputError, match="value out of range"):
        parse_percentage(text)


def test_infinity_and_nan_are_numbers() -> None:
    """In any case; NaN then slips through every comparison and is never met."""
    assert math.isinf(parse_percentage("INF%"))
    assert parse_percentage("-infinity%") < 0
    assert math.isnan(parse_percentage("NaN%"))
    assert fraction_of(parse_percentage("nan%"), 1000) == -(2**63)


def test_rounding_happens_once() -> None:
    """A text just above the middle of two 32-bit floats goes up, though its 64-bit neighbour is the middle itself."""
    middle = 1 + 2**-24
    assert parse_percentage(f"{middle:.24f}%") == parse_percentage("1%")
    assert parse_percentage(f"{middle:.24f}" + "0" * 20 + "1%") > parse_percentage("1%")


@pytest.mark.parametrize("capacity", [2**63, 10**400])
def test_what_does_not_fit_becomes_the_smallest_integer(capacity: int) -> None:
    """As on amd64, so a threshold on it is never met."""
    assert fraction_of(1.0, capacity) == -(2**63)
