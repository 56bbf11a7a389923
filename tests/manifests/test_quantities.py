"""A quantity that was written down comes back as itself: its form decides how sums with it print."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jettison.engine.numbers.quantity import LENGTH_LIMIT, Quantity, parse
from jettison.errors import QuantityError
from jettison.manifests.pod_writer import exact_text

SUFFIXES = [
    "",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "e0",
    "e3",
    "E-2",
    "e40",
]

texts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    st.from_regex(r"[0-9]{1,25}", fullmatch=True),
    st.one_of(st.just(""), st.from_regex(r"\.[0-9]{0,22}", fullmatch=True)),
    st.sampled_from(SUFFIXES),
)


def form(quantity: Quantity) -> tuple[object, ...]:
    return quantity.unscaled, quantity.scale, quantity.format, quantity.is_big, str(quantity)


@given(texts)
@example("0Ki")
@example("0.5Ki")
@example("1000E")
@example("1000m")
@example("0.5e1")
@example("123456789012345000e0")
@example("12000e4096")
@example("9000Ei")
@example("-9000Ei")
@example("0.0Ki")
@example("1e-20")
def test_the_form_survives(text: str) -> None:
    quantity = parse(text)

    assert form(parse(exact_text(quantity))) == form(quantity)


@pytest.mark.parametrize("text", ["100Mi", "1", "250m", "1536.0Mi", "1e3", "+5Mi", "0.5"])
def test_common_quantities_stay_readable(text: str) -> None:
    assert exact_text(parse(text)) == text


@pytest.mark.parametrize("text", ["9" * LENGTH_LIMIT, "-" + "9" * (LENGTH_LIMIT - 1), "9" * (LENGTH_LIMIT - 5) + "Ki"])
def test_what_is_written_can_always_be_read(text: str) -> None:
    try:
        quantity = parse(text)
    except QuantityError:
        pytest.fail("this text was meant to be as long as a quantity may be")

    again = parse(exact_text(quantity))

    assert again.sign == quantity.sign
    assert abs(again.nanos) > 10**27
