"""Files that only their owner may read, written so that a crash leaves the old content or the new, never half of it;
and the lock that gives one process a state directory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from jettison.errors import InputError, JettisonError
from jettison.manifests.files.plain_files import LARGEST_STATE, read_plain

_OTHERS: Final = 0o077
_HOLDER_LENGTH: Final = 20
"""Of the process id in the lock file, padded: it is overwritten in place."""


def make_private_folder(folder: Path, *, is_ours: bool = True) -> None:
    """Create it with mode 0700. One that exists and `is_ours` alone is made so; a folder that the operator has chosen
    keeps its mode, it may be /tmp.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder `{folder}`: {error.strerror}") from error
    if is_ours:
        tighten(folder, 0o700)


def open_private(path: Path) -> int:
    """Open for reading and writing. A new file has mode 0600 from its first moment on, whatever the umask; one that
    others could read is made private.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(descriptor).st_mode & _OTHERS:
            os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise InputError(f"cannot open `{path}`: {error.strerror}") from error
    return descriptor


def tighten(path: Path, mode: int = 0o600) -> None:
    """Remove the permissions of others that an earlier version, or a copy, has left; a missing file is fine."""
    try:
        if path.stat().st_mode & _OTHERS:
            path.chmod(mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"cannot make `{path}` private: {error.strerror}") from error


def write_private(path: Path, content: bytes, *, is_remade: bool = False) -> None:
    """Replace the file as a whole, mode 0600 from its first byte on: there is no moment in which others could read.

    A file that has this content already is not written: a start needs no room on a full disk. One that `is_remade` at
    every start is written in place where there is no room for another: half of it would be replaced at the next start.
    """
    old = read_private(path)
    if old == content:
        return
    try:
        _replace(path, content)
    except InputError as error:
        is_out_of_room = isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
        if old is None or not is_remade or not is_out_of_room:
            raise
        descriptor = open_private(path)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.truncate()


def _replace(path: Path, content: bytes) -> None:
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"cannot write `{path}`: {error.strerror}") from error


def read_private(path: Path) -> bytes | None:
    """The content, or None where there is no such file yet."""
    tighten(path)
    try:
        return read_plain(path, LARGEST_STATE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror}") from error


def lock_folder(folder: Path) -> int:
    """Hold the folder until the descriptor is closed, at the latest when the process ends, however it ends.

    Two servers in one state directory would each count versions on their own.
    """
    path = folder / "lock"
    descriptor = open_private(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, _HOLDER_LENGTH, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        said = (
            f"the state directory `{folder}` is in use by process `{holder}`: stop it first, or take another directory"
        )
        raise JettisonError(said) from error
    # In place: a disk that is full has no room for a file that was emptied first. Without it only the name is missing.
    with suppress(OSError):
        os.pwrite(descriptor, f"{os.getpid()}\n".ljust(_HOLDER_LENGTH).encode(), 0)
    return descriptor
