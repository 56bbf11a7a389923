"""Keeps the node's pods as the manifests want them: starts what is new, stops what is gone, gives second chances."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from jettison import events
from jettison.agent.admission import Admitter
from jettison.agent.readmission import Readmission
from jettison.agent.sources import ManifestDirectory, wanted_pods
from jettison.clock import Clock
from jettison.engine.signals import Condition
from jettison.errors import RuntimeFailure
from jettison.events import Emit
from jettison.runtimes.protocol import Hosting, PodManifest, PodStatus

LOOK_SECONDS = 1.0


class Keeper:
    """Compares what is wanted with what the runtime has, once a second."""

    def __init__(
        self,
        runtime: Hosting,
        admitter: Admitter,
        directories: Sequence[ManifestDirectory],
        clock: Clock,
        conditions: Callable[[], frozenset[Condition]],
        emit: Emit,
        *,
        readmits: bool = False,
    ) -> None:
        self._runtime = runtime
        self._admitter = admitter
        self._directories = directories
        self._clock = clock
        self._conditions = conditions
        self._emit = emit
        self._readmission = Readmission() if readmits else None
        self._wanted: dict[str, PodManifest] | None = None
        self._stopping: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until cancelled; pods on their way out go on leaving."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in self._stopping.values():
                task.cancel()

    async def look(self) -> None:
        """One comparison, and what follows from it."""
        looks = [directory.look() for directory in self._directories]  # all of them, not up to the first change
        changed = any(looks)
        if self._give_chances() or changed or self._wanted is None:
            lives = self._readmission.lives if self._readmission else {}
            self._wanted = wanted_pods(self._directories, lives, self._emit)
        known = {status.pod.uid: status for status in self._runtime.statuses()}
        for uid in known.keys() - self._wanted.keys() - self._stopping.keys():
            self._stop(known[uid])
        # Critical pods first, then by priority: on a full node the important ones get the room.
        new = [manifest for uid, manifest in self._wanted.items() if uid not in known]
        for manifest in sorted(new, key=lambda each: (not each.pod.is_critical, -each.pod.effective_priority)):
            await self._attempt(f"start {manifest.pod}", self._admitter.admit(manifest))

    def _stop(self, status: PodStatus) -> None:
        """In a task of its own: a pod may take its whole grace period, and others want to start meanwhile."""
        uid = status.pod.uid
        task = asyncio.create_task(self._attempt(f"stop {status.pod}", self._runtime.stop(uid)))
        self._stopping[uid] = task
        task.add_done_callback(lambda _: self._stopping.pop(uid, None))

    def _give_chances(self) -> bool:
        if self._readmission is None:
            return False
        now_ns = self._clock.monotonic_ns()
        for status in self._runtime.statuses():
            if _was_turned_out(status) and not status.is_ending:
                self._readmission.evicted(str(status.pod), now_ns)
        return bool(self._readmission.due(now_ns, is_under_pressure=bool(self._conditions())))

    async def _attempt(self, what: str, action: Awaitable[object]) -> None:
        try:
            await action
        except RuntimeFailure as error:
            self._emit(events.ActionFailed(what, str(error)))


def _was_turned_out(status: PodStatus) -> bool:
    """Evicted, preempted or not admitted, rather than failed by itself: its reason says so."""
    return status.phase == "Failed" and bool(status.reason)
