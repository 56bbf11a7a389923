"""Taking a pod's directories away, whatever the pod has made of them.

A pod that ran as root may have nested directories deeper than a path is long, mounted something of the host's inside,
or left a million files. So: first everything mounted below is detached, because deleting through a mount would delete
what is not the pod's; then the tree goes bottom up with two descriptors, and never across a device. Call it from a
thread.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from jettison.errors import RemovalError
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.descent import Descent
from jettison.runtimes.linux.files.mounts import read_mounts

_OWNER_ONLY = 0o700


def remove_directory(top: Path) -> None:
    """Remove it with everything inside; harmless when it is gone. Raises RemovalError and can be called again."""
    detach_below(top)
    try:
        _remove(top)
    except OSError as error:
        raise RemovalError(f"cannot remove `{top}`: {kernel_files.reason(error)}") from error


def detach_below(top: Path) -> None:
    """Unmount whatever is mounted at or below the directory, the latest first."""
    real = Path(os.path.realpath(top))
    for mount in reversed(read_mounts()):
        if mount.mount_point.is_relative_to(real):
            system_calls.detach(mount.mount_point)


def _remove(top: Path) -> None:
    try:
        place = Descent(top)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            top.unlink(missing_ok=True)
            return
        if error.errno in kernel_files.GONE:
            return
        raise
    with place:
        device = place.device
        pending = [_clear(place.fd)]
        while place.depth or pending[-1]:
            if pending[-1]:
                name = pending[-1].pop()
                if not _enter(place, name):
                    continue
                if place.device != device:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                pending.append(_clear(place.fd))
                continue
            name = place.name
            place.leave()
            del pending[place.depth + 1 :]
            os.rmdir(name, dir_fd=place.fd)
    top.rmdir()


def _clear(fd: int) -> list[str]:
    """Unlink all that is no directory; returns the names of the directories."""
    directories = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=fd)
    return directories


def _enter(place: Descent, name: str) -> bool:
    try:
        place.enter(name)
    except PermissionError:
        # Without root, a process cannot read its own directory if the mode forbids it.
        os.chmod(name, _OWNER_ONLY, dir_fd=place.fd)
        place.enter(name)
    except FileNotFoundError:
        return False
    return True
