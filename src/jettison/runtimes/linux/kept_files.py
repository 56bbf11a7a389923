"""Kernel files that stay open between readings, because opening one costs three times as much as reading it.

A descriptor does not keep a cgroup from being removed. Afterwards it answers ENODEV, even when a cgroup of the same
name is there again: every failure means "open anew, once", and only then "gone".
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

from jettison.runtimes.linux import kernel_files

# memory.stat is the longest: 42 lines on version 1, about 60 on version 2, 3 kB with the largest numbers.
_SIZE: Final = 8192


class DescriptorBudget:
    """How many files may stay open; the rest is opened for each reading, which is slower and never fails.

    A thousand pods have four thousand files and the usual limit is 1,024, so by default half of the limit is used:
    the other half belongs to sockets, logs and processes.
    """

    __slots__ = ("left",)

    def __init__(self, allowed: int | None = None) -> None:
        self.left = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 if allowed is None else allowed


class KeptFile:
    """One file, at most 8 kB of it, from the beginning each time."""

    __slots__ = ("_budget", "_fd", "path")

    def __init__(self, path: Path | str, budget: DescriptorBudget) -> None:
        self.path = path
        self._budget = budget
        self._fd = -1

    def read(self) -> bytes | None:
        """None when the file is gone."""
        try:
            return os.pread(self._fd, _SIZE, 0)
        except OSError:  # also the first time: -1 is no descriptor
            return self._read_anew()

    def close(self) -> None:
        """Give the descriptor back; the next reading opens the file again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._budget.left += 1

    def _read_anew(self) -> bytes | None:
        self.close()
        if self._budget.left <= 0:
            return kernel_files.read(self.path)
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._budget.left -= 1
            return os.pread(self._fd, _SIZE, 0)
        except OSError as error:
            self.close()
            if error.errno in kernel_files.GONE:
                return None
            raise kernel_files.unreadable(self.path, error) from error
