"""The agent is killed at any moment; `tests/soak.py` does the same hundreds of times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.agent_kills import kill_during_grace, kill_under_pressure

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(300),
]


def test_nothing_is_lost_over_crashes_under_pressure(tmp_path: Path) -> None:
    """No orphan process, no lost record, no pod evicted twice, and the bystander lives on."""
    tally = kill_under_pressure(tmp_path, seed=50, kills=8)
    tally.verify()
    assert tally.seen["evictions"] >= 2, "the crashes came too fast to see evictions"


def test_a_restart_during_an_eviction_takes_no_second_victim(tmp_path: Path) -> None:
    """And the grace period does not begin again, and its end is on record once."""
    tally = kill_during_grace(tmp_path, seed=9, rounds=2)
    tally.verify()
    assert tally.seen["evictions"] == 2
