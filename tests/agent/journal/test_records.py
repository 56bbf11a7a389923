"""A step is decided again from its record alone, to the last word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import answers_node
import msgspec
import pytest
from compact import DATA, read_cases
from hypothesis import given
from hypothesis import strategies as st

from jettison.agent.journal.recorded_steps import RecordedStep, step_from
from jettison.agent.journal.records import Encoder, Look, Step, fact_record
from jettison.engine.config.policy import IMPROVED, Policy
from jettison.engine.node.decide import Evict, Nothing, Outcome, Reclaim, decide, give_up_reclaim
from jettison.engine.node.facts import PodsRanked, ThresholdCrossed
from jettison.engine.node.pressure import History
from jettison.engine.node.ranking import Ranking
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Layout, NodeStats, PodUsage, Snapshot
from jettison.errors import ManifestError
from jettison.events import EvictionStarted, OutOfMemoryKill
from jettison.manifests.pod_writer import pod_document
from jettison.manifests.pods import pod_from
from tests.agent.journal.deciding_again import decide_again
from tests.builders import GI, MI, memory_used, node, pod, policy, snapshot
from tests.manifests.worlds import nodes, pod_usages, pods

STARVED = policy(
    {"memory.available": "1Gi", "nodefs.available": "50%", "nodefs.inodesFree": "10%", "pid.available": "0.5Ki"},
    {"imagefs.available": "80%"},
    reclaim={"memory.available": "0.1Gi"},
    guards_allocatable=True,
)
POLICIES = [
    STARVED,
    replace(STARVED, switches=IMPROVED),
    policy({}, {"memory.available": "20Gi"}, grace="0s", flags=[("eviction-pressure-transition-period", "0s")]),
    policy(
        {"memory.available": "10%"},
        flags=[("experimental-allocatable-ignore-eviction", "true"), ("minimum-container-ttl-duration", "1m")],
    ),
]


def recorded(step: Step) -> RecordedStep:
    return step_from(msgspec.json.encode(Encoder().step(step)))


def orders(outcome: Outcome) -> list[object]:
    """Every eviction worded, with the ranking's keys: what equality of outcomes alone would not look at."""
    decision = outcome.decision
    if isinstance(decision, Reclaim):
        decision = decision.otherwise
    if isinstance(decision, Nothing):
        return []
    return [*decision.evictions, *(decision.ranking or ())]


def assert_decided_again(step: Step) -> RecordedStep:
    again = recorded(step)
    outcomes = decide_again(again)
    assert outcomes == [look.outcome for look in step.looks]
    assert [orders(each) for each in outcomes] == [orders(look.outcome) for look in step.looks]
    assert again.policy == step.policy
    assert again.history == step.history
    return again


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Pods as they come from documents, because a pod that was made by hand is of another class."""
    count = draw(st.integers(0, 3))
    active = [pod_from(pod_document(draw(pods(uid=f"uid-{index}")))) for index in range(count)]
    usages: dict[str, PodUsage] = draw(st.dictionaries(st.sampled_from(["uid-0", "uid-1", "uid-2"]), pod_usages))
    stats: NodeStats = draw(nodes())
    return Snapshot(
        draw(st.integers(0, 2**61)), stats, active, usages, Layout(draw(st.booleans()), draw(st.booleans()))
    )


@given(st.sampled_from(POLICIES), snapshots(), snapshots(), st.booleans())
def test_whatever_was_decided_is_decided_again(
    wishes: Policy, first: Snapshot, second: Snapshot, can_observe: bool
) -> None:
    before = decide(wishes, History(), replace(second, now_ns=0)).history
    before = replace(before, reclaiming=None)
    looks = [Look(first, decide(wishes, before, first))]
    after = looks[0].outcome.history
    if after.reclaiming is not None and can_observe:
        looks.append(Look(second, decide(wishes, after, second)))
    elif after.reclaiming is not None:
        looks.append(Look(None, give_up_reclaim(after)))

    assert_decided_again(Step(7, "node1", wishes, before, looks))


def test_cases_that_kubernetes_answered_are_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real pods, summaries and configurations, of which a third will do; hundreds of steps with their histories."""
    steps: list[Step] = []

    def noted(wishes: Policy, history: History, seen: Snapshot) -> Outcome:
        outcome = decide(wishes, history, seen)
        if history.reclaiming is None:
            steps.append(Step(0, "node1", wishes, history, [Look(seen, outcome)]))
        else:
            steps[-1] = replace(steps[-1], looks=[*steps[-1].looks, Look(seen, outcome)])
        return outcome

    monkeypatch.setattr(answers_node, "decide", noted)
    for case in [*read_cases(DATA / "synchronize.jsonl.gz")][::3]:
        answers_node.answer_synchronize(case["input"])

    assert len(steps) > 300
    for step in steps:
        assert_decided_again(step)


