"""The frame of every command that stays: a log, two signals, and words for what went wrong."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from jettison import events
from jettison.agent.safe_text import printable
from jettison.agent.sinks.log import LogSink
from jettison.clock import SystemClock
from jettison.errors import JettisonError

Work = Callable[[LogSink], Coroutine[Any, Any, None]]


def until_told(work: Work, *, is_verbose: bool) -> int:
    """Do it until SIGINT or SIGTERM; the exit code."""
    log = LogSink(sys.stderr.fileno(), is_verbose=is_verbose)
    lines = _LogLines(log)
    logging.getLogger().addHandler(lines)
    try:
        asyncio.run(_until_told(work(log)))
    except JettisonError as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return error.exit_code
    finally:
        logging.getLogger().removeHandler(lines)
        log.close()
    return 0


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
