"""No budget is ever exceeded, whatever the number of clients; `tests/soak.py` does the same with more of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.budgets import evict_in_a_crowd


@pytest.mark.timeout(300)
def test_no_budget_is_ever_exceeded(tmp_path: Path) -> None:
    tally = evict_in_a_crowd(tmp_path / "state", kills=3, each=20)
    tally.verify()
    assert tally.seen["refusals"], "all clients were allowed everything"
