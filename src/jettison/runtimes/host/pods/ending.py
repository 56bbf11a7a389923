"""How a pod ends: told first, given its time, then killed until nothing of it is left; and cleared away.

Regular containers are told at once and together; sidecars when the others have gone, last started first. Grace periods
only shrink. Ending at once spares the asking: everything in the containers' places is frozen and killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from jettison import events
from jettison.errors import ActionError
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.pods.containers import Container
from jettison.runtimes.host.pods.deadlines import Deadline
from jettison.runtimes.host.processes.orphans import Orphans
from jettison.runtimes.host.volumes.pod_directories import PodHome
from jettison.runtimes.host.volumes.removal import remove_directory

# Between two attempts to clear away what the disk does not let go of.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 60.0
_REAPING_SECONDS, _REAPING_PAUSE = 1.0, 0.02
# From so many dead on it was a fork bomb, and it is worth waiting so long.
_BOMB, _BOMB_SECONDS = 32, 10.0


@dataclass(frozen=True, slots=True)
class Ending:
    """Of one pod. Made when it begins."""

    regulars: Sequence[Container]
    sidecars: Sequence[Container]
    deadline: Deadline
    # On the event loop's clock. Of an ending that an earlier agent began this is when that did.
    began_at: float

    def begin(self, *, is_at_once: bool) -> None:
        """The first signals; sent before this returns."""
        if is_at_once:
            self.kill()
            return
        for container in self.regulars:
            container.terminate(self.deadline, since=self.began_at)
        for sidecar in self.sidecars:
            sidecar.expect_end()

    def hurry(self, seconds: float, *, is_at_once: bool) -> None:
        """Somebody wants it to be over sooner. Later is not possible."""
        self.deadline.pull_in(seconds)
        if is_at_once:
            self.kill()

    def kill(self) -> None:
        """Everybody, without asking; what is born meanwhile is seen to by `run`."""
        self.deadline.pull_in(0)
        for container in (*self.regulars, *self.sidecars):
            container.kill()

    async def run(self) -> None:
        """Until no process is left."""
        await asyncio.gather(*(container.see_out(self.deadline) for container in self.regulars))
        for sidecar in reversed(self.sidecars):
            sidecar.terminate(self.deadline)
            await sidecar.see_out(self.deadline)


async def _reaping(place: Place, orphans: Orphans) -> None:
    """Wait for the dead to give their process ids back.

    A fork bomb leaves hundreds to whoever inherits them, and until he has taken notice the next look would blame the
    next pod. With us that takes milliseconds. What an earlier agent started is inherited by process 1, who may take his
    time or never do it: for a few of them it is not worth waiting long.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    orphans.reap()
    while not place.processes() and (count := place.unreaped()):
        if loop.time() - begun >= (_BOMB_SECONDS if count >= _BOMB else _REAPING_SECONDS):
            return
        await asyncio.sleep(_REAPING_PAUSE)
        orphans.reap()


async def clean_up(home: PodHome, place: Place, *, is_all: bool) -> None:
    """Take away the pod's place and volumes and, if `is_all`, its writable directories; logs stay. Tries for ever."""
    await _reaping(place, home.household.orphans)
    await home.household.vacate(place, partial(events.KillFailed, home.pod, ""))
    directory = home.pod_dir if is_all else home.volumes_dir
    pause = _FIRST_PAUSE
    while True:
        try:
            await home.household.wait_for(remove_directory, directory)
        except ActionError as failure:
            home.household.emit(events.ActionFailed(f"clean up pod {home.pod}", str(failure)))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return
