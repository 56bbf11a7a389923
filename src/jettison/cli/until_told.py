"""The frame of every command that stays: a log, two signals, and words for what went wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from jettison import events
from jettison.agent.safe_text import printable
from jettison.agent.sinks.log import LogSink
from jettison.clock import SystemClock
from jettison.errors import JettisonError

Work = Callable[[LogSink], Coroutine[Any, Any, None]]


def until_told(work: Work, *, is_verbose: bool = False) -> int:
    """Do it until SIGINT or SIGTERM; the exit code."""
    with log_of_this_process(is_verbose=is_verbose) as log:
        try:
            asyncio.run(_until_told(work(log)))
        except JettisonError as error:
            print(printable(f"error: {error}"), file=sys.stderr)
            return error.exit_code
    return 0


@contextmanager
def log_of_this_process(*, is_verbose: bool = False) -> Iterator[LogSink]:
    """On standard error, for facts and for whatever else is logged."""
    log = LogSink(sys.stderr.fileno(), is_verbose=is_verbose)
    lines = _LogLines(log)
    logging.getLogger().addHandler(lines)
    try:
        yield log
    finally:
        logging.getLogger().removeHandler(lines)
        log.close()


def greet(line: str, stream: TextIO) -> None:
    """Say it to whoever reads the first words of a service; it goes on where nobody does."""
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        # Or the interpreter would try once more when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _LogLines(logging.Handler):
    """What the parts that talk to an API have to say goes to the same log, which waits for no reader."""

    def __init__(self, log: LogSink) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line, with its traceback where there is one."""
        self._log.take(events.ActionFailed(record.name, self.format(record)), SystemClock().now_ns())


async def _until_told(work: Coroutine[Any, Any, None]) -> None:
    running = asyncio.create_task(work)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        # Once: to be told again while it tidies up must not make a mess.
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, lambda: None)
        running.cancel()

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    try:
        await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
