"""Controllers of a world: what each kind makes, in which order, and when it waits. Their rules are the engine's."""

from __future__ import annotations

import pytest

from jettison.errors import ManifestError
from jettison.simulator.run import RunResult, run
from jettison.simulator.scenario import parse_scenario
from jettison.simulator.stories import Happening
from jettison.simulator.world import SimulatedWorld

SECOND = 10**9
TWO_NODES = "duration: 10m\nnodes: [{name: a}, {name: b}]\n"
SMALL_NODE = "nodes: [{name: a, memory: 1Gi, config: {evictionHard: {memory.available: 100Mi}}}]\n"


def simulated(text: str) -> RunResult:
    return run(parse_scenario(text))


def told(result: RunResult, *kinds: str) -> list[tuple[str, str, float]]:
    return [(each.what, each.about, round(each.seconds, 1)) for each in result.story if each.what in kinds]


def test_a_rollout_keeps_what_may_not_be_unavailable() -> None:
    """Four pods, one more at a time, each ready after 10 s: four steps of 10.2 s."""
    text = f"""{TWO_NODES}
workloads:
  - name: web
    kind: Deployment
    replicas: 4
    maxSurge: 1
    maxUnavailable: 0
    template: {{labels: {{app: web}}, ready: 5s}}
    updates: [{{at: 2m, template: {{labels: {{app: web}}, ready: 10s}}}}]
"""
    found: list[Happening] = []
    world = SimulatedWorld(parse_scenario(text), found.append)
    for seconds in range(60, 180):
        world.run(seconds * SECOND)
        ready = sum(pod.is_ready(world.agenda.now_ns) for pod in world.pods.values())
        assert 4 <= ready <= 5, f"{ready} are ready after {seconds} s"
    assert [(each.what, each.about, round(each.seconds, 1)) for each in found] == [("rolled out", "default/web", 160.8)]
    assert {each.rpartition("-")[0] for each in world.pods} == {"default/web-2"}


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    """They take 3 s to end and 50 ms to clean up; the new ones 200 ms to start and 10 s to be ready."""
    result = simulated(
        f"{TWO_NODES}workloads: [{{name: web, kind: Deployment, strategy: Recreate, replicas: 3, "
        "template: {obeys: 3s}, updates: [{at: 2m, template: {ready: 10s}}]}]\n"
    )
    ((_, _, seconds),) = told(result, "rolled out")
    assert seconds == pytest.approx(120 + 3 + 0.05 + 0.2 + 10, abs=0.1)


def test_a_budget_counts_the_pods_of_a_deployment_by_its_size() -> None:
    """75 % of four: the second pod goes once the first one's replacement is ready."""
    result = simulated(
        f"{TWO_NODES}workloads:\n"
        "- {name: web, kind: Deployment, replicas: 4, template: {labels: {app: w}, ready: 5s}}\n"
        "budgets: [{name: b, selector: {app: w}, minAvailable: 75%}]\ndrains: [{node: a, at: 5m, retry: 1s}]\n"
    )
    assert [(what, seconds) for what, _, seconds in told(result, "api evict", "drained")] == [
        ("api evict", 300.0),
        ("api evict", 306.0),
        ("drained", 307.0),
    ]


def test_a_stateful_set_brings_names_back_in_order() -> None:
    text = f"""duration: 3m
{SMALL_NODE}
workloads:
  - name: db
    kind: StatefulSet
    replicas: 3
    template: {{requests: {{memory: 64Mi}}, ready: 5s, usage: {{memory: {{kind: leak, from: 50Mi, rate: 2Mi}}}}}}
"""
    world = SimulatedWorld(parse_scenario(text))
    for seconds, names in ((4, ["db-0"]), (8, ["db-0", "db-1"]), (20, ["db-0", "db-1", "db-2"])):
        world.run(seconds * SECOND)
        assert sorted(pod.pod.name for pod in world.pods.values()) == names
    # The oldest holds most and goes first; it comes back under its name and with another uid.
    world.run()
    assert sorted(pod.pod.name for pod in world.pods.values()) == ["db-0", "db-1", "db-2"]
    assert "default/db-0#2" in world.pods


