"""One line per fact on a descriptor: logfmt for people at a terminal, JSON for everything else.

A log must never block a starving node. Its reader may have stopped (a full pipe, a terminal on Ctrl-S), and a blocking
write would then never return. So lines go into a bounded buffer, what the descriptor takes at once is
written, the rest is tried again every second, and what does not fit any more is dropped, counted, and said as soon as
there is room again.

The descriptor is usually shared with a shell or a parent. To make it non-blocking would make it so for them as well,
so it is opened anew through /proc, which gives us an open file of our own. A socket cannot be opened that way; it has
a flag for each write instead. A file on a disk is never waited for, and it must not be opened anew: with a position of
our own we would overwrite what others say there, and they what we say.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import stat
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from jettison import events
from jettison.agent.fact_values import name_of, value_pairs, values_of, with_amounts
from jettison.clock import SystemClock
from jettison.engine.node import facts
from jettison.engine.node.signals import Signal
from jettison.events import Fact
from jettison.manifests.times import milli_time_text

BUFFER_BYTES = 256 * 1024

RETRY_SECONDS = 1.0
"""How often what waits for its reader is tried again when nothing else happens."""

DEBUG, INFO, WARNING, ERROR = "debug", "info", "warning", "error"

# What is not here is worth knowing and no more.
_LEVELS: Mapping[type[Fact], str] = {
    events.AlarmRaised: DEBUG,
    facts.PodsRanked: DEBUG,
    facts.ThresholdCrossed: WARNING,
    facts.ThresholdMet: WARNING,
    facts.ReclaimAttempted: WARNING,
    facts.CriticalPodSpared: WARNING,
    facts.NothingToEvict: ERROR,
    facts.GraceCutShort: WARNING,
    events.EvictionStarted: WARNING,
    events.WouldEvict: WARNING,
    events.EvictionTimedOut: ERROR,
    events.EvictionWithdrawn: WARNING,
    events.PodEndSeen: WARNING,
    events.PodRejected: WARNING,
    events.PodWaiting: WARNING,
    events.RestartNeeded: WARNING,
    events.ReloadFailed: ERROR,
    events.ContainerBackOff: WARNING,
    events.ProbeFailed: WARNING,
    events.HookFailed: WARNING,
    events.OutOfMemoryKill: ERROR,
    events.LimitsRefused: ERROR,
    events.ContainerRuntimeLost: ERROR,
    events.CollectionFailed: ERROR,
    events.BallastGivenUp: WARNING,
    events.KillFailed: ERROR,
    events.ObservationFailed: ERROR,
    events.ActionFailed: ERROR,
}


# A look at a starved node says each time that something is done about it, ten times a second while a pod ends. A
# kubelet looks, and says so, every ten seconds.
_REPEAT_NS = 10 * 10**9


class LogSink:
    """Writes to `descriptor`, which stays its owner's. With `is_verbose` alarms and rankings are logged too."""

    def __init__(
        self,
        descriptor: int = 2,
        *,
        is_verbose: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.dropped = 0
        self._output = _Output(descriptor)
        self._line = _logfmt if os.isatty(descriptor) else _json
        self._is_verbose = is_verbose
        self._buffer_bytes = buffer_bytes
        self._retry_seconds = retry_seconds
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._unsaid = 0
        # By node and signal: when it was last said that something is done about it.
        self._attempts: dict[tuple[str, Signal], int] = {}
        self._retry: asyncio.TimerHandle | None = None

    def take(self, fact: Fact, time_ns: int, node: str = "") -> None:
        """Log it, now or when the reader wakes up. `node` is said where one log is that of several."""
        level = DEBUG if self._is_repeated(fact, time_ns, node) else _LEVELS.get(type(fact), INFO)
        if level != DEBUG or self._is_verbose:
            values = values_of(fact)
            self._add(self._line(time_ns, level, name_of(fact), {"node": node, **values} if node else values))
        self.flush(time_ns)

    def _is_repeated(self, fact: Fact, time_ns: int, node: str) -> bool:
        if isinstance(fact, facts.ThresholdMet):
            self._attempts.pop((node, fact.threshold.signal), None)
        if not isinstance(fact, facts.ReclaimAttempted):
            return False
        last = self._attempts.get((node, fact.signal))
        if last is not None and 0 <= time_ns - last < _REPEAT_NS:
            return True
        self._attempts[node, fact.signal] = time_ns
        return False

    def flush(self, time_ns: int) -> None:
        """Write what the reader takes without waiting."""
        self._drain()
        if self._unsaid and not self._waiting:
            count, self._unsaid = self._unsaid, 0
            self._add(self._line(time_ns, WARNING, "log_lines_dropped", {"count": count}))
            self._drain()
        if self._waiting and self._retry is None:
            self._try_again_later()

    def close(self) -> None:
        """One more attempt, then let go of the descriptor."""
        if self._retry is not None:
            self._retry.cancel()
        self._drain()
        self._output.close()

    def _try_again_later(self) -> None:
        """The reader may wake up when nothing happens any more. Without an event loop the next fact has to do."""
        try:
            self._retry = asyncio.get_running_loop().call_later(self._retry_seconds, self._try_again)
        except RuntimeError:
            return

    def _try_again(self) -> None:
        self._retry = None
        self.flush(SystemClock().now_ns())

    def _add(self, line: bytes) -> None:
        if self._waiting_bytes + len(line) > self._buffer_bytes:
            self.dropped += 1
            self._unsaid += 1
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    def _drain(self) -> None:
        while self._waiting:
            line = self._waiting[0]
            written = self._output.write(line)
            self._waiting_bytes -= written
            if written < len(line):
                self._waiting[0] = line[written:]
                return
            self._waiting.popleft()


class NodeLog:
    """The part of a shared log that is one node's."""

    def __init__(self, log: LogSink, node: str) -> None:
        self._log = log
        self._node = node

    @property
    def dropped(self) -> int:
        """Of all nodes that share it."""
        return self._log.dropped

    def take(self, fact: Fact, time_ns: int) -> None:
        """Log it with the node's name."""
        self._log.take(fact, time_ns, self._node)


class _Output:
    """A descriptor that is written to without waiting for its reader."""

    def __init__(self, descriptor: int) -> None:
        self._socket: socket.socket | None = None
        self._fd = descriptor
        self._is_ours = False
        mode = os.fstat(descriptor).st_mode
        self._never_waits = stat.S_ISREG(mode)
        if self._never_waits:
            return
        if stat.S_ISSOCK(mode):
            self._socket = socket.socket(fileno=os.dup(descriptor))
            return
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            self._fd = os.open(f"/proc/self/fd/{descriptor}", flags)
        except OSError:
            return  # the terminal is another user's, or there is no /proc
        self._is_ours = self._never_waits = True

    def write(self, data: bytes) -> int:
        """How many bytes were taken; 0 when there is no room. A reader that is gone takes everything."""
        try:
            if self._socket is not None:
                return self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            return os.write(self._fd, data) if self._never_waits else self._write_if_ready(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def _write_if_ready(self, data: bytes) -> int:
        """A pipe that is ready takes this many bytes at once, a terminal mostly does."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return os.write(self._fd, data[: select.PIPE_BUF]) if poll.poll(0) else 0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        elif self._is_ours:
            os.close(self._fd)


def _json(time_ns: int, level: str, event: str, values: Mapping[str, Any]) -> bytes:
    head = {"time": milli_time_text(time_ns), "level": level, "event": event}
    return msgspec.json.encode({**head, **with_amounts(values)}) + b"\n"


def _logfmt(time_ns: int, level: str, event: str, values: Mapping[str, Any]) -> bytes:
    head = {"time": milli_time_text(time_ns), "level": level, "event": event}
    return (" ".join(value_pairs({**head, **values})) + "\n").encode(errors="backslashreplace")
