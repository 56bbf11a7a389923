"""All pods of the node: started, ended, remembered, and found again after the agent's own death.

A damaged file must not cost a pod its life, so the record of a pod that runs and has none is made from what the kernel
and the disk still know. The uid is in the name of its cgroup, the document in the manifest that asks for it. Each
container has a place of its own, and of the processes there that lead a session the oldest is the one that the agent
started. How often it was restarted its directories tell. What became of containers that have ended is lost: they begin
anew, as their policy wants; an ephemeral one that has a log has run, and does not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jettison import events
from jettison.clock import Instant, to_next_beat
from jettison.engine.lifecycle.events import EvictionTold, ToldToEnd
from jettison.engine.lifecycle.state import Verdict
from jettison.engine.node.evictions import Eviction, kill_wait
from jettison.engine.pods.pod import FAILED
from jettison.errors import (
    InputError,
    JettisonError,
    ManifestError,
    ObservationError,
    PodGone,
    RuntimeFailure,
    StartError,
    StillRunning,
)
from jettison.manifests.pods import pod_from
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.pods.pod_worker import PodWorker
from jettison.runtimes.host.pods.records import ContainerRecord, PodRecord, in_this_boot
from jettison.runtimes.host.pods.reports import ActivePod, KeptAnswer
from jettison.runtimes.host.processes.processes import WayIn, seal_descriptors
from jettison.runtimes.host.settings import checked_uid
from jettison.runtimes.host.specs.spec import ContainerSpec, PodSpec, Refusal, offer_for, read_spec, refusal_of
from jettison.runtimes.host.volumes import log_times, logs
from jettison.runtimes.host.volumes.pod_directories import HostServices, PodDirectories
from jettison.runtimes.host.volumes.removal import remove_directory
from jettison.runtimes.linux.proc import boot_id
from jettison.runtimes.linux.processes import Process, read_process
from jettison.runtimes.machine.background_tasks import BackgroundTasks
from jettison.runtimes.protocol import EndingPod, PodManifest, PodStatus, ProbeCount
from jettison.values import frozen

CLEAN_UP_WAIT = 30
"""Seconds for which one waits until a pod that has stopped is cleared away (spec §9.6)."""

# How long the start waits for stray processes to die; they are ended in any case.
_STRAYS_WAIT = 10.0

_TICKS = os.sysconf("SC_CLK_TCK")

_INIT_DONE = (
    "Unable to get init container status from container runtime and pod has been initialized, treat it as exited "
    "normally"
)


@frozen
class _Remembered:
    """A pod that never ran here: it was not admitted."""

    manifest: PodManifest
    verdict: Verdict

    def status(self) -> PodStatus:
        verdict = self.verdict
        return PodStatus(
            self.manifest.pod, verdict.phase, verdict.reason, verdict.message, document=self.manifest.document
        )


class Supervisor:
    """Belongs to one event loop. `adopt` comes first."""

    def __init__(self, services: HostServices, ended: Callable[[], None] = lambda: None) -> None:
        self._services = services
        # Called when a pod has stopped, and again when nothing is left of it.
        self._ended = ended
        self._boot_id = boot_id()
        self._background = BackgroundTasks(services.emit, "the node's pods")
        self._statuses = KeptAnswer[Sequence[PodStatus]]()
        # In the order in which they came.
        self._pods: dict[str, PodWorker | _Remembered] = {}
        # What is under way to forget pods, to wait by. That a pod is unwanted its life says.
        self._forgetting: dict[str, asyncio.Task[None]] = {}
        # Pods that run here and have no record any more: what they are is unknown until a source asks for them.
        self._lost: dict[str, Place] = {}
        seal_descriptors()

    async def adopt(self) -> None:
        """Go on where an agent that died has left off, and remove what belongs to no pod."""
        self._background.begin(self._services.orphans.reap_for_ever())
        loaded = self._services.files.load()
        for why in loaded.broken:
            self._services.emit(events.ActionFailed("read a pod's record", why))
        now = Instant.of(self._services.clock)
        for record in loaded.records:
            try:
                self._keep(record.uid, self._recalled(in_this_boot(record, self._boot_id, now)))
            except ManifestError as error:
                why = self._services.files.set_aside(record.uid, str(error))
                self._services.emit(events.ActionFailed("read a pod's record", why))
        await self._remove_strays()
        ours = {record.uid for record in loaded.records if record.boot_id == self._boot_id}
        for uid, entry in list(self._pods.items()):
            if isinstance(entry, PodWorker):
                await entry.adopt(is_same_boot=uid in ours)
                if entry.life.is_unwanted:
                    self._forget_soon(uid, entry)
        if self._services.boxes is not None:
            kept = {uid for uid in self._pods if self._may_have_processes(uid)} | self._lost.keys()
            self._background.begin(self._services.boxes.sweep(kept))
        self._background.begin(self._tend_logs())
        self._background.begin(self._tend_volumes())

    async def close(self) -> None:
        """Let go of all pods; they live on, and the next agent finds them."""
        await self._background.cancel()
        for entry in self._pods.values():
            if isinstance(entry, PodWorker):
                await entry.detach()
        await self._services.files.settle()
        self._services.files.close()
        await self._services.close()

    async def start(self, manifest: PodManifest) -> None:
        """Run the pod. A pod that is here already is left alone; one that has ended begins anew."""
        uid = _checked_uid(manifest)
        known = self._pods.get(uid)
        if isinstance(known, PodWorker) and not known.stopped.done():
            return
        if known is not None:
            await self.stop(uid)
        # Aside: the largest document that there may be takes some milliseconds.
        spec = await self._services.wait_for(read_spec, manifest, self._services.offer)
        now = Instant.of(self._services.clock)
        record = PodRecord(
            uid,
            manifest.document,
            manifest.origin,
            self._boot_id,
            created_ns=now.wall_ns,
            started_ns=now.wall_ns,
            started_monotonic_ns=now.monotonic_ns,
            is_boxed=isinstance(spec, PodSpec) and spec.is_boxed,
        )
        lost = self._lost.pop(uid, None)
        # Which container of the runtime was which is lost with the record: those begin anew.
        if lost is not None and (isinstance(spec, Refusal) or spec.is_boxed):
            await self._services.vacate(lost, partial(events.KillFailed, manifest.pod, ""))
        elif lost is not None and isinstance(spec, PodSpec):
            directories = PodDirectories(self._services, manifest.pod)
            record = await self._services.apart(lost, partial(_recovered, record, directories, spec))
        try:
            await self._services.files.save(record).done()
        except ManifestError as error:
            # What cannot be recorded cannot be found again after a restart: it waits, and only its name is recorded.
            manifest = replace(manifest, document=_bare(manifest))
            spec, record = refusal_of(error, manifest), replace(record, document=manifest.document)
            await self._services.files.save(record).done()
        worker = self._worker(manifest, spec, record)
        self._keep(uid, worker)
        if record.containers:
            await worker.adopt(is_same_boot=True)
        else:
            worker.start()
        # To pull an image may take minutes, and the pods after this one need not wait for that.
        if not record.is_boxed:
            await asyncio.wait([worker.begun], timeout=self._services.settings.pace.begin)

    async def add(self, manifest: PodManifest) -> None:
        """Ephemeral containers that the pod's document has by now. Harmless where it is not here, or has ended."""
        entry = self._pods.get(manifest.pod.uid)
        if isinstance(entry, PodWorker) and not entry.stopped.done():
            await entry.add(manifest.ephemeral)

    def is_found(self, uid: str) -> bool:
        """Whether the pod runs here though its record is lost."""
        return uid in self._lost

    async def reject(self, manifest: PodManifest, reason: str, message: str) -> None:
        """Remember a pod that may not run, as Failed."""
        uid = _checked_uid(manifest)
        known = self._pods.get(uid)
        if isinstance(known, PodWorker):
            if not known.stopped.done():
                raise StillRunning(f"cannot reject pod `{manifest.pod}`: it runs")
            await self.stop(uid)
        verdict = Verdict(FAILED, reason, message)
        self._keep(uid, _Remembered(manifest, verdict))
        now_ns = self._services.clock.now_ns()
        record = PodRecord(uid, manifest.document, manifest.origin, created_ns=now_ns, verdict=verdict, is_cleaned=True)
        try:
            await self._services.files.save(record).done()
        except JettisonError as failure:
            self._services.emit(events.ActionFailed(f"record pod {manifest.pod}", str(failure)))

    def end(self, order: Eviction) -> PodWorker:
        """Tell the pod to end, or to hurry. Raises PodGone when there is none to be ended."""
        worker = self._pods.get(order.pod.uid)
        if not isinstance(worker, PodWorker) or worker.stopped.done():
            raise PodGone(f"there is no pod `{order.pod}` to be evicted")
        worker.feed(ToldToEnd(worker.now(), order, order.grace_seconds, order.is_at_once))
        return worker

    async def evict(self, order: Eviction, patience: float | None = None) -> None:
        """The same; returns when its containers have stopped. Raises StillRunning when that takes too long: longer than
        the patience, or than a kubelet would wait.
        """
        worker = self.end(order)
        seconds = kill_wait(order.grace_seconds, worker.grace_seconds) if patience is None else patience
        await asyncio.wait([worker.stopped], timeout=seconds)
        if not worker.stopped.done():
            raise StillRunning(f"pod `{order.pod}` has not stopped within {seconds:g} s")

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        """End the pod and forget it; returns when nothing but its logs is left. Harmless for an unknown one.

        Raises StillRunning when that takes too long; it goes on all the same.
        """
        entry = self._pods.get(uid)
        if isinstance(entry, _Remembered):
            await self._services.files.forget(uid)
            if self._pods.get(uid) is entry:
                self._drop(uid)
        elif entry is not None:
            entry.feed(ToldToEnd(entry.now(), None, grace_seconds, is_unwanted=True))
            seconds = kill_wait(grace_seconds, entry.grace_seconds) + CLEAN_UP_WAIT
            _, waiting = await asyncio.wait([self._forget_soon(uid, entry)], timeout=seconds)
            if waiting:
                raise StillRunning(f"pod `{entry.manifest.pod}` is not gone after {seconds} s")

    def endings(self) -> Sequence[EndingPod]:
        """Evictions of which not all is told, oldest pod first."""
        workers = (entry for entry in self._pods.values() if isinstance(entry, PodWorker))
        return [found for worker in workers if (found := worker.ending) is not None]

    def told(self, uid: str) -> None:
        """All of the pod's eviction is on record."""
        entry = self._pods.get(uid)
        if isinstance(entry, PodWorker):
            entry.feed(EvictionTold(entry.now()))

    def way_in(self, uid: str, container: str) -> WayIn:
        """Into a running container. Raises StartError."""
        entry = self._pods.get(uid)
        if not isinstance(entry, PodWorker):
            raise StartError("the pod does not run")
        return entry.way_in(container)

    def is_finished(self, uid: str) -> bool:
        """Whether nothing is left of the pod: processes, volumes, cgroup. True for an unknown pod."""
        entry = self._pods.get(uid)
        return not isinstance(entry, PodWorker) or entry.cleaned.done()

    def statuses(self) -> Sequence[PodStatus]:
        """All pods, oldest first."""
        latest = self._services.changes.latest
        return self._statuses.get((latest,), lambda: [entry.status() for entry in self._pods.values()])

    def probe_counts(self) -> list[ProbeCount]:
        """Of all pods that are known."""
        workers = [entry for entry in self._pods.values() if isinstance(entry, PodWorker)]
        return [each for worker in workers for each in worker.probe_counts()]

    def active(self) -> list[ActivePod]:
        """Pods that have not ended and have something to end: one that waits for what is not here has not."""
        workers = [entry for entry in self._pods.values() if isinstance(entry, PodWorker)]
        return [worker.active() for worker in workers if not worker.stopped.done() and not worker.life.is_refused]

    def _recalled(self, record: PodRecord) -> PodWorker | _Remembered:
        manifest = PodManifest(pod_from(record.document, record.uid), record.document, record.origin)
        if record.verdict is not None and not record.containers:
            return _Remembered(manifest, record.verdict)
        offer = self._services.offer
        if record.containers:
            offer = offer_for(offer, is_boxed=record.is_boxed)
        return self._worker(manifest, read_spec(manifest, offer), record)

    def _keep(self, uid: str, entry: PodWorker | _Remembered) -> None:
        self._pods[uid] = entry
        self._services.changes.happen()

    def _drop(self, uid: str) -> None:
        del self._pods[uid]
        self._services.changes.happen()

    def _worker(self, manifest: PodManifest, spec: PodSpec | Refusal, record: PodRecord) -> PodWorker:
        worker = PodWorker(self._services, manifest, spec, record)
        for moment in (worker.stopped, worker.cleaned):
            moment.add_done_callback(self._one_has_ended)
        return worker

    def _one_has_ended(self, _: asyncio.Future[None]) -> None:
        self._ended()

    async def _remove_strays(self) -> None:
        places = self._services.places.found()
        self._lost = {uid: place for uid, place in places.items() if uid not in self._pods and place.processes()}
        tasks = [
            self._background.begin(self._end_stray(uid, place))
            for uid, place in places.items()
            if uid not in self._lost and not self._may_have_processes(uid)
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=_STRAYS_WAIT)
        self._background.begin(self._remove_stray_directories())
        if self._lost:
            uids, seconds = ", ".join(sorted(self._lost)), self._services.settings.pace.lost
            why = f"these run without a record: {uids}; each goes on if it is asked for within {seconds:g} s"
            self._services.emit(events.ActionFailed("recognise pods", why))
            self._background.begin(self._end_lost())

    async def _end_stray(self, uid: str, place: Place) -> None:
        await self._services.vacate(place, partial(events.ActionFailed, f"end pod {uid}, which has no record"))

    async def _end_lost(self) -> None:
        """End the pods that no source has asked for."""
        await asyncio.sleep(self._services.settings.pace.lost)
        lost, self._lost = self._lost, {}
        await asyncio.gather(*(self._end_stray(uid, place) for uid, place in lost.items()))
        await self._remove_stray_directories()

    def _may_have_processes(self, uid: str) -> bool:
        entry = self._pods.get(uid)
        return isinstance(entry, PodWorker) and not entry.life.is_cleaned

    async def _remove_stray_directories(self) -> None:
        top = self._services.settings.pods_dir
        for path in await self._services.wait_for(lambda: list(top.iterdir()) if top.is_dir() else []):
            if path.name not in self._lost and not isinstance(self._pods.get(path.name), PodWorker):
                try:
                    await self._services.wait_for(remove_directory, top, path)
                except RuntimeFailure as failure:
                    self._services.emit(events.ActionFailed(f"remove `{path}`, which is no pod's", str(failure)))

    def _forget_soon(self, uid: str, worker: PodWorker) -> asyncio.Task[None]:
        if uid not in self._forgetting:
            self._forgetting[uid] = self._background.begin(self._forget(uid, worker))
        return self._forgetting[uid]

    async def _forget(self, uid: str, worker: PodWorker) -> None:
        await asyncio.wait([worker.cleaned])
        try:
            await worker.dispose()
            self._drop(uid)
        except RuntimeFailure as failure:
            self._services.emit(events.ActionFailed(f"forget pod {worker.manifest.pod}", str(failure)))
        del self._forgetting[uid]

    async def _tend_logs(self) -> None:
        """Note how they grow, every second, and rotate those that are due."""
        pace, times, loop = self._services.settings.pace, log_times.LogTimes(), asyncio.get_running_loop()
        written = KeptAnswer[tuple[list[str], list[str]]]()
        rounds = max(1, round(pace.rotation / log_times.PERIOD))
        try:
            while True:
                for _ in range(rounds):
                    await asyncio.sleep(to_next_beat(loop.time(), log_times.PERIOD))
                    paths, plain = written.get((self._services.changes.latest,), self._logs)
                    if plain and (grown := times.grown(plain)):
                        await self._services.wait_for(times.look, grown)
                # Now and then all of them: of some changes the kernel does not tell.
                times.forget(plain)
                await self._services.wait_for(times.look, plain)
                for path in paths:
                    if logs.is_due(path, pace.largest_log):
                        await self._rotate(Path(path))
        finally:
            times.close()

    async def _tend_volumes(self) -> None:
        """Bring up to date what volumes show, one pod at a time: what is asked for is in memory meanwhile."""
        while True:
            await asyncio.sleep(self._services.configuration.period)
            for entry in list(self._pods.values()):
                if isinstance(entry, PodWorker) and entry.has_contents:
                    await entry.refresh()

    def _logs(self) -> tuple[list[str], list[str]]:
        """Those that are being written, and those that need marks: a container runtime writes a time into each line."""
        paths = [path for each in self._pods.values() if isinstance(each, PodWorker) for path in each.logs()]
        return paths, [path for path in paths if not path.endswith(logs.BOX_SUFFIX)]

    async def _rotate(self, path: Path) -> None:
        try:
            await self._services.wait_for(logs.rotate, path)
        except RuntimeFailure as failure:
            self._services.emit(events.ActionFailed("rotate a log", str(failure)))


