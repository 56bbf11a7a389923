"""The DaemonSet controller: one pod on every node that the set was made for.

Pods are pinned to their node by affinity and bound by the scheduler. One that its node evicted or rejected is deleted,
and its successor waits longer each time.

A pod is always made in the latest revision: the former ones are kept only for a rollback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from jettison.clock import Clock
from jettison.controllers.machinery.event_recorder import NORMAL, WARNING, subject_of
from jettison.controllers.machinery.objects import is_terminating
from jettison.controllers.machinery.owned_pods import ByController, Claims, OwnerKind, WokenOwners, selector_of
from jettison.controllers.machinery.pod_control import Failure, NewPod, PodBatches, is_namespace_ending
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.controllers.machinery.revisions import RevisionHistory, Revisions, surplus
from jettison.engine.budgets.budget import scaled
from jettison.engine.numbers.strconv import parse_int64
from jettison.engine.pods.api_pod import GENERATION_LABEL, REVISION_LABEL, ApiPod
from jettison.engine.pods.pod import FAILED
from jettison.engine.scheduling.placement import NAME_FIELD, Toleration
from jettison.engine.workloads.daemon_sync import (
    AUTOMATIC_TOLERATIONS,
    HOST_NETWORK_TOLERATION,
    Counts,
    DaemonGoal,
    DaemonWait,
    Placement,
    Update,
    counts_of,
    is_of_interest,
    needs_of,
    place_daemon,
    update_in_place,
    update_with_surge,
)
from jettison.errors import ApiError, InputError
from jettison.manifests.placement import matches_node, taints_from, tolerations_from
from jettison.manifests.pod_view import PodView
from jettison.runtimes.kube.cache import Cache, Change, Key, key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import DAEMON_SETS, NODES, PODS
from jettison.values import frozen

SOURCE: Final = "daemonset-controller"
OWNER_KIND: Final = OwnerKind(DAEMON_SETS, "DaemonSet")

_SECOND_NS: Final = 10**9
_WORKERS: Final = 2
_ROLLING: Final = "RollingUpdate"
# Written also as 0; the other counters are left out then.
_ALWAYS_WRITTEN: Final = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
# The server counts there how often the template has changed.
_GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"

Failing = tuple[str, int, str]
"""Uid and observed generation of the set, and the node: a changed set gets a new chance."""


class FailedDaemons:
    """How soon a failed daemon pod may be replaced (`DaemonWait`), by set and node; anew after a restart."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[Failing, DaemonWait] = {}

    def left_ns(self, failing: Failing) -> int:
        """How long the failed pod must stay; 0: not any more."""
        wait = self._waits.get(failing)
        return 0 if wait is None else wait.left_ns(self._clock.monotonic_ns())

    def note(self, failing: Failing) -> None:
        """It is being replaced: the next failure waits longer. What has been quiet for long is forgotten."""
        now_ns = self._clock.monotonic_ns()
        self._waits = {key: each for key, each in self._waits.items() if not each.is_forgotten(now_ns)}
        self._waits[failing] = DaemonWait.after(self._waits.get(failing), now_ns)


class _Revision(NamedTuple):
    """Of the present template. `collisions` is how often its name was found taken."""

    hash: str
    collisions: int


class _Strategy(NamedTuple):
    """`spec.updateStrategy`."""

    document: Document

    @property
    def is_rolling(self) -> bool:
        """Whether the controller replaces old pods by itself."""
        return self.document.get("type") == _ROLLING

    def allowed(self, field: str, total: int) -> int:
        """`maxUnavailable` or `maxSurge` of so many nodes; percentages are rounded up."""
        rolling = self.document.get("rollingUpdate") or {}
        return scaled(rolling.get(field) or 0, total, round_up=True) if self.is_rolling else 0


@frozen
class _Look:
    """A set, the nodes and its pods at one instant. Nodes that are gone have no placement and may still have pods."""

    daemon_set: Document
    revision: _Revision
    template: Document
    strategy: _Strategy
    goal: DaemonGoal
    placements: Mapping[str, Placement]
    pods: Mapping[str, list[PodView]]
    counts: Counts


