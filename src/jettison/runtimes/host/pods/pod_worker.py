"""The life of one pod, from its start until nothing is left of it.

Written as a look at what is and a step towards what should be, repeated whenever something has changed, rather than as
a script: that way a pod found after a restart of the agent needs hardly any code of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from jettison import events
from jettison.engine.node.evictions import Eviction, effective_grace
from jettison.errors import RuntimeFailure, StartError
from jettison.runtimes.host.measure.active import ActivePod
from jettison.runtimes.host.pods import lifecycle, reports, runs
from jettison.runtimes.host.pods.background_tasks import Errands
from jettison.runtimes.host.pods.containers import Container
from jettison.runtimes.host.pods.deadlines import Deadline
from jettison.runtimes.host.pods.ending import Ending, clean_up
from jettison.runtimes.host.pods.kept_answers import KeptAnswer
from jettison.runtimes.host.pods.phases import Seen
from jettison.runtimes.host.pods.records import ContainerRecord, EndingRecord, OrderRecord, PodRecord
from jettison.runtimes.host.pods.wake import Wake
from jettison.runtimes.host.processes.entering import Entrance
from jettison.runtimes.host.specs.refusals import FAILED_MOUNT, NO_CGROUP, Refusal, Trouble, not_set_up, read_spec
from jettison.runtimes.host.specs.spec import ContainerSpec, PodSpec
from jettison.runtimes.host.volumes import volumes
from jettison.runtimes.host.volumes.pod_directories import Household, PodHome
from jettison.runtimes.protocol import PodManifest, PodStatus, Untold

# Between two attempts to set up what a pod needs before any of its containers.
_SET_UP_AGAIN = runs.FIRST_BACK_OFF


class PodWorker:
    """One pod. `begun`, `stopped` and `cleaned` are resolved when it has come that far."""

    def __init__(self, household: Household, manifest: PodManifest, spec: PodSpec | Refusal, record: PodRecord) -> None:
        self.manifest = manifest
        self.record = record
        self._household = household
        self._woken = Wake()
        self._place = household.places.of_pod(manifest.pod)
        # Set while the pod waits for what this host does not have: then it has no containers, and runs nothing.
        self._refusal = spec if isinstance(spec, Refusal) else None
        self._trouble = None if self._refusal is None else self._refusal.trouble
        self._take_up(PodSpec((), deadline_seconds=spec.deadline_seconds) if isinstance(spec, Refusal) else spec)
        self._ending: Ending | None = None
        self._life: asyncio.Task[None] | None = None
        # Rings when it has been active for as long as it may.
        self._deadline: asyncio.TimerHandle | None = None
        self._status = KeptAnswer[PodStatus]()
        self._active = KeptAnswer[ActivePod]()
        self._errands = Errands(household.emit, f"pod {manifest.pod}")
        # Of each container the run whose back-off was told.
        self._announced: dict[str, int] = {}
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.stopped: asyncio.Future[None] = loop.create_future()
        self.cleaned: asyncio.Future[None] = loop.create_future()

    @property
    def is_idle(self) -> bool:
        """It waits for what this host does not have: nothing of it is there to be measured, and nothing to be freed."""
        return self._refusal is not None

    @property
    def grace_seconds(self) -> int:
        """Its own."""
        return self._spec.grace_seconds

    @property
    def containers(self) -> list[Container]:
        """In the order in which they start."""
        return self._inits + self._regulars

    def start(self) -> None:
        """Begin to live."""
        self._life = self._errands.begin(self._live())
        self._life.add_done_callback(self._say_begun)
        seconds = self._spec.deadline_seconds
        if seconds is not None:
            # It counts from the pod's own start, so also while there is no agent.
            passed = self._seconds_since(self.record.started_monotonic_ns)
            self._deadline = asyncio.get_running_loop().call_later(max(seconds - passed, 0.0), self._exceed, seconds)

    def adopt(self, *, is_same_boot: bool) -> None:
        """Go on where an agent that died has left off."""
        if self.record.is_cleaned:
            self.stopped.set_result(None)
            self.cleaned.set_result(None)
            return
        for container in self.containers:
            container.adopt(is_same_boot=is_same_boot)
        ending = self.record.ending
        if self.record.verdict is not None:
            self.stopped.set_result(None)
            self._errands.begin(self._clear_away())
        elif ending is not None:
            left = min(-self._seconds_since(ending.until_monotonic_ns), ending.grace_seconds)
            began = self._seconds_since(ending.began_monotonic_ns)
            self._begin_ending(max(left, 0.0), is_at_once=ending.is_at_once, began_ago=max(began, 0.0))
        else:
            self.start()

    def end(
        self, order: Eviction | None, override: int | None, *, is_at_once: bool = False, is_unwanted: bool = False
    ) -> None:
        """Begin to end the pod, or hurry. When this returns the intention is on record and the signals are sent."""
        now_ns, known = self._now_ns(), self.record.ending
        before = known or EndingRecord(0, now_ns)
        grace = effective_grace(override=override, pod_grace=self._spec.grace_seconds, in_force=before.grace_seconds)
        until_ns = now_ns + grace * runs.SECOND_NS
        ending = replace(
            before,
            grace_seconds=grace,
            until_monotonic_ns=until_ns if known is None else min(known.until_monotonic_ns, until_ns),
            order=before.order if order is None else OrderRecord.of(order),
            is_untold=before.is_untold or order is not None,
            is_at_once=is_at_once or before.is_at_once,
        )
        self._note(replace(self.record, ending=ending, is_unwanted=is_unwanted or self.record.is_unwanted))
        if self._ending is None:
            self._begin_ending(grace, is_at_once=is_at_once)
        else:
            self._ending.hurry(grace, is_at_once=is_at_once)

    @property
    def untold(self) -> Untold | None:
        """An eviction of which not all is on record."""
        ending, has_stopped = self.record.ending, self.record.verdict is not None
        if ending is None or ending.order is None or not (ending.is_untold or not has_stopped):
            return None
        order = ending.order.eviction(self.manifest.pod, is_at_once=ending.is_at_once)
        return Untold(order, ending.began_monotonic_ns, has_stopped=has_stopped)

    def told(self) -> None:
        """All of it is."""
        ending = self.record.ending
        if ending is not None and ending.is_untold:
            self._note(replace(self.record, ending=replace(ending, is_untold=False)))

    def doom(self) -> None:
        """Nobody wants to know of the pod any more, though it has ended: remember that until it is forgotten."""
        self._note(replace(self.record, is_unwanted=True))

    async def dispose(self) -> None:
        """Remove what is left of a pod that has ended, and its record. Its logs stay."""
        await clean_up(self._home, self._place, is_all=True)
        self._household.files.forget(self.record.uid)

    async def detach(self) -> None:
        """Let go of the pod; its processes live on."""
        self._end_deadline()
        await self._errands.cancel()
        for container in self.containers:
            await container.detach()

    def status(self) -> PodStatus:
        """As Kubernetes would tell it."""
        return self._status.get(self._parts(), self._make_status)

    def active(self) -> ActivePod:
        """What there is to be measured."""
        return self._active.get(self._parts(), self._make_active)

    def entrance(self, container: str) -> Entrance:
        """Into one of its containers. Raises StartError where that does not run or is not there."""
        names = [each.spec.name for each in self.containers]
        if container not in names:
            raise StartError(f"pod `{self.manifest.pod}` has no container `{container}`, there is {', '.join(names)}")
        return self.containers[names.index(container)].entrance()

    def logs(self) -> Iterator[str]:
        """Those that are being written."""
        return (each.log_path for each in self.containers if each.is_active)

    def _parts(self) -> list[object]:
        parts: list[object] = [self.record, self._trouble, self._home.volumes]
        for each in self.containers:
            parts += (each.record, each.pid, each.is_active, each.is_ready)
        return parts

    def _seen(self) -> tuple[Sequence[Seen], Sequence[Seen]]:
        if self._refusal is not None:
            return self._refusal.inits, self._refusal.regulars
        return reports.seen(self._inits), reports.seen(self._regulars)

    def _make_status(self) -> PodStatus:
        inits, regulars = self._seen()
        return reports.pod_status(self.manifest, self._spec, self.record, inits, regulars, self._trouble)

    def _make_active(self) -> ActivePod:
        return reports.active_pod(self.manifest, self._home, self.containers)

    def _take_up(self, spec: PodSpec) -> None:
        self._spec = spec
        self._home = PodHome(self._household, self.manifest.pod, spec.grace_seconds, self._woken.set)
        known = {each.name: each for each in self.record.containers}
        self._inits = [self._container(each, known) for each in spec.init_containers]
        self._regulars = [self._container(each, known) for each in spec.containers]

    def _container(self, spec: ContainerSpec, known: Mapping[str, ContainerRecord]) -> Container:
        return Container(spec, self._home, known.get(spec.name) or ContainerRecord(spec.name), self._keep)

    async def _live(self) -> None:
        await self._set_up()
        while not (plan := self._plan()).is_over:
            self._woken.clear()
            if plan.is_initialized and not self.record.is_initialized:
                self._note(replace(self.record, is_initialized=True))
            for container in self.containers:
                if container.spec.name in plan.start:
                    await container.start()
                elif container.spec.name in plan.waiting:
                    self._announce(container)
            self._say_begun()
            # What was started may already allow the next step.
            if not plan.start:
                await self._woken.wait(self._seconds_until(plan.due_ns))
        self._life = None
        self._begin_ending(self._spec.grace_seconds, is_at_once=False)

    def _plan(self) -> lifecycle.Plan:
        return lifecycle.plan(
            self._spec.restart_policy,
            reports.seen(self._inits),
            reports.seen(self._regulars),
            self._now_ns(),
            was_initialized=self.record.is_initialized,
        )

    async def _set_up(self) -> None:
        """Until it is done. What the host does not have it will hardly have soon, so that is asked for ever less."""
        pause = _SET_UP_AGAIN
        if self._refusal is not None:
            # A former version of this program may have run what this one refuses.
            await self._household.vacate(self._place, partial(events.KillFailed, self.manifest.pod, ""))
        trouble = self._trouble or await self._attempt_set_up()
        while trouble is not None:
            self._trouble = trouble
            self._household.emit(
                events.PodWaiting(self.manifest.pod, trouble.reason, trouble.told, trouble.event, pause)
            )
            self._say_begun()
            await asyncio.sleep(pause)
            if self._refusal is not None:
                pause = min(2 * pause, runs.LONGEST_BACK_OFF)
            trouble = await self._attempt_set_up()
        self._trouble = None

    async def _attempt_set_up(self) -> Trouble | None:
        if self._refusal is not None:
            spec = await self._household.wait_for(read_spec, self.manifest)
            if isinstance(spec, Refusal):
                return spec.trouble
            self._refusal = None
            self._take_up(spec)
        try:
            self._place.create()
        except RuntimeFailure as failure:
            return not_set_up(NO_CGROUP, str(failure))
        try:
            self._home.volumes = await self._household.wait_for(self._furnish)
        except RuntimeFailure as failure:
            return not_set_up(FAILED_MOUNT, str(failure))
        return None

    def _furnish(self) -> tuple[volumes.Volume, ...]:
        """The pod's directory and its volumes. May wait for a disk."""
        users = {each.spec.security.user for each in self.containers}
        self._home.build(user for user in users if user is not None)
        return volumes.prepare(self._home.volumes_dir, self._spec.volumes, self._spec.fs_group)

    def _seconds_until(self, due_ns: int | None) -> float | None:
        return None if due_ns is None else max((due_ns - self._now_ns()) / runs.SECOND_NS, 0.0)

    def _exceed(self, seconds: int) -> None:
        grace, now_ns = self._spec.grace_seconds, self._now_ns()
        ending = EndingRecord(grace, now_ns, now_ns + grace * runs.SECOND_NS, is_overdue=True)
        self._note(replace(self.record, ending=ending))
        self._begin_ending(grace, is_at_once=False)
        self._household.emit(events.DeadlineExceeded(self.manifest.pod, seconds))

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _begin_ending(self, seconds: float, *, is_at_once: bool, began_ago: float = 0.0) -> None:
        self._end_deadline()
        sidecars = [each for each in self._inits if each.spec.is_sidecar]
        regulars = [each for each in self.containers if not each.spec.is_sidecar]
        began_at = asyncio.get_running_loop().time() - began_ago
        self._ending = Ending(regulars, sidecars, Deadline(seconds), began_at)
        if self._life is not None:
            self._life.cancel()
        self._ending.begin(is_at_once=is_at_once)
        self._errands.begin(self._die(self._ending))

    async def _die(self, ending: Ending) -> None:
        await ending.run()
        if self._life is not None:
            await asyncio.wait([self._life])
        last = self.record.ending
        order = last.order.eviction(self.manifest.pod) if last is not None and last.order is not None else None
        inits, regulars = self._seen()
        verdict = reports.final_verdict(self.manifest, self.record, order, inits, regulars)
        self._note(replace(self.record, verdict=verdict))
        self.stopped.set_result(None)
        await self._clear_away()

    async def _clear_away(self) -> None:
        """Of a pod that ended by itself the writable directories stay until room is short."""
        ending = self.record.ending
        is_evicted = ending is not None and ending.order is not None
        await clean_up(self._home, self._place, is_all=is_evicted or self.record.is_unwanted)
        self._note(replace(self.record, is_cleaned=True))
        if not is_evicted:
            # Whoever ordered an eviction watches for its end and tells it.
            self._household.emit(events.PodCleanedUp(self.manifest.pod))
        self.cleaned.set_result(None)

    def _keep(self, changed: ContainerRecord) -> None:
        containers = tuple(changed if each.spec.name == changed.name else each.record for each in self.containers)
        record = replace(self.record, containers=containers)
        self._household.files.save(record)
        self.record = record

    def _note(self, record: PodRecord) -> None:
        """What is decided is done, also when the disk does not take the record: room comes from ending pods."""
        self.record = replace(record, containers=tuple(each.record for each in self.containers))
        try:
            self._household.files.save(self.record)
        except RuntimeFailure as failure:
            self._household.emit(events.ActionFailed(f"record pod {self.manifest.pod}", str(failure)))

    def _say_begun(self, _: object = None) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    def _announce(self, container: Container) -> None:
        record = container.record
        if self._announced.get(record.name) != record.run:
            self._announced[record.name] = record.run
            self._household.emit(events.ContainerBackOff(self.manifest.pod, record.name, record.back_off))

    def _seconds_since(self, monotonic_ns: int | None) -> float:
        return 0.0 if monotonic_ns is None else (self._now_ns() - monotonic_ns) / runs.SECOND_NS

    def _now_ns(self) -> int:
        """For measuring; nothing here tells a time."""
        return self._household.clock.monotonic_ns()
