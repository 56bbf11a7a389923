"""A suite that is interrupted leaves nothing behind, and touches nothing that is not its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import janitor, mess

PATIENCE = 180.0
ROOT = Path(__file__).parent.parent


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)


def a_suite(*arguments: str, test: str = "test_makes_a_mess") -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"tests/mess.py::{test}", *arguments]


@contextmanager
def interrupted_half_way(tmp_path: Path, *command: str) -> Iterator[tuple[subprocess.Popen[bytes], janitor.Run]]:
    """A suite whose only test has made its mess, and now sleeps; what this process is comes with its run."""
    ready, log = tmp_path / "ready", tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env=os.environ | {mess.READY_VARIABLE: str(ready)},
            start_new_session=True,
        )
    run = janitor.Run("none", Path(tempfile.gettempdir()))
    try:
        until(lambda: ready.exists() or process.poll() is not None, "the mess")
        assert process.poll() is None, log.read_text()
        run = janitor.Run(ready.read_text(), run.root)
        assert {line.split(" ")[0] for line in run.leftovers()} >= {kind.split(" ")[0] for kind in mess.kinds()}
        yield process, run
    finally:
        process.kill()
        process.wait()
        run.clear()


def guard_of(run: janitor.Run) -> int:
    """The process that waits for the death of the run."""
    wanted = b"\0".join((b"janitor.py", run.name.encode()))
    lines = Path("/proc").glob("[0-9]*/cmdline")
    return next(int(path.parent.name) for path in lines if wanted in path.read_bytes())


@pytest.mark.parametrize(
    ("how", "workers"),
    [(signal.SIGINT, "1"), (signal.SIGTERM, "0"), (signal.SIGKILL, "1")],
    ids=["SIGINT", "SIGTERM, without workers", "SIGKILL"],
)
def test_nothing_stays_when_a_suite_is_interrupted(how: signal.Signals, workers: str, tmp_path: Path) -> None:
    with interrupted_half_way(tmp_path, *a_suite("--workers", workers)) as (process, run):
        process.send_signal(how)
        process.wait(PATIENCE)
        until(lambda: not run.leftovers() and not run.directory.exists(), "the guard to clear")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_make_alone_ends_what_it_runs(how: signal.Signals, tmp_path: Path) -> None:
    """make keeps SIGINT to itself, and SIGKILL in any case."""
    # The program gives the tests a cache of their own, so they must have one.
    words = [word for word in a_suite("--workers", "0") if word not in ("-p", "no:cacheprovider")]
    recipe = f"exec env MAKE=true {words[0]} tests/suite.py {' '.join(words[3:])}"
    (tmp_path / "Makefile").write_text(f"test:\n\t@{recipe}\n")
    with interrupted_half_way(tmp_path, "make", "--file", str(tmp_path / "Makefile")) as (make, run):
        make.send_signal(how)
        assert make.wait(PATIENCE) == -how
        until(lambda: not run.leftovers() and not run.directory.exists(), "the suite to clear")
        until(lambda: not janitor.is_alive(run.name), "the suite to end")


def test_the_next_start_clears_what_a_dead_run_has_left_and_nothing_of_one_that_is_alive(tmp_path: Path) -> None:
    """Where the guard was killed together with its run."""
    with interrupted_half_way(tmp_path, *a_suite("--workers", "0")) as (process, run):
        made = run.leftovers()
        janitor.clear_after_the_dead(run.root)
        assert run.leftovers() == made
        assert process.poll() is None
        os.kill(guard_of(run), signal.SIGKILL)
        process.kill()
        process.wait()
        assert run.leftovers() == made
        subprocess.run(a_suite("--collect-only"), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        assert run.leftovers() == []
        assert not run.directory.exists()


def test_only_what_carries_the_name_of_the_run_is_of_it(tmp_path: Path) -> None:
    """Neither a process that works in its directory, as a shell that looks at a failed test does, nor a namesake."""
    run = janitor.Run("1-1", tmp_path)
    run.directory.mkdir()
    for variables in ({"PWD": str(run.directory)}, {janitor.RUN_VARIABLE: "1-11"}, {"HOME": f"{run.directory}1/x"}):
        with subprocess.Popen([mess.SLEEP, "60"], cwd=run.directory, env=variables) as other:
            assert run.leftovers() == []
            run.clear()
            assert other.poll() is None
            other.kill()
        run.directory.mkdir(exist_ok=True)


def test_a_process_that_a_test_leaves_is_ended_and_named() -> None:
    done = subprocess.run(
        a_suite("--workers", "0", test="test_leaves_a_process"),
        cwd=ROOT,
        env=os.environ | {janitor.PATIENCE_VARIABLE: "0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "1 passed" in done.stdout
    assert re.search(rf"left behind by a test, and cleared: process \d+: {mess.SLEEP} 604\n", done.stdout)
