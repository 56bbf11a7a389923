"""What all pods of a node share, and where one of them lives."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

from jettison import events
from jettison.clock import Clock
from jettison.engine.pods import Pod
from jettison.errors import RuntimeFailure
from jettison.runtimes.host import logs
from jettison.runtimes.host.orphans import Orphans
from jettison.runtimes.host.places import Place, Places
from jettison.runtimes.host.record_files import RecordFiles
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.host.volumes import Volume

P = ParamSpec("P")
T = TypeVar("T")

# Between two attempts at something that the kernel refuses for the moment.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 1.0

PATIENCE = 10.0
"""How many seconds one attempt to kill lasts before it is said aloud that somebody does not die."""


@dataclass(frozen=True, slots=True)
class Household:
    """Shared by all pods of the node. `pool` has the two threads in which one may wait for a disk."""

    settings: HostSettings
    places: Places
    files: RecordFiles
    pool: Executor
    clock: Clock
    emit: events.Emit
    # How many files a pod's process may have open, unless it asks the kernel for more: as many as we might when this
    # was made. The agent raises its own limit afterwards.
    descriptors: int = field(default_factory=lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    orphans: Orphans = field(default_factory=Orphans)

    async def wait_for(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do in a thread what may wait for a disk.

        Cancelled, it still waits for a thread that has begun: what that one makes (a mount, a directory) would
        otherwise appear after it was cleared away.
        """
        working = self.pool.submit(work, *args, **kwargs)
        done = asyncio.wrap_future(working)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            if not working.cancel():
                await asyncio.wait([done])
                done.exception()  # nobody will ask for it
            raise

    async def vacate(self, place: Place, failed: Callable[[str], events.Fact]) -> None:
        """Kill until nobody is left, however long that takes, then take the place away.

        Each time that this does not succeed, `failed` makes a fact of the reason.
        """
        if not place.exists:
            return
        pause = _FIRST_PAUSE
        while True:
            try:
                survivors = await place.empty(PATIENCE)
                if not survivors and place.remove():
                    return
                if survivors:
                    self.emit(failed(undying(survivors)))
            except RuntimeFailure as failure:
                self.emit(failed(str(failure)))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def undying(survivors: Iterable[int]) -> str:
    """The complaint about processes that SIGKILL does not end."""
    return f"these processes do not die: {', '.join(map(str, sorted(survivors)[:5]))}"


@dataclass(slots=True)
class PodHome:
    """One pod's own part. `volumes` are filled in once they have been set up."""

    household: Household
    pod: Pod
    grace_seconds: int
    # Something has changed: the pod's worker should look.
    wake: Callable[[], None]
    volumes: tuple[Volume, ...] = ()

    @property
    def pod_dir(self) -> Path:
        """Volumes and writable directories are below."""
        return self.household.settings.pod_dir(self.pod.uid)

    @property
    def volumes_dir(self) -> Path:
        """One directory for each emptyDir."""
        return self.pod_dir / "volumes"

    def writable_dir(self, container: str, run: int) -> Path:
        """Each run of a container begins with an empty one, as it would with a fresh layer."""
        return self.pod_dir / "containers" / container / str(run)

    def log_dir(self, container: str) -> Path:
        """One file for each run."""
        return logs.pod_log_dir(self.household.settings.logs_dir, self.pod) / container
