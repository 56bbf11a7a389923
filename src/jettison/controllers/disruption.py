"""The disruption controller: keeps the status of every PodDisruptionBudget true, from which evictions are granted.

The eviction handler only ever spends what is written here, and both write with compare-and-swap on the budget. That is
all the locking there is: the numbers may be old, but they are never made from an older budget than the one they
replace, and a pod whose eviction was granted counts as gone from that moment on.

Upstream is woken by pods and budgets alone, by a pod only for the first of its budgets, and learns of the rest at a
resync. Here a budget that a pod has left and a changed number of replicas wake it too: the same answers, earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, Generic, TypeVar

from jettison.clock import Clock
from jettison.controllers.machinery.event_recorder import NORMAL, WARNING, subject_of
from jettison.controllers.machinery.objects import (
    condition_of,
    is_terminating,
    plural_of,
    read_resources,
    with_conditions,
)
from jettison.controllers.machinery.reconciler import Postponed, Reconciler, Surroundings
from jettison.engine.budgets.budget import Budget, BudgetStatus
from jettison.engine.budgets.headcount import Counted, Headcount
from jettison.engine.budgets.sync import DELETION_TIMEOUT_NS, Sync, sync_headcount, unlisted_owners
from jettison.engine.labels.selectors import NOTHING, LabelSelector, select
from jettison.engine.node.event_correlation import Subject
from jettison.engine.numbers.strconv import quote
from jettison.engine.workloads.owners import OwnerReference, Scale, ScaleFailure, Workload, Workloads
from jettison.errors import ApiError, Conflict, InputError, ManifestError, NotFound
from jettison.manifests.budgets import budget_from, budget_status_data, workload_from
from jettison.manifests.pod_view import DISRUPTION_TARGET, checked_pod, has_ended
from jettison.manifests.pods import is_mirror
from jettison.manifests.times import parse_time, time_text
from jettison.runtimes.kube.cache import Cache, Change, Key, View
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import (
    BUDGETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Kind,
)

SOURCE: Final = "controllermanager"
"""What Kubernetes calls itself in these events."""

_SECOND_NS: Final = 10**9
# A watch is behind by milliseconds. A pod that has not appeared by now never will.
_LONGEST_LAG_NS: Final = 3 * _SECOND_NS
_LAG_PAUSE_SECONDS: Final = 0.05

REST: Final = 10
"""How many times as long as the work took the same key is left alone afterwards."""

REST_OF_ALL: Final = 3
"""And how many times as long all keys together are, so that many of them leave three quarters of the time."""

SHORTEST_REST_NS: Final = 100 * 10**6
LONGEST_REST_NS: Final = 10**9
"""Work takes longer where there is much else to do; a client that waits for it should not notice."""

BURST_NS: Final = 500 * 10**6
"""So much rest may be owed before a key waits: a budget is right at once while pods come up one after another."""

_SCALE: Final = "scale"
_NO_SCALE: Final = "does not implement the scale subresource"
# Kubernetes always serves these, and so says other things of them than of a kind that it has never heard of. A server
# that does without them has no object of them either.
_ABSENT: Final[Mapping[tuple[str, str], ScaleFailure]] = {
    ("batch/v1", "CronJob"): ScaleFailure(f"cronjobs.batch {_NO_SCALE}"),
}

_FEW_LABELS: Final = 16

K = TypeVar("K", bound=Hashable)

# The kubelet says it together with the end itself, so there is nothing to take back.
_FINAL_REASON: Final = "TerminationByKubelet"


class DisruptionController:
    """One worker for the budgets, and one for announced disruptions that did not happen."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._pods = around.caches.of(PODS)
        self._budgets = around.caches.of(BUDGETS)
        self._guarded = GuardedPods(self._pods)
        self._selectors: View[LabelSelector] = View(self._budgets, _selector)
        self._workloads: list[View[Workload]] = []
        self._departed: dict[Key, int] = {}
        self._pace: Pace[Key] = Pace(around.clock)
        # The generation of the spec that was counted last.
        self._counted: dict[Key, int] = {}
        self._reconciler: Reconciler[Key] = Reconciler("disruption", self._reconcile)
        # What we wrote last, by version: to hear of it is no reason to count again.
        self._written: dict[Key, str] = {}
        self._reconciler.follow(self._budgets, self._rewritten)
        self._reconciler.follow(self._pods, self._wakened)
        self._pods.listen(self._note_departure)
        for kind in (REPLICATION_CONTROLLERS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS):
            cache = around.caches.of(kind)
            self._workloads.append(View(cache, workload_from))
            self._reconciler.follow(cache, self._rescaled)
        self._stale = StaleConditions(around, self._pods)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reconciler.run())
            group.create_task(self._stale.run())

    async def _reconcile(self, key: Key) -> None:
        document = self._budgets.get(key)
        if document is None:
            self._pace.forget(key)
            self._written.pop(key, None)
            self._counted.pop(key, None)
            return
        generation = document["metadata"].get("generation", 0)
        # Until a new spec was counted every eviction is told to come back in ten seconds: that does not wait.
        if generation == self._counted.get(key) and (seconds := self._pace.wait_seconds(key)) > 0:
            raise Postponed(seconds)
        self._counted[key] = generation
        with self._pace.working(key), suppress(NotFound):
            try:
                await self._count(key, document)
            except Conflict:
                # Evictions were faster, as ever while there are many. Our own server now keeps them waiting for us,
                # which it should not do for every few of them.
                self._pace.end_burst(key)
                await self._count(key, await self._around.client.get(BUDGETS, key[1], key[0]))

    async def _count(self, key: Key, document: Document) -> None:
        budget = budget_from(document)
        now_ns = self._around.clock.now_ns()
        if self._is_behind(budget, now_ns):
            raise Postponed(_LAG_PAUSE_SECONDS)
        pods = self._guarded.matching(key[0], _selector(document))
        workloads = await self._workloads_of(budget, pods)
        sync = sync_headcount(budget, pods, workloads, now_ns, self._around.settings.switches)
        if sync.status is not None:
            after = await self._around.client.replace(BUDGETS, _with_status(document, sync.status), "status")
            self._written[key] = after["metadata"]["resourceVersion"]
        self._announce(document, sync)
        if sync.recheck_ns is not None:
            self._reconciler.queue.add_after(key, (sync.recheck_ns - now_ns) / _SECOND_NS)

    def _rewritten(self, change: Change) -> Iterator[Key]:
        key = change.key
        if change.is_resync or change.newest["metadata"]["resourceVersion"] != self._written.get(key):
            yield key

    def _is_behind(self, budget: Budget, now_ns: int) -> bool:
        """Whether a granted eviction is of a pod that we have not heard of, because pods and budgets come apart.

        Upstream would forget the grant, and count the pod as healthy when it hears of it but not yet of its end: for
        that moment the budget would be larger than it is.
        """
        # Grants are written in whole seconds.
        since_ns = max(self._pods.listed_ns, now_ns - _LONGEST_LAG_NS) - _SECOND_NS
        for name, granted_ns in budget.status.disrupted_pods.items():
            if granted_ns > since_ns:
                key = (budget.namespace, name)
                if self._pods.get(key) is None and key not in self._departed:
                    return True
        return False

    async def _workloads_of(self, budget: Budget, pods: Headcount) -> Workloads:
        controllers, replica_sets, deployments, stateful_sets = (
            {name: workload for (_, name), workload in view.group(budget.namespace).items()} for view in self._workloads
        )
        workloads = Workloads(controllers, replica_sets, deployments, stateful_sets)
        owners = unlisted_owners(budget, pods, workloads)
        return replace(workloads, scales=await read_scales(self._around.client, owners, budget.namespace))

    def _announce(self, document: Document, sync: Sync) -> None:
        subject = subject_of("PodDisruptionBudget", document)
        for notice in sync.notices:
            about = subject if notice.pod is None else self._pod_subject((subject.namespace, notice.pod))
            event_type = WARNING if notice.is_warning else NORMAL
            self._around.events.tell(SOURCE, about, notice.reason, notice.message, event_type)

    def _pod_subject(self, key: Key) -> Subject:
        document = self._pods.get(key)
        return Subject("Pod", key[1], key[0]) if document is None else subject_of("Pod", document)

    def _wakened(self, change: Change) -> Iterable[Key]:
        """The budgets of a pod, and those that it has just left. At a resync the budgets come by themselves."""
        selectors = () if change.is_resync else self._selectors.group(change.key[0]).items()
        if not selectors:
            return ()
        old, new = (None if each is None else each["metadata"].get("labels") or {} for each in (change.old, change.new))
        if old == new:
            old = None  # asked once is enough
        woken, chosen = [], []
        for key, selector in selectors:
            is_chosen = new is not None and selector.matches(new)
            if is_chosen or (old is not None and selector.matches(old)):
                woken.append(key)
            if is_chosen:
                chosen.append(key[1])
        if len(chosen) > 1 and change.new is not None:
            pod = subject_of("Pod", change.new)
            which = f"Pod {quote(pod.namespace)}/{quote(pod.name)} matches multiple PodDisruptionBudgets."
            message = f"{which}  Chose {quote(chosen[0])} arbitrarily."
            self._around.events.tell(SOURCE, pod, "MultiplePodDisruptionBudgets", message, WARNING)
        return woken

    def _rescaled(self, change: Change) -> Iterable[Key]:
        if change.is_resync or not change.differs(_replicas):
            return ()
        return tuple(self._selectors.group(change.key[0]))

    def _note_departure(self, change: Change) -> None:
        if change.new is not None or change.old is None:
            return
        now_ns = self._around.clock.now_ns()
        key = change.key
        self._departed.pop(key, None)
        self._departed[key] = now_ns
        while (oldest := next(iter(self._departed.items())))[1] + 2 * _LONGEST_LAG_NS < now_ns:
            del self._departed[oldest[0]]


