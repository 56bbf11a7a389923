"""The StatefulSet controller: pods with a place and a name, made and replaced in order.

One that has ended, be it that its node evicted it, is deleted and comes back under its own name. One that hangs on a
lost node does not: nobody can say that it has ended, and two of the same name is what a StatefulSet must never have.
One that fails as soon as it is made stays for ever longer before it is replaced (`quick_failures`).

Below the partition of a rollout it comes back in the former revision, for a canary must not spread by eviction. From
the partition on it comes back in the latest one, also where the rollout had not come to it yet.

Differences from Kubernetes: `volumeClaimTemplates` are not supported. Such a set gets no pods, and an event says so:
pods without their data would be worse. `maxUnavailable` is not looked at: an update replaces one pod at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from jettison.controllers.deployment.revisions import replicas_of
from jettison.controllers.machinery.expectations import Expectations
from jettison.controllers.machinery.object_state import is_terminating
from jettison.controllers.machinery.owned_pods import ByController, Claims, WokenOwners, controller_of, selector_of
from jettison.controllers.machinery.pod_batches import Failure
from jettison.controllers.machinery.pod_control import is_namespace_ending, slow_start
from jettison.controllers.machinery.quick_failures import QuickFailures, told
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.controllers.machinery.revisions import REVISION_LABEL, History, Revisions, surplus, template_of
from jettison.controllers.machinery.status_report import report_status
from jettison.controllers.stateful_set.stateful_pods import OWNER_KIND, StatefulPods, ordinal_of, stateful_pod
from jettison.engine.workloads.replica_pods import ReplicaPod, next_available_ns
from jettison.engine.workloads.stateful_sync import (
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
from jettison.errors import ApiError, RuntimeFailure
from jettison.manifests.replica_pods import replica_pod_from
from jettison.runtimes.kube.cache import Key, key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import PODS, STATEFUL_SETS

HASH_LABEL: Final = "controller.kubernetes.io/hash"
"""Of a revision; its pods are known by its name."""

_SECOND_NS: Final = 10**9
_WORKERS: Final = 5
_UNSUPPORTED: Final = "volumeClaimTemplates are not supported, use the volumes of the template"
# Written also as 0; the other counters are left out then.
_ALWAYS_WRITTEN: Final = ("replicas", "availableReplicas", "collisionCount")


class _Lineage(NamedTuple):
    """The revisions by name: the one that a rollout comes from and the one that it goes to."""

    current: str
    update: str
    # What is below the partition is made of this one.
    current_template: Document
    collisions: int


@dataclass(frozen=True, slots=True)
class _Look:
    """A set and its pods at one instant, by ordinal."""

    stateful_set: Document
    lineage: _Lineage
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
        self._pods = pods.index(ByController)
        self._claims = Claims(around.client, OWNER_KIND, PODS)
        self._revisions = Revisions(around, OWNER_KIND, HASH_LABEL)
        self._control = StatefulPods(around)
        self._expectations = Expectations(around.clock)
        self._expectations.follow(pods, OWNER_KIND.key_from)
        self._failures = QuickFailures(around.clock)
        self._reconciler: Reconciler[Key] = Reconciler("stateful set", self._reconcile, workers=_WORKERS)
        self._reconciler.follow(self._sets, lambda change: (key_of(change.newest),))
        self._reconciler.follow(pods, WokenOwners(OWNER_KIND, self._sets))
        self._reconciler.follow(self._revisions.cache, WokenOwners(OWNER_KIND, self._sets))

    async def run(self) -> None:
        """For ever."""
        await self._reconciler.run()

    async def _reconcile(self, key: Key) -> None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            self._expectations.forget(key)
            self._failures.forget(key)
            return
        may_act = self._expectations.are_met(key)
        now_ns = self._around.clock.now_ns()
        claimed = await self._claim(stateful_set)
        if is_terminating(stateful_set):
            look = _look(stateful_set, _known_lineage(stateful_set), claimed, now_ns)
            await report_status(self._around.client, OWNER_KIND, stateful_set, _status(look))
            return
        try:
            history = await self._revisions.history(stateful_set)
        except ApiError as error:
            if is_namespace_ending(error):
                return
            raise
        look = _look(stateful_set, await self._lineage(stateful_set, history), claimed, now_ns)
        failure = await self._act(look) if may_act else None
        await report_status(self._around.client, OWNER_KIND, stateful_set, _status(look))
        await self._forget_revisions(look, history)
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

    async def _lineage(self, stateful_set: Document, history: History) -> _Lineage:
        """Where the current revision is not to be had any more, the latest is the current one."""
        name = (stateful_set.get("status") or {}).get("currentRevision") or ""
        current = await self._revisions.named(stateful_set, name, history) or history.latest
        return _Lineage(
            current["metadata"]["name"],
            history.latest["metadata"]["name"],
            template_of(current, stateful_set),
            history.collisions,
        )

    async def _forget_revisions(self, look: _Look, history: History) -> None:
        live = {look.lineage.current, look.lineage.update, *(each.revision for each in look.pods.values())}
        limit = look.stateful_set["spec"].get("revisionHistoryLimit")
        await self._revisions.forget(surplus(history.revisions, live, limit, counts_live=False))

    async def _act(self, look: _Look) -> Failure | None:
        """What the server said against it."""
        for ordinal, document in look.documents.items():
            if ordinal in look.goal.ordinals:
                await self._control.identify(document, ordinal)
        steps = next_steps(look.goal, look.pods)
        if look.stateful_set["spec"].get("volumeClaimTemplates"):
            steps = self._without_creations(look, steps)
        steps = self._in_due_time(look, steps)
        if any(isinstance(each, Create) for each in steps):
            self._failures.begin(look.stateful_set)
        started = await slow_start(len(steps), lambda index: self._take(look, steps[index]))
        return None if started.error is None or is_namespace_ending(started.error) else started.error

    def _in_due_time(self, look: _Look, steps: list[Step]) -> list[Step]:
        """Without what would replace pods that fail at once, as long as that is to wait."""
        allowance = self._failures.allow(look.stateful_set, look.values.values())
        creations = [each for each in steps if isinstance(each, Create)]
        postponed: set[Step] = set(creations[allowance.most :]) if allowance.most is not None else set()
        if allowance.wait_ns:
            postponed |= {each for each in steps if isinstance(each, Delete) and each.cause is Cause.ENDED}
        if postponed and allowance.wait_ns:
            self._reconciler.queue.add_after(key_of(look.stateful_set), allowance.wait_ns / _SECOND_NS)
            if allowance.is_news:
                self._control.tell_back_off(look.stateful_set, told(allowance))
        return [each for each in steps if each not in postponed]

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
        key, lineage = key_of(look.stateful_set), look.lineage
        is_kept = look.goal.keeps(step.ordinal)
        template = lineage.current_template if is_kept else look.stateful_set["spec"]["template"]
        revision = lineage.current if is_kept else lineage.update
        pod = stateful_pod(look.stateful_set, step.ordinal, template, revision)
        self._expectations.expect(key, creations=1)
        try:
            made = await self._control.create(look.stateful_set, pod)
        except (ApiError, RuntimeFailure):
            self._expectations.saw_created(key)
            raise
        self._failures.made(look.stateful_set, made["metadata"]["uid"])

    async def _delete(self, look: _Look, step: Delete) -> None:
        key, document = key_of(look.stateful_set), look.documents[step.ordinal]
        uid = document["metadata"]["uid"]
        self._expectations.expect(key, deletions=[uid])
        try:
            is_asked = await self._control.delete(look.stateful_set, document)
        except (ApiError, RuntimeFailure):
            self._expectations.saw_deleted(key, uid)
            raise
        if not is_asked:
            self._expectations.saw_deleted(key, uid)


def _known_lineage(stateful_set: Document) -> _Lineage:
    """Of a set that is going, for which nothing is made any more."""
    status = stateful_set.get("status") or {}
    update = status.get("updateRevision") or ""
    collisions = status.get("collisionCount") or 0
    return _Lineage(status.get("currentRevision") or update, update, stateful_set["spec"]["template"], collisions)


def _look(stateful_set: Document, lineage: _Lineage, claimed: Iterable[Document], now_ns: int) -> _Look:
    min_ready = stateful_set["spec"].get("minReadySeconds") or 0
    look = _Look(stateful_set, lineage, _goal(stateful_set, lineage.update), {}, {}, {})
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


def _goal(stateful_set: Document, revision: str) -> StatefulGoal:
    spec = stateful_set["spec"]
    strategy = spec.get("updateStrategy") or {}
    is_rolling, rolling = strategy.get("type") == "RollingUpdate", strategy.get("rollingUpdate")
    partition = ((rolling or {}).get("partition") or 0) if is_rolling else None
    # Without parameters, which our server never leaves out, it is as many as are still of the current revision.
    current = (stateful_set.get("status") or {}).get("currentReplicas") or 0
    return StatefulGoal(
        replicas=replicas_of(stateful_set),
        revision=revision,
        start=(spec.get("ordinals") or {}).get("start") or 0,
        partition=partition,
        is_parallel=spec.get("podManagementPolicy") == "Parallel",
        kept=current if is_rolling and rolling is None else partition or 0,
    )


def _status(look: _Look) -> Document:
    """Of the pods as they were found, before anything was done about them. Fields unheard of stay."""
    known = look.stateful_set.get("status") or {}
    current, update = look.lineage.current, look.lineage.update
    counts = counts_of(list(look.pods.values()), current, update)
    if is_updated(counts, look.goal):
        current, counts = update, counts._replace(current=counts.updated)
    fields = {
        "observedGeneration": look.stateful_set["metadata"].get("generation") or 0,
        "replicas": counts.replicas,
        "readyReplicas": counts.ready,
        "currentReplicas": counts.current,
        "updatedReplicas": counts.updated,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": look.lineage.collisions,
        "availableReplicas": counts.available,
    }
    kept = {key: value for key, value in known.items() if key not in fields}
    return kept | {key: value for key, value in fields.items() if value or key in _ALWAYS_WRITTEN}