class DaemonSetController:
    """Woken by sets, their pods, and nodes that come, go or change their labels or taints."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._sets = around.caches.of(DAEMON_SETS)
        self._nodes = around.caches.of(NODES)
        pods = around.caches.of(PODS)
        self._pods = pods.index(ByController)
        self._claims = Claims(around.client, OWNER_KIND, PODS)
        self._batches = PodBatches(around, OWNER_KIND, SOURCE)
        self._revisions = Revisions(around, OWNER_KIND, REVISION_LABEL)
        self._failed = FailedDaemons(around.clock)
        self._reconciler: Reconciler[Key] = Reconciler("daemon set", self._reconcile, workers=_WORKERS)
        self._reconciler.follow(self._sets, lambda change: (change.key,))
        self._reconciler.follow(pods, WokenOwners(OWNER_KIND, self._sets))
        self._reconciler.follow(self._revisions.cache, WokenOwners(OWNER_KIND, self._sets))
        self._reconciler.follow(self._nodes, self._changed_nodes)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    def _changed_nodes(self, change: Change) -> Iterable[Key]:
        if change.is_resync or not change.differs(_choosable):
            return ()
        return [key_of(each) for each in self._sets]

    async def _reconcile(self, key: Key) -> None:
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            self._batches.expectations.forget(key)
            return
        if is_terminating(daemon_set):
            return
        may_act = self._batches.expectations.are_met(key)
        candidates = self._pods.candidates(daemon_set)
        claimed = await self._claims.claim(daemon_set, selector_of(daemon_set), candidates)
        try:
            history = await self._revisions.history(daemon_set)
        except ApiError as error:
            if is_namespace_ending(error):
                return
            raise
        revision = _Revision(self._revisions.hash_of(history.latest), history.collisions)
        look = _look(daemon_set, revision, self._nodes, claimed, self._around.clock.now_ns())
        failure = None
        if may_act:
            needed = self._needed(look)
            # What was just done is not in this look: from it the update would delete the same pods again.
            is_cared_for = not needed.create_on and not needed.delete
            failure = await self._act(look, _update(look) if is_cared_for and look.strategy.is_rolling else needed)
            if failure is None:
                await self._forget_revisions(daemon_set, history, claimed)
        status = _status(look, is_observed=may_act)
        await OWNER_KIND.report_status(self._around.client, daemon_set, status)
        if failure is not None:
            raise failure
        min_ready = daemon_set["spec"].get("minReadySeconds") or 0
        if min_ready and look.counts.ready != look.counts.available:
            self._reconciler.queue.add_after(key, float(min_ready))

    def _needed(self, look: _Look) -> Update:
        """What each node needs, whatever is being rolled out."""
        create: list[str] = []
        delete: list[ApiPod] = []
        for node, placement in look.placements.items():
            needs = needs_of(look.goal, placement, look.pods.get(node, ()))
            if needs.creates:
                create.append(node)
            delete += [*needs.surplus, *(each for each in needs.ended if self._may_go(look, each, node))]
        # No other controller removes a pod that waits for a node which is gone.
        for node in look.pods.keys() - look.placements.keys():
            delete += [each for each in look.pods[node] if not each.node and not each.is_terminating]
        return Update(tuple(create), tuple(delete))

    def _may_go(self, look: _Look, pod: ApiPod, node: str) -> bool:
        daemon_set = look.daemon_set
        if pod.phase != FAILED:
            message = f"Found succeeded daemon pod {pod} on node {node}, will try to delete it"
            self._tell(daemon_set, "SucceededDaemonPod", message, NORMAL)
            return True
        observed = (daemon_set.get("status") or {}).get("observedGeneration") or 0
        failing = (daemon_set["metadata"]["uid"], observed, node)
        if left_ns := self._failed.left_ns(failing):
            self._reconciler.queue.add_after(key_of(daemon_set), left_ns / _SECOND_NS)
            return False
        self._failed.note(failing)
        message = f"Found failed daemon pod {pod} on node {node}, will try to kill it"
        self._tell(daemon_set, "FailedDaemonPod", message, WARNING)
        return True

    def _tell(self, daemon_set: Document, reason: str, message: str, event_type: str) -> None:
        self._around.events.tell(SOURCE, subject_of("DaemonSet", daemon_set), reason, message, event_type)

    async def _act(self, look: _Look, update: Update) -> Failure | None:
        failure = None
        if update.create_on:
            new = [NewPod(pinned(look.template, node)) for node in update.create_on]
            failure = await self._batches.create(look.daemon_set, new)
        if update.delete:
            documents = {each.uid: each.document for found in look.pods.values() for each in found}
            going = [documents[each.uid] for each in update.delete]
            failure = await self._batches.delete(look.daemon_set, going) or failure
        return failure

    async def _forget_revisions(self, daemon_set: Document, history: RevisionHistory, pods: Iterable[Document]) -> None:
        hashes = {(each["metadata"].get("labels") or {}).get(REVISION_LABEL) for each in pods}
        former = history.former
        live = {each["metadata"]["name"] for each in former if self._revisions.hash_of(each) in hashes}
        limit = daemon_set["spec"].get("revisionHistoryLimit")
        await self._revisions.forget(surplus(former, live, limit, counts_live=True))


def _look(daemon_set: Document, revision: _Revision, nodes: Cache, claimed: Iterable[Document], now_ns: int) -> _Look:
    generation = _template_generation(daemon_set)
    template = daemon_template(daemon_set["spec"]["template"], revision.hash, generation)
    placements = dict(_placements(template["spec"], nodes))
    strategy = _Strategy(daemon_set["spec"].get("updateStrategy") or {})
    min_ready = daemon_set["spec"].get("minReadySeconds") or 0
    surges = strategy.allowed("maxSurge", 1) > 0
    goal = DaemonGoal(revision.hash, min_ready, now_ns, surges, generation)
    pods: dict[str, list[PodView]] = {}
    for pod in map(PodView, claimed):
        node = target_node(pod)
        if node is not None and is_of_interest(pod):
            pods.setdefault(node, []).append(pod)
    counts = counts_of(goal, placements, pods)
    return _Look(daemon_set, revision, template, strategy, goal, placements, pods, counts)


def _placements(spec: Document, nodes: Iterable[Document]) -> Iterator[tuple[str, Placement]]:
    tolerations = tolerations_from(spec)
    for node in nodes:
        name = node["metadata"]["name"]
        yield name, place_daemon(taints_from(node), tolerations, is_chosen=_is_chosen(spec, node, name))


def _is_chosen(spec: Document, node: Document, name: str) -> bool:
    """An affinity that makes no sense chooses nothing."""
    if spec.get("nodeName") not in (None, "", name):
        return False
    try:
        return matches_node(spec, node["metadata"].get("labels") or {}, name)
    except InputError:
        return False


def _update(look: _Look) -> Update:
    """What a rolling update may do. Neither surge nor absence allowed, which no server takes: one may be absent."""
    desired = look.counts.desired
    surge, unavailable = look.strategy.allowed("maxSurge", desired), look.strategy.allowed("maxUnavailable", desired)
    chosen = {node: look.pods.get(node, []) for node, each in look.placements.items() if each.should_run}
    pods = {**chosen, **look.pods}
    if surge:
        return update_with_surge(look.goal, pods, look.placements, surge, desired)
    return update_in_place(look.goal, pods, unavailable or 1)


def _status(look: _Look, *, is_observed: bool) -> Document:
    """Of the pods as they were found, before anything was done about them. Fields unheard of stay."""
    counts, known = look.counts, look.daemon_set.get("status") or {}
    counters = {
        "currentNumberScheduled": counts.current,
        "numberMisscheduled": counts.misscheduled,
        "desiredNumberScheduled": counts.desired,
        "numberReady": counts.ready,
        "updatedNumberScheduled": counts.updated,
        "numberAvailable": counts.available,
        "numberUnavailable": counts.desired - counts.available,
    }
    if look.revision.collisions:
        counters["collisionCount"] = look.revision.collisions
    if is_observed:
        counters["observedGeneration"] = look.daemon_set["metadata"].get("generation") or 0
    kept = {key: value for key, value in known.items() if key not in counters}
    return kept | {key: value for key, value in counters.items() if value or key in _ALWAYS_WRITTEN}


def _choosable(node: Document) -> object:
    return node["metadata"].get("labels"), (node.get("spec") or {}).get("taints")


def _template_generation(daemon_set: Document) -> str:
    """Empty where the set does not tell, or tells no number."""
    annotations = daemon_set["metadata"].get("annotations") or {}
    generation = parse_int64(annotations.get(_GENERATION_ANNOTATION) or "")
    return "" if generation is None else str(generation)


def daemon_template(template: Document, revision: str, generation: str = "") -> Document:
    """What all pods of the set have in common: the labels that tell its revision and the tolerations of daemons."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    labels = {**(metadata.get("labels") or {}), REVISION_LABEL: revision}
    if generation:
        labels[GENERATION_LABEL] = generation
    added = [*AUTOMATIC_TOLERATIONS, *([HOST_NETWORK_TOLERATION] if spec.get("hostNetwork") else [])]
    tolerations: list[Document] = list(spec.get("tolerations") or ())
    for each in added:
        tolerations = _with_toleration(tolerations, each)
    return {**template, "metadata": {**metadata, "labels": labels}, "spec": {**spec, "tolerations": tolerations}}


def pinned(template: Document, node: str) -> Document:
    """For one node alone. What the template itself asks of nodes was asked when this one was chosen."""
    spec = template["spec"]
    affinity = spec.get("affinity") or {}
    only = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    required = {**((affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {})}
    required["nodeSelectorTerms"] = [{"matchFields": [only]}]
    node_affinity = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: required}
    return {**template, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}}


def target_node(pod: PodView) -> str | None:
    """Where it runs, or is to run; None for one that was not made by `pinned`."""
    if pod.node:
        return pod.node
    affinity = ((pod.document.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each.get("key") == NAME_FIELD and each.get("operator") == "In":
                values: list[Any] = each.get("values") or []
                return str(values[0]) if len(values) == 1 else None
    return None


def _with_toleration(tolerations: list[Document], toleration: Toleration) -> list[Document]:
    """In the place of one that differs only in its seconds: no template may make a daemon leave a silent node."""
    made = {"key": toleration.key, "operator": toleration.operator, "effect": toleration.effect}
    is_known = False
    changed = []
    for each in tolerations:
        is_same = not each.get("value") and all(each.get(key) == value for key, value in made.items())
        is_known = is_known or is_same
        changed.append(made if is_same else each)
    return changed if is_known else [*changed, made]
