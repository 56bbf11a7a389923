"""Tests that run in several processes are reported as if they ran in one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_CONFTEST = """
import time
import pytest
from tests import workers
pytest_addoption = workers.add_option

def pytest_configure(config):
    config.pluginmanager.register(workers.Workers(config.option.workers))

@pytest.fixture(scope="session")
def server(tmp_path_factory, pytestconfig):
    made = tmp_path_factory.mktemp("server")
    # Each worker has a test by now, and waits for the slowest to begin: it would find no test left.
    run = made.parent.parent
    while len(list(run.glob("*/server0"))) < pytestconfig.option.workers:
        time.sleep(0.01)
    yield made
    with open(SAID, "a") as file:
        file.write("closed ")
"""


def a_run(directory: Path, workers: int, *arguments: str, **files: str) -> tuple[int, str]:
    """The exit code and what was printed."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "conftest.py").write_text(_CONFTEST.replace("SAID", repr(str(directory / "said"))))
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(f"import os, signal\n{text}")
    settings = ("--rootdir", str(directory), "-c", str(directory / "pytest.ini"), "-p", "no:cacheprovider")
    words = [sys.executable, "-m", "pytest", *settings, "--workers", str(workers), *arguments, str(directory)]
    # Plugins that are not asked for take most of the time of so small a run.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_what_failed_is_told_with_what_it_printed(tmp_path: Path) -> None:
    code, said = a_run(
        tmp_path,
        2,
        first="def test_sound():\n    print('not told')\n",
        second="def test_broken():\n    print('of the second')\n    assert os.getpid() == 0\n",
        third="import pytest\ndef test_left_out():\n    pytest.skip('not here')\n",
    )
    assert code == 1
    assert "1 failed, 1 passed, 1 skipped" in said
    assert "of the second" in said
    assert "not told" not in said


def test_what_files_share_stays_until_the_last_of_them(tmp_path: Path) -> None:
    """One worker has one of each fixture of the session, and closes it once."""
    files = {f"file_{number}": "def test_it(server):\n    assert server.is_dir()\n" for number in range(5)}
    code, said = a_run(tmp_path, 1, **files)
    assert (code, (tmp_path / "said").read_text()) == (0, "closed "), said
    (tmp_path / "said").unlink()
    code, said = a_run(tmp_path, 3, **files)
    assert (code, (tmp_path / "said").read_text()) == (0, "closed " * 3), said
    assert "5 passed" in said


def test_a_worker_that_dies_takes_one_test_along(tmp_path: Path) -> None:
    """The rest of its file, and the file that it had been told, are run by another."""
    dies = "os.kill(os.getpid(), signal.SIGKILL)"
    tests = [f"def test_{number}():\n    {dies if number == 1 else 'pass'}\n" for number in range(4)]
    code, said = a_run(tmp_path, 1, first="".join(tests), second="def test_it():\n    pass\n")
    assert code == 1
    assert "1 failed, 4 passed" in said
    assert "the worker ended with signal SIGKILL while it ran this test" in said


def test_the_first_failure_ends_the_run_where_that_is_asked_for(tmp_path: Path) -> None:
    files = {f"file_{number}": "def test_it():\n    assert False\n" for number in range(20)}
    code, said = a_run(tmp_path, 2, "--maxfail", "1", **files)
    assert code == 1
    assert "failures !!!" in said
    assert "20 failed" not in said


def test_tests_that_cannot_be_collected_are_told(tmp_path: Path) -> None:
    code, said = a_run(tmp_path, 2, first="import there_is_no_such_module\n", second="def test_it():\n    pass\n")
    assert code == 2
    assert "there_is_no_such_module" in said
