"""The StatefulSet controller: pods with a place and a name, made and replaced in order.

One that has ended, be it that its node evicted it, is deleted and comes back under its own name. One that hangs on a
lost node does not: nothing confirms that it has ended, and two of the same name is what a StatefulSet must never have.
One that fails as soon as it is made stays longer each time before it is replaced (`quick_failures`).

Below the partition of a rollout it comes back in the former revision, for a canary must not spread by eviction. From
the partition on it comes back in the latest one, also where the rollout had not come to it yet.

Differences from Kubernetes: `volumeClaimTemplates` are not supported. Such a set gets no pods, and an event says so:
pods without their data would be worse. `maxUnavailable` is not looked at: an update replaces one pod at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from jettison.controllers.deployment.revisions import replicas_of
from jettison.controllers.machinery.event_recorder import NORMAL, WARNING, subject_of
from jettison.controllers.machinery.objects import is_terminating
from jettison.controllers.machinery.owned_pods import (
    ByController,
    Claims,
    OwnerKind,
    WokenOwners,
    controller_of,
    selector_of,
)
from jettison.controllers.machinery.pod_control import (
    Expectations,
    Failure,
    delete_pod,
    is_namespace_ending,
    pod_from_template,
    slow_start,
)
from jettison.controllers.machinery.quick_failures import QuickFailures, told
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.controllers.machinery.revisions import RevisionHistory, Revisions, surplus, template_of
from jettison.engine.pods.api_pod import REVISION_LABEL
from jettison.engine.workloads.replica_pods import next_available_ns
from jettison.engine.workloads.stateful_sync import (
    Cause,
    Create,
    Delete,
    StatefulGoal,
    Step,
    counts_of,
    identifiable,
    is_updated,
    next_steps,
)
from jettison.errors import ApiError, Conflict, NotFound, RuntimeFailure
from jettison.manifests.pod_view import PodView
from jettison.runtimes.kube.cache import Key, key_of
from jettison.runtimes.kube.client import Document, PatchType
from jettison.runtimes.kube.kinds import PODS, STATEFUL_SETS
from jettison.values import frozen

SOURCE: Final = "statefulset-controller"
OWNER_KIND: Final = OwnerKind(STATEFUL_SETS, "StatefulSet")
HASH_LABEL: Final = "controller.kubernetes.io/hash"
"""Of a revision; its pods are known by its name."""

_SECOND_NS: Final = 10**9
_WORKERS: Final = 5
_UNSUPPORTED: Final = "volumeClaimTemplates are not supported, use the volumes of the template"
# Written also as 0; the other counters are left out then.
_ALWAYS_WRITTEN: Final = ("replicas", "availableReplicas", "collisionCount")
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-(0|[1-9][0-9]{0,9})")


class _Lineage(NamedTuple):
    """The revisions by name: the one that a rollout comes from and the one that it goes to."""

    current: str
    update: str
    # What is below the partition is made of this one.
    current_template: Document
    collisions: int


@frozen
class _Look:
    """A set and its pods at one instant, by ordinal."""

    stateful_set: Document
    lineage: _Lineage
    goal: StatefulGoal
    pods: dict[int, PodView]


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
        self._reconciler.follow(self._sets, lambda change: (change.key,))
        self._reconciler.follow(pods, WokenOwners(OWNER_KIND, self._sets))
        self._reconciler.follow(self._revisions.cache, WokenOwners(OWNER_KIND, self._sets))

    async def run(self) -> None:
        """Work until cancelled."""
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
            await OWNER_KIND.report_status(self._around.client, stateful_set, _status(look))
            return
        try:
            history = await self._revisions.history(stateful_set)
        except ApiError as error:
            if is_namespace_ending(error):
                return
            raise
        look = _look(stateful_set, await self._lineage(stateful_set, history), claimed, now_ns)
        failure = await self._act(look) if may_act else None
        await OWNER_KIND.report_status(self._around.client, stateful_set, _status(look))
        await self._forget_revisions(look, history)
        if failure is not None:
            raise failure
        due_ns = next_available_ns(look.pods.values(), look.goal.min_ready_seconds, now_ns)
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

    async def _lineage(self, stateful_set: Document, history: RevisionHistory) -> _Lineage:
        """Where the current revision is not to be had any more, the latest is the current one."""
        name = (stateful_set.get("status") or {}).get("currentRevision") or ""
        current = await self._revisions.named(stateful_set, name, history) or history.latest
        return _Lineage(
            current["metadata"]["name"],
            history.latest["metadata"]["name"],
            template_of(current, stateful_set),
            history.collisions,
        )

    async def _forget_revisions(self, look: _Look, history: RevisionHistory) -> None:
        live = {look.lineage.current, look.lineage.update, *(each.revision for each in look.pods.values())}
        limit = look.stateful_set["spec"].get("revisionHistoryLimit")
        await self._revisions.forget(surplus(history.revisions, live, limit, counts_live=False))

    async def _act(self, look: _Look) -> Failure | None:
        """What the server said against it."""
        for ordinal in identifiable(look.goal, look.pods):
            try:
                await self._control.identify(look.stateful_set, look.pods[ordinal].document, ordinal)
            except (ApiError, RuntimeFailure) as error:
                return error
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
        allowance = self._failures.allow(look.stateful_set, look.pods.values())
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
        key, pod = key_of(look.stateful_set), look.pods[step.ordinal]
        self._expectations.expect(key, deletions=[pod.uid])
        try:
            is_asked = await self._control.delete(look.stateful_set, pod.document)
        except (ApiError, RuntimeFailure):
            self._expectations.saw_deleted(key, pod.uid)
            raise
        if not is_asked:
            self._expectations.saw_deleted(key, pod.uid)


def _known_lineage(stateful_set: Document) -> _Lineage:
    """Of a set that is going, for which nothing is made any more."""
    status = stateful_set.get("status") or {}
    update = status.get("updateRevision") or ""
    collisions = status.get("collisionCount") or 0
    return _Lineage(status.get("currentRevision") or update, update, stateful_set["spec"]["template"], collisions)


def _look(stateful_set: Document, lineage: _Lineage, claimed: Iterable[Document], now_ns: int) -> _Look:
    look = _Look(stateful_set, lineage, _goal(stateful_set, lineage.update, now_ns), {})
    for document in claimed:
        ordinal = ordinal_of(document, stateful_set)
        if ordinal is not None:
            look.pods[ordinal] = PodView(document)
    return look


def _goal(stateful_set: Document, revision: str, now_ns: int) -> StatefulGoal:
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
        min_ready_seconds=spec.get("minReadySeconds") or 0,
        now_ns=now_ns,
    )


def _status(look: _Look) -> Document:
    """Of the pods as they were found, before anything was done about them. Fields unheard of stay."""
    known = look.stateful_set.get("status") or {}
    current, update = look.lineage.current, look.lineage.update
    counts = counts_of(look.goal, list(look.pods.values()), current)
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


class StatefulPods:
    """Makes and deletes them, and tells of it in the words that StatefulSets have for it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def create(self, stateful_set: Document, pod: Document) -> Document:
        """The pod as it was made. Raises what the server said, after having told it.

        That there is a pod of this name is not told: as a rule the cache has yet to hear of it.
        """
        try:
            made = await self._around.client.create(PODS, pod, key_of(stateful_set)[0])
        except (ApiError, RuntimeFailure) as error:
            is_taken = isinstance(error, ApiError) and error.reason == "AlreadyExists"
            if not is_taken and not is_namespace_ending(error):
                self.tell_failure(stateful_set, "Create", pod["metadata"]["name"], error)
            raise
        self._tell_success(stateful_set, "Create", pod["metadata"]["name"])
        return made

    async def delete(self, stateful_set: Document, pod: Document) -> bool:
        """Whether there was something to delete."""
        name = pod["metadata"]["name"]
        try:
            is_asked = await delete_pod(self._around.client, pod)
        except (ApiError, RuntimeFailure) as error:
            self.tell_failure(stateful_set, "Delete", name, error)
            raise
        if is_asked:
            self._tell_success(stateful_set, "Delete", name)
        return is_asked

    async def identify(self, stateful_set: Document, pod: Document, ordinal: int) -> None:
        """Give an adopted pod the labels of its place, where it lacks the one with its name."""
        namespace, name = key_of(pod)
        if (pod["metadata"].get("labels") or {}).get(NAME_LABEL) == name:
            return
        # On this very version: the cache may not have heard of the labels yet, and they would be told of again.
        known = {key: pod["metadata"][key] for key in ("uid", "resourceVersion")}
        patch = {"metadata": {**known, "labels": identity_labels(name, ordinal)}}
        try:
            await self._around.client.patch(PODS, name, patch, namespace, how=PatchType.MERGE)
        except (NotFound, Conflict):
            return
        except (ApiError, RuntimeFailure) as error:
            self.tell_failure(stateful_set, "Update", name, error)
            raise
        self._tell_success(stateful_set, "Update", name)

    def tell_failure(self, stateful_set: Document, verb: str, pod: str, error: object) -> None:
        """What stands against it, as an event of the set."""
        owner = stateful_set["metadata"]["name"]
        message = f"{verb} Pod {pod} in StatefulSet {owner} failed error: {error}"
        self._tell(stateful_set, f"Failed{verb}", message, WARNING)

    def tell_back_off(self, stateful_set: Document, message: str) -> None:
        """Its pods fail as soon as they are made."""
        self._tell(stateful_set, "BackOff", message, WARNING)

    def _tell_success(self, stateful_set: Document, verb: str, pod: str) -> None:
        owner = stateful_set["metadata"]["name"]
        self._tell(stateful_set, f"Successful{verb}", f"{verb} Pod {pod} in StatefulSet {owner} successful", NORMAL)

    def _tell(self, stateful_set: Document, reason: str, message: str, event_type: str) -> None:
        self._around.events.tell(SOURCE, subject_of("StatefulSet", stateful_set), reason, message, event_type)


def ordinal_of(pod: Document, stateful_set: Document) -> int | None:
    """Its place in the set; None where its name is none of the set's."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    return int(found[2]) if found and found[1] == stateful_set["metadata"]["name"] else None


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    """By which a Service finds this very pod."""
    return {NAME_LABEL: name, INDEX_LABEL: str(ordinal)}


def stateful_pod(stateful_set: Document, ordinal: int, template: Document, revision: str) -> Document:
    """The pod of an ordinal, from the template of that revision."""
    spec = stateful_set["spec"]
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    pod = pod_from_template(OWNER_KIND, stateful_set, template)
    labels = {**(pod["metadata"].get("labels") or {}), **identity_labels(name, ordinal), REVISION_LABEL: revision}
    pod["metadata"] |= {"name": name, "labels": labels}
    pod["spec"] = {**pod["spec"], "hostname": name}
    if service := spec.get("serviceName"):
        pod["spec"]["subdomain"] = service
    return pod
