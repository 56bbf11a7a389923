"""The simulator against real nodes: which pods go and in which order, as in the live tests, and when, as in recordings.

`data/` holds recordings of nodes of 256Mi on which real processes took real memory. From each a node is built whose
pods use what they used until they were told to end; what the simulated agent does is compared with what the real one
did. `drains.json` and `storms.json` hold when pods of real clusters went and were replaced.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jettison.agent.agent import TICK_SECONDS, TapedLook
from jettison.engine.node.signals import Signal, readings
from jettison.runtimes.protocol import PodManifest
from jettison.runtimes.simulated.agenda import Agenda
from jettison.runtimes.simulated.curves import Points
from jettison.runtimes.simulated.machine import MEMORY, MachineSize
from jettison.runtimes.simulated.pods import PodProgram
from jettison.runtimes.simulated.runtime import SimulatedRuntime
from jettison.simulator.recordings import Beginning, RecordingReader
from jettison.simulator.replay import replay
from jettison.simulator.run import run
from jettison.simulator.scenario import DrainSpec, parse_scenario
from jettison.simulator.simulated_nodes import SimulatedNode, StepListener
from jettison.simulator.stories import Happening
from jettison.simulator.world import SimulatedWorld

DATA = sorted((Path(__file__).parent / "data").glob("*.rec"))
MEMORY_NODE = "memory: 256Mi, alarms: true"
DISK_NODE = "disk: 64M, inodes: 2000"
LEAK = "{kind: leak, from: 8Mi, rate: 33Mi}"
BOUNDED = "{kind: leak, from: 8Mi, rate: 20Mi, most: 230Mi}"
CALM = "{name: calm, requests: {memory: 64Mi}, usage: {memory: 28Mi}}"
BUSY = "{name: busy, requests: {memory: 16Mi}, usage: {memory: 38Mi}}"

# The name of a live test, the node of it, its settings, its pods, and which of them it sees go, in order.
LIVE = {
    "test_the_leaking_pod_goes_and_its_neighbours_live": (
        MEMORY_NODE,
        "evictionHard: {memory.available: 60Mi}",
        f"{CALM}, {BUSY}, {{name: leak, usage: {{memory: {LEAK}}}}}",
        ["leak"],
    ),
    "test_priority_goes_before_excess": (
        MEMORY_NODE,
        "evictionHard: {memory.available: 60Mi}, evictionMinimumReclaim: {memory.available: 20Mi}",
        f"{{name: cheap, usage: {{memory: 48Mi}}}}, {{name: leak, priority: 1000, usage: {{memory: {LEAK}}}}}",
        ["cheap", "leak"],
    ),
    "test_a_critical_pod_is_spared": (
        MEMORY_NODE,
        "evictionHard: {memory.available: 60Mi}",
        f"{{name: innocent, usage: {{memory: 28Mi}}}}, {{name: leak, static: true, usage: {{memory: {BOUNDED}}}}}",
        ["innocent"],
    ),
    "test_dead_containers_are_enough": (
        DISK_NODE,
        "evictionHard: {nodefs.available: 30Mi}",
        "{name: done, lasts: 2s, restart: Never, usage: {disk: 15Mi}}, {name: alive, at: 10s, usage: {disk: 20Mi}}",
        [],
    ),
    "test_a_pod_must_go_when_nothing_can_be_freed": (
        DISK_NODE,
        "evictionHard: {nodefs.available: 30Mi}",
        "{name: writer, usage: {disk: {kind: ramp, from: 1Mi, to: 40Mi, over: 1s}}}, {name: small, usage: {disk: 2Mi}}",
        ["writer"],
    ),
    "test_inodes_run_out": (
        DISK_NODE,
        "evictionHard: {nodefs.inodesFree: '800'}",
        "{name: many, usage: {inodes: {kind: ramp, from: 1, to: 1500, over: 2s}}}, {name: few, usage: {inodes: 1}}",
        ["many"],
    ),
}


@pytest.mark.parametrize("name", LIVE)
def test_the_same_pods_go_in_the_same_order_as_on_a_real_node(name: str) -> None:
    node, config, pods, expected = LIVE[name]
    bound = pods.replace("{name:", "{node: n1, name:")
    text = f"duration: 2m\nnodes: [{{name: n1, {node}, config: {{{config}}}}}]\npods: [{bound}]\n"
    result = run(parse_scenario(text))
    gone = [each.about.removeprefix("default/") for each in result.story if each.what == "evict"]
    assert gone == expected
    assert not result.counts["oom kill"]


@pytest.mark.parametrize("seconds_apart", [5, 30])
def test_a_drain_takes_pods_as_their_budget_lets_it(seconds_apart: int) -> None:
    """As the live drain does: never fewer than two are ready, and the next goes once a replacement is."""
    text = f"""
