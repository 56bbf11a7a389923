"""A world in virtual time: nodes with real agents, and what a cluster does around them.

Pods are placed by the scheduler's rules (`engine/scheduling`), admitted by the node's (`engine/pods/admission`),
replaced by their controllers (`simulated_workloads`), and evicted by drains through their budgets (`engine/budgets`).
The world holds no rule: it keeps the objects, asks the rules, and lets time pass. Everything that happens is told to
one listener.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from jettison import events
from jettison.agent.agent import AgentStep
from jettison.engine.budgets.budget import API_PROFILES, Budget
from jettison.engine.budgets.sync import sync_budget
from jettison.engine.budgets.verdict import Allowed, judge_eviction
from jettison.engine.config.allocatable import Allocatable, node_allocatable
from jettison.engine.drain.filters import DaemonSets, select_pods
from jettison.engine.drain.rules import DrainRules
from jettison.engine.labels.selectors import SelectorObject
from jettison.engine.node.decide import Evict, Reclaim
from jettison.engine.node.facts import ConditionChanged
from jettison.engine.numbers.quantity import ZERO
from jettison.engine.pods.admission import PRESSURE_TAINTS, Admission, admit_under_pressure, shortages
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.pods.pod import ENDED_PHASES, FAILED, PENDING, RUNNING, Pod
from jettison.engine.pods.preemption import handle_admission_failure
from jettison.engine.scheduling.choice import Placed
from jettison.engine.scheduling.nodes import ClusterLoad, NodeOffer, NodeRoom
from jettison.engine.scheduling.pods import PlaceablePod, claim_of
from jettison.engine.scheduling.shortlists import Shortlists
from jettison.engine.workloads.owners import OwnerReference
from jettison.events import Fact
from jettison.runtimes.protocol import PodManifest
from jettison.runtimes.simulated.agenda import EPOCH_NS, Agenda
from jettison.runtimes.simulated.pods import PodProgram, SimulatedPod
from jettison.runtimes.simulated.runtime import SimulatedRuntime
from jettison.simulator.pod_templates import PodTemplate
from jettison.simulator.scenario import Arrival, DrainSpec, FaultSpec, NodeSpec, Scenario
from jettison.simulator.simulated_nodes import SimulatedNode, StepListener
from jettison.simulator.simulated_workloads import Controllers
from jettison.simulator.stories import Happening, pressure_text

_SECOND_NS = 10**9

_LOOK_NS = _SECOND_NS
"""How often a drain looks whether the pods that it has evicted are gone."""

Listener = Callable[[Happening], None]


@dataclass(slots=True)
class WorldPod:
    """A pod of the cluster, wherever it is."""

    template: PodTemplate
    pod: Pod
    created_ns: int
    placeable: PlaceablePod
    owner: OwnerReference | None = None
    node: str = ""
    phase: str = PENDING
    reason: str = ""
    is_terminating: bool = False
    ready_ns: int | None = None
    finished_ns: int | None = None

    @property
    def uid(self) -> str:
        """Of this pod alone, also where another had the same name before."""
        return self.pod.uid

    def is_ready(self, now_ns: int) -> bool:
        """Its container runs, and has for long enough."""
        return (
            self.phase == RUNNING and self.ready_ns is not None and self.ready_ns <= now_ns and not self.is_terminating
        )

    def view(self, now_ns: int) -> ApiPod:
        """For budgets, drains and controllers."""
        ready = self.is_ready(now_ns)
        return ApiPod(
            self.pod.name,
            self.pod.namespace,
            self.pod.uid,
            self.template.labels,
            self.owner,
            self.node,
            self.phase,
            self.is_terminating,
            is_ready=ready,
            ready_since_ns=EPOCH_NS + (self.ready_ns or 0) if ready else 0,
            created_ns=EPOCH_NS + self.created_ns,
            finished_ns=0 if self.finished_ns is None else EPOCH_NS + self.finished_ns,
        )


@dataclass(slots=True)
class _Drain:
    spec: DrainSpec
    is_over: bool = False
    # By pod: the last refusal that was told.
    refused: dict[str, str] = field(default_factory=dict)


class SimulatedWorld:
    """Built from a scenario; `run` lets its time pass."""

    def __init__(self, scenario: Scenario, tell: Listener = lambda _: None, *, seed: int | None = None) -> None:
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self.agenda = Agenda()
        self.nodes: dict[str, SimulatedNode] = {}
        self.pods: dict[str, WorldPod] = {}
        self.budgets: list[Budget] = []
        self._tell = tell
        self._templates: dict[str, PodTemplate] = {}
        self._load = ClusterLoad()
        self._shortlists = Shortlists(self._load)
        self.offers: dict[str, NodeOffer] = {}
        self._allocatable: dict[str, Allocatable] = {}
        self._waiting: dict[str, WorldPod] = {}
        # By node.
        self._here: dict[str, dict[str, WorldPod]] = {}
        self.controllers = Controllers(self)
        # By node, those that come there; the first of them may be waiting for room.
        self._admissions: dict[str, list[Coroutine[None, None, None]]] = {}
        self._cordoned: set[str] = set()
        self._is_scheduling = False
        self._switches = API_PROFILES[scenario.profile]
        for spec in scenario.nodes:
            self._add_node(spec)
        self._put_down(scenario)

    def run(self, until_ns: int | None = None) -> None:
        """To this moment, or to the scenario's end.

        A step makes some sixty short-lived values and no cycle, so Python looks for garbage seventy times as rarely
        meanwhile: that is an eighth of the time.
        """
        usual = gc.get_threshold()
        gc.set_threshold(50_000, *usual[1:])
        try:
            self.agenda.run_until(self.scenario.duration_ns if until_ns is None else until_ns)
        finally:
            gc.set_threshold(*usual)

    @property
    def steps(self) -> int:
        """Of all agents together."""
        return sum(node.steps for node in self.nodes.values())

    # What there is from the beginning, and what comes.

    def _chance(self, name: str) -> Random:
        """Of one thing: what another draws does not change it."""
        return Random(f"{self.seed}/{name}")  # noqa: S311  chance that can be repeated is what is wanted

    def _add_node(self, spec: NodeSpec) -> None:
        name = spec.size.name
        chance = self._chance(f"node/{name}")
        system = {kind: make(chance) for kind, make in spec.system.items()}
        runtime = SimulatedRuntime(
            spec.size,
            spec.policy,
            self.agenda,
            lambda fact: self._emit(name, fact),
            lambda manifest: self._program(manifest.pod.uid),
            system,
        )
        runtime.changed = self._pod_changed
        runtime.machine_model.put_images(spec.unused_images)
        # Agents do not look in step: each was started at another moment.
        first_ns = 0 if len(self.scenario.nodes) == 1 else chance.randrange(10 * _SECOND_NS)
        listener = StepListener(partial(self._decided, name))
        node = SimulatedNode(
            runtime,
            spec.policy,
            self.agenda,
            listener,
            lambda fact: self._emit(name, fact),
            has_alarms=spec.has_alarms,
            first_look_ns=first_ns,
        )
        self.nodes[name] = node
        self._here[name] = {}
        found = node_allocatable(spec.size.capacity(), spec.policy)
        self._allocatable[name] = found
        amounts = found.allocatable
        room = NodeRoom(
            amounts["cpu"].milli,
            amounts["memory"].value,
            amounts.get("ephemeral-storage", ZERO).value,
            amounts["pods"].value,
        )
        labels = {"kubernetes.io/hostname": name, **spec.labels}
        self.offers[name] = NodeOffer(name, labels, spec.taints, room=room)
        self._load.set_node(self.offers[name])

    def _put_down(self, scenario: Scenario) -> None:
        for index, arrival in enumerate(scenario.arrivals):
            self._arrive(arrival, index)
        for spec in scenario.workloads:
            self.controllers.add(spec)
        for each in scenario.budgets:
            selector = SelectorObject(match_labels=each.selector)
            budget = Budget(each.name, each.namespace, 1, selector, each.min_available, each.max_unavailable)
            self.budgets.append(budget)
        for drain in scenario.drains:
            self.agenda.at(drain.at_ns, partial(self.drain, drain))
        for fault in scenario.faults:
            self.agenda.at(fault.at_ns, partial(self.fault, fault, is_on=True))
            self.agenda.at(fault.at_ns + fault.for_ns, partial(self.fault, fault, is_on=False))

    def _arrive(self, arrival: Arrival, index: int) -> None:
        chance = self._chance(f"arrivals/{index}/{arrival.name}")
        at_ns = arrival.at_ns
        for number in range(arrival.count):
            name = arrival.name if arrival.count == 1 else f"{arrival.name}-{number + 1}"
            self.agenda.at(at_ns, partial(self.create, name, arrival.template, None, arrival.node))
            step_ns = arrival.every_ns
            if arrival.jitter:
                step_ns = round(step_ns * (1 + chance.uniform(-arrival.jitter, arrival.jitter)))
            at_ns += step_ns

    def fault(self, fault: FaultSpec, *, is_on: bool) -> None:
        """It begins, or is over."""
        runtime = self.nodes[fault.node].runtime
        self.say("fault begins" if is_on else "fault ends", fault.kind, fault.node)
        match fault.kind:
            case "stats-missing":
                runtime.blindness = "the scenario says so" if is_on else ""
            case "pod-stats-missing":
                runtime.hides_pods = is_on
            case "slow-kills":
                runtime.slow_kills(fault.delay_ns if is_on else 0)
            case _:
                runtime.take_down(is_down=is_on)

    # Pods come to be, are placed, and go.

    def create(
        self, name: str, template: PodTemplate, owner: OwnerReference | None = None, node: str = "", suffix: str = ""
    ) -> WorldPod:
        """A pod that is to run, on this node or where the scheduler puts it."""
        uid = f"{template.pod.namespace}/{name}{suffix}"
        pod = replace(template.pod, name=name, uid=uid)
        group = "" if owner is None else owner.uid
        placeable = PlaceablePod(
            (pod.namespace, name),
            uid,
            pod.effective_priority,
            claim_of(pod),
            pod.tolerations,
            labels=template.labels,
            group=group,
            node=node,
        )
        known = WorldPod(template, pod, self.agenda.now_ns, placeable, owner)
        self.pods[uid] = known
        if owner is not None:
            self.controllers.made(owner, known)
        if node:
            self._bind(known, node)
        else:
            self._waiting[uid] = known
            self._schedule_soon()
        return known

    def _program(self, uid: str) -> PodProgram:
        """What this pod does, by its own chance."""
        template = self.pods[uid].template
        chance = self._chance(f"pod/{uid}")
        return replace(template.program, usage={part: make(chance) for part, make in template.usage.items()})

    def _schedule_soon(self) -> None:
        if not self._is_scheduling and self._waiting:
            self._is_scheduling = True
            self.agenda.after(0, self._schedule)

    def _schedule(self) -> None:
        """All that wait, the most important first."""
        self._is_scheduling = False
        order = sorted(
            self._waiting.values(), key=lambda each: (-each.placeable.priority, each.created_ns, each.pod.uid)
        )
        # What wants the same finds no place either: those that found one have only taken room.
        refused: set[Hashable] = set()
        for known in order:
            if known.placeable.wants in refused:
                continue
            found = self._shortlists.place(known.placeable)
            if isinstance(found, Placed):
                del self._waiting[known.pod.uid]
                self._bind(known, found.node)
            else:
                refused.add(known.placeable.wants)

    def _bind(self, known: WorldPod, node: str) -> None:
        known.node = node
        known.placeable = replace(known.placeable, node=node)
        self._load.put(known.placeable)
        self._here[node][known.pod.uid] = known
        self._admit(known)

    def _admit(self, known: WorldPod) -> None:
        """One after another on each node: two at once would both see the same room."""
        queue = self._admissions.setdefault(known.node, [])
        queue.append(self._admission(known))
        if len(queue) == 1:
            self._go_on_admitting(known.node)

    def _go_on_admitting(self, node: str) -> None:
        queue = self._admissions[node]
        while queue:
            try:
                queue[0].send(None)
            except StopIteration:
                del queue[0]
            else:
                # It waits for a pod to end, and is asked again when one has changed.
                return

    async def _admission(self, known: WorldPod) -> None:
        """As `agent/admission` does it: a critical pod that lacks only room gets it, from pods that end first."""
        node = self.nodes[known.node]
        others = [each.pod for each in self._here[known.node].values() if each is not known and self._runs(each)]
        admission = admit_under_pressure(known.pod, sorted(node.conditions))
        if admission.is_admitted:
            short = shortages(known.pod, others, self._allocatable[known.node].allocatable)
            recovery = handle_admission_failure(known.pod, others, short)
            if recovery.error is not None:
                admission = Admission(False, "UnexpectedAdmissionError", recovery.error)
            elif recovery.remaining:
                admission = short[0].refusal
            for order in recovery.evictions:
                self.say("preempt", str(order.pod), known.node, f"for {known.pod}")
                await node.agent.evict(order)
                node.look_soon()
        if not admission.is_admitted:
            self.say("reject", str(known.pod), known.node, admission.reason)
            self._finish(known, FAILED, admission.reason)
        elif not known.is_terminating:
            node.runtime.admit(PodManifest(known.pod, {}, "world"))
        else:
            # It was deleted while others made room for it.
            self._finish(known, FAILED, "")

    def _runs(self, known: WorldPod) -> bool:
        return known.phase not in ENDED_PHASES

    def _pod_changed(self, pod: SimulatedPod) -> None:
        known = self.pods.get(pod.pod.uid)
        if known is None:
            return
        life = pod.life
        if life.verdict is not None:
            if self._runs(known):
                self._finish(known, life.verdict.phase, life.verdict.reason)
        elif pod.is_running and known.phase != RUNNING:
            known.phase, known.ready_ns = RUNNING, self.agenda.now_ns + known.template.ready_ns
            self.controllers.changed(known.owner)
            if known.template.ready_ns:
                self.agenda.at(known.ready_ns, lambda: self.controllers.changed(known.owner))
        elif not pod.is_running and known.ready_ns is not None and known.phase == RUNNING and not known.is_terminating:
            known.ready_ns = None
        elif pod.is_running and known.ready_ns is None and known.phase == RUNNING:
            known.ready_ns = self.agenda.now_ns + known.template.ready_ns
        if life.is_cleaned:
            self._forget(known)
        if self._admissions.get(known.node):
            self.agenda.after(0, lambda: self._go_on_admitting(known.node))

    def _finish(self, known: WorldPod, phase: str, reason: str) -> None:
        known.phase, known.reason, known.ready_ns = phase, reason, None
        known.finished_ns = self.agenda.now_ns
        self._load.remove(known.placeable.key)
        self.controllers.ended(known.owner, known.view(self.agenda.now_ns))
        if not self.nodes[known.node].runtime.pod(known.pod.uid):
            self._forget(known)
        self._schedule_soon()

    def _forget(self, known: WorldPod) -> None:
        """Nothing is left of it; a cluster would keep its object for a while, and nothing here asks for that."""
        uid = known.pod.uid
        if self.pods.get(uid) is known:
            del self.pods[uid]
        self._here[known.node].pop(uid, None)
        self.controllers.gone(known.owner, uid)
        runtime = self.nodes[known.node].runtime
        if known.owner is None and uid in runtime.machine_model.dead:
            # A bare pod that ended by itself is there until it is deleted, and what it wrote until room is short.
            return
        if runtime.pod(known.pod.uid) is not None:
            self.agenda.after(0, lambda: runtime.delete(known.pod.uid))

    def delete(self, uid: str) -> None:
        """As the API does: it is terminating until its node has ended it, or gone where it waits for a node."""
        known = self.pods[uid]
        if not known.node:
            del self.pods[uid], self._waiting[uid]
            self.controllers.gone(known.owner, uid)
            self.controllers.changed(known.owner)
        else:
            known.is_terminating = True
            self.controllers.leaving(known.owner, uid)
            self.nodes[known.node].runtime.delete(uid)

    # Budgets and drains.

    def _views(self) -> list[ApiPod]:
        now_ns = self.agenda.now_ns
        return [each.view(now_ns) for each in self.pods.values()]

    def _sync_budgets(self) -> None:
        views, now_ns = self._views(), EPOCH_NS + self.agenda.now_ns
        for index, budget in enumerate(self.budgets):
            workloads = self.controllers.workloads(budget.namespace)
            status = sync_budget(budget, views, workloads, now_ns, self._switches).status
            if status is not None:
                self.budgets[index] = replace(budget, status=status)

    def cordon(self, name: str, *, is_cordoned: bool) -> None:
        """Whether new pods may come to the node."""
        (self._cordoned.add if is_cordoned else self._cordoned.discard)(name)
        self._offer(name)

    def drain(self, spec: DrainSpec) -> None:
        """Begin to empty a node."""
        drain, name = _Drain(spec), spec.node
        self.say("drain begins", name, name)
        self.cordon(name, is_cordoned=True)
        if drain.spec.timeout_ns is not None:
            self.agenda.after(drain.spec.timeout_ns, lambda: self._end_drain(drain, "drain timed out"))
        self._go_on_with_drain(drain)

    def _end_drain(self, drain: _Drain, what: str) -> None:
        if not drain.is_over:
            drain.is_over = True
            self.say(what, drain.spec.node, drain.spec.node)

    def _go_on_with_drain(self, drain: _Drain) -> None:
        if drain.is_over:
            return
        now_ns = EPOCH_NS + self.agenda.now_ns
        here = [each.view(self.agenda.now_ns) for each in self._here[drain.spec.node].values()]
        daemon_sets: DaemonSets = {(each.namespace, each.controller.name): None for each in here if each.controller}
        rules = DrainRules(drain.spec.is_forced, ignores_daemon_sets=True, deletes_empty_dirs=True)
        going = [view for view in select_pods(here, rules, daemon_sets, now_ns).going if not view.is_ended]
        if not going:
            self._end_drain(drain, "drained")
            return
        for view in going:
            if not view.is_terminating:
                self._evict_through_budgets(drain, view, now_ns)
        is_waiting = any(not self.pods[view.uid].is_terminating for view in going)
        delay_ns = drain.spec.retry_ns if is_waiting else min(_LOOK_NS, drain.spec.retry_ns)
        self.agenda.after(delay_ns, lambda: self._go_on_with_drain(drain))

    def _evict_through_budgets(self, drain: _Drain, view: ApiPod, now_ns: int) -> None:
        self._sync_budgets()
        verdict = judge_eviction(view, self.budgets, now_ns, self._switches)
        if not isinstance(verdict, Allowed):
            said = verdict.cause or verdict.message
            if drain.refused.get(view.uid) != said:
                drain.refused[view.uid] = said
                self.say("refused", str(view), drain.spec.node, said)
            return
        for granted in (verdict, *verdict.further):
            if granted.budget is not None and granted.status is not None:
                index = next(i for i, each in enumerate(self.budgets) if str(each) == str(granted.budget))
                self.budgets[index] = replace(self.budgets[index], status=granted.status)
        self.say("api evict", str(view), drain.spec.node)
        self.delete(view.uid)

    # What agents say.

    def _offer(self, name: str) -> None:
        """The node as the scheduler sees it: pressure is a taint."""
        taints = tuple(PRESSURE_TAINTS[each] for each in sorted(self.nodes[name].conditions))
        base = self.offers[name]
        self._load.set_node(replace(base, taints=base.taints + taints, is_cordoned=name in self._cordoned))
        self._schedule_soon()

    def _decided(self, node: str, step: AgentStep) -> None:
        for fact in step.outcome.facts:
            if isinstance(fact, ConditionChanged):
                self.say("condition", fact.condition.value, node, "True" if fact.is_true else "False")
                self.agenda.after(0, lambda: self._offer(node))
        decision = step.outcome.decision
        if isinstance(decision, Reclaim):
            detail = pressure_text(decision.starved, decision.reading)
            self.say("reclaim", ", ".join(each.value for each in decision.what), node, detail)
        elif isinstance(decision, Evict) and step.has_effect:
            detail = ""
            if decision.starved is not None and decision.reading is not None:
                detail = pressure_text(decision.starved, decision.reading)
            pods = {pod.uid: pod for pod in step.snapshot.pods}
            first = [decision.evictions[0]] if decision.at_most_one else list(decision.evictions)
            told = [pods[uid] for uid in step.instead] if step.instead else [each.pod for each in first]
            for pod in told:
                why = detail or next(each.message.strip() for each in first if each.pod is pod)
                self.say("evict", str(pod), node, why)

    def _emit(self, node: str, fact: Fact) -> None:
        match fact:
            case events.OutOfMemoryKill(pod):
                self.say("oom kill", str(pod), node)
            case events.PodEvicted(eviction):
                self.say("evicted", str(eviction.pod), node)
            case events.EvictionTimedOut(eviction):
                self.say("eviction timed out", str(eviction.pod), node)
            case _:
                pass

    def say(self, what: str, about: str, node: str, detail: str = "") -> None:
        """Something happened now."""
        self._tell(Happening(self.agenda.now_ns / _SECOND_NS, what, about, node, detail))
