"""RFC 3339 times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.errors import ManifestError
from jettison.manifests.times import parse_time, time_or_none, time_text

SECOND_NS = 10**9
NEW_YEAR = 1_704_067_200


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2024-01-01T00:00:00Z", NEW_YEAR * SECOND_NS),
        ("2024-01-01T01:30:00+01:30", NEW_YEAR * SECOND_NS),
        ("2023-12-31T19:00:00-05:00", NEW_YEAR * SECOND_NS),
        ("2024-01-01T00:00:00.5Z", NEW_YEAR * SECOND_NS + 500_000_000),
        ("2024-01-01T00:00:00.123456789Z", NEW_YEAR * SECOND_NS + 123_456_789),
        ("2024-01-01T00:00:00.1234567891234Z", NEW_YEAR * SECOND_NS + 123_456_789),
        ("1969-12-31T23:59:59Z", -SECOND_NS),
        ("2024-02-29T00:00:00Z", (NEW_YEAR + 59 * 86400) * SECOND_NS),
    ],
)
def test_nanoseconds_since_the_epoch(text: str, time_ns: int) -> None:
    """All nine digits, in any zone."""
    assert parse_time(text) == time_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01-00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-01-01T25:00:00Z",
        "2024-01-01T00:00:00+99:99",
        "2024-01-01T00:00:00.Z",
        "20240101T000000Z",
        "2024-W01-1T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "\u0662024-01-01T00:00:00Z",
        "2024-01-01T00:00:00Z\n",
        "9" * 10_000,
    ],
)
def test_what_is_no_time(text: str) -> None:
    """Also a time that no year from 1 to 9999 holds in UTC."""
    with pytest.raises(ManifestError, match="is not a time such as `2030-01-01T00:00:00Z`") as refusal:
        parse_time(text)
    assert len(str(refusal.value)) < 150


@given(st.integers(parse_time("0001-01-01T00:00:00Z") // SECOND_NS, parse_time("9999-12-31T23:59:59Z") // SECOND_NS))
def test_a_time_survives_printing_and_parsing(seconds: int) -> None:
    """To the second, from the year 1 on, with four digits of the year."""
    text = time_text(seconds * SECOND_NS)
    assert parse_time(text) == seconds * SECOND_NS
    assert len(text) == len("2030-01-01T00:00:00Z")


def test_parts_of_a_second_are_cut() -> None:
    """As Kubernetes writes its times."""
    assert time_text(NEW_YEAR * SECOND_NS + 999_999_999) == "2024-01-01T00:00:00Z"
    assert time_text(-1) == "1969-12-31T23:59:59Z"


def test_what_cannot_be_read_may_count_as_none() -> None:
    assert time_or_none("1970-01-01T00:00:01Z") == SECOND_NS
    assert time_or_none(None) is None
    assert time_or_none("yesterday") is None
