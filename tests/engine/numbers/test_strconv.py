"""Numbers, percentages, lists of CPUs and quoted texts as Go reads and prints them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.numbers.strconv import (
    INT64_MAX,
    INT64_MIN,
    atoi,
    count_cpus,
    fraction_of,
    parse_int64,
    parse_percentage,
    parse_uint,
    quote,
)
from jettison.errors import InputError
from tests.builders import GI


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("007", 7),
        ("9223372036854775807", INT64_MAX),
        ("-9223372036854775808", INT64_MIN),
        ("0" * 10_000 + "5", 5),
    ],
)
def test_atoi_reads_decimal_integers_of_64_bits(text: str, number: int) -> None:
    """A sign and leading zeros are fine, however many."""
    assert atoi(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "-", "+", " 1", "1 ", "1_0", "0x10", "1e1", "1.0", "١", "１", "--1", "9" * 19 + "x", "18446744073709551615x"],
)
def test_what_is_no_number_is_bad_syntax(text: str) -> None:
    """Python's int() would take some of these."""
    with pytest.raises(InputError, match=r"^strconv\.Atoi: parsing .*: invalid syntax$"):
        atoi(text)
    assert parse_int64(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616x",
        "9" * 10_000,
        "9" * 20 + "x",
        "9" * 99 + "x",
    ],
)
def test_digits_that_overflow_hide_what_follows_them(text: str) -> None:
    """Go reads from the left and stops at the digit that no longer fits 64 unsigned bits."""
    with pytest.raises(InputError, match=r"^strconv\.Atoi: parsing .*: value out of range$"):
        atoi(text)


@pytest.mark.parametrize(
    ("text", "most", "why"),
    [
        ("", 65_535, "invalid syntax"),
        ("+1", 65_535, "invalid syntax"),
        ("65535x", 65_535, "invalid syntax"),
        ("65536", 65_535, "value out of range"),
        ("65536x", 65_535, "value out of range"),
        ("18446744073709551616", 2**64 - 1, "value out of range"),
        ("9" * 10_000, 2**64 - 1, "value out of range"),
    ],
)
def test_unsigned_integers_have_no_sign_and_a_width(text: str, most: int, why: str) -> None:
    """The errors are Go's, and so is which of the two comes first."""
    with pytest.raises(InputError) as caught:
        parse_uint(text, most)
    assert str(caught.value) == f'strconv.ParseUint: parsing "{text}": {why}'
    assert parse_uint("0" * 10_000 + str(most), most) == most


@given(st.integers(INT64_MIN, INT64_MAX))
def test_every_64_bit_integer_survives_printing(number: int) -> None:
    """The widest values are the ones that go wrong."""
    assert parse_int64(str(number)) == number


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"b\\c', r'"a\"b\\c"'),
        ("\n\t\0\x7f", r'"\n\t\x00\x7f"'),
        ("é漢", '"é漢"'),
        ("\x85\u00a0\u200b", r'"\u0085\u00a0\u200b"'),
        ("\x80\ue000\uffff", r'"\u0080\ue000\uffff"'),
        ("\U00010000\U000e0001", '"\U00010000\\U000e0001"'),
        ("\ud800", '"\ufffd"'),
    ],
)
def test_quotes_escape_what_cannot_be_printed(text: str, quoted: str) -> None:
    """As Go's %q; half a surrogate pair has become U+FFFD."""
    assert quote(text) == quoted


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


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("0", 1),
        ("0-3", 4),
        ("0-1,3", 3),
        ("3,0-1", 3),
        ("0-3,2-5,5", 6),
        ("1,1,1", 1),
        ("0-9999999999", 10**10),
        ("0-5,1-2,4-9", 10),
    ],
)
def test_each_cpu_counts_once(text: str, count: int) -> None:
    """In any order, overlapping or not; a range is counted and never walked."""
    assert count_cpus(text) == count


@pytest.mark.parametrize("text", ["a", "1-", "-1", "1,,2", ",", "3-1", "0-1-2", " 1", "1.5", "9" * 10_000, "1-\u0663"])
def test_what_is_no_cpu_list(text: str) -> None:
    """Refused with Kubernetes' words, whatever the length."""
    with pytest.raises(InputError, match=r"strconv\.Atoi|invalid range"):
        count_cpus(text)
