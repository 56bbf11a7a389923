"""One server per state directory: two would each believe in their own counter."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from jettison.apiserver.storage.private_files import open_private
from jettison.errors import JettisonError

_LENGTH: Final = 20


def lock_folder(folder: Path) -> int:
    """Hold the folder until the descriptor is closed, at the latest when the process ends, however it ends."""
    path = folder / "lock"
    descriptor = open_private(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, _LENGTH, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        said = (
            f"the state directory `{folder}` is in use by process `{holder}`: stop it first, or take another directory"
        )
        raise JettisonError(said) from error
    # In place: a disk that is full has no room for a file that was emptied first. Without it only the name is missing.
    with suppress(OSError):
        os.pwrite(descriptor, f"{os.getpid()}\n".ljust(_LENGTH).encode(), 0)
    return descriptor
