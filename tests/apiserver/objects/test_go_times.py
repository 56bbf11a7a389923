"""What is no time, in the words of Go's reader."""

from __future__ import annotations

import pytest

from jettison.apiserver.objects.go_times import LAYOUT, MICRO_LAYOUT, time_complaint

UNREAD = f'as "{LAYOUT}": cannot parse'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", f'parsing time "" {UNREAD} "" as "2006"'),
        ("x", f'parsing time "x" {UNREAD} "x" as "2006"'),
        ("2024-01-01", f'parsing time "2024-01-01" {UNREAD} "" as "T"'),
        ("2024-1-01T00:00:00Z", f'parsing time "2024-1-01T00:00:00Z" {UNREAD} "1-01T00:00:00Z" as "01"'),
        ("2024-01-01 00:00:00Z", f'parsing time "2024-01-01 00:00:00Z" {UNREAD} " 00:00:00Z" as "T"'),
        ("2024-01-01T00:00:00", f'parsing time "2024-01-01T00:00:00" {UNREAD} "" as "Z07:00"'),
        ("2024-01-01T00:00:00+1:00", f'parsing time "2024-01-01T00:00:00+1:00" {UNREAD} "+1:00" as "Z07:00"'),
        ("2024-13-01T00:00:00Z", 'parsing time "2024-13-01T00:00:00Z": month out of range'),
        ("2024-00-01T00:00:00Z", 'parsing time "2024-00-01T00:00:00Z": month out of range'),
        ("2023-02-29T00:00:00Z", 'parsing time "2023-02-29T00:00:00Z": day out of range'),
        ("2024-01-01T24:00:00Z", 'parsing time "2024-01-01T24:00:00Z": hour out of range'),
        ("2024-01-01T00:60:00Z", 'parsing time "2024-01-01T00:60:00Z": minute out of range'),
        ("2024-01-01T00:00:00+25:00", 'parsing time "2024-01-01T00:00:00+25:00": time zone offset hour out of range'),
        ("2024-01-01T00:00:00Zé", 'parsing time "2024-01-01T00:00:00Z\\xc3\\xa9": extra text: "\\xc3\\xa9"'),
        ("2024-02-29T00:00:00.5Z", ""),
    ],
)
def test_what_is_said_of_it(text: str, complaint: str) -> None:
    assert time_complaint(text) == complaint


@pytest.mark.parametrize("rest", ["Z", ".123Z"])
def test_where_microseconds_belong(rest: str) -> None:
    text = f"2024-01-01T00:00:00{rest}"
    expected = f'parsing time "{text}" as "{MICRO_LAYOUT}": cannot parse "{rest}" as ".000000"'
    assert time_complaint(text, MICRO_LAYOUT) == expected
    assert not time_complaint("2024-01-01T00:00:00.123456Z", MICRO_LAYOUT)
