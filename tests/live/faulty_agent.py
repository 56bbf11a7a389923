"""Faults of an agent: it kills itself at a deed of its first eviction, or its wall clock is set by a test.

`LiveNode(…, fault="die=3")` dies before the third deed after the decision to evict. With `wall=FILE` the wall clock is
ahead by so many seconds as FILE says.

Deeds are what outlives the process: a record in the journal, a pod's record, a signal.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jettison import clock
from jettison.agent.journal.journal import Journal
from jettison.runtimes.host.pods import record_files
from jettison.runtimes.host.processes.processes import Process


def _die_at(number: int) -> None:
    deeds = -1

    def counted(deed: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal deeds
            is_decision = len(arguments) > 1 and isinstance(arguments[1], dict) and arguments[1].get("evicts")
            if deeds >= 0 or is_decision:
                deeds += 1
            if deeds == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return deed(*arguments, **options)

        return wrapped

    Journal.append = counted(Journal.append)  # type: ignore[method-assign]
    Process.signal = counted(Process.signal)  # type: ignore[method-assign]
    record_files._append = counted(record_files._append)


def _set_clock(path: Path) -> None:
    real = time.time_ns

    def shown() -> int:
        return real() + int(path.read_text() or "0") * 10**9

    time.time_ns = shown
    # As a process reads it that starts now; this one was loaded before.
    clock._BOOT_NS = shown() - time.monotonic_ns()


def break_it(fault: str) -> None:
    """In the process that becomes the agent, before it does."""
    kind, _, value = fault.partition("=")
    _die_at(int(value)) if kind == "die" else _set_clock(Path(value))
