"""The frame of a process that stays: a log, three signals, and work that goes on until it is told to end.

SIGINT and SIGTERM end it. SIGHUP reloads what can be reloaded, and never ends it: a terminal that is closed is no
reason to leave a node unguarded. Where SIGHUP is ignored at the start, as nohup has it, it stays ignored.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TextIO

from jettison import events
from jettison.agent.sinks.log import LogSink
from jettison.clock import SystemClock
from jettison.errors import ApiError, JettisonError, RuntimeFailure
from jettison.node.process.entry import SIGNALS

if TYPE_CHECKING:
    from jettison.runtimes.kube.client import KubeClient

Work = Callable[[LogSink], Coroutine[Any, Any, None]]
Reload = Callable[[], Coroutine[Any, Any, None]]
Tell = Callable[[str], None]

_LOOK_FOR_GARBAGE_AT: Final = 10_000
_KNOCK_SECONDS: Final = 2.0
# What is loaded by others when they first need it.
_LATE: Final = ("importlib.readers", "encodings.ascii", "encodings.idna")
# What a module that logs something does, in words that operators know. The first that fits counts.
_DOINGS: Final = (
    ("jettison.runtimes.kube.leases", "hold a lease"),
    ("jettison.runtimes.kube", "follow the API"),
    ("jettison.controllers", "reconcile"),
    ("jettison.apiserver", "serve the API"),
)


def until_told(work: Work, *, is_verbose: bool = False, reload: Reload | None = None) -> None:
    """Do it until SIGINT or SIGTERM; raises what it raises. `reload` is what SIGHUP asks for."""
    with log_of_this_process(is_verbose=is_verbose) as log:
        asyncio.run(_until_told(work(log), reload or partial(nothing_to_reload, log)))


def calm_garbage_collector() -> None:
    """To be called when everything is loaded, by a process that holds objects of an API. Modules stay loaded, and such
    objects are in no reference cycles, so there is little to collect: a collection per 700 new objects, the default,
    costs the API server a tenth of all time, and the controllers, whose caches it walks, a sixth.
    """
    gc.freeze()
    gc.set_threshold(_LOOK_FOR_GARBAGE_AT)


async def knock(client: KubeClient) -> str:
    """The first request loads code, whether it is answered or not; that must not happen once an agent is ready.

    Returns the version of the API; empty where it does not answer.
    """
    version = ""
    with suppress(ApiError, RuntimeFailure, TimeoutError):
        async with asyncio.timeout(_KNOCK_SECONDS):
            version = str((await client.request("GET", "/version")).get("gitVersion", ""))
    for name in _LATE:
        import_module(name)
    return version


@contextmanager
def log_of_this_process(*, is_verbose: bool = False) -> Iterator[LogSink]:
    """On standard error, for facts and for whatever else is logged."""
    log = LogSink(sys.stderr.fileno(), is_verbose=is_verbose)
    lines = _LogLines(log)
    logging.getLogger().addHandler(lines)
    # Of other packages only what is a warning at least.
    logging.getLogger("jettison").setLevel(logging.INFO)
    try:
        yield log
    finally:
        logging.getLogger().removeHandler(lines)
        log.close()


def greet(line: str, stream: TextIO) -> None:
    """Print it for the reader of standard output, and go on where there is none."""
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        # Or the interpreter would try once more when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _LogLines(logging.Handler):
    """What the parts that talk to an API have to say goes to the same log, which waits for no reader."""

    def __init__(self, log: LogSink) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line, with its traceback where there is one."""
        made = events.Noted if record.levelno < logging.WARNING else events.ActionFailed
        what = next((words for module, words in _DOINGS if record.name.startswith(module)), record.name)
        self._log.take(made(what, self.format(record)), SystemClock().now_ns())


class Hangups:
    """SIGHUP as long as it is followed: one reload at a time, and one more for all that came meanwhile."""

    def __init__(self, reload: Reload) -> None:
        self._reload = reload
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def follow(self) -> None:
        """From now on. Where the signal is ignored it stays so."""
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            return
        self._task = asyncio.create_task(self._run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._asked.set)

    def end(self) -> None:
        """It is too late to change anything; the signal still ends nothing."""
        if self._task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._reload()


async def started(run: Callable[[Callable[[], None]], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    """The task of `run`, once it has called what it was given; raises what it raised before that."""
    ready = asyncio.Event()
    running, waiting = asyncio.create_task(run(ready.set)), asyncio.create_task(ready.wait())
    try:
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not ready.is_set():
            await ended(running)
            raise JettisonError("it ended before it was ready")
    except BaseException:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        raise
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    return running


async def ended(running: asyncio.Task[None]) -> None:
    """Cancel it, wait, and raise what it raised by itself."""
    running.cancel()
    await asyncio.wait((running,))
    if not running.cancelled():
        running.result()


async def nothing_to_reload(log: LogSink) -> None:
    """For a command all of whose options are on its command line."""
    log.take(events.Reloaded(), SystemClock().now_ns())


async def _until_told(work: Coroutine[Any, Any, None], reload: Reload) -> None:
    running = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    hangups = Hangups(reload)

    def stop() -> None:
        # Once: to be told again while it tidies up must not make a mess.
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, lambda: None)
        hangups.end()
        running.cancel()

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    hangups.follow()
    # What came while the program executed itself again has waited until here (`handover`).
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
    finally:
        hangups.end()
