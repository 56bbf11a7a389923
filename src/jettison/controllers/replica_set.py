"""The ReplicaSet controller: as many pods as wanted, no more and no fewer. ReplicationControllers are the same to it.

A pod that has ended counts for nothing, so one that its node evicted is replaced at once while it is kept to be looked
at. A pod that is on its way out does not count either: its replacement starts before it has ended. Pods that fail as
soon as they are made are replaced ever later (`quick_failures`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from jettison.controllers.deployment.revisions import replicas_of
from jettison.controllers.machinery.event_recorder import WARNING, subject_of
from jettison.controllers.machinery.objects import condition_of, is_terminating
from jettison.controllers.machinery.owned_pods import (
    ByController,
    Claims,
    OwnerKind,
    WokenOwners,
    controller_of,
    labels_of,
)
from jettison.controllers.machinery.pod_control import MOST_AT_ONCE, Failure, NewPod, PodBatches
from jettison.controllers.machinery.quick_failures import QuickFailures, told
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.engine.labels.selectors import LabelSelector
from jettison.engine.workloads.quick_failures import CreationAllowance
from jettison.engine.workloads.replica_pods import deletion_order, next_available_ns
from jettison.manifests.pod_view import PodView
from jettison.manifests.times import time_text
from jettison.runtimes.kube.cache import Key, key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from jettison.values import frozen

OWNER_KIND: Final = OwnerKind(REPLICA_SETS, "ReplicaSet")
REPLICA_FAILURE: Final = "ReplicaFailure"

_SECOND_NS: Final = 10**9
_WORKERS: Final = 5
# Written also as 0; the other counters are left out then.
_ALWAYS_WRITTEN: Final = ("replicas", "terminatingReplicas")


@frozen
class Replicated:
    """What differs between the two kinds."""

    owner_kind: OwnerKind
    # What events name.
    source: str
    # In logs.
    title: str
    counts_leaving: bool


_REPLICA_SET: Final = Replicated(OWNER_KIND, "replicaset-controller", "replica set", counts_leaving=True)
_REPLICATION_CONTROLLER: Final = Replicated(
    OwnerKind(REPLICATION_CONTROLLERS, "ReplicationController", labels_of),
    "replication-controller",
    "replication controller",
    counts_leaving=False,
)


class ReplicaSetController:
    """Pods and sets come from the caches; what was asked for and has not shown is waited for."""

    def __init__(self, around: Surroundings, replicated: Replicated = _REPLICA_SET) -> None:
        self._around = around
        self._replicated = replicated
        owner_kind = self._owner_kind = replicated.owner_kind
        self._sets = around.caches.of(owner_kind.kind)
        pods = around.caches.of(PODS)
        self._pods = pods.index(ByController)
        self._siblings = self._sets.index(ByController)
        self._claims = Claims(around.client, owner_kind, PODS)
        self._failures = QuickFailures(around.clock)
        self._batches = PodBatches(around, owner_kind, replicated.source, self._failures)
        self._reconciler: Reconciler[Key] = Reconciler(replicated.title, self._reconcile, workers=_WORKERS)
        self._reconciler.follow(self._sets, lambda change: (change.key,))
        self._reconciler.follow(pods, WokenOwners(owner_kind, self._sets))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, key: Key) -> None:
        replica_set = self._sets.get(key)
        if replica_set is None:
            self._batches.expectations.forget(key)
            self._failures.forget(key)
            return
        are_met = self._batches.expectations.are_met(key)
        selector = self._owner_kind.selector_of(replica_set)
        candidates = [PodView(each) for each in self._pods.candidates(replica_set)]
        active = await self._claim(replica_set, selector, [each for each in candidates if each.is_active])
        failure = None
        if are_met and not is_terminating(replica_set):
            allowance = self._failures.allow(replica_set, candidates)
            failure = await self._correct(replica_set, active, allowance)
        leaving = None
        if self._replicated.counts_leaving:
            leaving = sum(each.is_leaving and _is_owned(each, replica_set, selector) for each in candidates)
        now_ns = self._around.clock.now_ns()
        status = _status(replica_set, active, leaving, failure, now_ns)
        await self._owner_kind.report_status(self._around.client, replica_set, status)
        if failure is not None:
            raise failure
        due_ns = next_available_ns(active, _min_ready(replica_set), now_ns)
        if due_ns is not None:
            self._reconciler.queue.add_after(key, (due_ns - now_ns) / _SECOND_NS)

    async def _claim(self, replica_set: Document, selector: LabelSelector, pods: Iterable[PodView]) -> list[PodView]:
        claimed = await self._claims.claim(replica_set, selector, (each.document for each in pods))
        return [PodView(each) for each in claimed]

    async def _correct(
        self, replica_set: Document, active: list[PodView], allowance: CreationAllowance
    ) -> Failure | None:
        """Create or delete what is missing or too many; what the server said against it."""
        surplus = len(active) - replicas_of(replica_set)
        if surplus < 0:
            if allowance.wait_ns:
                self._postpone(replica_set, allowance)
            most = MOST_AT_ONCE if allowance.most is None else allowance.most
            new = NewPod(replica_set["spec"]["template"])
            return await self._batches.create(replica_set, [new] * min(-surplus, most)) if most else None
        if surplus > 0:
            return await self._batches.delete(replica_set, self._least_missed(replica_set, active, surplus))
        return None

    def _postpone(self, replica_set: Document, allowance: CreationAllowance) -> None:
        self._reconciler.queue.add_after(key_of(replica_set), allowance.wait_ns / _SECOND_NS)
        if allowance.is_news:
            subject = subject_of(self._owner_kind.name, replica_set)
            self._around.events.tell(self._replicated.source, subject, "BackOff", told(allowance), WARNING)

    def _least_missed(self, replica_set: Document, active: list[PodView], count: int) -> list[Document]:
        neighbours = Counter(pod.node for pod in self._related(replica_set) if pod.is_active)
        order = deletion_order(active, neighbours, self._around.clock.now_ns())
        return [each.document for each in order[:count]]

    def _related(self, replica_set: Document) -> list[PodView]:
        """The pods of all sets of the same Deployment: during a rollout they share the nodes."""
        parent = controller_of(replica_set)
        if parent is None:
            return []
        siblings = self._siblings.of(parent.get("uid") or "")
        return [PodView(pod) for each in siblings for pod in self._pods.of(each["metadata"]["uid"])]


def replication_controller(around: Surroundings) -> ReplicaSetController:
    """The same for the older kind."""
    return ReplicaSetController(around, _REPLICATION_CONTROLLER)


def _status(
    replica_set: Document, active: list[PodView], leaving: int | None, failure: Failure | None, now_ns: int
) -> Document:
    """Of the pods as they were found, before anything was done about them. Fields unheard of stay."""
    labels = (replica_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    min_ready = _min_ready(replica_set)
    counters = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labels.items() <= each.labels.items() for each in active),
        "readyReplicas": sum(each.is_ready for each in active),
        "availableReplicas": sum(each.is_available(min_ready, now_ns) for each in active),
        "observedGeneration": replica_set["metadata"].get("generation") or 0,
    }
    if leaving is not None:
        counters["terminatingReplicas"] = leaving
    known = replica_set.get("status") or {}
    status = {key: value for key, value in known.items() if key not in (*counters, "conditions")}
    status |= {key: value for key, value in counters.items() if value or key in _ALWAYS_WRITTEN}
    if conditions := _conditions(replica_set, len(active), failure, now_ns):
        status["conditions"] = conditions
    return status


def _conditions(replica_set: Document, count: int, failure: Failure | None, now_ns: int) -> list[Document]:
    """A failure stays as it was first told until it is over."""
    conditions: list[Document] = (replica_set.get("status") or {}).get("conditions") or []
    known = condition_of(replica_set, REPLICA_FAILURE)
    if failure is None:
        return [each for each in conditions if each is not known]
    if known is not None:
        return conditions
    condition = {
        "type": REPLICA_FAILURE,
        "status": "True",
        "lastTransitionTime": time_text(now_ns),
        "reason": "FailedCreate" if count < replicas_of(replica_set) else "FailedDelete",
        "message": str(failure),
    }
    return [*conditions, condition]


def _min_ready(replica_set: Document) -> int:
    return replica_set["spec"].get("minReadySeconds") or 0


def _is_owned(pod: PodView, replica_set: Document, selector: LabelSelector) -> bool:
    is_own = pod.controller is not None and pod.controller.uid == replica_set["metadata"]["uid"]
    return is_own and selector.matches(pod.labels)
