"""The scheduler: gives every pod that has none a node, and makes room for those of higher priority.

It decides about one pod at a time, the most important first, from sums that hold its own decisions already; only the
writing happens side by side. Whatever it keeps to itself it can read again: after a restart it goes on from the API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable
from typing import Final

from jettison.controllers.machinery.event_recorder import NORMAL, WARNING, subject_of
from jettison.controllers.machinery.objects import condition_of, disruption_patch
from jettison.controllers.machinery.reconciler import Surroundings, repeat
from jettison.controllers.scheduler.queue import SchedulingQueue
from jettison.controllers.scheduler.world import World
from jettison.engine.budgets.budget import Budget
from jettison.engine.scheduling.choice import Placed, Unplaced
from jettison.engine.scheduling.pods import Key, PlaceablePod
from jettison.engine.scheduling.preemption import Preemption, preempt
from jettison.engine.scheduling.shortlists import Shortlists
from jettison.errors import ApiError, Conflict, NotFound, RuntimeFailure
from jettison.manifests.budgets import budget_from
from jettison.manifests.pod_view import PREEMPTED
from jettison.manifests.times import time_text
from jettison.runtimes.kube.cache import View
from jettison.runtimes.kube.client import DeleteOptions, Document
from jettison.runtimes.kube.kinds import BUDGETS, NODES, PODS

POD_SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
GATED: Final = "SchedulingGated"
GATED_MESSAGE: Final = "Scheduling is blocked due to non-empty scheduling gates"

# Every pod that was put aside is tried once more after this time, whether or not anything happened.
_FLUSH_SECONDS: Final = 300.0
_WRITERS: Final = 16
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_LONGEST_NOTE: Final = 1024

_log = logging.getLogger(__name__)


class Scheduler:
    """One decision at a time; up to 16 of them on their way to the server."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._client = around.client
        self._queue = SchedulingQueue()
        self._world = World(around.caches.of(PODS), around.caches.of(NODES), self._queue)
        self._shortlists = Shortlists(self._world.cluster)
        self._budgets: View[Budget] = View(around.caches.of(BUDGETS), budget_from)
        self._writers = asyncio.Semaphore(_WRITERS)
        # What was wanted in vain since something last happened: of 500 replicas one needs to try.
        self._vain: dict[Hashable, str] = {}
        self._vain_since = 0

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(repeat("scheduler", _FLUSH_SECONDS, self._flush))
                while True:
                    await self._writers.acquire()
                    key = await self._queue.take()
                    group.create_task(self._attempt(key))
        finally:
            self._queue.close()

    async def _flush(self) -> None:
        self._queue.stir()

    async def _attempt(self, key: Key) -> None:
        """Up to its first wait, which comes after its decision, no other attempt decides anything."""
        try:
            await self._schedule(key)
        except Conflict:
            self._queue.retry(key)
        except (ApiError, RuntimeFailure) as error:
            seconds = self._queue.retry(key)
            _log.warning("scheduler: %s: %s; trying again in %.0f s", "/".join(key), error, seconds)
        except Exception:  # noqa: BLE001  one pod that we do not understand must not keep all others waiting
            self._queue.retry(key)
            _log.exception("scheduler: %s", "/".join(key))
        finally:
            self._writers.release()

    async def _schedule(self, key: Key) -> None:
        pod = self._world.waiting(key)
        if pod is None:
            self._queue.done(key)
        elif pod.gates:
            await self._write_status(pod, GATED, GATED_MESSAGE, "")
            self._queue.done(key)
        else:
            await self._place(pod)

    async def _place(self, pod: PlaceablePod) -> None:
        if self._vain_since != self._queue.happenings:
            self._vain_since = self._queue.happenings
            self._vain.clear()
        message = self._vain.get(pod.wants) if self._vain else None
        if message is not None and not self._world.cluster.nomination_of(pod.key):
            if await self._write_status(pod, UNSCHEDULABLE, message, ""):
                self._tell(pod, pod, "FailedScheduling", message, WARNING)
            self._queue.park(pod.key)
            return
        outcome = self._shortlists.place(pod)
        if isinstance(outcome, Placed):
            await self._bind(pod, outcome.node)
            self._queue.done(pod.key)
        else:
            await self._make_room(pod, outcome)
            self._queue.park(pod.key)

    async def _bind(self, pod: PlaceablePod, node: str) -> None:
        """Until the server has answered. What it did while it did not answer must not be decided again."""
        self._world.assume(pod, node)
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._write_binding(pod, node)
            except RuntimeFailure as error:
                _log.warning("scheduler: %s: %s; trying again in %.1f s", pod, error, pause)
                await self._step_aside(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return

    async def _write_binding(self, pod: PlaceablePod, node: str) -> None:
        namespace, name = pod.key
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create(PODS, body, namespace, "binding")
        except ApiError as error:
            await self._settle(pod, error)
        else:
            self._tell(pod, pod, "Scheduled", f"Successfully assigned {pod} to {node}")

    async def _step_aside(self, seconds: float) -> None:
        """Others write meanwhile: 16 pods that get no answer must not keep all the rest waiting."""
        self._writers.release()
        try:
            await asyncio.sleep(seconds)
        finally:
            await self._writers.acquire()

    async def _settle(self, pod: PlaceablePod, refusal: ApiError) -> None:
        """A binding was refused: perhaps because an earlier try of it was not, or because another scheduler was faster.

        A server that broke over it may have done it as well. A pod that is not bound is decided about after a pause.
        """
        namespace, name = pod.key
        try:
            document = await self._client.get(PODS, name, namespace)
        except NotFound:
            self._world.forget(pod)
            return
        except ApiError:
            # The next binding or the watch will tell. An assumption that is not settled here would stay.
            self._world.forget(pod)
            raise
        if document["metadata"].get("uid") == pod.uid and (document.get("spec") or {}).get("nodeName"):
            self._world.take(document)
            return
        self._world.forget(pod)
        self._world.take(document)
        raise refusal

    async def _make_room(self, pod: PlaceablePod, outcome: Unplaced) -> None:
        """Say why the pod has no node, and see whether less important ones may go for it."""
        cluster, message = self._world.cluster, outcome.message
        nominated = cluster.nomination_of(pod.key)
        if outcome.refusals:
            verdict = preempt(pod, cluster, outcome.refusals, self._budgets.values)
            if isinstance(verdict, Preemption):
                await self._preempt(pod, verdict)
                nominated = verdict.node
            else:
                message = f"{message} {verdict.message}"
                if not verdict.keeps_nomination:
                    self._world.withdraw(pod.key)
                    nominated = ""
        if not nominated:
            self._vain[pod.wants] = message
        self._tell(pod, pod, "FailedScheduling", message, WARNING)
        await self._write_status(pod, UNSCHEDULABLE, message, nominated)

    async def _preempt(self, pod: PlaceablePod, verdict: Preemption) -> None:
        """A less important pod that waited for the same place has to look elsewhere."""
        load = self._world.cluster.load(verdict.node)
        waiting = load.nominated.values() if load else ()
        outdone = [each for each in waiting if each.priority < pod.priority and each.key != pod.key]
        self._world.cluster.nominate(pod, verdict.node)
        going = [each for each in verdict.victims if not each.is_terminating]
        for each in going:
            self._world.expect_end(each)
        results = await asyncio.gather(*(self._end(pod, each) for each in going), return_exceptions=True)
        failures = [each for each in results if isinstance(each, BaseException)]
        if failures:
            for each in going:
                self._reread(each.key)
            raise failures[0]
        await self._turn_away(outdone)

    async def _end(self, pod: PlaceablePod, victim: PlaceablePod) -> None:
        """As it says itself how long it needs, and that very pod."""
        namespace, name = victim.key
        document = self._world.document(victim.key)
        if document is None or document["metadata"]["uid"] != victim.uid:
            return
        message = f"{pod.scheduler}: preempting to accommodate a higher priority pod"
        patch = disruption_patch(document, PREEMPTED, message, self._now())
        try:
            await self._client.patch(PODS, name, patch, namespace, subresource="status")
            await self._client.delete(PODS, name, namespace, DeleteOptions(uid=victim.uid))
        except NotFound:
            return
        self._tell(pod, victim, "Preempted", f"Preempted by pod {pod.uid} on node {victim.node}")

    def _reread(self, key: Key) -> None:
        """What we expected may not come: as the server last told."""
        document = self._world.document(key)
        if document is not None:
            self._world.take(document)

    async def _turn_away(self, pods: Iterable[PlaceablePod]) -> None:
        for each in pods:
            self._world.cluster.withdraw(each.key)
            namespace, name = each.key
            patch = {"metadata": {"uid": each.uid}, "status": {"nominatedNodeName": None}}
            try:
                await self._client.patch(PODS, name, patch, namespace, subresource="status")
            except NotFound:
                continue
            if each.key in self._world.pending:
                self._queue.add(each.key, each.priority)

    async def _write_status(self, pod: PlaceablePod, reason: str, message: str, nominated: str) -> bool:
        """Whether that was news. What is not is not written: a pod that fits nowhere would wake all watches."""
        document = self._world.document(pod.key)
        if document is None or document["metadata"]["uid"] != pod.uid:
            return False
        status: Document = {}
        known = condition_of(document, POD_SCHEDULED) or {}
        if (known.get("status"), known.get("reason"), known.get("message")) != ("False", reason, message):
            condition = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message}
            is_same = known.get("status") == "False" and known.get("lastTransitionTime")
            condition["lastTransitionTime"] = known["lastTransitionTime"] if is_same else self._now()
            if generation := document["metadata"].get("generation"):
                condition["observedGeneration"] = generation
            status["conditions"] = [condition]
        if ((document.get("status") or {}).get("nominatedNodeName") or "") != nominated:
            status["nominatedNodeName"] = nominated or None
        if status:
            namespace, name = pod.key
            patch = {"metadata": {"uid": pod.uid}, "status": status}
            try:
                await self._client.patch(PODS, name, patch, namespace, subresource="status")
            except NotFound:
                return False
        return bool(status)

    def _tell(self, pod: PlaceablePod, about: PlaceablePod, reason: str, message: str, kind: str = NORMAL) -> None:
        document = self._world.document(about.key)
        if document is not None and document["metadata"]["uid"] == about.uid:
            note = message if len(message) <= _LONGEST_NOTE else f"{message[: _LONGEST_NOTE - 4]} ..."
            self._around.events.tell(pod.scheduler, subject_of("Pod", document), reason, note, kind)

    def _now(self) -> str:
        return time_text(self._around.clock.now_ns())