def test_a_job_counts_waits_and_gives_up() -> None:
    result = simulated(
        f"""{TWO_NODES}
workloads:
  - {{name: sum, kind: Job, completions: 5, parallelism: 2, template: {{lasts: 30s}}}}
  - {{name: bad, kind: Job, backoffLimit: 2, template: {{lasts: 3s, exitCode: 1}}}}
  - {{name: slow, kind: Job, deadline: 1m, template: {{lasts: 5m}}}}
"""
    )
    # Three rounds of 30.2 s; three attempts of 3.2 s with 10 and 20 s between them; and a minute.
    assert told(result, "job complete", "job failed") == [
        ("job failed", "default/bad", 39.6),
        ("job failed", "default/slow", 60.0),
        ("job complete", "default/sum", 90.6),
    ]
    assert result.pods_left == 0


def test_pods_that_fail_at_once_are_made_more_and_more_rarely() -> None:
    """The first replacement comes at once, the others after 1 s and twice as long each time."""
    text = """duration: 5m
nodes: [{name: a, system: {disk: 95Gi}, config: {evictionHard: {nodefs.available: 10%}}}]
workloads: [{name: w, at: 30s, template: {tolerations: [{operator: Exists}]}}]
"""
    assert [seconds for _, _, seconds in told(simulated(text), "reject")] == [30, 30, 31, 33, 37, 45, 61, 93, 157, 285]


def test_a_daemon_that_is_rejected_waits_on_its_node_alone() -> None:
    text = """duration: 1m
nodes: [{name: a, memory: 200Mi, config: {evictionHard: {memory.available: 10Mi}}}, {name: b}]
workloads: [{name: d, kind: DaemonSet, template: {requests: {memory: 500Mi}}}]
"""
    result = simulated(text)
    assert {each.node for each in result.story if each.what == "reject"} == {"a"}
    # After 0, 1, 3, 7, 15 and 31 s.
    assert [seconds for _, _, seconds in told(result, "reject")] == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]
    assert result.pods_left == 1


def test_a_critical_pod_is_made_room_for() -> None:
    """The one pod that frees enough goes, in its own time; the critical one comes when it is gone."""
    text = f"""duration: 2m
{SMALL_NODE}
pods:
  - {{name: small, node: a, requests: {{memory: 200Mi}}, obeys: 4s}}
  - {{name: large, node: a, requests: {{memory: 500Mi}}, obeys: 2s}}
  - {{name: vital, node: a, at: 30s, priority: 2000000000, requests: {{memory: 600Mi}}}}
  - {{name: vain, node: a, at: 40s, requests: {{memory: 600Mi}}}}
"""
    world = SimulatedWorld(parse_scenario(text))
    world.run(31 * SECOND)
    assert world.pods["default/vital"].phase == "Pending"
    world.run(33 * SECOND)
    assert world.pods["default/vital"].phase == "Running"
    result = simulated(text)
    assert told(result, "preempt", "reject") == [("preempt", "default/large", 30.0), ("reject", "default/vain", 40.0)]
    assert result.pods_left == 2


WRONG = {
    "{name: w, kind: CronJob, template: {}}": "expected one of ReplicaSet, Deployment, StatefulSet, DaemonSet, Job",
    "{name: w, kind: Job, replicas: 3, template: {}}": "replicas: unknown key",
    "{name: w, completions: 3, template: {}}": "completions: unknown key, expected one of at, kind, name, replicas",
    "{name: w, kind: Job, template: {restart: Always}}": "is `Always`, expected Never or OnFailure",
    "{name: w, kind: Deployment, maxSurge: -1, template: {}}": "is `-1`, expected a number or a percentage",
    "{name: w, kind: Deployment, strategy: Roll, template: {}}": "expected one of RollingUpdate, Recreate",
    "{name: w, kind: Deployment, at: 5m, template: {}, updates: [{at: 1m, template: {}}]}": "after the Deployment's",
    "{name: w, kind: Deployment, template: {}, updates: [{at: 1m}]}": "updates[0].template: is missing",
    "{name: w, kind: StatefulSet, podManagement: Any, template: {}}": "expected one of OrderedReady, Parallel",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_key_of_another_kind_is_unknown(text: str) -> None:
    with pytest.raises(ManifestError) as error:
        parse_scenario(f"nodes: [{{name: n}}]\nworkloads:\n- {text}", "s")
    assert "s:3: workloads[0]" in str(error.value)
    assert WRONG[text] in str(error.value)