def _selector(document: Document) -> LabelSelector:
    """Without the status, which changes with every eviction and may name hundreds of pods."""
    try:
        return select(budget_from({**document, "status": None}).selector)
    except InputError:
        return NOTHING  # the sync will say so


def _with_status(document: Document, status: BudgetStatus) -> Document:
    """Fields of a status that we have never heard of stay. So do the owners of fields, which are not sent: they are as
    long as the status, and evictions wait for this write.
    """
    kept = {key: value for key, value in (document.get("status") or {}).items() if key != "disruptedPods"}
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    whole = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **document, "metadata": metadata}
    return {**whole, "status": {**kept, **budget_status_data(status)}}


def _replicas(document: Document) -> object:
    return (document.get("spec") or {}).get("replicas")


class GuardedPods:
    """The pods of a cache but the mirrors, counted by their labels: the pods of a workload have the same, so that a
    selector is asked once for all of them and not two thousand times.

    Mirrors of static pods are not among them. A node makes those by itself, with any labels and ready at once: counted,
    they would let it open the budgets of pods on other nodes, or close them. To evict a mirror ends nothing.
    """

    def __init__(self, pods: Cache) -> None:
        # By namespace and name: the labels and the pods that have them.
        self._shelves: dict[str, dict[str, tuple[Mapping[str, str], Headcount]]] = {}
        self._view: View[Counted] = View(pods, _counted, self._shelf_for, self._forget, self._recount)

    def matching(self, namespace: str, selector: LabelSelector) -> Headcount:
        """Those of the namespace that are selected, as they are now."""
        found: list[Headcount] = []
        for shelf, (labels, count) in tuple(self._shelves.get(namespace, {}).items()):
            if selector.matches(labels):
                self._view.group(shelf)
                found.append(count)
        return Headcount.together(found)

    def _shelf_for(self, pod: Document) -> str:
        """Where the pod belongs, if need be a new one. No namespace has a blank in it."""
        metadata = pod["metadata"]
        namespace = metadata.get("namespace") or ""
        if is_mirror(pod):
            return f"{namespace} mirror"
        labels = metadata.get("labels") or {}
        # The pods of a workload have the same few.
        shelf = (_remembered_shelf if len(labels) <= _FEW_LABELS else _shelf_of)(namespace, *labels.items())
        shelves = self._shelves.setdefault(namespace, {})
        if shelf not in shelves:
            shelves[shelf] = labels, Headcount()
        return shelf

    def _recount(self, shelf: str, old: Counted | None, new: Counted | None) -> None:
        """Only the pods of a shelf are ever read, so that it is there."""
        count = self._shelves[shelf.partition(" ")[0]][shelf][1]
        if old is not None:
            count.discard(old)
        if new is not None:
            count.add(new)

    def _forget(self, shelf: str) -> None:
        """Every Job has labels of its own: a shelf without pods must not stay."""
        namespace = shelf.partition(" ")[0]
        shelves = self._shelves.get(namespace, {})
        shelves.pop(shelf, None)
        if not shelves:
            self._shelves.pop(namespace, None)


