"""What holds in every world: drawn at random, disturbed at random, and a storm of many nodes."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jettison.engine.pods.pod import ENDED_PHASES
from jettison.runtimes.simulated.machine import DISK, MEMORY
from jettison.simulator.scenario import FAULTS, DrainSpec, FaultSpec, Scenario, parse_scenario
from jettison.simulator.settings_changes import with_settings
from jettison.simulator.stories import Happening
from jettison.simulator.world import SimulatedWorld

SECOND = 10**9
TRANSITION = 20

WORLD = """
duration: 24h
nodes:
  - {{name: n, count: {nodes}, memory: 2Gi, disk: 20Gi, alarms: {alarms}, config: {{
      evictionHard: {{memory.available: {hard}Mi, nodefs.available: 10%}},
      evictionSoft: {{memory.available: {soft}Mi}}, evictionSoftGracePeriod: {{memory.available: 15s}},
      evictionMaxPodGracePeriod: 5, evictionPressureTransitionPeriod: {transition}s}}}}
workloads:
  - name: web
    replicas: {replicas}
    template:
      labels: {{app: web}}
      requests: {{memory: 100Mi}}
      ready: 3s
      usage: {{memory: {{kind: sawtooth, low: 50Mi, high: {high}Mi, period: 70s, jitter: 0.3}}}}
budgets:
  - {{name: web, selector: {{app: web}}, minAvailable: {available}}}
"""

TEMPLATES = """
nodes: [{name: n}]
pods:
  - {name: leak, requests: {memory: 50Mi}, usage: {memory: {kind: leak, from: 10Mi, rate: 8Mi}}}
  - {name: deaf, obeys: never, grace: 7s, usage: {memory: {kind: ramp, from: 10Mi, to: 900Mi, over: 30s}}}
  - name: writer
    volume: {}
    usage: {memory: 20Mi, disk: {kind: leak, from: 1Gi, rate: 200Mi}, logs: 10Mi, volume: 30Mi}
  - {name: crash, lasts: 9s, exitCode: 1, usage: {memory: 300Mi, disk: 200Mi}}
  - {name: limited, limits: {memory: 90Mi}, usage: {memory: {kind: burst, base: 1Mi, peak: 150Mi, every: 20s, for: 4s}}}
  - {name: critical, priority: 2000000001, usage: {memory: {kind: leak, from: 10Mi, rate: 4Mi}}}
