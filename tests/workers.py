"""Several tests at once: `pytest --workers 5`. One process collects the tests, and forks workers that have them all.

Each worker is given the tests of one file at a time, because those share servers. It is told the next file before it
runs the last test of this one: pytest keeps what the next test uses as well. Reports come back to the process that has
collected, and are counted and printed there.

pytest-xdist starts interpreters instead, each of which collects again: 7 s of processor time per worker here, which is
34 s of a run, and as much memory each.
"""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from collections import deque
from collections.abc import Sequence
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest

NAME_VARIABLE = "JETTISON_TEST_WORKER"
"""The worker's own name, in its environment."""

_WANTS, _BEGAN, _REPORT = "wants", "began", "report"
_SET_DEATH_SIGNAL = 1
# Files and folders that are collected for each dot.
_DOT_AT = 20


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, help="run tests in so many processes, a file in one [0: in this]"
    )


class _Worker:
    """What the collecting process knows of one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # Numbers of tests that it was given and has not begun, and of the one that it runs.
        self.given: deque[int] = deque()
        self.runs: int | None = None


class Workers:
    """The plugin, in the process that collects."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._names = 0
        self._collected = 0
        self._files: deque[list[int]] = deque()
        self._alive: dict[Connection, _Worker] = {}

    def pytest_collectreport(self) -> None:
        """A dot now and then: to collect all tests takes some seconds."""
        self._collected += 1
        if self._collected % _DOT_AT == 0:
            print(end=".", flush=True)

    def pytest_collection_finish(self) -> None:
        print(flush=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Instead of pytest's own loop, which has nothing to do after a failed collection either."""
        if session.config.option.collectonly or session.testsfailed:
            return None
        files = groupby(range(len(session.items)), lambda number: session.items[number].path)
        self._files = deque(list(numbers) for _, numbers in files)
        try:
            for _ in range(min(self._count, len(self._files))):
                self._fork(session)
            while self._alive:
                for connection in wait(list(self._alive)):
                    assert isinstance(connection, Connection)
                    self._hear(session, connection)
        finally:
            self._end()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _fork(self, session: pytest.Session) -> None:
        self._names += 1
        # Its directory is below ours, which therefore has to be there.
        directory = session.config._tmp_path_factory.getbasetemp() / f"worker-{self._names}"  # type: ignore[attr-defined]
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for connection in (ours, *self._alive):
                connection.close()
            os.environ[NAME_VARIABLE] = f"w{self._names}"
            session.config._tmp_path_factory._given_basetemp = directory  # type: ignore[attr-defined]
            session.config._tmp_path_factory._basetemp = None  # type: ignore[attr-defined]
            _work(session, theirs)
        theirs.close()
        self._alive[ours] = _Worker(pid)

    def _hear(self, session: pytest.Session, connection: Connection) -> None:
        worker = self._alive[connection]
        try:
            kind, value = connection.recv()
        except (EOFError, ConnectionResetError):
            self._bury(session, connection)
            return
        if kind == _WANTS:
            is_enough = session.shouldfail or session.shouldstop or not self._files
            file = [] if is_enough else self._files.popleft()
            worker.given.extend(file)
            connection.send(file)
        elif kind == _BEGAN:
            worker.runs = worker.given.popleft()
        else:
            hook = session.config.hook
            report = hook.pytest_report_from_serializable(config=session.config, data=value)
            hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                worker.runs = None
                hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def _bury(self, session: pytest.Session, connection: Connection) -> None:
        """It has ended: because there was nothing left, or in the middle of a test. Then another one takes the rest."""
        worker = self._alive.pop(connection)
        connection.close()
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.runs is not None:
            self._tell(session, session.items[worker.runs], code)
        if worker.given:
            self._files.appendleft(list(worker.given))
            if not (session.shouldfail or session.shouldstop):
                self._fork(session)

    def _tell(self, session: pytest.Session, item: pytest.Item, code: int) -> None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"the worker ended with {how} while it ran this test", "call"
        )
        session.config.hook.pytest_runtest_logreport(report=report)
        session.config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _end(self) -> None:
        """Those that are left, when this run is interrupted: they clear what their tests have made."""
        for worker in self._alive.values():
            os.kill(worker.pid, signal.SIGINT)
        for connection, worker in self._alive.items():
            connection.close()
            os.waitpid(worker.pid, 0)
        self._alive.clear()


class _Reports:
    """The plugin of a worker."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send it to the process that counts."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send((_REPORT, data))


def _work(session: pytest.Session, connection: Connection) -> NoReturn:
    """All that a worker does."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    code = 1
    try:
        _become_worker(session.config, connection)
        _run_tests(session.items, connection)
        code = 0
    except KeyboardInterrupt:
        # A second one would keep the tests from clearing what they have made.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except Exception:  # noqa: BLE001  a mistake of a plugin or of this module
        traceback.print_exc()
    finally:
        try:
            session.config.hook.pytest_sessionfinish(session=session, exitstatus=code)
        finally:
            os._exit(code)


def _become_worker(config: Any, connection: Connection) -> None:
    # By this attribute plugins know that another process reports and keeps the cache.
    config.workerinput = {}
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(_Reports(config, connection))
    # The file into which output is captured is shared with all other workers until here.
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()


def _run_tests(items: Sequence[pytest.Item], connection: Connection) -> None:
    waiting = deque(_asked(connection))
    while waiting:
        item = items[waiting.popleft()]
        # The last of a file waits for its successor, and the last of all for the word that there is none.
        if not waiting:
            waiting.extend(_asked(connection))
        connection.send((_BEGAN, None))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=items[waiting[0]] if waiting else None)


def _asked(connection: Connection) -> list[int]:
    connection.send((_WANTS, None))
    found: list[int] = connection.recv()
    return found
