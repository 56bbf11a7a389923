"""Two hypothesis profiles: `fixed` (the default) draws the same examples in every run, `explore` draws new ones.

A failure that shows up in one run of ten is no help in continuous integration, so chance is switched off there.
To look for trouble on purpose: `pytest --hypothesis-profile=explore`.
"""

from __future__ import annotations

import gc
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import janitor, workers

# A background job of a shell ignores SIGINT and one of nohup SIGHUP; so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# While the tests are collected hardly anything becomes garbage, and looking for it takes a quarter of the time.
gc.disable()

# Files and folders that take longest, longest first: a worker that begins one of them last keeps all others waiting.
_FIRST = (
    "live/test_guest_node.py",
    "live/test_crash.py",
    "controllers/scheduler/test_scheduler.py",
    "cli/cluster/test_serve.py",
    "runtimes/host/test_supervisor.py",
    "membership/test_member.py",
    "live/",
    # These wait most of the time, so what needs a processor comes beside and behind them.
    "runtimes/",
    "maintenance/",
    "oracle/test_api_controllers.py",
    "simulator/",
    "controllers/",
    "cli/",
    "apiserver/",
    "agent/journal/test_records.py",
    "test_",
)

# No deadline per example: it would be wall-clock time, which on a busy machine says nothing. Hangs end by timeout.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile("fixed")


_RUN = pytest.StashKey[janitor.Run]()
_LEFT = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    workers.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Before workers start, which inherit the name of the run."""
    stack = ExitStack()
    config.stash[_RUN] = stack.enter_context(janitor.watched_run())
    config.add_cleanup(stack.close)
    if config.option.workers:
        config.pluginmanager.register(workers.Workers(config.option.workers))


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """What tests left behind is cleared and told. It fails no run: an agent that a test kills leaves its cgroup."""
    if "tests.live.quick_start" in sys.modules:
        sys.modules["tests.live.quick_start"].leave()
    if not _is_worker(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.config.stash[_LEFT] = session.config.stash[_RUN].settle()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_LEFT, []):
        terminalreporter.write_line(f"left behind by a test, and cleared: {line}", red=True)


@pytest.fixture(scope="session", autouse=True)
def _owned_directory(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    """Mounts and loop devices below are the run's. A worker's directory lies in that of the run."""
    directory = tmp_path_factory.getbasetemp()
    janitor.own(directory.parent if _is_worker(pytestconfig) else directory)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; within a file the order stays."""
    here = Path(__file__).parent

    @cache
    def place(path: Path) -> int:
        name = str(path.relative_to(here))
        return next((number for number, begin in enumerate(_FIRST) if name.startswith(begin)), len(_FIRST))

    items.sort(key=lambda item: place(item.path))


def pytest_collection_finish() -> None:
    """What was collected stays, so nothing has to look through it again; and rarely, for workers live for minutes."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that every user may enter, which no `tmp_path` is."""
    with tempfile.TemporaryDirectory(prefix="jettison-public-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
