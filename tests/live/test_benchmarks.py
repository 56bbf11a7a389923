"""Benchmarks that drive whole programs still come to their rows. What the rows say is for a quiet machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    ("words", "row"),
    [
        ("reaction.py --runs 1 --neighbours 1", r"^jettison +1 +\d"),
        ("watchers.py --watchers 20 --pods 20 --writes 200", r"^writes a second +\d"),
        ("start.py --starts 1", r"^relieve +0\.\d"),
    ],
)
def test_a_benchmark_measures_something(words: str, row: str) -> None:
    name, *options = words.split()
    command = [sys.executable, str(BENCHMARKS / name), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "skipped, needs root" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert re.search(row, done.stdout, re.MULTILINE), done.stdout + done.stderr
