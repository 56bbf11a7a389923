"""Files that tell when they have changed: cgroup.events, memory.events, pids.events.

The kernel marks such a file with EPOLLPRI until it is read again, and calls it readable at all times, which is what an
event loop would ask. Hence an epoll of our own in between, whose descriptor is readable only when there is news.
"""

from __future__ import annotations

import os
import select
from pathlib import Path

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files

_SIZE = 4096


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
