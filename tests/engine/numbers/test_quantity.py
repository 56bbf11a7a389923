"""Kubernetes quantities: grammar, exact value, integer views, canonical text (spec §2.5, §16 examples 1, 5 and 11)."""

from __future__ import annotations

import pytest

from jettison.engine.numbers.quantity import (
    EXPONENT_LIMIT,
    FORMAT_WRONG,
    LENGTH_LIMIT,
    SUFFIX_WRONG,
    ZERO,
    Format,
    Quantity,
    binary,
    binary_text,
    canonical,
    decimal,
    parse,
    parse_field,
)
from jettison.errors import QuantityError
from tests.builders import GI, KI, MI

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value", "printed", "format_"),
    [
        ("1.5Gi", 1610612736, "1536Mi", Format.BINARY),
        ("1.1Mi", 1153434, "1153433600m", Format.BINARY),
        ("0.1Ki", 103, "102400m", Format.BINARY),
        ("0.0001Ki", 1, "102400u", Format.DECIMAL),
        ("10Ei", LARGEST, str(LARGEST), Format.BINARY),
        ("1k", 1000, "1k", Format.DECIMAL),
        ("1E", 10**18, "1E", Format.DECIMAL),
        ("1E3", 1000, "1E3", Format.EXPONENT),
        ("1e3", 1000, "1e3", Format.EXPONENT),
        ("1e-10", 1, "1e-9", Format.EXPONENT),
        ("0.1n", 1, "1n", Format.DECIMAL),
        ("2000", 2000, "2k", Format.DECIMAL),
        ("1500", 1500, "1500", Format.DECIMAL),
        ("1.5", 2, "1500m", Format.DECIMAL),
        ("-1.5", -2, "-1500m", Format.DECIMAL),
        ("1024Ki", MI, "1Mi", Format.BINARY),
        ("1000Ki", 1000 * KI, "1000Ki", Format.BINARY),
        ("0", 0, "0", Format.DECIMAL),
        ("-0", 0, "0", Format.DECIMAL),
    ],
)
def test_value_text_and_format(text: str, value: int, printed: str, format_: Format) -> None:
    """Integers are rounded away from zero, at most nine decimal places are kept, binary ones are capped at 2⁶³-1."""
    quantity = parse(text)
    assert (quantity.value, str(quantity), quantity.format) == (value, printed, format_)


@pytest.mark.parametrize("text", ["Mi", "+", "-", ".", "m", "Gi", "e5"])
def test_an_empty_number_is_zero(text: str) -> None:
    """The scanner never insists on a digit; a threshold of `Mi` is then refused as not positive."""
    assert not parse(text)
    assert str(parse(text)) == "0"


@pytest.mark.parametrize("text", ["+5Mi", "1.G", "1E3", "1.500", "01", "+1", "5Gi", "1500m"])
def test_some_spellings_survive_until_they_are_calculated_with(text: str) -> None:
    """Messages quote `+5Mi` as it was written; adding nothing to it makes it `5Mi`."""
    quantity = parse(text)
    assert str(quantity) == text
    assert str(quantity + ZERO) == canonical(quantity)


@pytest.mark.parametrize(
    "text",
    ["", " ", "1GiB", "1 Gi", " 1", "1_0", "1MB", "1gi", "1KI", "0x10", "1.5.5", "\u0663", "1\n", "NaN", "\ud800"],
)
def test_what_does_not_scan_is_refused(text: str) -> None:
    """White space, underscores, other scripts' digits and unknown letters: the regular-expression error."""
    with pytest.raises(QuantityError) as refusal:
        parse(text)
    assert str(refusal.value) == FORMAT_WRONG


@pytest.mark.parametrize("text", [" 1Gi", "1Gi ", "1Gi\u00a0", "\u3000 1Gi\u200a"])
def test_spaces_around_a_documents_quantity_do_not_count(text: str) -> None:
    """Kubernetes' JSON decoder cuts them; tabs and line ends it sees as they are spelled, with a backslash."""
    assert str(parse_field(text)) == "1Gi"
    for kept in ("1 Gi", "\t1Gi", "1Gi\n", " "):
        with pytest.raises(QuantityError) as refusal:
            parse_field(kept)
        assert str(refusal.value) == FORMAT_WRONG


@pytest.mark.parametrize("text", ["1K", "1e", "1ki", "--1", "1mm", "1Mi5", "1E+", "1e99999999999999999999"])
def test_an_unknown_suffix_is_named_so(text: str) -> None:
    """Everything in the suffix is a letter that some suffix has, but the whole is none."""
    with pytest.raises(QuantityError) as refusal:
        parse(text)
    assert str(refusal.value) == SUFFIX_WRONG


