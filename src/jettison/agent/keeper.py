"""Keeps the node's pods as somebody wants them: starts what is new, ends what is to end or wanted no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from jettison import events
from jettison.agent.admission import TERMINAL, Admitter
from jettison.agent.sources import PodSource, Wish
from jettison.errors import RuntimeFailure
from jettison.events import Emit
from jettison.runtimes.protocol import Hosting, PodManifest, PodStatus

LOOK_SECONDS = 1.0


@dataclass(slots=True)
class _Stop:
    grace_seconds: int | None
    task: asyncio.Task[None]


class Keeper:
    """Compares what is wanted with what the runtime has, once a second and whenever it is woken."""

    def __init__(self, runtime: Hosting, admitter: Admitter, sources: Sequence[PodSource], emit: Emit) -> None:
        self.admitter = admitter
        self._runtime = runtime
        self._sources = list(sources)
        self._emit = emit
        self._wishes: dict[str, Wish] = {}
        self._starting = ""
        self._stopping: dict[str, _Stop] = {}
        self._woken = asyncio.Event()

    def add(self, source: PodSource) -> None:
        """One more who wants pods; to be called before the first look, which would miss its pods and stop them."""
        self._sources.append(source)

    def wake(self) -> None:
        """Something has changed: look now."""
        self._woken.set()

    def is_busy_with(self, uid: str) -> bool:
        """Whether the pod is about to start, or on its way out: it cannot be told yet whether it runs."""
        return uid == self._starting or uid in self._stopping

    async def run(self) -> None:
        """Until cancelled; pods on their way out go on leaving."""
        try:
            while True:
                self._woken.clear()
                await self.look()
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._woken.wait()
                except TimeoutError:
                    continue
        finally:
            for stop in self._stopping.values():
                stop.task.cancel()

    async def look(self) -> None:
        """One comparison, and what follows from it."""
        # As a kubelet does it: who does not know yet what all sources want cannot know what nobody wants. Asked before
        # they are looked at: one that learns it meanwhile has not told us yet.
        is_certain = all(source.is_known for source in self._sources)
        looks = [await source.look() for source in self._sources]  # all of them, not up to the first change
        if any(looks):
            self._wishes = {uid: wish for source in self._sources for uid, wish in source.wishes().items()}
        known = {status.pod.uid: status for status in self._runtime.statuses()}
        for uid, status in known.items():
            wish = self._wishes.get(uid)
            if wish is None:
                if is_certain:
                    self._stop(status, None)
            elif wish.grace_seconds is not None or (wish.is_over and status.phase not in TERMINAL):
                self._stop(status, wish.grace_seconds)
        # Critical pods first, then by priority: on a full node the important ones get the room.
        new = [wish.manifest for uid, wish in self._wishes.items() if uid not in known and wish.is_to_run]
        for manifest in sorted(new, key=lambda each: (not each.pod.is_critical, -each.pod.effective_priority)):
            await self._start(manifest)
            if self._woken.is_set():
                return  # the others may be wanted no longer

    async def _start(self, manifest: PodManifest) -> None:
        self._starting = manifest.pod.uid
        try:
            await self._attempt(f"start {manifest.pod}", self.admitter.admit(manifest))
        finally:
            self._starting = ""

    def _stop(self, status: PodStatus, grace_seconds: int | None) -> None:
        """In a task of its own: a pod may take its whole grace period, and others want to start meanwhile."""
        uid = status.pod.uid
        under_way = self._stopping.get(uid)
        if under_way is not None and not _is_shorter(grace_seconds, under_way.grace_seconds):
            return
        task = asyncio.create_task(self._attempt(f"stop {status.pod}", self._runtime.stop(uid, grace_seconds)))
        self._stopping[uid] = _Stop(grace_seconds, task)
        task.add_done_callback(lambda _: self._stopped(uid, task))

    def _stopped(self, uid: str, task: asyncio.Task[None]) -> None:
        # Of a pod that was told to hurry there are two, and the first to return is not the last word.
        if (stop := self._stopping.get(uid)) is not None and stop.task is task:
            del self._stopping[uid]

    async def _attempt(self, what: str, action: Awaitable[object]) -> None:
        try:
            await action
        except RuntimeFailure as error:
            self._emit(events.ActionFailed(what, str(error)))


def _is_shorter(seconds: int | None, than: int | None) -> bool:
    return seconds is not None and (than is None or seconds < than)
