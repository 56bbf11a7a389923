"""One server per state directory: two would each believe in their own counter."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from jettison.errors import JettisonError


def lock_folder(folder: Path) -> int:
    """Hold the folder until the descriptor is closed, at the latest when the process ends, however it ends."""
    path = folder / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        said = (
            f"the state directory `{folder}` is in use by process `{holder}`: stop it first, or take another directory"
        )
        raise JettisonError(said) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
