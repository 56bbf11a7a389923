"""Keeps the node's pods as its sources want them: starts what is new, ends what is to end or wanted no longer.

A pod that runs stays as it is, but for ephemeral containers that were added to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from operator import is_

from jettison import events
from jettison.agent.admission import Admitter
from jettison.agent.pods.holds import Holds
from jettison.agent.pods.sources import PodSource, Wish
from jettison.clock import SYSTEM_CLOCK, Clock, to_next_beat
from jettison.engine.pods.pod import ENDED_PHASES, Pod
from jettison.errors import RuntimeFailure, WriteError
from jettison.events import Emit
from jettison.runtimes.protocol import Hosting, PodManifest, PodStatus

LOOK_SECONDS = 1.0

# Between two attempts to start a pod that the runtime does not take: a full disk takes no record, and an API may name a
# pod so that no node can have it.
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 10**9, 300 * 10**9


@dataclass(slots=True)
class _Call:
    grace_seconds: int | None
    task: asyncio.Task[None]


@dataclass(slots=True)
class _Failed:
    """When a pod may be tried again that did not start, and how long that was."""

    until_ns: int
    pause_ns: int


class Keeper:
    """Compares what is wanted with what the runtime has, once a second and whenever it is woken."""

    def __init__(
        self,
        runtime: Hosting,
        admitter: Admitter,
        sources: Sequence[PodSource],
        emit: Emit,
        holds: Holds | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.admitter = admitter
        self._clock = clock
        self._failed: dict[str, _Failed] = {}
        self._holds = holds
        # Nothing is started any more: the node goes down.
        self._is_closing = False
        self._runtime = runtime
        self._sources = list(sources)
        self._emit = emit
        self._wishes: dict[str, Wish] = {}
        self._starting = ""
        # Calls of `Runtime.stop` that have not returned, to wait by. Which pods are on their way out the runtime says.
        self._stops: dict[str, _Call] = {}
        # What the last look compared, if it found nothing to do.
        self._settled: tuple[bool, Sequence[PodStatus]] | None = None
        self._woken = asyncio.Event()
        # Set once everything that was wanted at the start was tried.
        self.has_looked = asyncio.Event()

    def add(self, source: PodSource) -> None:
        """One more source of pods; call it before the first look, which would miss its pods and stop them."""
        self._sources.append(source)

    def wake(self) -> None:
        """Something has changed: look now."""
        self._settled = None
        self._woken.set()

    @property
    def held(self) -> list[str]:
        """`namespace/name` of pods that were deleted by hand and stay away."""
        return [] if self._holds is None else self._holds.names

    def wanted(self, name: str) -> Pod | None:
        """The pod of this `namespace/name`, where a source has it: also one that is held."""
        found = (wish.manifest.pod for wish in self._wishes.values())
        return next((pod for pod in found if str(pod) == name), None)

    def release(self, name: str) -> None:
        """A pod that was held may start. Raises WriteError."""
        if self._holds is not None:
            self._holds.release(name)
        self.wake()

    def delete(self, status: PodStatus, grace_seconds: int | None) -> asyncio.Future[None]:
        """End a pod that is wanted, and keep it away. First on record, then done. Raises WriteError."""
        wish = self._wishes.get(status.pod.uid)
        if wish is not None and self._holds is not None:
            self._holds.hold(wish.manifest)
        return self._stop(status, grace_seconds)

    def restart(self, status: PodStatus, grace_seconds: int | None) -> asyncio.Future[None]:
        """End a pod; that it is still wanted makes it start again."""
        self.release(str(status.pod))
        ending = self._stop(status, grace_seconds)
        ending.add_done_callback(lambda _: self.wake())
        return ending

    async def stop_all(self) -> None:
        """End every pod in its own time and start none; returns when all are gone or were given up."""
        self._is_closing = True
        await asyncio.gather(*(self._stop(status, None) for status in self._runtime.statuses()))

    def is_starting(self, uid: str) -> bool:
        """Whether the pod is about to start: it cannot be told yet whether it runs."""
        return uid == self._starting

    async def run(self) -> None:
        """Until cancelled; pods on their way out go on leaving."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._woken.clear()
                await self.look()
                self.has_looked.set()
                try:
                    async with asyncio.timeout(to_next_beat(loop.time(), LOOK_SECONDS)):
                        await self._woken.wait()
                except TimeoutError:
                    continue
        finally:
            for call in self._stops.values():
                call.task.cancel()

    async def look(self) -> None:
        """One comparison, and what follows from it."""
        # As a kubelet does: a pod is known to be unwanted only once every source has answered. Checked before their
        # pods are read: a source that gets its answer meanwhile has not passed it on yet.
        is_certain = all(source.is_known for source in self._sources)
        looks = [await source.look() for source in self._sources]  # all of them, not up to the first change
        if any(looks):
            self._wishes = {uid: wish for source in self._sources for uid, wish in source.wishes().items()}
            if is_certain:
                self._forget_holds()
        if self._is_closing:
            return
        statuses = self._runtime.statuses()
        if not any(looks) and self._is_settled(statuses, is_certain=is_certain):
            return
        is_idle = await self._compare(statuses, is_certain=is_certain)
        self._settled = (is_certain, statuses) if is_idle else None

    def _is_settled(self, statuses: Sequence[PodStatus], *, is_certain: bool) -> bool:
        """Whether the comparison would find nothing to do again; with 110 idle pods it is a tenth of the agent's time.

        A status is made anew when it changes, so the same objects mean the same answer.
        """
        if self._settled is None:
            return False
        was_certain, before = self._settled
        return was_certain == is_certain and len(before) == len(statuses) and all(map(is_, before, statuses))

    async def _compare(self, statuses: Sequence[PodStatus], *, is_certain: bool) -> bool:
        """Stop and start what is due; True when there was nothing."""
        known = {status.pod.uid: status for status in statuses}
        is_idle = True
        for uid, status in known.items():
            wish = self._wishes.get(uid)
            is_held = wish is not None and self._is_held(wish)
            is_to_end = wish is not None and (
                wish.grace_seconds is not None or (wish.is_over and status.phase not in ENDED_PHASES)
            )
            if is_held or is_to_end or (wish is None and is_certain):
                is_idle = False
                self._stop(status, None if wish is None or is_held else wish.grace_seconds)
                # One after another: each takes a few milliseconds, and one file may have named hundreds.
                await asyncio.sleep(0)
            elif wish is not None and status.phase not in ENDED_PHASES and _has_more(wish.manifest, status):
                is_idle = False
                await self._attempt(f"add containers to {status.pod}", self._runtime.add(wish.manifest))
        # Critical pods first, then by priority: on a full node the important ones get the room.
        new = {uid: wish.manifest for uid, wish in self._wishes.items() if uid not in known and self._may_run(wish)}
        self._failed = {uid: failed for uid, failed in self._failed.items() if uid in new}
        due = [manifest for uid, manifest in new.items() if self._is_due(uid)]
        for manifest in sorted(due, key=lambda each: (not each.pod.is_critical, -each.pod.effective_priority)):
            await self._start(manifest)
            await asyncio.sleep(0)  # a refusal waits for nothing, and takes two milliseconds
            if self._woken.is_set():
                break  # the others may be wanted no longer
        return is_idle and not new

    def _is_due(self, uid: str) -> bool:
        return uid not in self._failed or self._clock.monotonic_ns() >= self._failed[uid].until_ns

    def _may_run(self, wish: Wish) -> bool:
        return wish.is_to_run and not self._is_held(wish)

    def _is_held(self, wish: Wish) -> bool:
        return self._holds is not None and self._holds.holds(wish.manifest)

    def _forget_holds(self) -> None:
        if self._holds is not None and self._holds.names:
            try:
                self._holds.keep_only({str(wish.manifest.pod): wish.manifest for wish in self._wishes.values()})
            except WriteError as error:
                self._emit(events.ActionFailed("forget which pods were deleted", str(error)))

    async def _start(self, manifest: PodManifest) -> None:
        self._starting = uid = manifest.pod.uid
        try:
            has_started = await self._attempt(f"start {manifest.pod}", self.admitter.admit(manifest))
        finally:
            self._starting = ""
        failed = self._failed.pop(uid, None)
        if not has_started:
            pause_ns = _FIRST_PAUSE_NS if failed is None else min(2 * failed.pause_ns, _LONGEST_PAUSE_NS)
            self._failed[uid] = _Failed(self._clock.monotonic_ns() + pause_ns, pause_ns)

    def _stop(self, status: PodStatus, grace_seconds: int | None) -> asyncio.Future[None]:
        """In a task of its own: a pod may take its whole grace period, and others want to start meanwhile."""
        uid = status.pod.uid
        under_way = self._stops.get(uid)
        if under_way is not None and not _is_shorter(grace_seconds, under_way.grace_seconds):
            return under_way.task
        task = asyncio.create_task(self._end(status, grace_seconds))
        self._stops[uid] = _Call(grace_seconds, task)
        task.add_done_callback(lambda _: self._stopped(uid, task))
        return task

    async def _end(self, status: PodStatus, grace_seconds: int | None) -> None:
        await self._attempt(f"stop {status.pod}", self._runtime.stop(status.pod.uid, grace_seconds))

    def _stopped(self, uid: str, task: asyncio.Task[None]) -> None:
        # Of a pod that was told to hurry there are two, and the first to return is not the last word.
        if (call := self._stops.get(uid)) is not None and call.task is task:
            del self._stops[uid]

    async def _attempt(self, what: str, action: Awaitable[object]) -> bool:
        """Whether it was done."""
        try:
            await action
        except RuntimeFailure as error:
            self._emit(events.ActionFailed(what, str(error)))
            return False
        return True


def _has_more(wanted: PodManifest, status: PodStatus) -> bool:
    """Whether ephemeral containers were added to the pod since the runtime has heard of it."""
    if wanted.document is status.document or not wanted.ephemeral:
        return False
    known = {each.get("name") for each in PodManifest(status.pod, status.document).ephemeral}
    return any(each.get("name") not in known for each in wanted.ephemeral)


def _is_shorter(seconds: int | None, than: int | None) -> bool:
    return seconds is not None and (than is None or seconds < than)
