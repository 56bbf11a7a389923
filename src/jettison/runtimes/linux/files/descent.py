"""Going down and up a directory tree with two descriptors, however deep it is and whatever changes it meanwhile.

A path of 10,000 levels is longer than the kernel accepts (4,096 bytes) and a descriptor per level would exceed the
usual limit of 1,024, so the way up is `..`. That name is only trusted after a check: a directory that was moved away
while we were inside has another parent, and following it would leave the tree.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Identity = tuple[int, int]


class Descent:
    """A place in the tree. `fd` is the directory we stand in; only `enter` and `leave` change it."""

    def __init__(self, top: Path | str | int) -> None:
        """Raises the OSError of the kernel when `top` is no directory or a symbolic link. A descriptor is ours from
        here on.
        """
        self._top = top if isinstance(top, int) else os.open(top, _DIRECTORY)
        try:
            self.fd = os.dup(self._top)
        except OSError:
            os.close(self._top)
            raise
        self._trail: list[tuple[str, Identity]] = [("", _identity(self.fd))]

    @property
    def depth(self) -> int:
        """0 at the top."""
        return len(self._trail) - 1

    @property
    def name(self) -> str:
        """The name by which the current directory was entered."""
        return self._trail[-1][0]

    @property
    def device(self) -> int:
        """The `st_dev` of the current directory."""
        return self._trail[-1][1][0]

    def enter(self, name: str) -> None:
        """Go down into a real directory. Raises the kernel's OSError, and then nothing has changed."""
        fd = self.open(name)
        self.stand_in(name, fd, os.fstat(fd))

    def open(self, name: str) -> int:
        """A descriptor of a real directory in this one, which stays the current one. Raises the kernel's OSError."""
        return os.open(name, _DIRECTORY, dir_fd=self.fd)

    def stand_in(self, name: str, fd: int, status: os.stat_result) -> None:
        """Go down into what `open` has opened; the descriptor is ours from here on."""
        os.close(self.fd)
        self.fd = fd
        self._trail.append((name, (status.st_dev, status.st_ino)))

    def leave(self) -> None:
        """Go up one level; further, when what we stood in was moved elsewhere: look at `depth` afterwards."""
        self._trail.pop()
        try:
            fd = os.open("..", _DIRECTORY, dir_fd=self.fd)
        except OSError as error:
            if error.errno not in kernel_files.GONE:
                raise ObservationError(f"cannot leave `{self.name}`: {kernel_files.reason(error)}") from error
            self._walk_down_again()
            return
        os.close(self.fd)
        self.fd = fd
        if _identity(fd) != self._trail[-1][1]:
            self._walk_down_again()

    def _walk_down_again(self) -> None:
        trail, self._trail = self._trail, self._trail[:1]
        fd = os.dup(self._top)
        os.close(self.fd)
        self.fd = fd
        for name, identity in trail[1:]:
            try:
                fd = os.open(name, _DIRECTORY, dir_fd=self.fd)
            except OSError:
                return  # moved, removed or replaced: we stay at the deepest level that is still what it was
            if _identity(fd) != identity:
                os.close(fd)
                return
            os.close(self.fd)
            self.fd = fd
            self._trail.append((name, identity))

    def close(self) -> None:
        """Give both descriptors back."""
        for fd in (self.fd, self._top):
            if fd >= 0:
                os.close(fd)
        self.fd = self._top = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _identity(fd: int) -> Identity:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
