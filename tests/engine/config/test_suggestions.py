"""What was probably meant."""

from __future__ import annotations

import pytest

from jettison.engine.config.suggestions import did_you_mean, nearest, quantity_advice, setting_advice
from jettison.engine.numbers.quantity import parse
from jettison.errors import QuantityError


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("512MB", "write 512M or 512Mi"),
        ("512mb", "write 512M or 512Mi"),
        ("512MiB", "write 512M or 512Mi"),
        ("512 Mi", "write 512M or 512Mi"),
        ("1.5GB", "write 1.5G or 1.5Gi"),
        ("4kb", "write 4k or 4Ki"),
        ("4K", "write 4k or 4Ki"),
        ("2gi", "write 2G or 2Gi"),
        ("2gigabytes", "write 2G or 2Gi"),
        ("100 B", "write 100"),
        ("100bytes", "write 100"),
        ("much", "expected a number, with k, M, G,"),
        ("", "expected a number, with k, M, G,"),
        ("1,5Gi", "expected a number, with k, M, G,"),
        ("\u0663Gi", "expected a number, with k, M, G,"),
        ("9" * 100 + "MB", "expected a number, with k, M, G,"),
    ],
)
def test_an_amount_is_answered_with_what_to_write(text: str, advice: str) -> None:
    """Never with a regular expression; and what is advised is a quantity."""
    with pytest.raises(QuantityError) as refusal:
        parse(text)
    said = quantity_advice(f"memory: {refusal.value}", text)

    assert said.startswith(f"memory: {advice}")
    if advice.startswith("write"):
        assert all(parse(each) for each in said.removeprefix("memory: write ").split(" or "))


def test_another_complaint_stays_as_it_is() -> None:
    assert quantity_advice("must be positive", "512MB") == "must be positive"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("comand", "command"), ("COMMAND", "command"), ("zzz", None), ("c" * 65, None)],
)
def test_the_nearest_name(name: str, meant: str | None) -> None:
    assert nearest(name, ["args", "command", "image"]) == meant
    assert did_you_mean(name, ["args", "command", "image"]) == ("" if meant is None else f", did you mean `{meant}`?")


def test_a_wrong_signal_is_answered_with_the_right_ones() -> None:
    said = setting_advice("unsupported eviction signal memory.avail", "evictionHard.memory.avail", "1Gi")

    assert said.startswith("unsupported eviction signal memory.avail: expected one of memory.available, ")
    assert said.endswith("pid.available, did you mean `memory.available`?")
