"""What children do that `test_aside` has started."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

import msgspec

from jettison.runtimes.linux.aside_child import MessageChannel


def echo(channel: MessageChannel) -> None:
    """Every message back."""
    while message := channel.receive():
        channel.send(message)


def describe(channel: MessageChannel) -> None:
    """What a child has inherited."""
    channel.receive()
    own = Path("/proc/self")
    status = dict(line.split(":\t") for line in (own / "status").read_text().splitlines())
    told = {
        "pid": os.getpid(),
        "descriptors": sorted(str(each.readlink()) for each in list((own / "fd").iterdir()) if each.exists()),
        "blocked": int(status["SigBlk"], 16),
        "ignored": int(status["SigIgn"], 16),
        "locked": status["VmLck"],
        "oom": (own / "oom_score_adj").read_text().strip(),
        "policy": os.sched_getscheduler(0),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "memory": resource.getrlimit(resource.RLIMIT_AS)[1],
        "seconds": resource.getrlimit(resource.RLIMIT_CPU)[0],
        "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
        "site": "site" in sys.modules,
    }
    channel.send(msgspec.json.encode(told))


def sleep(channel: MessageChannel) -> None:
    """Never an answer."""
    channel.receive()
    time.sleep(60)


def be_killed(channel: MessageChannel) -> None:
    """As by the kernel, for want of memory."""
    channel.receive()
    os.kill(os.getpid(), signal.SIGKILL)


def fail(channel: MessageChannel) -> None:
    """A mistake of ours."""
    raise KeyError(channel.receive())
