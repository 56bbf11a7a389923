"""No command line ends in a traceback; `tests/soak.py` tries thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.command_lines import run_random_commands


@pytest.mark.timeout(600)
def test_no_command_line_ends_in_a_traceback(tmp_path: Path) -> None:
    tally = run_random_commands(tmp_path, seed=12, count=200)
    tally.verify()
    assert tally.seen["exit 0"] < 100, "most of them are refused"
