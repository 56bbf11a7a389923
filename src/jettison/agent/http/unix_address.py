"""Unix sockets whose path may be longer than the 107 bytes that the kernel's address holds.

A module of its own, because the server needs it and loads no `http.client`, and the client loads no asyncio.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """A short way to the same file, through a descriptor of its directory; good inside the `with`."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