def _counted(pod: Document) -> Counted:
    return Counted.of(checked_pod(pod))


def _shelf_of(namespace: str, *labels: tuple[str, str]) -> str:
    return f"{namespace} {sorted(labels)}"


_remembered_shelf: Final = lru_cache(256)(_shelf_of)


class Pace(Generic[K]):
    """Keeps counting, which evictions ask for without end, to a share of the time, so that other work has its own.

    A key that was left alone for a second does not wait.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ended_ns: dict[K, int] = {}
        self._rested_ns: dict[K, int] = {}
        self._all_rested_ns = 0

    def wait_seconds(self, key: K) -> float:
        """How long to leave it alone; 0 or less: not at all."""
        rested_ns = min(max(self._rested_ns.get(key, 0), self._all_rested_ns) - BURST_NS, self._latest_ns(key))
        return (rested_ns - self._clock.monotonic_ns()) / 1e9

    def end_burst(self, key: K) -> None:
        """The rest after the work that is under way is not put off."""
        self._rested_ns[key] = max(self._rested_ns.get(key, 0), self._clock.monotonic_ns() + BURST_NS)

    def forget(self, key: K) -> None:
        """It is no more."""
        self._ended_ns.pop(key, None)
        self._rested_ns.pop(key, None)

    @contextmanager
    def working(self, key: K) -> Iterator[None]:
        """Around the work."""
        began_ns = self._clock.monotonic_ns()
        try:
            yield
        finally:
            ended_ns = self._clock.monotonic_ns()
            spent_ns = ended_ns - began_ns
            self._ended_ns[key] = ended_ns
            owed_ns = max(REST * spent_ns, SHORTEST_REST_NS)
            self._rested_ns[key] = max(self._rested_ns.get(key, 0), ended_ns) + owed_ns
            self._all_rested_ns = max(self._all_rested_ns, ended_ns) + REST_OF_ALL * spent_ns

    def _latest_ns(self, key: K) -> int:
        ended_ns = self._ended_ns.get(key)
        return 0 if ended_ns is None else ended_ns + LONGEST_REST_NS


async def read_scales(
    client: KubeClient, owners: Iterable[OwnerReference], namespace: str
) -> dict[OwnerReference, Scale | ScaleFailure | None]:
    """The sizes of owners of any kind, read from their `scale` subresources, which discovery finds.

    As `Workloads.scales` wants them: no entry for a kind that the server does not have, None for an owner that is gone.
    """
    scales: dict[OwnerReference, Scale | ScaleFailure | None] = {}
    served: dict[str, list[Document]] = {}
    for owner in owners:
        try:
            if owner.api_version not in served:
                served[owner.api_version] = await read_resources(client, owner.api_version)
            resource = plural_of(owner.kind, served[owner.api_version])
            if resource is not None:
                scales[owner] = await _read_scale(client, owner, resource, served[owner.api_version], namespace)
            elif (owner.api_version, owner.kind) in _ABSENT:
                scales[owner] = _ABSENT[owner.api_version, owner.kind]
        except (ApiError, InputError) as error:
            scales[owner] = ScaleFailure(str(error))
    return scales


async def _read_scale(
    client: KubeClient, owner: OwnerReference, plural: str, resources: Iterable[Document], namespace: str
) -> Scale | ScaleFailure | None:
    group, _, version = owner.api_version.rpartition("/")
    if not any(each.get("name") == f"{plural}/{_SCALE}" for each in resources):
        qualified = f"{plural}.{group}" if group else plural
        return ScaleFailure(f"{qualified} {_NO_SCALE}")
    try:
        found = await client.get(Kind(group, plural, version=version), owner.name, namespace, _SCALE)
    except NotFound:
        return None
    return Scale(found["metadata"].get("uid") or "", (found.get("spec") or {}).get("replicas") or 0)


class StaleConditions:
    """Takes back `DisruptionTarget` from pods that were to go two minutes ago and are still there.

    A client announced the pod's end and failed before asking for it. The condition stays, as False: that there was such
    an announcement is worth knowing. A queue of its own keeps it apart from the counting of budgets.
    """

    def __init__(self, around: Surroundings, pods: Cache) -> None:
        self._around = around
        self._pods = pods
        self._reconciler: Reconciler[Key] = Reconciler("stale conditions", self._reconcile)
        self._reconciler.follow(pods, _announced)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(key)
        condition = None if pod is None else _announcement(pod)
        if pod is None or condition is None:
            return
        now_ns = self._around.clock.now_ns()
        left_ns = _changed_ns(condition) + DELETION_TIMEOUT_NS - now_ns
        if left_ns > 0:
            self._reconciler.queue.add_after(key, left_ns / _SECOND_NS)
            return
        kept = {name: value for name, value in condition.items() if name not in ("reason", "message")}
        withdrawn = {**kept, "status": "False", "lastTransitionTime": time_text(now_ns)}
        if generation := pod["metadata"].get("generation"):
            withdrawn["observedGeneration"] = generation
        whole = {"apiVersion": "v1", "kind": "Pod", **with_conditions(pod, withdrawn)}
        try:
            await self._around.client.replace(PODS, whole, "status")
        except NotFound:
            return


def _announced(change: Change) -> Iterable[Key]:
    return () if change.new is None or _announcement(change.new) is None else (change.key,)


def _announcement(pod: Document) -> Document | None:
    """The condition of a pod that is to go but does not yet."""
    condition = condition_of(pod, DISRUPTION_TARGET)
    if condition is None or is_terminating(pod) or has_ended(pod):
        return None
    is_open = condition.get("status") == "True" and condition.get("reason") != _FINAL_REASON
    return condition if is_open else None


def _changed_ns(condition: Document) -> int:
    """Without a time, or with one that is none, it is old enough."""
    try:
        return parse_time(condition.get("lastTransitionTime") or "")
    except ManifestError:
        return 0
