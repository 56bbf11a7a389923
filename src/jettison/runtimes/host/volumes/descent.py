"""The way down into a directory that pods write in: one step at a time, and no symbolic link is followed.

A volume outlives the container that left a link in it, and we make directories and links as root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

_MODE, _OWNER_ONLY = 0o755, 0o700
_UNCHANGED = -1
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def descended(
    base: Path, rest: PurePath, user: int | None = None, group: int | None = None, mode: int = _MODE
) -> Iterator[int]:
    """A descriptor of `rest` below `base`, which is trusted. What is missing is made so.

    Raises OSError; `rest` must not go up.
    """
    owner = (_UNCHANGED if user is None else user, _UNCHANGED if group is None else group)
    here = os.open(base, _DIRECTORY)
    try:
        for name in rest.parts:
            below = _step(here, name, owner, mode)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _step(here: int, name: str, owner: tuple[int, int], mode: int) -> int:
    """A directory that was there keeps its owner."""
    try:
        os.mkdir(name, _OWNER_ONLY, dir_fd=here)
    except FileExistsError:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    try:
        os.fchown(below, *owner)
        os.fchmod(below, mode)
    except OSError:
        os.close(below)
        raise
    return below