"""


class Watch:
    """Looks at everything that happens, at the moment when it does."""

    def __init__(self, scenario: Scenario) -> None:
        self.world = SimulatedWorld(scenario, self.look)
        self.last = 0.0
        self.transition: dict[str, int] = dict.fromkeys(self.world.nodes, TRANSITION)
        self.since: dict[tuple[str, str], float] = {}
        self.seen = 0

    def look(self, each: Happening) -> None:
        self.seen += 1
        assert each.seconds >= self.last, "time went back"
        self.last = each.seconds
        if each.what == "evict":
            assert self.world.nodes[each.node].conditions, f"{each} without pressure"
            assert not each.about.startswith("default/critical"), each
        if each.what == "condition":
            self.check_condition(each)
        if each.what == "api evict":
            self.check_budgets(each)

    def check_condition(self, each: Happening) -> None:
        key = (each.node, each.about)
        if each.detail == "True":
            assert key not in self.since
            self.since[key] = each.seconds
        else:
            assert each.seconds - self.since.pop(key) >= self.transition[each.node] - 1e-6, f"{each} flaps"

    def check_budgets(self, each: Happening) -> None:
        """When a pod is about to go, so many of the others are ready as its budget wants."""
        now_ns = self.world.agenda.now_ns
        going = self.world.pods[each.about]
        for budget in self.world.budgets:
            labels = budget.selector.match_labels if budget.selector is not None else {}
            guarded = [
                pod
                for pod in self.world.pods.values()
                if labels.items() <= pod.template.labels.items() and not pod.is_terminating
            ]
            if going in guarded and going.is_ready(now_ns):
                ready = sum(pod.is_ready(now_ns) for pod in guarded if pod is not going)
                assert isinstance(budget.min_available, int)
                assert ready >= budget.min_available, f"{each} leaves {ready}"


class Worlds(RuleBasedStateMachine):
    """A cluster, to which things happen in any order."""

    watch: Watch

    @initialize(
        nodes=st.integers(1, 3),
        alarms=st.sampled_from(["true", "false"]),
        hard=st.integers(1, 600),
        more=st.integers(1, 400),
        replicas=st.integers(0, 8),
        high=st.integers(60, 500),
        available=st.integers(0, 5),
    )
    def begin(self, nodes: int, alarms: str, hard: int, more: int, replicas: int, high: int, available: int) -> None:
        text = WORLD.format(
            nodes=nodes,
            alarms=alarms,
            hard=hard,
            soft=hard + more,
            replicas=replicas,
            high=high,
            available=available,
            transition=TRANSITION,
        )
        self.watch = Watch(parse_scenario(text))
        self.count = 0

    @property
    def names(self) -> list[str]:
        return list(self.watch.world.nodes)

    @rule(seconds=st.floats(0.001, 120))
    def time_passes(self, seconds: float) -> None:
        world = self.watch.world
        world.run(world.agenda.now_ns + round(seconds * SECOND))

    @rule(kind=st.integers(0, 5), where=st.integers(0, 5))
    def a_pod_comes(self, kind: int, where: int) -> None:
        self.count += 1
        arrival = parse_scenario(TEMPLATES).arrivals[kind]
        node = "" if where > 2 else self.names[where % len(self.names)]
        self.watch.world.create(f"{arrival.name}-{self.count}", arrival.template, node=node)

    @rule(where=st.integers(0, 2))
    def a_node_is_drained(self, where: int) -> None:
        name = self.names[where % len(self.names)]
        self.watch.world.drain(DrainSpec(name, 0, timeout_ns=60 * SECOND))

    @rule(kind=st.sampled_from(FAULTS), where=st.integers(0, 2), is_on=st.booleans())
    def something_breaks(self, kind: str, where: int, is_on: bool) -> None:
        name = self.names[where % len(self.names)]
        self.watch.world.fault(FaultSpec(kind, name, 0, 0, 4 * SECOND), is_on=is_on)

    @rule(where=st.integers(0, 2), hard=st.integers(1, 900))
    def the_operator_changes_a_threshold(self, where: int, hard: int) -> None:
        node = self.watch.world.nodes[self.names[where % len(self.names)]]
        amounts = {"evictionHard": f"{hard}Mi", "evictionSoft": f"{hard + 50}Mi"}
        changed = with_settings(node.agent.policy, [(f"{key}.memory.available", text) for key, text in amounts.items()])
        node.agent.use(changed)
        node.runtime.use(changed)

    @invariant()
    def sums_are_right(self) -> None:
        """The one line of each sum is the sum of the lines."""
        if not hasattr(self, "watch"):
            return
        for node in self.watch.world.nodes.values():
            model, now_ns = node.runtime.machine_model, self.watch.world.agenda.now_ns
            memory = [usage.memory for usage, _, _ in model.tracks.values()]
            assert model.used(MEMORY) == sum(each.nanos + each.rate * now_ns for each in memory) // 10**9
            held = [*(usage for usage, _, _ in model.tracks.values()), *model.remains.values()]
            disk = [part for each in held for part in (each.rootfs, each.logs, each.volume)]
            left = sum(model.dead.values()) + model.unused_images
            assert model.used(DISK) == left + sum(each.nanos + each.rate * now_ns for each in disk) // 10**9

    @invariant()
    def controllers_count_what_is_there(self) -> None:
        """A pod counts from when it is made until it ends or is deleted, for its controller and in the world."""
        if not hasattr(self, "watch"):
            return
        world = self.watch.world
        wanted = {
            uid
            for uid, pod in world.pods.items()
            if pod.owner is not None and pod.phase not in ENDED_PHASES and not pod.is_terminating
        }
        assert {uid for each in world.controllers.all for uid in each.counted} == wanted


Worlds.TestCase.settings = settings(max_examples=10, stateful_step_count=20, deadline=None)
TestWorlds = Worlds.TestCase


def storm(nodes: int) -> Watch:
    """Nodes that are too small for what is asked of them, for a day; no time has passed yet."""
    text = WORLD.format(
        nodes=nodes, alarms="true", hard=150, soft=300, replicas=nodes * 9, high=420, available=1, transition=TRANSITION
    )
    return Watch(parse_scenario(text))


def test_a_storm_on_many_nodes_breaks_no_rule() -> None:
    """The long one, 24 h of 100 nodes, is `benchmarks/simulate.py --soak`."""
    rules = storm(20)
    rules.world.run(1800 * SECOND)
    assert rules.seen > 1_500
    assert rules.world.steps > 5_000
