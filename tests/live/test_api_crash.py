"""The API server is killed at any moment of a write load; `tests/soak.py` does the same hundreds of times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.server_kills import kill_under_load

KILLS = 15
# One start after another: 4 s each on a busy machine.
pytestmark = pytest.mark.timeout(300)


def test_acknowledged_writes_survive_sigkills(tmp_path: Path) -> None:
    tally = kill_under_load(tmp_path / "state", seed=100, kills=KILLS)
    tally.verify()
    assert tally.seen["pods acknowledged"] > 5 * KILLS
