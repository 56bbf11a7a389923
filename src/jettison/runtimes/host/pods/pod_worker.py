"""The driver of one pod's life on this host: it turns what happened into events, and effects into calls.

The rules are in `engine.lifecycle`. Here is what touches processes, cgroups, files and the event loop. An idle pod has
neither a task nor a timer.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from jettison import events
from jettison.clock import Instant
from jettison.engine.lifecycle import effects as fx
from jettison.engine.lifecycle import events as ev
from jettison.engine.lifecycle.life import advance
from jettison.engine.lifecycle.state import PodLife
from jettison.errors import ContentError, ImageError, RuntimeFailure, StartError
from jettison.runtimes.host.pods import reports
from jettison.runtimes.host.pods.containers import Container
from jettison.runtimes.host.pods.record_files import Saving
from jettison.runtimes.host.pods.records import ContainerRecord, PodRecord, PodRecorder, life_of
from jettison.runtimes.host.pods.reports import ActivePod, KeptAnswer
from jettison.runtimes.host.pods.supplies import PodSupplies
from jettison.runtimes.host.processes.processes import EndedProcess, Process, WayIn
from jettison.runtimes.host.specs.spec import (
    ContainerSpec,
    PodSpec,
    Refusal,
    no_image,
    not_configured,
    offer_for,
    read_spec,
)
from jettison.runtimes.host.volumes.pod_directories import HostServices, PodDirectories
from jettison.runtimes.host.volumes.removal import clean_up, remove_directory
from jettison.runtimes.machine.background_tasks import BackgroundTasks
from jettison.runtimes.protocol import EndingPod, PodManifest, PodStatus, ProbeCount

_SECOND_NS = 10**9
_SWEEP = "sweep"
# To look for what is left of a container takes 0.1 ms.
_FOUND_AT_ONCE = 4


class PodWorker:
    """One pod. `begun`, `stopped` and `cleaned` are resolved when it has come that far."""

    def __init__(
        self, services: HostServices, manifest: PodManifest, spec: PodSpec | Refusal, record: PodRecord
    ) -> None:
        self.manifest = manifest
        self._services = services
        self._pace = services.settings.pace
        self._place = services.places.of_pod(manifest.pod)
        self._directories = PodDirectories(services, manifest.pod, addresses=record.addresses)
        self._recorder = PodRecorder(record)
        self._refusal = spec if isinstance(spec, Refusal) else None
        self._spec = spec.spec if isinstance(spec, Refusal) else spec
        trouble = None if self._refusal is None else self._refusal.trouble
        self.life: PodLife = life_of(record, manifest.pod, self._spec, trouble, self._pace.pauses)
        self._supplies = PodSupplies(self._directories, manifest, self._spec)
        self._containers: dict[str, Container] = {}
        self._containers |= self._made(record)
        self._timer: asyncio.TimerHandle | None = None
        self._has_rung = False
        # What happens while it is found out what an earlier agent has left; None at all other times.
        self._early: list[ev.Event] | None = None
        # What is to be done, in order, while a signal waits for a record.
        self._wanted: list[fx.Effect] = []
        # The last life that was given to be written and the record of it, while that is on its way.
        self._saved: PodLife | None = None
        self._saving: Saving | None = None
        # The record before which no signal is sent, and when that is over all the same.
        self._barrier: Saving | None = None
        self._overdue: asyncio.TimerHandle | None = None
        self._is_detached = False
        self._status = KeptAnswer[PodStatus]()
        # Not made by its full name, which it would keep: 0.6 kB.
        self._probe_counts: Counter[tuple[str, str, str]] = Counter()
        self._active = KeptAnswer[ActivePod]()
        self._background = BackgroundTasks(services.emit, f"pod {manifest.pod}")
        # What can be cancelled, by what it is and for which container.
        self._cancellable: dict[tuple[str, str], asyncio.Task[None]] = {}
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.stopped: asyncio.Future[None] = loop.create_future()
        self.cleaned: asyncio.Future[None] = loop.create_future()

    def _made(self, record: PodRecord) -> dict[str, Container]:
        known = {each.name: each for each in record.containers}
        return {each.name: self._container(each, known.get(each.name)) for each in self._spec.everything}

    def _container(self, spec: ContainerSpec, known: ContainerRecord | None = None) -> Container:
        return Container(spec, self._spec, self._directories, known, self._containers.get)

    @property
    def grace_seconds(self) -> int:
        """Its own."""
        return self._spec.grace_seconds

    def start(self) -> None:
        """Begin to live."""
        self.feed(ev.Asked(self.now()))

    async def add(self, ephemeral: Sequence[Any]) -> None:
        """Ephemeral containers that its document has by now; of the rest of it the pod keeps what it began with."""
        spec = {**self.manifest.document["spec"], "ephemeralContainers": list(ephemeral)}
        manifest = replace(self.manifest, document={**self.manifest.document, "spec": spec})
        found = None if self._refusal is not None else await self._services.wait_for(self._read, manifest)
        self.manifest = manifest
        self._supplies.know(manifest)
        self._recorder.change(document=manifest.document)
        if isinstance(found, Refusal):
            self._services.emit(events.ActionFailed(f"add containers to pod {manifest.pod}", found.trouble.message))
        elif found is not None:
            new = found.ephemeral_containers
            self._spec = replace(self._spec, ephemeral_containers=new)
            self._containers |= {each.name: self._container(each) for each in new if each.name not in self._containers}
        self.feed(ev.Added(self.now(), self._spec))

    def _read(self, manifest: PodManifest) -> PodSpec | Refusal:
        return read_spec(manifest, offer_for(self._services.offer, is_boxed=self._spec.is_boxed))

    async def adopt(self, *, is_same_boot: bool) -> None:
        """Go on where an agent that died has left off."""
        found = () if self.life.is_cleaned or self._refusal is not None else tuple(self._containers.values())
        remains, early = list[ev.FoundContainer](), list[ev.Event]()
        self._early = early
        for number, each in enumerate(found):
            if number % _FOUND_AT_ONCE == 0:
                await self._services.turns.next()
                if self._is_detached:
                    return
            remains.append(each.find(is_same_boot=is_same_boot))
        self._early = None
        self.feed(ev.Found(self.now(), tuple(remains)))
        for each in found:
            if each.process is not None:
                self._attend(each, each.process)
        for event in early:
            self.feed(event)

    def now(self) -> Instant:
        """For an event."""
        return Instant.of(self._services.clock)

    def feed(self, event: ev.Event | None = None) -> None:
        """Something happened to the pod; without an event, what had to wait for a record is gone on with.

        Signals are sent from right here: from the agent's decision to the kernel there are six calls, and each of them
        is one that a reader has to follow. None is sent before the record that says why, which is written by a thread:
        an eviction waits for that in place, for half a millisecond, because what comes next in the loop takes longer.
        After that everything waits for the record without holding up the loop, but no longer than a disk may take.
        """
        if self._is_detached:
            return
        if self._early is not None and event is not None:
            self._early.append(event)
            return
        wanted, patience = self._wanted, 0.0
        if event is not None:
            self.life, new = advance(self.life, event)
            self._services.changes.happen()
            wanted += new
            patience = self._pace.in_place if isinstance(event, ev.ToldToEnd) and event.order is not None else 0.0
        while wanted:
            effect = wanted[0]
            if isinstance(effect, (fx.Signal, fx.Kill)) and not self._is_recorded(patience):
                break
            del wanted[0]
            if isinstance(effect, fx.Save):
                self._save_in_order(effect)
            elif isinstance(effect, (fx.Signal, fx.Kill)):
                container = self._containers[effect.container]
                process = container.process
                try:
                    if process is not None:
                        process.signal(container.stop_signal if isinstance(effect, fx.Signal) else signal.SIGKILL)
                    if isinstance(effect, fx.Kill):
                        self._kill_the_rest(effect.container)
                except RuntimeFailure as failure:
                    self._services.emit(events.KillFailed(self.manifest.pod, effect.container, str(failure)))
            else:
                self._CARRY_OUT[type(effect)](self, effect)
        self._resolve()

    def _save_in_order(self, effect: fx.Save) -> None:
        # What is said late is said once for all that was done.
        if effect.is_late and any(isinstance(each, fx.Save) for each in self._wanted):
            return
        if effect.life is not self._saved:
            self._save(effect.life)
        if not effect.is_late:
            self._barrier = self._saving

    def _is_recorded(self, patience: float) -> bool:
        """Whether a signal may be sent: what was to be on record first is there, or the disk had time enough for it."""
        barrier = self._barrier
        if barrier is not None and not barrier.is_over(patience):
            loop = asyncio.get_running_loop()
            left = barrier.begun_at + self._pace.record - loop.time()
            if left > 0:
                if self._overdue is None:
                    self._overdue = loop.call_later(left, self._go_on)
                return False
            why = f"the disk has not taken it for {1000 * self._pace.record:.0f} ms, and signals do not wait any longer"
            self._services.emit(events.ActionFailed(f"record pod {self.manifest.pod}", why))
        self._barrier = None
        return True

    def _go_on(self) -> None:
        self._overdue = None
        self.feed()

    def _kill_the_rest(self, name: str) -> None:
        if (_SWEEP, name) not in self._cancellable:
            self._begin(_SWEEP, name, self._sweep(name, self._containers[name].kill()))

    async def _sweep(self, name: str, killing: Coroutine[Any, Any, str]) -> None:
        try:
            complaint = await killing
        except RuntimeFailure as failure:
            complaint = str(failure)
        if complaint:
            self._services.emit(events.KillFailed(self.manifest.pod, name, complaint))

    async def _swept(self, name: str) -> None:
        """Returns when no kill is under way in the container, which would meet its next run."""
        sweep = self._cancellable.get((_SWEEP, name))
        if sweep is not None:
            await asyncio.wait([sweep])

    def _resolve(self) -> None:
        if not self.begun.done() and self.life.has_begun:
            self.begun.set_result(None)
        if not self.stopped.done() and self.life.has_stopped:
            self.stopped.set_result(None)
        if not self.cleaned.done() and self.life.is_cleaned:
            self.cleaned.set_result(None)

    @property
    def ending(self) -> EndingPod | None:
        """Its eviction, until all of it is told."""
        ending = self.life.ending
        if ending is None or ending.order is None or not (ending.is_untold or not self.life.has_stopped):
            return None
        stopped_ns = self.life.stopped_monotonic_ns
        if stopped_ns is None and self.life.has_stopped:
            # An earlier agent has seen it, and this one says so as soon as it can.
            stopped_ns = ending.began_monotonic_ns
        return EndingPod(ending.order, ending.ordered_monotonic_ns, ending.began_monotonic_ns, stopped_ns)

    async def dispose(self) -> None:
        """Remove what is left of a pod that has ended, and its record. Its logs stay."""
        await clean_up(self._directories, self._place, is_all=True)
        # What is said about it from now on is not recorded.
        self._is_detached = True
        await self._services.files.forget(self._recorder.first.uid)

    async def detach(self) -> None:
        """Let go of the pod; its processes live on."""
        self._is_detached = True
        if self._overdue is not None:
            self._overdue.cancel()
        self._wake_at(fx.WakeAt(None))
        await self._background.cancel()
        for container in self._containers.values():
            container.release()

    def status(self) -> PodStatus:
        """As Kubernetes would tell it."""
        life, addresses = self.life, self._directories.addresses
        parts = (life.containers, life.trouble, life.ending, life.verdict, life.is_initialized, life.is_cleaned)
        return self._status.get(
            (*parts, life.set_up, addresses),
            lambda: reports.pod_status(self.manifest, self.life, self._directories.addresses),
        )

    def active(self) -> ActivePod:
        """What there is to be measured."""
        return self._active.get((self.life.containers, self._directories.volumes), self._make_active)

    def _make_active(self) -> ActivePod:
        parts = [
            self._containers[each.name].active(each.run, is_running=each.has_processes) for each in self.life.containers
        ]
        return reports.active_pod(self.manifest, self._directories, parts)

    def probe_counts(self) -> list[ProbeCount]:
        """Since the agent knows the pod."""
        return [ProbeCount(self.manifest.pod, *key, count) for key, count in self._probe_counts.items()]

    def way_in(self, container: str) -> WayIn:
        """Into one of its containers. Raises StartError where that does not run or is not there."""
        found = next((each for each in self.life.containers if each.name == container), None)
        if found is None:
            names = ", ".join(self._containers)
            raise StartError(f"pod `{self.manifest.pod}` has no container `{container}`, there is {names}")
        return self._containers[container].way_in(found.run)

    def logs(self) -> Iterator[str]:
        """Those that are being written."""
        return (self._containers[each.name].log_path(each.run) for each in self.life.containers if each.has_processes)

    # Carrying out effects. Each answers with an event, now or later.

    def _save(self, life: PodLife) -> Saving:
        record = self._recorder.record(life, self._containers, self._directories.addresses)
        saving = self._services.files.save(record)
        if saving is not self._saving:
            saving.when_over(partial(self._was_saved, saving))
        self._saved, self._saving = life, saving
        return saving

    def _was_saved(self, saving: Saving, written: asyncio.Future[None]) -> None:
        """What is decided is done, also when the disk does not take the record: room comes from ending pods."""
        if self._saving is saving:
            self._saving = self._saved = None
        if self._barrier is saving:
            self._barrier = None
        failure = written.exception()
        if failure is not None:
            self._services.emit(events.ActionFailed(f"record pod {self.manifest.pod}", str(failure)))
        if self._wanted:
            self.feed()

    async def _recorded(self) -> None:
        """Returns when all is on record that was to be, or the disk had time enough for it."""
        if self._saving is not None:
            await self._saving.over(self._pace.record)

    def _say(self, effect: fx.Say) -> None:
        self._services.emit(effect.fact)

    def _wake_at(self, effect: fx.WakeAt) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if effect.monotonic_ns is not None:
            seconds = (effect.monotonic_ns - self._services.clock.monotonic_ns()) / _SECOND_NS
            if seconds > 0:
                self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)
            else:
                self._ring()

    def _ring(self) -> None:
        """Time passes when it is the pod's turn; that of one that is being evicted comes before all others."""
        self._timer = None
        if not self._has_rung:
            self._has_rung = True
            ending = self.life.ending
            self._services.turns.soon(self._pass_time, is_urgent=ending is not None and ending.order is not None)

    def _pass_time(self) -> None:
        self._has_rung = False
        self.feed(ev.TimePassed(self.now()))

    def _begin(
        self, what: str, container: str, work: Coroutine[Any, Any, None], cancelled: Callable[[], None] | None = None
    ) -> None:
        key = what, container
        task = self._background.begin(work)
        self._cancellable[key] = task
        task.add_done_callback(partial(self._finished, key, cancelled))

    def _finished(self, key: tuple[str, str], cancelled: Callable[[], None] | None, task: asyncio.Task[None]) -> None:
        """Told here and not by the work itself: a task that is cancelled early enough never begins."""
        if self._cancellable.get(key) is task:
            del self._cancellable[key]
        if cancelled is not None and task.cancelled():
            cancelled()

    def _cancel(self, what: str, container: str) -> bool:
        task = self._cancellable.get((what, container))
        return task is not None and task.cancel()

    def _set_up(self, _: fx.SetUp) -> None:
        self._begin("set up", "", self._run_set_up(), self._set_up_cancelled)

    def _cancel_set_up(self, _: fx.CancelSetUp) -> None:
        self._cancel("set up", "")

    def _set_up_cancelled(self) -> None:
        self.feed(ev.SetUpCancelled(self.now()))

    async def _run_set_up(self) -> None:
        done = await self._attempt_set_up()
        await self._services.turns.next()
        self.feed(done)

    async def _attempt_set_up(self) -> ev.SetUpDone | ev.SetUpFailed:
        if self._refusal is not None:
            refusal = await self._read_again()
            if refusal is not None:
                return ev.SetUpFailed(self.now(), refusal.trouble, self._spec)
        trouble = await self._supplies.bring(self._spec, tuple(self._containers.values()))
        if trouble is not None:
            return ev.SetUpFailed(self.now(), trouble, self._spec)
        return ev.SetUpDone(self.now(), self._spec)

    async def _read_again(self) -> Refusal | None:
        """Whether the document is still refused; for the first time that is known already."""
        if self.life.set_up_pause:
            spec = await self._services.wait_for(read_spec, self.manifest, self._services.offer)
            if isinstance(spec, PodSpec):
                self._refusal, self._spec = None, spec
                self._supplies.begin_anew(self.manifest, spec)
                self._recorder.change(is_boxed=spec.is_boxed)
                self._containers.clear()
                self._containers |= self._made(self._recorder.first)
            else:
                self._refusal = spec
        else:
            # A former version of this program may have run what this one refuses.
            await self._services.vacate(self._place, partial(events.KillFailed, self.manifest.pod, ""))
        return self._refusal

    @property
    def has_contents(self) -> bool:
        """Whether what its volumes show may have changed: it is set up, and has not ended."""
        is_set_up = self.life.set_up == "done" and self.life.ending is None and self.life.verdict is None
        return is_set_up and any(each.content is not None for each in self._spec.volumes)

    async def refresh(self) -> None:
        """Show what is there now."""
        await self._supplies.refresh(self._spec, lambda: self.has_contents)

    def _start(self, effect: fx.Start) -> None:
        cancelled = partial(self._start_cancelled, effect.container)
        self._begin("start", effect.container, self._run_start(effect, self._saving), cancelled)

    def _cancel_start(self, effect: fx.CancelStart) -> None:
        self._cancel("start", effect.container)

    async def _run_start(self, effect: fx.Start, saving: Saving | None) -> None:
        name = effect.container
        container = self._containers[name]
        await self._swept(name)
        await self._services.turns.next()
        try:
            if saving is not None:
                # What cannot be recorded cannot be found again after a restart, so it does not start.
                await saving.done()
            if container.spec.is_ephemeral:
                await self._supplies.bring_for(container.spec, tuple(self._containers.values()))
            process = await container.start(effect.run, self._note)
        except ContentError as missing:
            self.feed(ev.StartHindered(self.now(), name, not_configured(str(missing))))
        except ImageError as missing:
            self.feed(ev.StartHindered(self.now(), name, no_image(missing)))
        except RuntimeFailure as failure:
            self.feed(ev.NotStarted(self.now(), name, str(failure)))
        else:
            self.feed(ev.Started(self.now(), name))
            self._attend(container, process)

    async def _note(self) -> None:
        """The number of its process, with what is on record of the rest while that waits."""
        life = self._saved if self._wanted and self._saved is not None else self.life
        await self._save(life).done()

    def _start_cancelled(self, name: str) -> None:
        event = ev.StartCancelled(self.now(), name)
        if self._is_detached:
            # The agent goes away: what it leaves on record is that nothing was tried.
            self.life, _ = advance(self.life, event)
            self._save(self.life)
        else:
            self.feed(event)

    def _attend(self, container: Container, process: Process | EndedProcess) -> None:
        process.exited.add_done_callback(partial(self._exited, container))

    def _exited(self, container: Container, exited: asyncio.Future[int | None]) -> None:
        """Sixty may have ended at once."""
        self._services.turns.soon(partial(self._let_go, container, exited.result()))

    def _let_go(self, container: Container, exit_code: int | None) -> None:
        if self._is_detached:
            return
        container.forget_process()
        is_oom = bool(container.place.oom_kills())
        self._background.begin(self._learn_end(container, exit_code, is_oom=is_oom))

    def _run_of(self, name: str) -> int:
        return next((each.run for each in self.life.containers if each.name == name), 0)

    async def _learn_end(self, container: Container, exit_code: int | None, *, is_oom: bool) -> None:
        """What the kernel did not tell a container runtime knows."""
        run = self._run_of(container.spec.name)
        try:
            await container.let_go(run)
        except RuntimeFailure as failure:
            self._services.emit(events.ActionFailed(f"log the end of {container.spec.name}", str(failure)))
        exit_code, is_oom = await container.outcome(exit_code, is_oom=is_oom)
        remark = await container.remark(run, exit_code)
        await self._services.turns.next()
        self.feed(ev.Exited(self.now(), container.spec.name, exit_code, is_oom, remark))

    def _remove(self, effect: fx.Remove) -> None:
        self._background.begin(self._run_remove(effect.container))

    async def _run_remove(self, name: str) -> None:
        failed = partial(events.KillFailed, self.manifest.pod, name)
        container = self._containers[name]
        await self._services.turns.next()
        await self._swept(name)
        await self._services.vacate(container.place, failed)
        container.discard()
        if container.spec.is_ephemeral:
            await self._clear(name)
        await self._services.turns.next()
        self.feed(ev.Removed(self.now(), name))

    async def _clear(self, name: str) -> None:
        """What an ephemeral container wrote is of no use without it, but for its log."""
        try:
            written = self._directories.writable_dir(name, 0).parent
            await self._services.wait_for(remove_directory, self._directories.base, written)
        except RuntimeFailure as failure:
            what = f"clear away what {name} of pod {self.manifest.pod} has written"
            self._services.emit(events.ActionFailed(what, str(failure)))

    def _run_hook(self, effect: fx.RunHook) -> None:
        self._begin(effect.kind, effect.container, self._call_hook(effect))

    async def _call_hook(self, effect: fx.RunHook) -> None:
        await self._recorded()
        await self._services.turns.next()
        why = await self._containers[effect.container].call_hook(effect.kind, effect.run)
        await self._services.turns.next()
        self.feed(ev.HookDone(self.now(), effect.container, effect.run, effect.kind, why))

    def _cancel_hook(self, effect: fx.CancelHook) -> None:
        self._cancel(effect.kind, effect.container)

    def _probe(self, effect: fx.Probe) -> None:
        self._begin(effect.kind, effect.container, self._ask(effect))

    async def _ask(self, effect: fx.Probe) -> None:
        await self._services.turns.next()
        answer = await self._containers[effect.container].ask(effect.kind, effect.run)
        await self._services.turns.next()
        result = "unknown" if answer.is_well is None else "successful" if answer.is_well else "failed"
        self._probe_counts[effect.container, effect.kind, result] += 1
        said = ev.ProbeAnswered(self.now(), effect.container, effect.run, effect.kind, answer.is_well, answer.why)
        self.feed(said)

    def _stop_probing(self, effect: fx.StopProbing) -> None:
        self._cancel(effect.kind, effect.container)

    def _clean_up(self, effect: fx.CleanUp) -> None:
        self._background.begin(self._run_clean_up(effect))

    async def _run_clean_up(self, effect: fx.CleanUp) -> None:
        await self._recorded()
        await clean_up(self._directories, self._place, is_all=effect.is_all)
        if self._spec.is_boxed and self._services.boxes is not None:
            self._services.boxes.discard_pod(self._recorder.first.uid)
        await self._services.turns.next()
        self.feed(ev.CleanedUp(self.now()))

    _CARRY_OUT: ClassVar[dict[type[fx.Effect], Callable[[PodWorker, Any], None]]] = {
        fx.Say: _say,
        fx.WakeAt: _wake_at,
        fx.SetUp: _set_up,
        fx.CancelSetUp: _cancel_set_up,
        fx.Start: _start,
        fx.CancelStart: _cancel_start,
        fx.Remove: _remove,
        fx.RunHook: _run_hook,
        fx.CancelHook: _cancel_hook,
        fx.Probe: _probe,
        fx.StopProbing: _stop_probing,
        fx.CleanUp: _clean_up,
    }
