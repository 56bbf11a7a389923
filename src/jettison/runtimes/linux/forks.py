"""A copy of this process that no signal reaches."""

from __future__ import annotations

import os
import signal
import warnings


def fork_quietly() -> int:
    """As `os.fork`. In the child every signal that can be stays blocked.

    It still has our handlers: Python's would write into the pipe by which this event loop learns of its own signals,
    and the agent would believe that it was told to stop.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = -1
    try:
        with warnings.catch_warnings():
            # From 3.12 on Python warns of a fork beside threads, which matters to a child that takes a lock of theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    finally:
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid
