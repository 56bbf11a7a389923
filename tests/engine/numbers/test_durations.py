"""Go durations: parsing, printing, Go's errors (spec §2.3, §16 example 7)."""

from __future__ import annotations

import pytest

from jettison.engine.numbers.durations import MINUTE_NS, SECOND_NS, duration_text, parse_duration
from jettison.errors import DurationError

HOUR_NS = 60 * MINUTE_NS
LONGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("0", 0, "0s"),
        ("-0", 0, "0s"),
        ("30s", 30 * SECOND_NS, "30s"),
        ("1h30m", 90 * MINUTE_NS, "1h30m0s"),
        ("90m", 90 * MINUTE_NS, "1h30m0s"),
        ("1.5h", 90 * MINUTE_NS, "1h30m0s"),
        ("+5s", 5 * SECOND_NS, "5s"),
        ("-2m", -2 * MINUTE_NS, "-2m0s"),
        ("1s500ms", 1_500_000_000, "1.5s"),
        (".5s", 500_000_000, "500ms"),
        ("1.s", SECOND_NS, "1s"),
        ("250ms", 250_000_000, "250ms"),
        ("2us", 2000, "2µs"),
        ("2\u00b5s", 2000, "2µs"),
        ("2\u03bcs", 2000, "2µs"),
        ("7ns", 7, "7ns"),
        ("1h1h", 2 * HOUR_NS, "2h0m0s"),
        ("0.0000000001s", 0, "0s"),
        ("2562047h47m16.854775807s", LONGEST, "2562047h47m16.854775807s"),
        ("-2562047h47m16.854775808s", -LONGEST - 1, "-2562047h47m16.854775808s"),
    ],
)
def test_durations_as_go_reads_and_prints_them(text: str, nanoseconds: int, printed: str) -> None:
    """Any sequence of number and unit; printed with the largest units first and no zero digits at the end."""
    assert parse_duration(text) == nanoseconds
    assert duration_text(nanoseconds) == printed


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("30", 'time: missing unit in duration "30"'),
        ("1h30", 'time: missing unit in duration "1h30"'),
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".s", 'time: invalid duration ".s"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'),
        ("1s ", 'time: unknown unit "s " in duration "1s "'),
        ('1"', 'time: unknown unit "\\"" in duration "1\\""'),
        ("1é", r'time: unknown unit "\xc3\xa9" in duration "1\xc3\xa9"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
        ("1e3s", 'time: unknown unit "e" in duration "1e3s"'),
    ],
)
def test_mistakes_in_gos_words(text: str, complaint: str) -> None:
    """They reach the operator verbatim."""
    with pytest.raises(DurationError) as refusal:
        parse_duration(text)
    assert str(refusal.value) == complaint


def test_very_long_numbers() -> None:
    """Python's int() refuses 4300 digits; leading zeros are free, anything longer than 19 digits is out of range."""
    assert parse_duration("0" * 10_000 + "1s") == SECOND_NS
    assert parse_duration("0." + "0" * 10_000 + "1s") == 0
    assert parse_duration("1." + "9" * 10_000 + "s") == 2 * SECOND_NS
    with pytest.raises(DurationError, match="invalid duration"):
        parse_duration("9" * 10_000 + "s")
