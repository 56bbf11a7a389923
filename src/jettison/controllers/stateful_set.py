"""The StatefulSet controller: pods with a place and a name, made and replaced in order.

One that has ended, be it that its node evicted it, is deleted and comes back under its own name. One that hangs on a
lost node does not: nobody can say that it has ended, and two of the same name is what a StatefulSet must never have.

Differences from Kubernetes:

* There are no ControllerRevision objects. A revision is named by a hash of the template, which answers all that a
  rollout asks: is this pod of the latest template? So there is no `kubectl rollout undo`, and the former template is
  nowhere to be had: below the partition of a rollout a pod that is still of the former revision stays as it is, but if
  it goes, it comes back in the latest one.
* `volumeClaimTemplates` are not supported. Such a set gets no pods, and an event says so: pods without their data
  would be worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jettison.controllers.expectations import Expectations
from jettison.controllers.object_state import is_terminating
from jettison.controllers.owned_pods import ByController, Claims, WokenOwners, controller_of, selector_of
from jettison.controllers.pod_batches import Failure
from jettison.controllers.pod_control import is_namespace_ending, slow_start
from jettison.controllers.reconciler import Reconciler, Surroundings
from jettison.controllers.stateful_pods import OWNER_KIND, REVISION_LABEL, StatefulPods, ordinal_of, stateful_pod
from jettison.engine.replica_pods import ReplicaPod, next_available_ns
from jettison.engine.stateful_sync import (
    Cause,
    Create,
    Delete,
    StatefulGoal,
    StatefulPod,
    Step,
    counts_of,
    is_updated,
    next_steps,
)
from jettison.engine.template_hash import template_hash
from jettison.errors import ApiError, NotFound, RuntimeFailure
from jettison.manifests.replica_pods import replica_pod_from
from jettison.runtimes.kube.cache import Key, key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import PODS, STATEFUL_SETS

_SECOND_NS: Final = 10**9
_WORKERS: Final = 5
_UNSUPPORTED: Final = "volumeClaimTemplates are not supported, use the volumes of the template"
# Written also as 0; the other counters are left out then.
_ALWAYS_WRITTEN: Final = ("replicas", "availableReplicas", "collisionCount")


@dataclass(frozen=True, slots=True)
class _Look:
    """A set and its pods at one instant, by ordinal."""

    stateful_set: Document
    goal: StatefulGoal
    documents: dict[int, Document]
    values: dict[int, ReplicaPod]
    pods: dict[int, StatefulPod]


class StatefulSetController:
    """Woken by sets and their pods."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._sets = around.caches.of(STATEFUL_SETS)
        pods = around.caches.of(PODS)
        self._pods = ByController(pods)
        self._claims = Claims(around.client, OWNER_KIND, PODS)
        self._control = StatefulPods(around)
        self._expectations = Expectations(around.clock)
        self._expectations.follow(pods, OWNER_KIND.key_from)
        self._reconciler: Reconciler[Key] = Reconciler("stateful set", self._reconcile, workers=_WORKERS)
        self._reconciler.follow(self._sets, lambda change: (key_of(change.newest),))
        self._reconciler.follow(pods, WokenOwners(OWNER_KIND, self._sets))

    async def run(self) -> None:
        """For ever."""
        await self._reconciler.run()

    async def _reconcile(self, key: Key) -> None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            self._expectations.forget(key)
            return
        may_act = self._expectations.are_met(key) and not is_terminating(stateful_set)
        now_ns = self._around.clock.now_ns()
        look = _look(stateful_set, await self._claim(stateful_set), now_ns)
        failure = await self._act(look) if may_act else None
        await self._report(look)
        if failure is not None:
            raise failure
        min_ready = stateful_set["spec"].get("minReadySeconds") or 0
        due_ns = next_available_ns(look.values.values(), min_ready, now_ns)
        if due_ns is not None:
            self._reconciler.queue.add_after(key, (due_ns - now_ns) / _SECOND_NS)

    async def _claim(self, stateful_set: Document) -> list[Document]:
        """Of the orphans only those that have a name of the set."""
        candidates = [
            each
            for each in self._pods.candidates(stateful_set)
            if controller_of(each) is not None or ordinal_of(each, stateful_set) is not None
        ]
        return await self._claims.claim(stateful_set, selector_of(stateful_set), candidates)

    async def _act(self, look: _Look) -> Failure | None:
        """What the server said against it."""
        for ordinal, document in look.documents.items():
            if ordinal in look.goal.ordinals:
                await self._control.identify(document, ordinal)
        steps = next_steps(look.goal, look.pods)
        if look.stateful_set["spec"].get("volumeClaimTemplates"):
            steps = self._without_creations(look, steps)
        started = await slow_start(len(steps), lambda index: self._take(look, steps[index]))
        return None if started.error is None or is_namespace_ending(started.error) else started.error

    def _without_creations(self, look: _Look, steps: list[Step]) -> list[Step]:
        missing = next((each for each in steps if isinstance(each, Create)), None)
        if missing is not None:
            name = f"{look.stateful_set['metadata']['name']}-{missing.ordinal}"
            self._control.tell_failure(look.stateful_set, "Create", name, _UNSUPPORTED)
        return [each for each in steps if not isinstance(each, Create)]

    async def _take(self, look: _Look, step: Step) -> None:
        if isinstance(step, Delete):
            await self._delete(look, step)
            return
        key = key_of(look.stateful_set)
        pod = stateful_pod(look.stateful_set, step.ordinal, look.goal.revision)
        self._expectations.expect(key, creations=1)
        try:
            await self._control.create(look.stateful_set, pod)
        except (ApiError, RuntimeFailure):
            self._expectations.saw_created(key)
            raise

    async def _delete(self, look: _Look, step: Delete) -> None:
        key, document = key_of(look.stateful_set), look.documents[step.ordinal]
        uid = document["metadata"]["uid"]
        if step.cause is Cause.ENDED:
            self._control.tell_recreated(look.stateful_set, document)
        self._expectations.expect(key, deletions=[uid])
        try:
            is_asked = await self._control.delete(look.stateful_set, document)
        except (ApiError, RuntimeFailure):
            self._expectations.saw_deleted(key, uid)
            raise
        if not is_asked:
            self._expectations.saw_deleted(key, uid)

    async def _report(self, look: _Look) -> None:
        status = _status(look)
        if status == (look.stateful_set.get("status") or {}):
            return
        whole = {"apiVersion": "apps/v1", "kind": "StatefulSet", **look.stateful_set, "status": status}
        try:
            await self._around.client.replace(STATEFUL_SETS, whole, "status")
        except NotFound:
            return