def _bare(manifest: PodManifest) -> dict[str, Any]:
    """A document with the pod's name and nothing else, for one that cannot be written as JSON."""
    pod = manifest.pod
    names = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    clean = {key: text.encode(errors="backslashreplace").decode() for key, text in names.items()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": clean, "spec": {}}


def _checked_uid(manifest: PodManifest) -> str:
    try:
        return checked_uid(manifest.pod.uid)
    except InputError as error:
        raise StartError(f"pod `{manifest.pod}`: {error}") from error


def _recovered(record: PodRecord, directories: PodDirectories, spec: PodSpec) -> PodRecord:
    """`record` as it would be if the pod had been started now, with the containers that run.

    Where a regular one runs, the init containers have succeeded, as a kubelet concludes: an API that knows their end
    refuses every status in which they wait again.
    """
    now = Instant.of(directories.services.clock)
    found = {each.name: _recovered_container(each, directories, now) for each in spec.everything}
    running = [each for each in found.values() if each is not None]
    began_ns = min((each.begun_monotonic_ns or 0 for each in running), default=now.monotonic_ns)
    is_initialized = any(found[each.name] is not None for each in spec.containers)
    if is_initialized:
        done = (each.name for each in spec.init_containers if not each.is_sidecar and found[each.name] is None)
        running += (
            ContainerRecord(name, "terminated", 0, exit_code=0, reason="Completed", message=_INIT_DONE) for name in done
        )
    started_ns = now.wall_ns - (now.monotonic_ns - began_ns)
    return replace(
        record,
        created_ns=started_ns,
        started_ns=started_ns,
        started_monotonic_ns=began_ns,
        containers=tuple(running),
        is_initialized=is_initialized,
    )


def _recovered_container(spec: ContainerSpec, directories: PodDirectories, now: Instant) -> ContainerRecord | None:
    main = _leader(directories.services.places.of_container(directories.pod, spec.name))
    if main is None:
        has_run = spec.is_ephemeral and logs.log_file(directories.log_dir(spec.name), 0).exists()
        # Not started again: it ended as far as can be told.
        return ContainerRecord(spec.name, "running", 0, begun_monotonic_ns=now.monotonic_ns) if has_run else None
    # Counted from the boot, and suspensions with it: at most the age of this boot.
    begun_ns = min(main.start_ticks * 10**9 // _TICKS, now.monotonic_ns)
    run = _latest_run(directories.writable_dir(spec.name, 0).parent)
    # As an agent would have left it that died right after the start.
    return ContainerRecord(spec.name, "starting", run, main.pid, main.start_ticks, begun_ns)


def _leader(place: Place) -> Process | None:
    found = []
    for pid in place.processes():
        try:
            process = read_process(pid)
        except ObservationError:
            continue
        if process is not None and not process.is_zombie and process.session == pid:
            found.append(process)
    return min(found, key=lambda each: (each.start_ticks, each.pid), default=None)


def _latest_run(directory: Path) -> int:
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError:
        return 0
    return max((int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10), default=0)