duration: 10m
nodes: [{{name: a}}, {{name: b}}]
workloads: [{{name: web, replicas: 3, template: {{labels: {{app: web}}, ready: {seconds_apart}s}}}}]
budgets: [{{name: web, selector: {{app: web}}, minAvailable: 2}}]
drains: [{{node: a, at: 2m}}, {{node: b, at: 5m}}]
"""
    story = run(parse_scenario(text)).story
    gone = [each for each in story if each.what == "api evict" and each.node == "a"]
    assert len(gone) >= 1
    assert all(later.seconds - one.seconds >= seconds_apart for one, later in pairwise(gone))
    assert ("drained", "a") in [(each.what, each.about) for each in story]


@pytest.mark.parametrize(
    "real",
    json.loads((Path(__file__).parent / "data" / "drains.json").read_text()),
    ids=lambda real: f"{real['replicas']}-pods",
)
def test_a_recorded_drain_is_simulated_within_a_second(real: dict[str, Any]) -> None:
    """Of real clusters (`tests/live/drain_recorder.py`): all pods of a StatefulSet leave one node for another.

    A real drain repeats all refused requests at the same moment, so which pod is second is chance: 1 or 2. Which is
    first, how many go at a time, and when, is not.
    """
    text = f"""
duration: 10m
nodes: [{{name: a}}, {{name: b}}]
workloads:
  - name: web
    kind: StatefulSet
    podManagement: Parallel
    replicas: {real["replicas"]}
    template: {{labels: {{app: web}}, ready: {real["ready"]}s}}
budgets: [{{name: web, selector: {{app: web}}, minAvailable: {real["minAvailable"]}}}]
"""
    story: list[Happening] = []
    world = SimulatedWorld(parse_scenario(text), story.append)
    world.cordon("b", is_cordoned=True)
    world.run(60 * 10**9)
    assert {pod.node for pod in world.pods.values()} == {"a"}
    world.cordon("b", is_cordoned=False)
    world.drain(DrainSpec("a", 0))
    world.run()
    gone = [(each.about.rpartition("-")[2], each.seconds - 60) for each in story if each.what == "api evict"]
    assert gone[0][0] == real["gone"][0][0]
    assert sorted(name for name, _ in gone) == sorted(name for name, _ in real["gone"])
    assert [seconds for _, seconds in gone] == pytest.approx([seconds for _, seconds in real["gone"]], abs=1)
    (drained,) = (each.seconds - 60 for each in story if each.what == "drained")
    assert drained == pytest.approx(real["drained"], abs=1)
    assert {pod.node for pod in world.pods.values()} == {"b"}


STORMS = json.loads((Path(__file__).parent / "data" / "storms.json").read_text())


def simulated_storm(real: dict[str, Any], rate: float, jitter: float) -> tuple[list[float], list[float]]:
    """When pods were made, and when they had been evicted."""
    text = f"""
duration: {real["seconds"]}s
nodes:
  - name: n
    count: {real["nodes"]}
    memory: 256Mi
    config: {{evictionHard: {{memory.available: 64Mi}}, evictionPressureTransitionPeriod: 2s}}
workloads:
  - name: w
    replicas: {real["replicas"]}
    template: {{requests: {{memory: 20Mi}}, usage: {{memory: {{
      kind: leak, from: 8Mi, rate: {round(rate * 2**20)}, jitter: {jitter}}}}}}}