def starving(seen: Sequence[str] = ("a", "b")) -> Snapshot:
    active = [pod_from(pod_document(pod(name))) for name in seen]
    return snapshot(100, node(memory=GI // 2, time_s=99), active, {name: memory_used(MI) for name in seen})


def evicting(wishes: Policy, seen: Snapshot) -> tuple[Step, Evict]:
    outcome = decide(wishes, History(), seen)
    assert isinstance(outcome.decision, Evict)
    return Step(5, "node1", wishes, History(), [Look(seen, outcome)], "memcg", 1200, acts=False), outcome.decision


def test_the_record_tells_what_was_done_without_deciding_again() -> None:
    step, decision = evicting(STARVED, starving())

    again = assert_decided_again(step)

    (look,) = again.looks
    assert (again.time_ns, again.node, again.alarm, again.latency_ns, again.acts) == (5, "node1", "memcg", 1200, False)
    assert look.ranking == decision.ranking
    assert look.decision.starved is not None
    assert (look.decision.starved.quantity, look.decision.starved.available) == ("1Gi", GI // 2)
    assert [each.message for each in look.decision.evictions] == [decision.evictions[0].message]
    assert [fact["event"] for fact in look.facts] == [
        "threshold_crossed",
        "threshold_met",
        "condition_changed",
        "reclaim_attempted",
        "pods_ranked",
    ]


def test_the_recorded_order_stands_even_if_the_program_would_order_differently() -> None:
    step, decision = evicting(STARVED, starving())
    document = msgspec.json.decode(msgspec.json.encode(Encoder().step(step)))
    document["looks"][0]["decision"]["ranking"]["order"].reverse()

    (look,) = step_from(msgspec.json.encode(document)).looks

    assert decision.ranking is not None
    assert look.ranking == Ranking(Signal.MEMORY_AVAILABLE, False, decision.ranking.entries[::-1])


def test_pods_are_encoded_once_and_forgotten_when_gone() -> None:
    encoder = Encoder()
    one, two = starving(("a", "b")), starving(("b",))
    same = replace(two, pods=[one.pods[1]])

    first = encoder.step(evicting(STARVED, one)[0])["looks"][0]["snapshot"]["pods"]
    again = encoder.step(evicting(STARVED, same)[0])["looks"][0]["snapshot"]["pods"]
    other = encoder.step(evicting(STARVED, two)[0])["looks"][0]["snapshot"]["pods"]

    assert again[0] is first[1]
    assert other[0] is not first[1]
    assert bytes(other[0]) == bytes(first[1])
    assert encoder.step(evicting(STARVED, one)[0])["looks"][0]["snapshot"]["pods"][0] is not first[0]


def test_a_fact_names_its_pods_and_keeps_its_values() -> None:
    _, decision = evicting(STARVED, starving())
    eviction = decision.evictions[0]

    assert fact_record(EvictionStarted(eviction, 7), 9, "node1") == {
        "version": 1,
        "kind": "fact",
        "time": 9,
        "node": "node1",
        "pods": [("default", "a", "a")],
        "event": "eviction_started",
        "values": {
            "pod": "default/a",
            "uid": "a",
            "reason": "Evicted",
            "signal": "memory.available",
            "grace_seconds": 1,
            "message": eviction.message,
            "decided_ns": 7,
        },
    }
    assert fact_record(OutOfMemoryKill(None, "", 2), 9, "n")["values"] == {
        "pod": None,
        "container": "",
        "kills": 2,
        "process": "",
        "pid": None,
    }


def test_facts_of_the_engine_say_their_numbers() -> None:
    _, decision = evicting(STARVED, starving())
    assert decision.starved is not None
    assert decision.reading is not None

    crossed = fact_record(ThresholdCrossed(decision.starved, decision.reading), 0, "n")["values"]
    ranked = fact_record(PodsRanked(Signal.PID_AVAILABLE, 2, {Signal.PID_AVAILABLE: 5}), 0, "n")["values"]

    assert crossed == {"threshold": "memory.available<1Gi", "available": GI // 2, "capacity": 128 * GI}
    assert ranked == {"signal": "pid.available", "count": 2, "stats_age_ns": {"pid.available": 5}}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["version"], 2, "version `2`"),
        (["kind"], "fact", "`fact`"),
        (["policy", "switches"], ["nonsense"], "`nonsense`"),
        (["policy", "besides"], {"nonsense": 1}, "`nonsense`"),
        (["policy", "besides"], {"max_pods": "many"}, "expected int"),
        (["policy", "besides"], {"max_pods": True}, "expected int"),
        (["policy", "kubeletConfiguration"], {}, "apiVersion"),
        (["policy", "kubeletConfiguration", "evictionHard"], {"memory.available": "x"}, "quantities"),
        (["history", "kind"], "x", "kind is `x`"),
        (["looks", 0, "decision", "ranking", "order", 0, 0], "stranger", "`stranger`"),
        (["looks", 0, "decision", "ranking", "order", 0, 2], ["x"], "got `str`"),
        (["looks", 0, "decision", "ranking", "signal"], "x", "enum"),
        (["looks", 0, "snapshot", "pods", 0, "spec"], 5, "expected"),
        (["looks", 0, "snapshot", "summary", "node", "memory", "time"], "noon", "`noon`"),
    ],
)
def test_a_record_that_makes_no_sense_is_refused(path: list[Any], value: object, said: str) -> None:
    step, _ = evicting(STARVED, starving())
    document = msgspec.json.decode(msgspec.json.encode(Encoder().step(step)))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value

    with pytest.raises(ManifestError, match=said):
        step_from(msgspec.json.encode(document))
