"""Scenarios: the examples do what they claim, the same seed gives the same bytes, mistakes are told with their line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from jettison.cli.program import program
from jettison.errors import ManifestError
from jettison.runtimes.simulated.curves import NANO, Burst, Constant, Curve, Leak, Points, Ramp, Sawtooth, Scaled
from jettison.simulator.run import RunResult, run
from jettison.simulator.scenario import parse_scenario, read_scenario
from jettison.simulator.sweep import varied
from tests.builders import MI

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "scenarios"
SECOND = 10**9


def example(name: str, *settings: tuple[str, str], seed: int | None = None) -> RunResult:
    return run(varied(read_scenario(EXAMPLES / f"{name}.yaml"), settings), seed)


def story(result: RunResult, *what: str) -> list[tuple[str, str]]:
    return [(each.what, each.about.removeprefix("default/")) for each in result.story if each.what in what]


def test_the_wrong_victim_goes_first() -> None:
    result = example("wrong-victim")
    assert story(result, "evict") == [("evict", "web"), ("evict", "leak")]


def test_a_peak_is_forgiven_and_a_leak_is_given_its_time() -> None:
    result = example("soft-against-hard")
    (evicted,) = [each for each in result.story if each.what == "evict"]
    (gone,) = [each for each in result.story if each.what == "evicted"]
    assert (evicted.about, evicted.detail.startswith("soft ")) == ("default/worker", True)
    assert gone.seconds - evicted.seconds == pytest.approx(15, abs=0.2)


def test_two_budgets_stop_a_drain_and_the_improved_profile_does_not() -> None:
    assert story(example("deadlocked-drain"), "drained", "drain timed out") == [("drain timed out", "a")]
    better = example("deadlocked-drain", ("profile", "improved"))
    assert story(better, "drained", "drain timed out") == [("drained", "a")]


def test_a_disk_is_cleared_before_a_pod_goes() -> None:
    found = story(example("disk-filling"), "reclaim", "evict")
    assert found[0] == ("reclaim", "containers, images")
    assert [each for each in found if each[0] == "evict"] == [("evict", "writer")]


def test_a_transition_period_spares_pods() -> None:
    short, long = (example("oscillation", ("evictionPressureTransitionPeriod", each)) for each in ("1s", "5m"))
    assert short.counts["evict"] > 5 * long.counts["evict"]


def test_an_alarm_is_faster_than_the_kernel_and_a_tick_is_not() -> None:
    result = example("kubelet-against-alarm")
    killed = {(each.node, each.about) for each in result.story if each.what == "oom kill"}
    assert {node for node, _ in killed} == {"tick"}
    assert ("tick", "default/cache-t") in killed
    assert [each.about for each in result.story if each.what == "evict" and each.node == "alarm"] == ["default/quick-a"]


def test_a_container_that_reaches_its_own_limit_is_an_oom_kill() -> None:
    """As on a host, where the kernel counts it for the container: the node has memory left."""
    pod = "{name: p, limits: {memory: 90Mi}, usage: {memory: {kind: ramp, from: 10Mi, to: 200Mi, over: 19s}}}"
    result = run(parse_scenario(f"duration: 1m\nnodes: [{{name: n}}]\npods: [{pod}]\n"))
    first = next(each for each in result.story if each.what == "oom kill")
    assert (first.about, round(first.seconds, 1)) == ("default/p", 8.2)
    assert result.row()["oom_kills"] >= 2


def test_what_there_was_one_of_is_told_in_the_singular() -> None:
    done = CliRunner().invoke(program, ["simulate", str(EXAMPLES / "deadlocked-drain.yaml")])
    assert "2 refusals, 1 drain timed out" in done.stderr


def test_a_storm_replaces_what_it_evicts() -> None:
    scenario = read_scenario(EXAMPLES / "eviction-storm.yaml")
    result = run(scenario)
    assert result.counts["evict"] > 200
    assert result.pods_left >= 30


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_same_seed_gives_the_same_bytes(path: Path) -> None:
    one, two = (CliRunner().invoke(program, ["simulate", str(path), "-o", "json"]) for _ in range(2))
    assert one.exit_code == 0, one.output
    assert one.stdout == two.stdout
    assert json.loads(one.stdout)["kind"] == "Simulation"


def test_another_seed_is_another_run() -> None:
    scenario = read_scenario(EXAMPLES / "oscillation.yaml")
    assert run(scenario, 1).story != run(scenario, 2).story


NODE = "nodes: [{name: n}]\n"
WRONG = {
    "": "expected one map",
    "- a": "expected one map",
    "nodes: []": "there are 0, expected 1 to 5000",
    "nodes: [{nmae: n}]": "s:1: nodes[0].nmae: unknown key, did you mean `name`?",
    f"{NODE}pots: []": "s:2: pots: unknown key, did you mean `pods`?",
    f"{NODE}version: 9": "s:2: version: is `9`, this program reads version 1",
    f"{NODE}duration: 5": "s:2: duration: is `5`, expected a duration",
    f"{NODE}duration: 5 minutes": "s:2: duration: `5 minutes`",
    f"{NODE}duration: -5s": "expected 0 to",
    "nodes:\n- name: n\n  memory: 512MB": "s:3: nodes[0].memory: `512MB`: write 512M or 512Mi",
    "nodes:\n- name: n\n  memory: [1]": "s:3: nodes[0].memory: is `[1]`, expected an amount",
    "nodes: [{name: n}, {name: n}]": "two are called `n`",
    "nodes:\n- name: n\n  config: {evictionHard: {memory.avail: 1Gi}}": "s:3: nodes[0].config",
    f"{NODE}pods:\n- name: p\n  node: m": "s:4: pods[0].node: there is no node `m`, there are n",
    f"{NODE}pods:\n- {{name: p, usage: {{memory: {{kind: laek}}}}}}": "did you mean `leak`?",
    f"{NODE}pods:\n- {{name: p, usage: {{memroy: 1Gi}}}}": "did you mean `memory`?",
    f"{NODE}pods:\n- {{name: p, usage: {{memory: {{kind: burst, every: 1s, for: 5s}}}}}}": "expected less than `every`",
    f"{NODE}pods:\n- {{name: p, usage: {{memory: {{kind: ramp, over: 0s}}}}}}": "expected more than 0",
    f"{NODE}pods:\n- {{name: p, usage: {{memory: {{kind: sawtooth, period: 1us}}}}}}": "period: expected 1ms or more",
    f"{NODE}pods:\n- {{name: p, usage: {{memory: {{kind: burst, every: 2us, for: 1us}}}}}}": "every: expected 1ms",
    f"{NODE}pods:\n- {{name: p, usage: {{memory: {{kind: csv, file: nowhere.csv}}}}}}": "nowhere.csv",
    f"{NODE}pods:\n- {{name: p, count: 999999999}}": "expected 1 to 200000",
    f"{NODE}pods:\n- {{name: p, requests: {{memory: lots}}}}": "s:3: pods[0].requests",
    f"{NODE}pods:\n- {{name: p, requests: {{memory: -1Mi}}}}": "s:3: pods[0].requests: memory is `-1Mi`, expected an",
    f"{NODE}pods:\n- {{name: p, limits: {{cpu: -1}}}}": "s:3: pods[0].limits: cpu is `-1`, expected an amount",
    f"{NODE}pods:\n- {{name: p, requests: {{memory: 2Mi}}, limits: {{memory: 1Mi}}}}": "memory is more than its limit",
    f"{NODE}pods:\n- {{name: p, grace: 1.5s}}": "s:3: pods[0].grace: expected whole seconds",
    f"{NODE}pods:\n- {{name: p, usage: {{volume: 1Gi}}}}": "s:3: pods[0].usage.volume: the pod has no `volume`",
    f"{NODE}pods:\n- {{name: p, volume: {{sizeLimit: lots}}}}": "s:3: pods[0].volume.sizeLimit: `lots`",
    f"{NODE}pods:\n- {{name: p, tolerations: x}}": "s:3: pods[0].tolerations: is a text, expected a list",
    f"{NODE}pods:\n- {{name: p, tolerations: [{{operator: Maybe}}]}}": "is `Maybe`, expected one of Equal, Exists",
    f"{NODE}pods:\n- {{name: x/y}}": "s:3: pods[0].name: is `x/y`, expected up to 253 lower case letters",
    f"{NODE}pods:\n- {{name: p, namespace: A B}}": "s:3: pods[0].namespace: is `A B`",
    f"{NODE}pods: [{{name: p}}, {{name: p}}]": "s:2: pods: two are called `default/p`",
    f"{NODE}pods: [{{name: p, count: 2}}, {{name: p-1}}]": "pods: two are called `default/p-1`",
    f"{NODE}pods: [{{name: w-1}}]\nworkloads: [{{name: w, template: {{}}}}]": "`w-1` is a name that `w` of",
    f"{NODE}workloads: [{{name: w, template: {{}}}}, {{name: w, template: {{}}}}]": "two are called `default/w`",
    f"{NODE}workloads: [{{name: w-2, template: {{}}}}, {{name: w, kind: Deployment, template: {{}}}}]": "`w-2` is a",
    f"{NODE}budgets: [{{name: b, minAvailable: 1}}, {{name: b, maxUnavailable: 1}}]": "two are called `default/b`",
    f"{NODE}budgets: [{{name: b, minAvailable: 120%}}]": "minAvailable: is `120%`, expected at most 100%",
    "nodes:\n- {name: n, memory: 0}": "s:2: nodes[0].memory: is 0, expected more",
    "nodes:\n- {name: ''}": "s:2: nodes[0].name: is missing",
    "nodes:\n- {name: n, taints: 5}": "s:2: nodes[0].taints: is a number, expected a list",
    "nodes:\n- {name: n, images: 1Gi, unusedImages: 5Gi}": "unusedImages: expected at most what their filesystem has",
    "nodes:\n- {name: n, config: {evictionHrad: {}}}": "unknown field `evictionHrad`, did you mean `evictionHard`?",
    "nodes:\n- {name: n, config: {evictionHard: {memory.available: 1GB}}}": "memory.available: write 1G or 1Gi",
    "nodes:\n- {name: n, config: {evictionHard: {memory.availble: 1Gi}}}": "did you mean `memory.available`?",
    'nodes:\n- {name: n, config: {maxPods: "60"}}': "config: maxPods is `'60'`, expected a whole number",
    f"{NODE}workloads: [{{name: w}}]": "template: is missing",
    f"{NODE}budgets: [{{name: b}}]": "expected either minAvailable or maxUnavailable",
    f"{NODE}budgets: [{{name: b, minAvailable: half}}]": "is `half`, expected a number or a percentage",
    f"{NODE}drains: [{{node: x}}]": "there is no node `x`",
    f"{NODE}faults: [{{kind: earthquake, node: n}}]": "expected one of stats-missing",
    f"{NODE}seed: many": "s:2: seed: is `many`, expected a whole number",
    "nodes: [{name: n, count: 100000}]": "expected 1 to 5000",
    "a: &a [1]\nb: [*a, *a]\nnodes: 7": "nodes: is a number, expected a list",
    f'{NODE}pods: [{{name: p, usage: {{memory: {{kind: recording, pod: p, file: "\\0"}}}}}}]': "not the name of a file",
    "[" * 50: "nested more than",
    "\0": "control characters",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: repr(text)[:40])
def test_a_mistake_is_told_with_its_line(text: str) -> None:
    with pytest.raises(ManifestError) as told:
        parse_scenario(text, "s")
    assert WRONG[text] in str(told.value)


def test_a_gigabyte_of_nothing_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(2**30)
    done = CliRunner().invoke(program, ["simulate", str(path)])
    assert done.exit_code == 2
    assert "more than 4194304 bytes" in done.stderr


def test_a_line_of_a_table_that_is_no_usage_is_shown(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text("0,100\n60,6Mi\n")
    path = tmp_path / "s.yaml"
    path.write_text("nodes: [{name: n}]\npods: [{name: p, usage: {memory: {kind: csv, file: usage.csv}}}]\n")
    with pytest.raises(ManifestError, match=r"usage.csv:2: `60,6Mi`, expected seconds and whole numbers"):
        read_scenario(path)


def test_usage_comes_from_a_table(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text("seconds,a,b\n0,100,7\n60,500000000,7\n")
    text = (
        "duration: 2m\nnodes: [{name: n, memory: 600Mi, config: {evictionHard: {memory.available: 200Mi}}}]\n"
        "pods: [{name: p, node: n, usage: {memory: {kind: csv, file: usage.csv, column: a}}}]\n"
    )
    (tmp_path / "s.yaml").write_text(text)
    (evicted,) = [each for each in run(read_scenario(tmp_path / "s.yaml")).story if each.what == "evict"]
    # 400 MiB of 500,000,000 bytes in 60 s, after 0.2 s of starting.
    assert evicted.seconds == pytest.approx(0.2 + 60 * 400 * MI / 500_000_000, abs=0.01)


CURVES: list[tuple[Curve, list[tuple[int, int]]]] = [
    (Constant(5), [(0, 5), (100, 5)]),
    (Ramp(10, 110, 10 * SECOND), [(0, 10), (5, 60), (10, 110), (99, 110)]),
    (Leak(10, 2, 50), [(0, 10), (10, 30), (20, 50), (30, 50)]),
    (Sawtooth(0, 100, 10 * SECOND, 5 * SECOND), [(0, 50), (4, 90), (5, 0), (15, 0)]),
    (Burst(1, 9, 10 * SECOND, 2 * SECOND, 3 * SECOND), [(0, 1), (3, 9), (5, 1), (13, 9)]),
    (Points([0, 10 * SECOND], [0, 100]), [(0, 0), (5, 50), (20, 100)]),
    (Scaled(Constant(100), 500_000), [(0, 50)]),
]


@pytest.mark.parametrize(("curve", "expected"), CURVES, ids=lambda each: type(each).__name__)
def test_a_curve_is_its_pieces(curve: Curve, expected: list[tuple[int, int]]) -> None:
    """Asked piece by piece it is the same as asked at once: what a bend promises, the next piece keeps."""
    for seconds, amount in expected:
        assert curve.piece(seconds * SECOND).nanos // NANO == amount
    age_ns = 0
    for _ in range(50):
        piece = curve.piece(age_ns)
        if piece.length_ns is None:
            break
        assert piece.length_ns > 0
        middle = curve.piece(age_ns + piece.length_ns // 2)
        assert middle.nanos == piece.nanos + piece.rate * (piece.length_ns // 2)
        age_ns += piece.length_ns