"""
    story: list[Happening] = []
    world = SimulatedWorld(parse_scenario(text), story.append)
    made: dict[str, float] = {}
    for tenth in range(10 * real["seconds"]):
        world.run(tenth * 10**8)
        made |= {uid: pod.created_ns / 1e9 for uid, pod in world.pods.items()}
    return list(made.values()), [each.seconds for each in story if each.what == "evicted"]


def test_a_recorded_storm_is_simulated_at_its_pace() -> None:
    """Real pods that live longer than 10 s (`tests/live/storm_recorder.py`): each is replaced at once, here and there.

    Which of two pods goes is chance on a real node, so only their number is compared.
    """
    (real,) = (each for each in STORMS if each["name"] == "slow")
    gone = sorted(pod["failed"] for pod in real["pods"] if "failed" in pod)
    new = [pod["made"] for pod in real["pods"][real["replicas"] :]]
    assert all(0 <= made - failed < 0.3 for made, failed in zip(new, gone, strict=True))
    first = min(real["pods"], key=lambda pod: pod.get("failed", real["seconds"]))
    # Two pods on each node, which has 192Mi for them.
    rate = (192 / 2 - 8) / (first["failed"] - first["running"])
    made, evicted = simulated_storm(real, rate, 0.05)
    assert made[real["replicas"] :] == pytest.approx(evicted, abs=1e-6)
    assert len(evicted) == pytest.approx(len(gone), abs=2)


def test_a_recorded_pod_that_fails_at_once_is_simulated_at_its_pace() -> None:
    """The replacement comes at once, then after 1, 2, 4, 8 and 16 s."""
    (real,) = (each for each in STORMS if each["name"] == "fast")
    pods = real["pods"]
    waits = [later["made"] - one["failed"] for one, later in pairwise(pods)]
    lives = sorted(pod["failed"] - pod["running"] for pod in pods if "failed" in pod)
    made, evicted = simulated_storm(real, (192 - 8) / lives[len(lives) // 2], 0.0)
    simulated_waits = [later - one for one, later in zip(evicted, made[1:], strict=False)]
    assert len(made) == len(pods)
    assert simulated_waits == pytest.approx(waits, abs=0.2)
    assert made == pytest.approx([pod["made"] for pod in pods], abs=2)


def looks_of(path: Path) -> tuple[Beginning, list[TapedLook]]:
    entries = list(RecordingReader(path).entries())
    assert isinstance(entries[0], Beginning)
    return entries[0], [each for each in entries if isinstance(each, TapedLook)]


def simulated(beginning: Beginning, looks: list[TapedLook]) -> list[tuple[str, float]]:
    """Which pod goes and when, on a node that is used as the recorded one was."""
    began_ns = beginning.at.monotonic_ns
    agenda = Agenda()
    found: list[tuple[str, float]] = []
    points: dict[str, list[tuple[int, int]]] = {}
    told: set[str] = set()
    system: list[tuple[int, int]] = []
    capacity = readings(looks[0].snapshot.node)[Signal.MEMORY_AVAILABLE].capacity
    for look in looks:
        at_ns, total = look.at.monotonic_ns - began_ns, 0
        for pod in look.snapshot.pods:
            usage = look.snapshot.usages.get(pod.uid)
            amount = 0 if usage is None else usage.working_set or 0
            total += amount
            if pod.uid not in told:
                points.setdefault(pod.uid, []).append((at_ns, amount))
        memory = look.snapshot.node.memory
        assert memory is not None
        assert memory.working_set is not None
        system.append((at_ns, max(memory.working_set - total, 0)))
        told |= {*look.told}
    programs = {uid: PodProgram({"memory": extended(each)}, starts_in_ns=0) for uid, each in points.items()}
    runtime = SimulatedRuntime(
        MachineSize("n1", memory=capacity),
        beginning.policy,
        agenda,
        lambda _: None,
        lambda manifest: programs[manifest.pod.uid],
        {MEMORY: Points([at for at, _ in system], [amount for _, amount in system])},
    )
    node = SimulatedNode(runtime, beginning.policy, agenda, StepListener(lambda *_: None), lambda _: None)
    pods = {pod.uid: pod for look in looks for pod in look.snapshot.pods}
    for uid, each in points.items():
        agenda.at(each[0][0], lambda uid=uid: runtime.admit(PodManifest(pods[uid], {})))  # type: ignore[misc]
    node.looked = lambda _: found.extend(
        (ending.eviction.pod.uid, agenda.now_ns / 1e9)
        for ending in runtime.endings()
        if ending.eviction.pod.uid not in [uid for uid, _ in found]
    )
    agenda.run_until(looks[-1].at.monotonic_ns - began_ns + round(TICK_SECONDS * 1e9))
    return found


def extended(points: list[tuple[int, int]]) -> Points:
    """By its own age, and on as it went last: what it would have used had it not been told."""
    first_ns = points[0][0]
    ages = [at - first_ns for at, _ in points]
    amounts = [amount for _, amount in points]
    if len(points) > 1 and ages[-1] > ages[-2]:
        rate = max((amounts[-1] - amounts[-2]) * 10**9 // (ages[-1] - ages[-2]), 0)
        ages.append(ages[-1] + 20 * 10**9)
        amounts.append(amounts[-1] + 20 * rate)
    return Points(ages, amounts)


def test_there_are_enough_recordings() -> None:
    assert len(DATA) >= 10
    assert sum(path.stat().st_size for path in DATA) < 300_000


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_a_recorded_run_is_replayed_to_the_byte(path: Path) -> None:
    """Also a regression test: another version of this program must decide what that one did."""
    found = replay(path)
    assert not found.first_difference
    assert found.same > 0


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_a_recorded_run_is_simulated_within_a_tick(path: Path) -> None:
    beginning, looks = looks_of(path)
    real = [(uid, (look.at.monotonic_ns - beginning.at.monotonic_ns) / 1e9) for look in looks for uid in look.told]
    first: dict[str, float] = {}
    for uid, seconds in real:
        first.setdefault(uid, seconds)
    found = simulated(beginning, looks)[: len(first)]
    assert [uid for uid, _ in found] == list(first)
    for uid, seconds in found:
        # A tick is ten seconds; all of these are within 50 ms.
        assert abs(seconds - first[uid]) <= TICK_SECONDS / 20, (uid, seconds, first[uid])
