"""Controllers of a world: which pods each workload makes and deletes, by the rules of `engine/workloads`.

A controller is woken when a pod of its own has changed, and looks at all of them. What the rules remember (back-off,
counters of a Job, sizes of a Deployment's sets) is kept here; the pods are the world's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.pods.pod import FAILED
from jettison.engine.scheduling.nodes import NodeOffer
from jettison.engine.workloads import job_sync, stateful_sync
from jettison.engine.workloads.daemon_sync import AUTOMATIC_TOLERATIONS, DaemonGoal, DaemonWait, needs_of, place_daemon
from jettison.engine.workloads.job_failures import BackOff
from jettison.engine.workloads.owners import OwnerReference, Workload, Workloads
from jettison.engine.workloads.quick_failures import CreationRecord, allow
from jettison.engine.workloads.replica_pods import deletion_order
from jettison.engine.workloads.rollout import Generation, grown, recreating, rolling, shrunk
from jettison.runtimes.simulated.agenda import EPOCH_NS, Agenda, Entry
from jettison.simulator.pod_templates import PodTemplate
from jettison.simulator.scenario import WorkloadSpec

_API_VERSIONS: Final = {"Job": "batch/v1"}


class OwnedPod(Protocol):
    """A pod of the world, as its controller sees it."""

    node: str

    @property
    def uid(self) -> str:
        """Of this pod alone, also where another had the same name before."""

    def is_ready(self, now_ns: int) -> bool:
        """It serves."""

    def view(self, now_ns: int) -> ApiPod:
        """As an API shows it."""


class PodKeeper(Protocol):
    """What a controller asks of the world."""

    agenda: Agenda
    offers: dict[str, NodeOffer]

    def create(
        self, name: str, template: PodTemplate, owner: OwnerReference | None = None, node: str = "", suffix: str = ""
    ) -> OwnedPod:
        """A pod that is to run. `suffix` makes its uid another one than that of a former pod of this name."""

    def delete(self, uid: str) -> None:
        """As the API does: it is terminating until its node has ended it."""

    def say(self, what: str, about: str, node: str, detail: str = "") -> None:
        """Tell it to everything that listens."""


class SimulatedController(ABC):
    """Of one workload."""

    # A pod that is gone for good is news, where only the end of one is for others.
    waits_for_cleanup = False

    def __init__(self, world: PodKeeper, spec: WorkloadSpec, kind: str, name: str) -> None:
        self.world = world
        self.spec = spec
        self.name = name
        namespace = spec.template.pod.namespace
        uid = f"workload/{namespace}/{name}"
        self.owner = OwnerReference(_API_VERSIONS.get(kind, "apps/v1"), kind, name, uid)
        self.pods: dict[str, OwnedPod] = {}
        # Those of them that count as wanted: a set of 900 looks 18 times a second in a storm.
        self.counted: dict[str, OwnedPod] = {}
        # Pods that have ended since the last look.
        self.ended: list[ApiPod] = []
        self._next: Entry | None = None

    @property
    def now_ns(self) -> int:
        """By the clocks of the world."""
        return EPOCH_NS + self.world.agenda.now_ns

    def wake(self, delay_ns: int = 0) -> None:
        """Look soon, or after so long unless there is a reason to do it earlier."""
        due_ns = self.world.agenda.now_ns + delay_ns
        if self._next is not None and self._next[2] is not None and self._next[0] <= due_ns:
            return
        self.world.agenda.cancel(self._next)
        self._next = self.world.agenda.at(due_ns, self.look)

    def look(self) -> None:
        """Do what there is to do. What is done may fail at once, which is news for the next look."""
        ended, self.ended = self.ended, []
        self.reconcile(ended)

    @abstractmethod
    def reconcile(self, ended: list[ApiPod]) -> None:
        """Make and delete what this kind of workload wants made and deleted."""

    def active(self) -> list[OwnedPod]:
        """Those that count."""
        return list(self.counted.values())

    def views(self, ended: list[ApiPod]) -> list[ApiPod]:
        """All of them, and those that have ended since the last look."""
        now_ns = self.world.agenda.now_ns
        here = [each.view(now_ns) for each in self.pods.values()]
        known = {each.uid for each in here}
        return [*here, *(each for each in ended if each.uid not in known)]

    def make(self, name: str, template: PodTemplate, node: str = "", suffix: str = "") -> OwnedPod:
        """A pod of this workload."""
        return self.world.create(name, template, self.owner, node, suffix)

    def delete(self, pods: Iterable[ApiPod]) -> None:
        """They are not wanted."""
        for each in pods:
            self.world.delete(each.uid)


class SimulatedReplicaSet(SimulatedController):
    """So many pods; on its own, or one template of a Deployment."""

    def __init__(
        self,
        world: PodKeeper,
        spec: WorkloadSpec,
        name: str,
        template: PodTemplate,
        parent: SimulatedDeployment | None = None,
    ) -> None:
        super().__init__(world, spec, "ReplicaSet", name)
        self.template = template
        self.replicas = spec.replicas if parent is None else 0
        self.parent = parent
        self._made = 0
        self._record = CreationRecord()

    def look(self) -> None:
        """A Deployment goes by what has become of its sets."""
        super().look()
        if self.parent is not None:
            self.parent.wake()

    def reconcile(self, ended: list[ApiPod]) -> None:
        """Make what is missing, as fast as failures allow, or delete what is missed least."""
        self._record, allowance = allow(self._record, ended, self.world.agenda.now_ns)
        missing = self.replicas - len(self.counted)
        if missing > 0:
            if allowance.wait_ns:
                self.wake(allowance.wait_ns)
            count = missing if allowance.most is None else min(missing, allowance.most)
            if count:
                self._create(count)
        elif missing < 0:
            self._shrink(self.active(), -missing)

    def _create(self, count: int) -> None:
        self._record = self._record.next_round()
        for _ in range(count):
            self._made += 1
            pod = self.make(f"{self.name}-{self._made}", self.template)
            self._record = self._record.with_pod(pod.uid, self.world.agenda.now_ns)

    def _shrink(self, active: list[OwnedPod], count: int) -> None:
        neighbours: dict[str, int] = {}
        for each in self.parent.active() if self.parent is not None else active:
            neighbours[each.node] = neighbours.get(each.node, 0) + 1
        views = [each.view(self.world.agenda.now_ns) for each in active]
        self.delete(deletion_order(views, neighbours, self.now_ns)[:count])

    @property
    def available(self) -> int:
        """How many serve."""
        now_ns = self.world.agenda.now_ns
        return sum(each.is_ready(now_ns) for each in self.counted.values())


class SimulatedDeployment(SimulatedController):
    """A ReplicaSet for each template that there was; the last one grows while the others shrink."""

    def __init__(self, world: PodKeeper, spec: WorkloadSpec) -> None:
        super().__init__(world, spec, "Deployment", spec.name)
        self.sets: list[SimulatedReplicaSet] = []
        self.is_done = False

    def update(self, template: PodTemplate) -> SimulatedReplicaSet:
        """From now on pods are to be like this."""
        self.is_done = False
        self.sets.append(
            SimulatedReplicaSet(self.world, self.spec, f"{self.name}-{len(self.sets) + 1}", template, self)
        )
        return self.sets[-1]

    def active(self) -> list[OwnedPod]:
        """Of all sets together."""
        return [pod for each in self.sets for pod in each.active()]

    def reconcile(self, ended: list[ApiPod]) -> None:  # noqa: ARG002  its sets have the pods
        """One step of the rollout: grow, or else shrink."""
        new, old = self.sets[-1], [each for each in self.sets[:-1] if each.replicas]
        spec = self.spec
        if spec.recreates:
            rollout = recreating(spec.replicas)
            for each in old:
                self._resize(each, 0)
            if any(each.pods for each in self.sets[:-1]):
                return
            self._resize(new, grown(rollout, _generation(new), [_generation(new)]))
        else:
            rollout = rolling(spec.replicas, spec.max_surge, spec.max_unavailable)
            wanted = grown(rollout, _generation(new), [_generation(each) for each in (*old, new)])
            if self._resize(new, min(wanted, spec.replicas)):
                return
            sets = {each.name: each for each in old}
            for resize in shrunk(rollout, _generation(new), [_generation(each) for each in old]):
                self._resize(sets[resize.name], resize.replicas)
        is_done = new.available >= spec.replicas and not any(each.replicas for each in old)
        if is_done and not self.is_done and len(self.sets) > 1:
            self.world.say("rolled out", f"{spec.template.pod.namespace}/{self.name}", "")
        self.is_done = self.is_done or is_done

    def _resize(self, replica_set: SimulatedReplicaSet, replicas: int) -> bool:
        if replica_set.replicas == replicas:
            return False
        replica_set.replicas = replicas
        replica_set.wake()
        return True


def _generation(replica_set: SimulatedReplicaSet) -> Generation:
    number = replica_set.name.rpartition("-")[2]
    return Generation(replica_set.name, replica_set.replicas, replica_set.available, number.zfill(9))


class SimulatedStatefulSet(SimulatedController):
    """Pods with names that come back."""

    waits_for_cleanup = True

    def __init__(self, world: PodKeeper, spec: WorkloadSpec) -> None:
        super().__init__(world, spec, "StatefulSet", spec.name)
        self._record = CreationRecord()
        self._made: dict[int, int] = {}

    def reconcile(self, ended: list[ApiPod]) -> None:
        """The next step, or all that need not wait for one another."""
        views = self.views(ended)
        self._record, allowance = allow(self._record, views, self.world.agenda.now_ns)
        here = {int(each.name.rpartition("-")[2]): each for each in views if each.uid in self.pods}
        goal = stateful_sync.StatefulGoal(self.spec.replicas, "", is_parallel=self.spec.is_parallel, now_ns=self.now_ns)
        steps = stateful_sync.next_steps(goal, here)
        self.delete(here[each.ordinal] for each in steps if isinstance(each, stateful_sync.Delete))
        create = [each.ordinal for each in steps if isinstance(each, stateful_sync.Create)]
        if create and allowance.wait_ns:
            self.wake(allowance.wait_ns)
        create = create[: allowance.most]
        if create:
            self._record = self._record.next_round()
        for ordinal in create:
            self._made[ordinal] = number = self._made.get(ordinal, 0) + 1
            pod = self.make(f"{self.name}-{ordinal}", self.spec.template, suffix=f"#{number}" if number > 1 else "")
            self._record = self._record.with_pod(pod.uid, self.world.agenda.now_ns)


class SimulatedDaemonSet(SimulatedController):
    """A pod on each node that will have it."""

    def __init__(self, world: PodKeeper, spec: WorkloadSpec) -> None:
        super().__init__(world, spec, "DaemonSet", spec.name)
        pod = spec.template.pod
        self._template = replace(
            spec.template, pod=replace(pod, tolerations=(*pod.tolerations, *AUTOMATIC_TOLERATIONS))
        )
        self._waits: dict[str, DaemonWait] = {}
        self._made = 0

    def reconcile(self, ended: list[ApiPod]) -> None:
        """What each node needs. A pod that failed there is replaced when its wait is over."""
        now_ns = self.world.agenda.now_ns
        pods: dict[str, list[ApiPod]] = {}
        for view in (each.view(now_ns) for each in self.pods.values()):
            if not view.is_ended:
                pods.setdefault(view.node, []).append(view)
        for each in ended:
            if each.phase == FAILED:
                self._waits[each.node] = DaemonWait.after(self._waits.get(each.node), now_ns)
        tolerations = self._template.pod.tolerations
        for name, offer in self.world.offers.items():
            placement = place_daemon(offer.taints, tolerations, is_chosen=True)
            needs = needs_of(DaemonGoal(""), placement, pods.get(name, ()))
            self.delete(needs.surplus)
            left_ns = self._waits[name].left_ns(now_ns) if name in self._waits else 0
            if needs.creates and left_ns:
                self.wake(left_ns)
            elif needs.creates:
                self._made += 1
                self.make(f"{self.name}-{self._made}", self._template, name)


class SimulatedJob(SimulatedController):
    """Pods that are to succeed, so often."""

    def __init__(self, world: PodKeeper, spec: WorkloadSpec) -> None:
        super().__init__(world, spec, "Job", spec.name)
        self._goal = job_sync.JobGoal(
            spec.parallelism,
            spec.completions,
            backoff_limit=spec.backoff_limit,
            deadline_ns=spec.deadline_ns,
        )
        self._state = job_sync.JobState(start_ns=EPOCH_NS + spec.at_ns)
        self._back_off = BackOff()
        self._counted: set[str] = set()
        self._made = 0

    def reconcile(self, ended: list[ApiPod]) -> None:
        """Count what has ended, and go on unless it is decided."""
        views = [each.but(is_tracked=each.uid not in self._counted) for each in self.views(ended)]
        view = job_sync.view_job(self._goal, self._state, views, self._back_off, self.now_ns)
        verdict = view.verdict or job_sync.success(self._goal, view)
        tally = job_sync.tally(self._goal, self._state, views, verdict, is_deleted=False)
        if verdict is not None and self._state.verdict is None:
            what = "job complete" if verdict.is_success else "job failed"
            self.world.say(what, f"{self.spec.template.pod.namespace}/{self.name}", "", verdict.reason)
        self._state = replace(
            self._state,
            succeeded=self._state.succeeded + len(tally.succeeded),
            failed=self._state.failed + len(tally.failed),
            completed=tally.completed,
            verdict=verdict,
        )
        self._back_off = view.back_off
        self._counted = (self._counted | {*tally.release}) & {*self.pods}
        step = job_sync.next_step(self._goal, replace(view, verdict=verdict), self.now_ns)
        self.delete(step.delete)
        for _ in step.create:
            self._made += 1
            self.make(f"{self.name}-{self._made}", self.spec.template)
        left_ns = job_sync.deadline_left_ns(self._goal, self._state, self.now_ns)
        waits = [each for each in (step.wait_ns, left_ns) if each is not None and each > 0]
        if waits and verdict is None:
            self.wake(min(waits))


_KINDS: Final[Mapping[str, Callable[[PodKeeper, WorkloadSpec], SimulatedController]]] = {
    "StatefulSet": SimulatedStatefulSet,
    "DaemonSet": SimulatedDaemonSet,
    "Job": SimulatedJob,
}


class Controllers:
    """All of a world."""

    def __init__(self, world: PodKeeper) -> None:
        self._world = world
        self._by_uid: dict[str, SimulatedController] = {}

    def add(self, spec: WorkloadSpec) -> None:
        """Its workload is made when its time comes."""
        agenda = self._world.agenda
        if spec.kind == "Deployment":
            deployment = SimulatedDeployment(self._world, spec)
            self._keep(deployment)
            for at_ns, template in ((spec.at_ns, spec.template), *spec.updates):
                agenda.at(at_ns, lambda template=template: self._update(deployment, template))  # type: ignore[misc]
            return
        made: SimulatedController
        if spec.kind == "ReplicaSet":
            made = SimulatedReplicaSet(self._world, spec, spec.name, spec.template)
        else:
            made = _KINDS[spec.kind](self._world, spec)
        self._keep(made)
        agenda.at(spec.at_ns, made.wake)

    @property
    def all(self) -> Collection[SimulatedController]:
        """A Deployment and each of its sets is one."""
        return self._by_uid.values()

    def _keep(self, controller: SimulatedController) -> None:
        self._by_uid[controller.owner.uid] = controller

    def _update(self, deployment: SimulatedDeployment, template: PodTemplate) -> None:
        self._keep(deployment.update(template))
        deployment.wake()

    def _of(self, owner: OwnerReference | None) -> SimulatedController | None:
        return None if owner is None else self._by_uid.get(owner.uid)

    def made(self, owner: OwnerReference, pod: OwnedPod) -> None:
        """It is there from now on."""
        controller = self._by_uid[owner.uid]
        controller.pods[pod.uid] = controller.counted[pod.uid] = pod

    def leaving(self, owner: OwnerReference | None, uid: str) -> None:
        """A pod of it was deleted: it is still there, and counts no more."""
        controller = self._of(owner)
        if controller is not None:
            controller.counted.pop(uid, None)
            controller.wake()

    def changed(self, owner: OwnerReference | None) -> None:
        """A pod of it."""
        controller = self._of(owner)
        if controller is not None:
            controller.wake()

    def ended(self, owner: OwnerReference | None, view: ApiPod) -> None:
        """A pod of it, for good."""
        controller = self._of(owner)
        if controller is not None:
            controller.counted.pop(view.uid, None)
            controller.ended.append(view)
            controller.wake()

    def gone(self, owner: OwnerReference | None, uid: str) -> None:
        """Nothing is left of a pod of it."""
        controller = self._of(owner)
        if controller is None:
            return
        controller.pods.pop(uid, None)
        controller.counted.pop(uid, None)
        is_recreated = isinstance(controller, SimulatedReplicaSet) and controller.spec.recreates
        if controller.waits_for_cleanup or is_recreated:
            controller.wake()

    def workloads(self, namespace: str) -> Workloads:
        """As budgets know them."""
        here = [each for each in self._by_uid.values() if each.spec.template.pod.namespace == namespace]
        sets: dict[str, Workload] = {}
        for each in here:
            if isinstance(each, SimulatedReplicaSet):
                parent = None if each.parent is None else each.parent.owner
                sets[each.name] = Workload(each.owner.uid, each.replicas, parent)
        return Workloads(
            replica_sets=sets,
            deployments=_sized(each for each in here if isinstance(each, SimulatedDeployment)),
            stateful_sets=_sized(each for each in here if isinstance(each, SimulatedStatefulSet)),
        )


def _sized(controllers: Iterable[SimulatedController]) -> dict[str, Workload]:
    return {each.name: Workload(each.owner.uid, each.spec.replicas) for each in controllers}
