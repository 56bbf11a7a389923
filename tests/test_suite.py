"""What `make test` makes of linters and tests that fail; signals to it are tested in `test_janitor.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def a_run(tests: Sequence[str], check: Sequence[str] = ("true",)) -> subprocess.CompletedProcess[str]:
    code = f"import sys; from tests.suite import Suite; sys.exit(Suite((), {tests!r}, {check!r}).run())"
    # Plugins that are not asked for take most of the time of so small a run.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    words = [sys.executable, "-c", code]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def pytest_over(directory: Path, *functions: str) -> list[str]:
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_here.py").write_text("\n".join(("import pathlib", *functions)))
    settings = ("--rootdir", str(directory), "-c", str(directory / "pytest.ini"))
    return [sys.executable, "-m", "pytest", *settings, str(directory)]


def a_race(directory: Path, number: int) -> str:
    """Lost the first time only."""
    mark = str(directory / f"tried-{number}")
    lines = (f"mark = pathlib.Path({mark!r})", "was = mark.exists()", "mark.touch()", "assert was")
    return f"def test_race_{number}():\n" + "".join(f"    {line}\n" for line in lines)


def test_linters_that_fail_end_the_tests() -> None:
    """They run beside each other, and a mistake is told at once."""
    done = a_run(["sh", "-c", "exec sleep 600"], ["sh", "-c", "echo what is wrong; exit 3"])
    assert done.returncode == 3
    assert done.stdout.endswith("what is wrong\n")


def test_a_race_that_is_lost_once_is_told(tmp_path: Path) -> None:
    done = a_run(pytest_over(tmp_path, a_race(tmp_path, 0), "def test_sound():\n    pass\n"))

    assert done.returncode == 0, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "lost a race: test_here.py::test_race_0 failed beside other tests and passed alone" in done.stdout
    assert "test_sound" not in done.stdout.rpartition("lost a race")[2]


@pytest.mark.parametrize("races", [1, 6])
def test_a_test_that_fails_twice_or_among_many_fails_the_run(tmp_path: Path, races: int) -> None:
    """Six failures at once are no race, also when they would pass alone."""
    broken = [] if races > 1 else ["def test_broken():\n    assert False\n"]
    done = a_run(pytest_over(tmp_path, *broken, *(a_race(tmp_path, number) for number in range(races))))

    assert done.returncode == 1, done.stdout
    assert "lost a race" not in done.stdout