def _look(stateful_set: Document, claimed: Iterable[Document], now_ns: int) -> _Look:
    min_ready = stateful_set["spec"].get("minReadySeconds") or 0
    look = _Look(stateful_set, _goal(stateful_set), {}, {}, {})
    for document in claimed:
        ordinal = ordinal_of(document, stateful_set)
        if ordinal is None:
            continue
        value = replica_pod_from(document)
        is_ready = value.phase == "Running" and value.is_ready
        look.documents[ordinal], look.values[ordinal] = document, value
        look.pods[ordinal] = StatefulPod(
            ordinal=ordinal,
            revision=(document["metadata"].get("labels") or {}).get(REVISION_LABEL) or "",
            is_ended=value.is_terminal,
            is_terminating=value.is_terminating,
            is_ready=is_ready,
            is_available=is_ready and value.is_available(min_ready, now_ns),
        )
    return look


def _goal(stateful_set: Document) -> StatefulGoal:
    spec = stateful_set["spec"]
    replicas, strategy = spec.get("replicas"), spec.get("updateStrategy") or {}
    is_rolling = strategy.get("type") == "RollingUpdate"
    collisions = (stateful_set.get("status") or {}).get("collisionCount")
    return StatefulGoal(
        replicas=1 if replicas is None else replicas,
        # A count of none is the same as no count: the name must not change when the first status is written.
        revision=f"{stateful_set['metadata']['name']}-{template_hash(spec['template'], collisions or None)}",
        start=(spec.get("ordinals") or {}).get("start") or 0,
        partition=((strategy.get("rollingUpdate") or {}).get("partition") or 0) if is_rolling else None,
        is_parallel=spec.get("podManagementPolicy") == "Parallel",
    )


def _status(look: _Look) -> Document:
    """Of the pods as they were found, before anything was done about them. Fields unheard of stay."""
    known = look.stateful_set.get("status") or {}
    update = look.goal.revision
    current = known.get("currentRevision") or update
    counts = counts_of(list(look.pods.values()), current, update)
    if is_updated(counts, look.goal.replicas):
        current, counts = update, counts._replace(current=counts.updated)
    fields = {
        "observedGeneration": look.stateful_set["metadata"].get("generation") or 0,
        "replicas": counts.replicas,
        "readyReplicas": counts.ready,
        "currentReplicas": counts.current,
        "updatedReplicas": counts.updated,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": known.get("collisionCount") or 0,
        "availableReplicas": counts.available,
    }
    kept = {key: value for key, value in known.items() if key not in fields}
    return kept | {key: value for key, value in fields.items() if value or key in _ALWAYS_WRITTEN}
