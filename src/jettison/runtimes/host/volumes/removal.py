"""Taking away what a pod that has ended leaves on this host: process ids, cgroups, mounts, directories. Logs stay.

What a pod has mounted below its directories is detached first, because deleting through a mount would delete what is
not the pod's; then the tree goes (`linux/files/tree_removal`).
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

from jettison import events
from jettison.errors import RemovalError, RuntimeFailure
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.volumes.pod_directories import HostServices, PodDirectories
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.filesystems import read_mounts
from jettison.runtimes.linux.files.tree_removal import remove_tree

# Between two attempts to clear away what the disk does not let go of.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 60.0
_REAPING_SECONDS, _REAPING_PAUSE = 1.0, 0.02
# From so many dead on it was a fork bomb, and it is worth waiting so long.
_BOMB, _BOMB_SECONDS = 32, 10.0


def remove_directory(base: Path, top: Path) -> None:
    """Remove `top` with everything inside; harmless when it is gone. Call it from a thread.

    It lies below `base`, which is trusted: what a pod could have replaced by a link is in between, and leads nowhere.
    Raises RemovalError and can be called again.
    """
    rest = top.relative_to(base)
    _detach_below(Path(os.path.realpath(base), rest))
    try:
        remove_tree(base, rest)
    except OSError as error:
        raise RemovalError(f"cannot remove `{top}`: {kernel_files.reason(error)}") from error


def _detach_below(top: Path) -> None:
    """Unmount whatever is mounted at or below the directory, the latest first. The kernel shows mount points without
    links, so none is below a path in which a link is.
    """
    for mount in reversed(read_mounts()):
        if mount.mount_point.is_relative_to(top):
            system_calls.detach(mount.mount_point)


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
                await directories.services.wait_for(remove_directory, directories.base, directory)
        except RuntimeFailure as failure:
            directories.services.emit(events.ActionFailed(f"clean up pod {directories.pod}", str(failure)))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return
