"""The Deployment controller: one ReplicaSet per template, and a rollout from the old ones to the new one.

It never touches a pod: it sets the sizes of ReplicaSets, and reads from their status how far they have come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jettison.controllers.deployment.revisions import (
    REVISION,
    age_of,
    desired_of,
    find_new,
    forgettable,
    generation_of,
    new_set,
    next_revision,
    replicas_of,
    revised,
    rollout_of,
    sized,
)
from jettison.controllers.deployment.status import (
    PROGRESSING,
    condition,
    counted_status,
    deadline_ns,
    has_deadline,
    is_complete,
    paused_status,
    rollout_status,
    with_condition,
)
from jettison.controllers.machinery.event_recorder import NORMAL, WARNING, subject_of
from jettison.controllers.machinery.objects import condition_of, is_terminating
from jettison.controllers.machinery.owned_pods import (
    ByController,
    Claims,
    OwnerKind,
    WokenOwners,
    controller_of,
    selector_of,
)
from jettison.controllers.machinery.pod_control import is_namespace_ending
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.controllers.replica_set import OWNER_KIND as REPLICA_SET_KIND
from jettison.engine.numbers.strconv import quote
from jettison.engine.workloads.rollout import Resize, grown, shared_out, shrunk
from jettison.engine.workloads.template_hash import is_same_template, template_hash
from jettison.errors import ApiError, NotFound
from jettison.manifests.pod_view import has_ended
from jettison.runtimes.kube.cache import Change, Key, key_of
from jettison.runtimes.kube.client import DeleteOptions, Document
from jettison.runtimes.kube.kinds import DEPLOYMENTS, PODS, REPLICA_SETS

SOURCE: Final = "deployment-controller"
OWNER_KIND: Final = OwnerKind(DEPLOYMENTS, "Deployment")

_SECOND_NS: Final = 10**9
_WORKERS: Final = 5


class DeploymentLook:
    """One look at one Deployment: what is the next step of its rollout? Holds it and its sets as each write left them.

    Every write carries the version that it was decided on, so a step decided on an old picture is refused, and taken
    again on a new one. The Deployment's status and the revision in its annotations are written together, as upstream.
    """

    def __init__(self, around: Surroundings, deployment: Document, sets: list[Document], pods: ByController) -> None:
        self._around = around
        self._pods = pods
        self._rollout = rollout_of(deployment)
        self.deployment = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment}
        self._new = find_new(deployment, sets)
        self._old = sorted((each for each in sets if each is not self._new), key=age_of)

    @property
    def _active(self) -> list[Document]:
        sets = [*self._old, *([] if self._new is None else [self._new])]
        return [each for each in sets if replicas_of(each) > 0]

    async def step(self) -> None:
        """Do whatever is next, and say so in the status."""
        if is_terminating(self.deployment):
            await self._write(counted_status(self.deployment, self._new, self._old, self._now_ns()))
            return
        if (status := paused_status(self.deployment, self._now_ns())) is not None:
            await self._write(status)
        if self.deployment["spec"].get("paused") or self._is_rescaled():
            await self._rescale()
        elif self._rollout.is_rolling:
            await self._roll()
        else:
            await self._recreate()

    def _is_rescaled(self) -> bool:
        """Whether the size was changed: a set still has the one before."""
        sizes = {desired_of(each) for each in self._active} - {None}
        return bool(sizes - {self._rollout.replicas})

    async def _rescale(self) -> None:
        """Scale without going on with the rollout."""
        await self._keep_new()
        active = self._active
        newest = self._new if self._new is not None else next(reversed(self._old), None)
        if len(active) <= 1:
            only = active[0] if active else newest
            if only is not None:
                await self._resize(only, self._rollout.replicas)
        elif self._is_saturated():
            for each in [each for each in self._old if replicas_of(each) > 0]:
                await self._resize(each, 0)
        elif self._rollout.is_rolling:
            total = (self.deployment.get("status") or {}).get("replicas") or 0
            for resize in shared_out(self._rollout, [generation_of(each) for each in active], total):
                await self._resize(self._named(resize.name), resize.replicas, is_forced=True)
        if self.deployment["spec"].get("paused"):
            await self._forget_revisions()
        await self._write(counted_status(self.deployment, self._new, self._old, self._now_ns()))

    async def _roll(self) -> None:
        new = await self._require_new()
        if new is not None and not await self._grow(new) and not await self._shrink(new):
            await self._finish()
        await self._report()

    async def _recreate(self) -> None:
        await self._keep_new()
        running = [each for each in self._old if replicas_of(each) > 0]
        for each in running:
            await self._resize(each, 0)
        if not running and not self._has_old_pods():
            new = await self._require_new()
            if new is not None:
                await self._resize(new, self._rollout.replicas)
                await self._finish()
        await self._report()

    def _has_old_pods(self) -> bool:
        """Whether any pod of an older revision may still run, on its way out or not."""
        if any((each.get("status") or {}).get("replicas") for each in self._old):
            return True
        pods = (pod for each in self._old for pod in self._pods.of(each["metadata"]["uid"]))
        return any(not has_ended(pod) for pod in pods)

    async def _grow(self, new: Document) -> bool:
        wanted = self._rollout.replicas
        if replicas_of(new) < wanted:
            every = [generation_of(each) for each in (*self._old, new)]
            wanted = grown(self._rollout, generation_of(new), every)
        return await self._resize(new, wanted)

    async def _shrink(self, new: Document) -> bool:
        old = [generation_of(each) for each in self._old if replicas_of(each) > 0]
        resizes: list[Resize] = shrunk(self._rollout, generation_of(new), old) if old else []
        for resize in resizes:
            await self._resize(self._named(resize.name), resize.replicas)
        return bool(resizes)

    async def _finish(self) -> None:
        if is_complete(self.deployment, self.deployment.get("status") or {}):
            await self._forget_revisions()

    async def _forget_revisions(self) -> None:
        for each in forgettable(self.deployment, self._old):
            namespace, name = key_of(each)
            try:
                options = DeleteOptions(uid=each["metadata"]["uid"])
                await self._around.client.delete(REPLICA_SETS, name, namespace, options)
            except NotFound:
                continue

    def _is_saturated(self) -> bool:
        if self._new is None:
            return False
        wanted = self._rollout.replicas
        available = (self._new.get("status") or {}).get("availableReplicas") or 0
        return replicas_of(self._new) == desired_of(self._new) == available == wanted

    async def _require_new(self) -> Document | None:
        """The set of the current template, made where there is none; None where the namespace is about to go."""
        if self._new is None:
            await self._create_new()
        else:
            await self._keep_new()
        return self._new

    async def _keep_new(self) -> None:
        """Give the current set its revision and the Deployment's annotations, and the Deployment the revision."""
        if self._new is None:
            return
        known = self._new["metadata"].get("annotations") or {}
        annotations = revised(self.deployment, known, next_revision(self._old))
        min_ready = self.deployment["spec"].get("minReadySeconds") or 0
        if annotations != known or (self._new["spec"].get("minReadySeconds") or 0) != min_ready:
            spec = {**self._new["spec"], "minReadySeconds": min_ready}
            metadata = {**self._new["metadata"], "annotations": annotations}
            self._take(await self._put({**self._new, "metadata": metadata, "spec": spec}))
        status = self.deployment.get("status") or {}
        if has_deadline(self.deployment) and condition_of(self.deployment, PROGRESSING) is None:
            message = f"Found new replica set {quote(self._new['metadata']['name'])}"
            found = condition(PROGRESSING, "True", "FoundNewReplicaSet", message, self._now_ns())
            status = with_condition(status, found)
        await self._write(status, annotations.get(REVISION) or "")

    async def _create_new(self) -> None:
        status = self.deployment.get("status") or {}
        digest = template_hash(self.deployment["spec"]["template"], status.get("collisionCount"))
        made = new_set(self.deployment, OWNER_KIND.reference(self.deployment), digest)
        old = [generation_of(each) for each in self._old]
        made["spec"]["replicas"] = grown(self._rollout, generation_of(made), old)
        revision = next_revision(self._old)
        made["metadata"]["annotations"] = sized(revised(self.deployment, {}, revision), self._rollout)
        try:
            self._new = await self._around.client.create(REPLICA_SETS, made, made["metadata"]["namespace"])
        except ApiError as error:
            if is_namespace_ending(error):
                return
            if error.reason != "AlreadyExists":
                await self._complain(made, error)
                raise
            await self._resolve_collision(made, error)
            return
        name, replicas = self._new["metadata"]["name"], replicas_of(self._new)
        if replicas > 0:
            self._tell("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {replicas}")
        if has_deadline(self.deployment):
            message = f"Created new replica set {quote(name)}"
            new = condition(PROGRESSING, "True", "NewReplicaSetCreated", message, self._now_ns())
            status = with_condition(status, new)
        await self._write(status, str(revision))

    async def _resolve_collision(self, made: Document, error: ApiError) -> None:
        """Ours, which the cache has not shown yet; or another template has that name, and a new one must be found."""
        namespace, name = key_of(made)
        found = await self._around.client.get(REPLICA_SETS, name, namespace)
        owner = controller_of(found) or {}
        is_own = owner.get("uid") == self.deployment["metadata"]["uid"]
        if is_own and is_same_template(found["spec"]["template"], self.deployment["spec"]["template"]):
            self._new = found
            await self._keep_new()
            return
        status = self.deployment.get("status") or {}
        await self._write({**status, "collisionCount": (status.get("collisionCount") or 0) + 1})
        raise error

    async def _complain(self, made: Document, error: ApiError) -> None:
        message = f"Failed to create new replica set {quote(made['metadata']['name'])}: {error}"
        self._tell("ReplicaSetCreateError", message, WARNING)
        if has_deadline(self.deployment):
            failed = condition(PROGRESSING, "False", "ReplicaSetCreateError", message, self._now_ns())
            await self._write(with_condition(self.deployment.get("status") or {}, failed))

    async def _resize(self, replica_set: Document, replicas: int, *, is_forced: bool = False) -> bool:
        """Whether the size is another now. Forced: the annotations are brought up to date in any case."""
        before = replicas_of(replica_set)
        known = replica_set["metadata"].get("annotations") or {}
        annotations = sized(known, self._rollout)
        if before == replicas and (not is_forced or annotations == known):
            return False
        metadata = {**replica_set["metadata"], "annotations": annotations}
        changed = {**replica_set, "metadata": metadata, "spec": {**replica_set["spec"], "replicas": replicas}}
        self._take(await self._put(changed))
        if before == replicas:
            return False
        direction, name = "up" if before < replicas else "down", metadata["name"]
        self._tell("ScalingReplicaSet", f"Scaled {direction} replica set {name} from {before} to {replicas}")
        return True

    def _named(self, name: str) -> Document:
        return next(each for each in self._active if each["metadata"]["name"] == name)

    def _take(self, changed: Document) -> None:
        """A set as it is after a write."""
        uid = changed["metadata"]["uid"]
        if self._new is not None and self._new["metadata"]["uid"] == uid:
            self._new = changed
        self._old = [changed if each["metadata"]["uid"] == uid else each for each in self._old]

    async def _put(self, replica_set: Document) -> Document:
        whole = {"apiVersion": "apps/v1", "kind": "ReplicaSet", **replica_set}
        return await self._around.client.replace(REPLICA_SETS, whole)

    async def _report(self) -> None:
        await self._write(rollout_status(self.deployment, self._new, self._old, self._now_ns()))

    async def _write(self, status: Document, revision: str = "") -> None:
        """The status, and the revision where there is one to write."""
        metadata = self.deployment["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **({REVISION: revision} if revision else {})}
        is_same = annotations == (metadata.get("annotations") or {})
        if is_same and status == (self.deployment.get("status") or {}):
            return
        if not is_same:
            metadata = {**metadata, "annotations": annotations}
        whole = {**self.deployment, "metadata": metadata, "status": status}
        self.deployment = await self._around.client.replace(DEPLOYMENTS, whole, "status")

    def _now_ns(self) -> int:
        return self._around.clock.now_ns()

    def _tell(self, reason: str, message: str, event_type: str = NORMAL) -> None:
        self._around.events.tell(SOURCE, subject_of("Deployment", self.deployment), reason, message, event_type)


class DeploymentController:
    """Woken by Deployments, their sets, and the end of pods that a Recreate waits for."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._deployments = around.caches.of(DEPLOYMENTS)
        self._sets = around.caches.of(REPLICA_SETS)
        pods = around.caches.of(PODS)
        self._by_deployment = self._sets.index(ByController)
        self._by_set = pods.index(ByController)
        self._claims = Claims(around.client, OWNER_KIND, REPLICA_SETS)
        self._reconciler: Reconciler[Key] = Reconciler("deployment", self._reconcile, workers=_WORKERS)
        self._reconciler.follow(self._deployments, lambda change: (change.key,))
        self._reconciler.follow(self._sets, WokenOwners(OWNER_KIND, self._deployments))
        self._reconciler.follow(pods, self._ended)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, key: Key) -> None:
        deployment = self._deployments.get(key)
        if deployment is None:
            return
        candidates = self._by_deployment.candidates(deployment)
        sets = await self._claims.claim(deployment, selector_of(deployment), candidates)
        look = DeploymentLook(self._around, deployment, sets, self._by_set)
        try:
            await look.step()
        except NotFound:
            return  # it or a set of it is gone, which the cache will tell
        due_ns = deadline_ns(look.deployment)
        if due_ns is not None:
            # Times are written in whole seconds: a second later it is certain.
            left_ns = max(due_ns - self._around.clock.now_ns(), 0)
            self._reconciler.queue.add_after(key, left_ns / _SECOND_NS + 1)

    def _ended(self, change: Change) -> Iterator[Key]:
        """A Recreate goes on when the last of the old pods has ended, which shows in no ReplicaSet."""
        if change.is_resync or not (change.new is None or has_ended(change.new)):
            return
        set_key = REPLICA_SET_KIND.key_from(change.newest)
        replica_set = self._sets.get(set_key) if set_key else None
        key = OWNER_KIND.key_from(replica_set) if replica_set else None
        deployment = self._deployments.get(key) if key else None
        if key and deployment is not None and not rollout_of(deployment).is_rolling:
            yield key
