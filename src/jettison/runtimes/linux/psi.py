"""Pressure stall information: how much time is lost to waiting, and a descriptor that says when it gets too much.

Three traps, all of them met: /proc/pressure eats the last byte written to it, so a command ends with NUL. Asking
epoll about a trigger uses the event up, also when another epoll around it asks. And a process that reads a pressure
file takes over the averaging step that would have run the trigger, which delays it (read every 2 ms: for good);
hence a `PressureFile` with a trigger on it does not read.
"""

from __future__ import annotations

import errno
import os
import select
from pathlib import Path

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files
from jettison.values import frozen

_SHORTEST_WINDOW_US = 500_000
_LONGEST_WINDOW_US = 10_000_000
# Without CAP_SYS_RESOURCE the kernel adds no timer of its own and checks where it averages anyway, every 2 s.
_UNPRIVILEGED_STEP_US = 2_000_000

# A kernel without PSI has no file; one started with psi=0 has a file that refuses.
_UNSUPPORTED = kernel_files.GONE | {errno.EOPNOTSUPP}


@frozen
class Stall:
    """Percent of the last 10, 60 and 300 s in which some (or all) processes waited, and the time since boot."""

    avg10: float
    avg60: float
    avg300: float
    total_us: int


@frozen
class Pressure:
    """`full` is None where the kernel does not measure it (processor, before 5.13)."""

    some: Stall
    full: Stall | None


class PressureTrigger:
    """Readable, in the sense of `fileno`, after `stall_us` were lost within `window_us`; at most once a window."""

    def __init__(self, fd: int, stall_us: int, window_us: int) -> None:
        self.stall_us = stall_us
        self.window_us = window_us
        self._fd = fd
        # Nested, because event loops ask for readability, which a pressure file always has; only EPOLLPRI is news.
        self._epoll = select.epoll()
        self._epoll.register(fd, select.EPOLLPRI)

    @property
    def is_open(self) -> bool:
        """Until `close`."""
        return self._fd >= 0

    def fileno(self) -> int:
        """For an event loop's `add_reader`. Being called back *is* the event."""
        return self._epoll.fileno()

    def consume(self) -> bool:
        """Call it in the callback, always. False when the cgroup is gone: then close, or the calls never end.

        Whether epoll still shows the event says nothing, because the event loop's own look has used it up.
        """
        return not any(events & select.EPOLLERR for _fd, events in self._epoll.poll(0))

    def close(self) -> None:
        """Disarm."""
        if self._fd >= 0:
            self._epoll.close()
            os.close(self._fd)
            self._fd = -1


class PressureFile:
    """`/proc/pressure/memory`, or `memory.pressure` of any cgroup in the unified hierarchy."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._trigger: PressureTrigger | None = None

    def read(self) -> Pressure | None:
        """None when the kernel has no PSI, when the cgroup is gone, and while a trigger of ours is armed here."""
        if self._trigger is not None and self._trigger.is_open:
            return None
        try:
            data = kernel_files.read(self.path)
        except ObservationError as failure:
            if isinstance(failure.__cause__, OSError) and failure.__cause__.errno in _UNSUPPORTED:
                return None
            raise
        return None if data is None else _parse(data, self.path)

    def arm(self, stall_us: int, window_us: int, kind: str = "some") -> PressureTrigger:
        """Arm a trigger with the wanted window or, where that is refused, with the nearest allowed one.

        The share of time stays what was asked for; the trigger says which stall and window were taken.
        """
        refused: OSError | None = None
        for window in _windows(window_us):
            stall = max(1, stall_us * window // window_us)
            try:
                fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                raise _no_trigger(self.path, error) from error
            try:
                os.write(fd, b"%s %d %d\0" % (kind.encode("ascii"), stall, window))
            except OSError as error:
                os.close(fd)
                if error.errno != errno.EINVAL:
                    raise _no_trigger(self.path, error) from error
                refused = error
                continue
            try:
                self._trigger = PressureTrigger(fd, stall, window)
            except OSError as error:  # the table of descriptors is full
                os.close(fd)
                raise _no_trigger(self.path, error) from error
            return self._trigger
        raise ObservationError(f"`{self.path}` takes no window near `{window_us}` µs") from refused


def _windows(wanted_us: int) -> list[int]:
    first = min(max(wanted_us, _SHORTEST_WINDOW_US), _LONGEST_WINDOW_US)
    rounded = -(-first // _UNPRIVILEGED_STEP_US) * _UNPRIVILEGED_STEP_US
    return [first] if rounded == first else [first, rounded]


def _no_trigger(path: Path, error: OSError) -> ObservationError:
    return ObservationError(f"no pressure trigger on `{path}`: {kernel_files.reason(error)}")


def _parse(data: bytes, path: Path) -> Pressure:
    stalls = dict[bytes, Stall]()
    try:
        for line in data.splitlines():
            kind, *fields = line.split()
            values = dict(field.split(b"=", 1) for field in fields)
            stalls[kind] = Stall(
                float(values[b"avg10"]), float(values[b"avg60"]), float(values[b"avg300"]), int(values[b"total"])
            )
        return Pressure(stalls[b"some"], stalls.get(b"full"))
    except (KeyError, ValueError):
        raise ObservationError(f"`{path}` holds {data[:80]!r}, not pressure") from None