@pytest.mark.parametrize(
    ("quantity", "printed"),
    [
        (binary(1572864), "1536Ki"),
        (binary(1536), "1536"),
        (binary(1024), "1Ki"),
        (binary(1000), "1k"),
        (binary(5368709121), "5368709121"),
        (binary(-(2**63)), "-9223372036854775808"),
        (binary(-(2**62)) + binary(-(2**62)), "-8Ei"),
        (binary(-3 * GI), "-3Gi"),
        (binary(2**70), "1"),
        (decimal(200000), "200k"),
        (decimal(1638), "1638"),
        (decimal(0), "0"),
    ],
)
def test_measured_numbers_print_canonically(quantity: Quantity, printed: str) -> None:
    """Bytes by 1024 and only while it divides, counts by 1000; nothing is ever rounded to look nice."""
    assert str(quantity) == printed


@pytest.mark.parametrize("number", [0, 1, -1, 1000, 1023, 1024, -1024, 1025, 1536, 10**6, 2**40, -(2**63), 2**63])
def test_the_short_way_to_text_says_the_same(number: int) -> None:
    """`binary_text` exists for speed alone."""
    assert binary_text(number) == str(binary(number))


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        ("1Gi", "512Mi", "1536Mi", "512Mi"),
        ("1Ki", "1k", "2024", "24"),
        ("1k", "1Ki", "2024", "-24"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1500m", "500m", "2", "1"),
        ("1", "1e3", "1001", "-999"),
        ("0.1", "0.2", "300m", "-100m"),
        ("9223372036854775807", "1", "9223372036854775808", "9223372036854775806"),
    ],
)
def test_arithmetic_is_exact(left: str, right: str, total: str, difference: str) -> None:
    """The left format wins unless the left is zero."""
    assert str(parse(left) + parse(right)) == total
    assert str(parse(left) - parse(right)) == difference


@pytest.mark.parametrize(
    ("less", "more"), [("1", "1001m"), ("1k", "1Ki"), ("-1", "0"), ("1n", "2n"), ("9E", "10E"), ("1Ei", "100E")]
)
def test_comparison_is_exact(less: str, more: str) -> None:
    """By value alone; how it was written does not matter."""
    assert parse(less) < parse(more)
    assert parse(less) != parse(more)
    assert parse(less).sign <= parse(more).sign


def test_equal_values_are_equal_and_hash_alike() -> None:
    """`1024Mi` and `1Gi` are one key in a map."""
    assert {parse("1Gi"), parse("1024Mi"), binary(GI), parse("1073741824")} == {parse("1Gi")}
    assert parse("1") <= parse("1000m") <= parse("1")
    assert parse("1") != 1


@pytest.mark.parametrize(("text", "value", "milli"), [("12E", 0, 0), ("9E", 9 * 10**18, 0), ("8Ei", LARGEST, -1000)])
def test_integer_views_beyond_64_bits_are_what_go_makes_of_them(text: str, value: int, milli: int) -> None:
    """Garbage, but the garbage that upstream ranks by. The exact value stays available."""
    quantity = parse(text)
    assert (quantity.value, quantity.milli) == (value, milli)
    assert quantity.fits_int64(-3) is False
    assert quantity.fits_int64() is (abs(quantity.nanos) <= LARGEST * 10**9)


def test_an_exponent_is_cut_to_32_bits() -> None:
    """2³² + 3 counts as 3, upstream's own doing."""
    assert parse("1e4294967299").value == 1000


def test_what_go_would_choke_on_is_refused() -> None:
    """Upstream computes with 10²⁰⁰⁰⁰⁰⁰⁰⁰⁰ for minutes; we say no, and say what is allowed."""
    with pytest.raises(QuantityError, match=f"`2000000000` is out of range, at most {EXPONENT_LIMIT}"):
        parse("1e2000000000")
    assert parse(f"1e{EXPONENT_LIMIT}") > parse("10E")
    with pytest.raises(QuantityError, match=f"{LENGTH_LIMIT + 1} characters is too long, at most {LENGTH_LIMIT}"):
        parse("1" * (LENGTH_LIMIT + 1))


def test_ten_thousand_digits_are_a_quantity() -> None:
    """Python's own int() refuses more than 4300 of them."""
    digits = "9" * 10_000
    assert str(parse(digits)) == digits
    assert str(parse("0" * 10_000 + "5Mi") + ZERO) == "5Mi"
    assert str(parse("0." + "0" * 10_000 + "1")) == "1n"
