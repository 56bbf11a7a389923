"""A process whose table of descriptors is full, which is what an agent on a busy machine may find itself to be."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOM = 32


@contextmanager
def crowded(free: int) -> Iterator[None]:
    """This process can open so many files more and then none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A worker of the suite has some hundred files of servers that its tests share.
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + _ROOM, hard))
    taken: list[int] = []
    try:
        while _is_room():
            taken.append(os.dup(0))
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _is_room() -> bool:
    try:
        os.close(os.dup(0))
    except OSError:
        return False
    return True
