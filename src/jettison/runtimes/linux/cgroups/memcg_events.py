"""The memory controller's own alarms: usage went over a line, or the kernel had to kill.

Version 1 signals both through an eventfd. Its line is checked once in 128 pages, so the news is up to 512 KiB late
and otherwise immediate (1.4 ms at 200 MB/s) — but not at the root, whose usage is a statistic that is brought up to
date lazily: 80 to 450 ms late. Version 2 has no line at all, and counts kills in memory.events.

The kernel marks such a file with EPOLLPRI until it is read again, and calls it readable at all times, which is what an
event loop would ask. Hence an epoll of our own in between, whose descriptor is readable only when there is news.
"""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Protocol

from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.limits import CgroupV1, CgroupV2
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts
from jettison.runtimes.linux.files import kernel_files

_SIZE = 4096


class UsageAlarm:
    """Rings when usage crosses a number of bytes, in either direction, and once when the cgroup is removed.

    It therefore says "look now" and nothing more. Version 1 only.
    """

    def __init__(self, directory: Path, threshold: int) -> None:
        self.threshold = threshold
        self._eventfd = _register(directory, CgroupV1.MEMORY_USAGE, b" %d" % threshold)

    def fileno(self) -> int:
        """For an event loop's `add_reader`."""
        return self._eventfd

    def consume(self) -> bool:
        """Silence it until the next crossing. False when it had not rung."""
        return _drain(self._eventfd)

    def close(self) -> None:
        """Unregister, by closing: the kernel watches for that."""
        if self._eventfd >= 0:
            os.close(self._eventfd)
            self._eventfd = -1


class OomAlarm(Protocol):
    """Rings when the kernel kills inside a cgroup."""

    def fileno(self) -> int:
        """For an event loop's `add_reader`."""

    def consume(self) -> int | None:
        """How many processes of this cgroup were killed so far, and silence until the next; None when it is gone."""

    def close(self) -> None:
        """No more alarms."""


def watch_oom(mounts: CgroupMounts, name: str) -> OomAlarm:
    """Arm the alarm that this machine has."""
    memory = mounts.holding("memory")
    if memory is None:
        raise ObservationError(f"cannot watch `{name}` for kills: the memory controller is not mounted")
    return (OomAlarmV2 if memory.is_unified else OomAlarmV1)(memory.mount_point / name)


def oom_kills(mounts: CgroupMounts, name: str) -> int | None:
    """The count alone. When the machine as a whole runs out, version 1 counts the kill and rings no alarm."""
    memory = mounts.holding("memory")
    if memory is None:
        return None
    file = CgroupV2.MEMORY_EVENTS if memory.is_unified else CgroupV1.OOM_CONTROL
    return _kills(kernel_files.read(memory.mount_point / name / file))


class OomAlarmV1:
    """Rings in the cgroup that hit its limit and in everything below it; the kill is counted where the victim was.

    So a container's alarm may ring because its pod hit a limit, and its count tells whether it paid for it.
    """

    def __init__(self, directory: Path) -> None:
        self._control = str(directory / CgroupV1.OOM_CONTROL)
        self._eventfd = _register(directory, CgroupV1.OOM_CONTROL, b"")

    def fileno(self) -> int:
        """For an event loop's `add_reader`."""
        return self._eventfd

    def consume(self) -> int | None:
        """The alarm comes before the kill: a count that has not grown yet may grow a millisecond later."""
        _drain(self._eventfd)
        return _kills(kernel_files.read(self._control))

    def close(self) -> None:
        """No more alarms."""
        if self._eventfd >= 0:
            os.close(self._eventfd)
            self._eventfd = -1


class OomAlarmV2:
    """Rings at every change of memory.events, also when a limit was merely hit; counts kills in all of its tree."""

    def __init__(self, directory: Path) -> None:
        self._alarm = KernfsAlarm(directory / CgroupV2.MEMORY_EVENTS)

    def fileno(self) -> int:
        """For an event loop's `add_reader`."""
        return self._alarm.fileno()

    def consume(self) -> int | None:
        """Silence, and count."""
        return _kills(self._alarm.consume())

    def close(self) -> None:
        """No more alarms."""
        self._alarm.close()


def _register(directory: Path, file: str, argument: bytes) -> int:
    """A full table of descriptors is as good a reason not to have an event as a missing file is."""
    opened: list[int] = []
    try:
        opened.append(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
        opened.append(os.open(directory / file, os.O_RDONLY | os.O_CLOEXEC))
        opened.append(os.open(directory / CgroupV1.EVENT_CONTROL, os.O_WRONLY | os.O_CLOEXEC))
        eventfd, watched, control = opened
        os.write(control, b"%d %d%s" % (eventfd, watched, argument))
    except OSError as error:
        for descriptor in opened:
            os.close(descriptor)
        raise ObservationError(f"no event on `{directory / file}`: {kernel_files.reason(error)}") from error
    os.close(watched)
    os.close(control)
    return eventfd


def _drain(eventfd: int) -> bool:
    try:
        os.eventfd_read(eventfd)
    except BlockingIOError:
        return False
    return True


def _kills(data: bytes | None) -> int | None:
    """None when it is gone, and on kernels before 4.13, which do not count.

    Where all processes of a cgroup die together, the first victim comes up again among the others, and the kernel
    counts it again, unless it was quick to die.
    """
    counts = dict[bytes, int]()
    for line in (data or b"").splitlines():
        key, _, value = line.partition(b" ")
        if key in (b"oom_kill", b"oom_group_kill"):
            counts[key] = int(value)
    kills, group_kills = counts.get(b"oom_kill"), counts.get(b"oom_group_kill", 0)
    return None if kills is None else max(kills - group_kills, group_kills)


class KernfsAlarm:
    """One file and its news. Removing the cgroup makes no news: `consume` finds out, so ask after the last process."""

    def __init__(self, path: Path) -> None:
        """Raises ObservationError where nothing would ever ring: no such file, or an ordinary one."""
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._epoll = select.epoll()
                self._epoll.register(self._fd, select.EPOLLPRI)
            except OSError:
                os.close(self._fd)
                raise
        except OSError as error:
            raise ObservationError(f"no news from `{path}`: {kernel_files.reason(error)}") from error
        self.consume()  # an unread file counts as changed

    def fileno(self) -> int:
        """For an event loop's `add_reader`."""
        return self._epoll.fileno()

    def consume(self) -> bytes | None:
        """What the file says now, which also silences the alarm until the next change; None when the cgroup is gone."""
        try:
            data = os.pread(self._fd, _SIZE, 0)
        except OSError as error:
            if error.errno in kernel_files.GONE:
                return None
            raise kernel_files.unreadable(self._path, error) from error
        self._epoll.poll(0)
        return data

    def close(self) -> None:
        """Silence for good."""
        if self._fd >= 0:
            self._epoll.close()
            os.close(self._fd)
            self._fd = -1
