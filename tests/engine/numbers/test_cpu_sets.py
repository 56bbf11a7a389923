"""CPU lists: only how many different CPUs they name matters."""

from __future__ import annotations

import pytest

from jettison.engine.numbers.cpu_sets import count_cpus
from jettison.errors import InputError


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
