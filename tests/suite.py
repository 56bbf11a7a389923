"""What `make test` runs: linters, types and import contracts beside the tests, which leave a quarter of two cores idle.
`suite.py tests/node -k name` runs a part; all words are pytest's.

make sends SIGTERM on to what it runs, but not SIGINT, of which it assumes that a terminal sends it to all processes; it
only waits. So this program looks at the signals that make handles: the one that ended it is no longer among them. The
tests have a session of their own, which no terminal reaches. So there is one way in which they are told to end, and
they are told once: a second SIGINT would keep them from clearing what they have made.

A few tests that failed are run once more, alone. Live tests drive real processes beside six other workers on two
cores, and one that passes alone has lost a race: the run passes, prints the failure and names the test at its end.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
_LOOK_SECONDS = 0.2
# The tests clear what they have made; what they do not is cleared by their guard when they are killed.
_LEAVE_SECONDS = 120.0
_SET_DEATH_SIGNAL = 1
_TOLD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 130

_TESTS_FAILED = 1
# More than these are no race.
_MOST_TRIED_AGAIN = 5

# Most tests wait for something, so two cores carry seven workers.
_WORKERS = ("--workers", "7")


class Suite:
    """One run; `run` gives the exit code."""

    def __init__(
        self, arguments: Sequence[str], pytest: Sequence[str], check: Sequence[str], workers: Sequence[str] = ()
    ) -> None:
        self._arguments = arguments
        self._pytest = pytest
        self._workers = workers
        self._check = check
        self._is_told = False
        self._raced: Sequence[str] = ()
        self._parent = _Parent(os.getppid())
        # Bytecode of rewritten asserts has to be written, or every run would rewrite them again: 14 s.
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
        }

    def run(self) -> int:
        for each in _TOLD:
            # Also where it is ignored, as in the background of a shell: what a test starts would ignore it as well.
            signal.signal(each, self._hear)
        with tempfile.TemporaryFile() as said:
            checking = self._start(self._check, said, signal.SIGTERM)
            try:
                return self._beside(checking, said)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(checking.pid, signal.SIGTERM)
                checking.wait()

    def _beside(self, checking: subprocess.Popen[bytes], said: IO[bytes]) -> int:
        print("the tests, beside linters, types and import contracts", flush=True)
        code = self._test(checking)
        if code == 0:
            self._wait(checking, lambda: self._is_told, shows_time=True)
        if self._is_told or self._parent.is_ending:
            return _INTERRUPTED
        if code == 0 or _has_failed(checking):
            _show(said)
        for test in self._raced:
            print(f"lost a race: {test} failed beside other tests and passed alone; see its failure above", flush=True)
        return checking.returncode or code

    def _test(self, checking: subprocess.Popen[bytes]) -> int:
        with tempfile.TemporaryDirectory() as cache:
            words = [*self._pytest, "-o", f"cache_dir={cache}"]
            code = self._wait(
                self._start([*words, *self._workers, *self._arguments], None), lambda: _has_failed(checking)
            )
            failed = _failed_tests(Path(cache)) if code == _TESTS_FAILED else []
            if not 0 < len(failed) <= _MOST_TRIED_AGAIN:
                return code
            print(f"once more, alone: {len(failed)} of the tests", flush=True)
            code = self._wait(
                self._start([*words, "--last-failed", *self._arguments], None), lambda: _has_failed(checking)
            )
            self._raced = failed if code == 0 else []
            return code

    def _start(
        self, words: Sequence[str], output: IO[bytes] | None, at_our_death: signal.Signals = signal.SIGINT
    ) -> subprocess.Popen[bytes]:
        libc = ctypes.CDLL(None)
        return subprocess.Popen(
            words,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(_SET_DEATH_SIGNAL, at_our_death, 0, 0, 0),  # noqa: PLW1509  no threads
        )

    def _wait(
        self, process: subprocess.Popen[bytes], is_enough: Callable[[], bool], *, shows_time: bool = False
    ) -> int:
        """Its exit code. It is told to end when this program was, when make was, or when it `is_enough`."""
        looks = 0
        while process.poll() is None:
            if self._is_told or self._parent.is_ending or is_enough():
                return _ended(process)
            time.sleep(_LOOK_SECONDS)
            looks += 1
            if shows_time and looks % round(1 / _LOOK_SECONDS) == 0:
                print(end=".", flush=True)
        if shows_time:
            print(flush=True)
        return process.returncode

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._is_told = True


class _Parent:
    """make, or a shell: whether it is about to end."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._handled = self._handles_interrupts()

    @property
    def is_ending(self) -> bool:
        """Dead, or told to end by a SIGINT that it handled before."""
        return os.getppid() != self._pid or (self._handled and not self._handles_interrupts())

    def _handles_interrupts(self) -> bool:
        try:
            status = Path(f"/proc/{self._pid}/status").read_text()
        except OSError:
            return False
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (signal.SIGINT - 1) & 1)


def _failed_tests(cache: Path) -> list[str]:
    """As pytest's own cache has them."""
    return sorted(json.loads((cache / "v/cache/lastfailed").read_text()))


def _show(said: IO[bytes]) -> None:
    said.seek(0)
    sys.stdout.buffer.write(said.read())
    sys.stdout.flush()


def _has_failed(process: subprocess.Popen[bytes]) -> bool:
    return bool(process.poll())


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Told once, and waited for."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return _INTERRUPTED


if __name__ == "__main__":
    pytest = [sys.executable, "-m", "pytest"]
    check = [os.environ.get("MAKE", "make"), "--no-print-directory", "check"]
    sys.exit(Suite(sys.argv[1:], pytest, check, _WORKERS).run())
