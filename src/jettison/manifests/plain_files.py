"""Reading a file from a directory into which others put things: what is there may be anything but a file.

Whoever opens a pipe waits for somebody to write to it, and a device never ends. An agent that waits guards nobody.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from jettison.errors import ManifestError


def read_plain(path: Path, most: int) -> bytes:
    """Its bytes, at most so many. Raises the kernel's OSError, and ManifestError where there is no file, or more."""
    # Without O_NONBLOCK opening a pipe would wait; a plain file does not know it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ManifestError(f"{path}: not a plain file")
    with os.fdopen(descriptor, "rb") as file:
        # By what is read and not by the size that it had: a file may grow meanwhile.
        data = file.read(most + 1)
    if len(data) > most:
        raise ManifestError(f"{path}: more than {most} bytes")
    return data
