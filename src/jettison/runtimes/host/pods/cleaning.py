"""Taking away what a pod that has ended leaves on this host: process ids, cgroups, mounts, directories. Logs stay."""

from __future__ import annotations

import asyncio
from functools import partial

from jettison import events
from jettison.errors import ActionError
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.processes.orphans import Orphans
from jettison.runtimes.host.volumes.pod_directories import PodDirectories
from jettison.runtimes.host.volumes.removal import remove_directory

# Between two attempts to clear away what the disk does not let go of.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 60.0
_REAPING_SECONDS, _REAPING_PAUSE = 1.0, 0.02
# From so many dead on it was a fork bomb, and it is worth waiting so long.
_BOMB, _BOMB_SECONDS = 32, 10.0


async def _reaping(place: Place, orphans: Orphans) -> None:
    """Wait for the dead to give their process ids back.

    A fork bomb leaves hundreds to the process that inherits them, and until that one has reaped them the next look
    would blame the next pod. This agent takes milliseconds. What an earlier agent started is inherited by process 1,
    which may take long or never do it: for a few of them it is not worth waiting.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    orphans.reap()
    while not place.processes() and (count := place.unreaped()):
        if loop.time() - begun >= (_BOMB_SECONDS if count >= _BOMB else _REAPING_SECONDS):
            return
        await asyncio.sleep(_REAPING_PAUSE)
        orphans.reap()


async def clean_up(directories: PodDirectories, place: Place, *, is_all: bool) -> None:
    """Take away the pod's place and volumes and, if `is_all`, its writable directories; logs stay. Never gives up."""
    await _reaping(place, directories.services.orphans)
    await directories.services.vacate(place, partial(events.KillFailed, directories.pod, ""))
    directory = directories.pod_dir if is_all else directories.volumes_dir
    pause = _FIRST_PAUSE
    while True:
        try:
            await directories.services.wait_for(remove_directory, directory)
        except ActionError as failure:
            directories.services.emit(events.ActionFailed(f"clean up pod {directories.pod}", str(failure)))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return
