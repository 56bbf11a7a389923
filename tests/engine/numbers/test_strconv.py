"""Numbers and quoted texts as Go reads and prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.numbers.strconv import INT64_MAX, INT64_MIN, atoi, parse_int64, quote
from jettison.errors import InputError


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
