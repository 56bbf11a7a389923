"""The way down into a directory that pods write in: one step at a time, and no symbolic link is followed.

A volume outlives the container that left a link in it, and we make directories and links as root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

_MODE = 0o755
_UNCHANGED = -1
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def descended(base: Path, rest: PurePath, user: int | None = None, group: int | None = None) -> Iterator[int]:
    """A descriptor of `rest` below `base`, which is trusted. What is missing is made and belongs to these. Raises
    OSError; `rest` must not go up.
    """
    owner = tuple(_UNCHANGED if each is None else each for each in (user, group))
    here = os.open(base, _DIRECTORY)
    try:
        for name in rest.parts:
            below = _step(here, name, owner)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _step(here: int, name: str, owner: tuple[int, ...]) -> int:
    """A directory that was there belongs to whom it did."""
    try:
        os.mkdir(name, _MODE, dir_fd=here)
    except FileExistsError:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    os.fchown(below, owner[0], owner[1])
    return below
