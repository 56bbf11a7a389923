"""Taking away what a pod that has ended leaves on this host: process ids, cgroups, mounts, directories. Logs stay.

A pod that ran as root may have nested directories deeper than a path is long, mounted something of the host's inside,
or left a million files. So: first everything mounted below is detached, because deleting through a mount would delete
what is not the pod's; then the tree goes bottom up with two descriptors, and never across a device.
"""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from pathlib import Path

from jettison import events
from jettison.errors import ActionError, RemovalError
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.volumes.pod_directories import HostServices, PodDirectories
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.descent import Descent
from jettison.runtimes.linux.files.filesystems import read_mounts

_OWNER_ONLY = 0o700

# Between two attempts to clear away what the disk does not let go of.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 60.0
_REAPING_SECONDS, _REAPING_PAUSE = 1.0, 0.02
# From so many dead on it was a fork bomb, and it is worth waiting so long.
_BOMB, _BOMB_SECONDS = 32, 10.0


def remove_directory(top: Path) -> None:
    """Remove it with everything inside; harmless when it is gone. Call it from a thread.

    Raises RemovalError and can be called again.
    """
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


async def _reaping(place: Place, services: HostServices) -> None:
    """Wait for the dead to give their process ids back.

    A fork bomb leaves hundreds to the process that inherits them, and until that one has reaped them the next look
    would blame the next pod. This agent takes milliseconds. What an earlier agent started is inherited by process 1,
    which may take long or never do it: for a few of them it is not worth waiting.
    """
    loop = asyncio.get_running_loop()
    begun = reaped = loop.time()
    while True:
        # Some at a time. While that goes on, the rest is worth waiting for, however few they are.
        if await services.orphans.reap():
            reaped = loop.time()
        count = await services.apart(place, lambda: 0 if place.processes() else place.unreaped())
        now = loop.time()
        if not count or now - begun >= _BOMB_SECONDS or (count < _BOMB and now - reaped >= _REAPING_SECONDS):
            return
        await asyncio.sleep(_REAPING_PAUSE)


async def clean_up(directories: PodDirectories, place: Place, *, is_all: bool) -> None:
    """Take away the pod's place and volumes and, if `is_all`, its writable directories; logs stay. Never gives up."""
    await _reaping(place, directories.services)
    await directories.services.vacate(place, partial(events.KillFailed, directories.pod, ""))
    gone = [directories.pod_dir] if is_all else [directories.sub_paths_dir, directories.volumes_dir]
    pause = _FIRST_PAUSE
    while True:
        try:
            for directory in gone:
                await directories.services.wait_for(remove_directory, directory)
        except ActionError as failure:
            directories.services.emit(events.ActionFailed(f"clean up pod {directories.pod}", str(failure)))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return
