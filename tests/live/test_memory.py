"""Real memory pressure on a real node: which pods go or stay, and that the kernel's OOM killer had nothing to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.node import GROW, HOLD, LiveNode, pod, python

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(300),
]

MakeNode = Callable[..., LiveNode]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    """Nodes of 256Mi that leave nothing behind."""
    nodes: list[LiveNode] = []

    def make(*flags: str, **config: Any) -> LiveNode:
        directory = tmp_path / f"node{len(nodes)}"
        directory.mkdir()
        node = LiveNode(directory, ["--node-memory", "256Mi", *flags], config=config)
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.stop()
        assert not list(Path("/sys/fs/cgroup").glob(f"*/jettison/{node.name}"))


def held(name: str, mebibytes: int, **options: Any) -> dict[str, Any]:
    """A pod that holds so much and does nothing."""
    return pod(name, python(HOLD.format(mebibytes=mebibytes)), **options)


def leak(name: str = "leak", pause: float = 0.03, **options: Any) -> dict[str, Any]:
    """A pod that takes 1 MiB per `pause`."""
    return pod(name, python(GROW.format(pause=pause)), **options)


def test_shared_memory_goes_with_its_pod(make_node: MakeNode) -> None:
    """What was left in the host's was freed by no eviction, so that one pod after the other went."""
    shared = Path(f"/dev/shm/jettison-test-{os.getpid()}")
    fills = f"sleep 1; head -c 210M /dev/zero > {shared}; exec sleep 3600"
    node = make_node(evictionHard={"memory.available": "60Mi"})
    node.write(pod("filler", ["sh", "-c", fills]), held("calm", 5))
    node.start()
    try:
        node.wait(lambda: node.facts("pod_cleaned_up"), "the filler to go")
        node.wait(lambda: node.facts("threshold_resolved"), "the memory to be free", seconds=20)
    finally:
        shared.unlink(missing_ok=True)
    assert node.evicted() == ["filler"]
    assert node.pids("calm")


def test_the_leaking_pod_goes_and_its_neighbours_live(make_node: MakeNode) -> None:
    """The hard threshold: the pod with the largest excess is ended, no other, and the kernel did not act."""
    node = make_node(evictionHard={"memory.available": "60Mi"})
    node.write(held("calm", 20, memory="64Mi"), held("busy", 30, memory="16Mi"), leak())
    node.start()
    node.wait(lambda: "leak" in node.verdicts(), "the leak to go")
    assert node.evicted() == ["leak"]
    assert node.verdicts() == {"leak": "Evicted"}
    assert node.pids("calm")
    assert node.pids("busy")
    assert not node.facts("out_of_memory_kill")


def test_priority_goes_before_excess(make_node: MakeNode) -> None:
    """Among pods above their requests the lower priority goes first, even if the other one leaks."""
    node = make_node(evictionHard={"memory.available": "60Mi"}, evictionMinimumReclaim={"memory.available": "20Mi"})
    node.write(held("cheap", 40, priority=0), leak(priority=1000))
    node.start()
    node.wait(lambda: "leak" in node.verdicts(), "both to go")
    assert node.evicted()[:2] == ["cheap", "leak"]


def test_a_critical_pod_is_spared(make_node: MakeNode, tmp_path: Path) -> None:
    """The leak is a static pod: it would be first, is spared, and the innocent one goes; the log says so."""
    static = tmp_path / "static"
    static.mkdir()
    node = make_node("--static-manifests", str(static), evictionHard={"memory.available": "60Mi"})
    node.write(held("innocent", 20))
    (static / "leak.json").write_text(json.dumps(leak(pause=0.05)))
    node.start()
    node.wait(lambda: "innocent" in node.verdicts(), "the innocent one to go")
    (static / "leak.json").unlink()
    assert node.evicted()[0] == "innocent"
    node.wait(lambda: node.facts("critical_pod_spared"), "the word about it")
    assert node.facts("critical_pod_spared")[0]["pod"] == "default/leak"


def test_a_soft_threshold_waits_for_its_grace_period(make_node: MakeNode) -> None:
    """The condition is there at once; the eviction comes after the grace period and with the operator's grace."""
    node = make_node(
        evictionHard={"memory.available": "10Mi"},
        evictionSoft={"memory.available": "150Mi"},
        evictionSoftGracePeriod={"memory.available": "3s"},
        evictionMaxPodGracePeriod=5,
    )
    node.write(held("large", 130))
    node.start()
    node.wait(lambda: node.facts("condition_changed"), "the condition")
    assert not node.evicted()
    node.wait(lambda: "large" in node.verdicts(), "the eviction")
    crossed = next(record for record in node.journal() if record.kind == "step")
    began = next(record for record in node.journal() if record.event == "eviction_started")
    assert 3e9 <= began.time_ns - crossed.time_ns <= 5e9
    assert began.values["grace_seconds"] == 1  # the pod's own second is shorter than the operator's five


def test_minimum_reclaim_goes_on_until_it_is_reached(make_node: MakeNode) -> None:
    """One pod is not enough to reach threshold plus minimum reclaim, so a second one goes."""
    node = make_node(evictionHard={"memory.available": "100Mi"}, evictionMinimumReclaim={"memory.available": "60Mi"})
    node.write(held("first", 60), held("second", 50), held("third", 40))
    node.start()
    node.wait(lambda: len(node.verdicts()) == 2, "two to go")
    # Which one goes first depends on how far each has come by then.
    assert sorted(node.evicted()) == ["first", "second"]
    assert node.pids("third")


def test_the_allocatable_threshold_guards_the_pods_own_limit(make_node: MakeNode) -> None:
    """100Mi are reserved for the system: pods near their 156Mi are evicted though the node itself has plenty."""
    node = make_node(evictionHard={"memory.available": "30Mi"}, systemReserved={"memory": "100Mi"})
    node.write(leak())
    node.start()
    node.wait(lambda: "leak" in node.verdicts(), "the leak to go")
    assert node.facts("eviction_started")[0]["signal"] == "allocatableMemory.available"
    assert not node.facts("out_of_memory_kill")


def test_under_pressure_best_effort_pods_are_turned_away(make_node: MakeNode) -> None:
    """While MemoryPressure is reported a BestEffort pod is rejected, a Burstable one is admitted."""
    node = make_node(evictionHard={"memory.available": "60Mi"})
    node.write(leak())
    node.start()
    node.wait(lambda: "leak" in node.verdicts(), "the leak to go")
    node.write(held("late", 5), held("burstable", 5, memory="10Mi"))
    node.wait(lambda: node.pids("burstable"), "the burstable one")
    node.wait(lambda: node.facts("pod_rejected"), "the rejection")
    assert node.facts("pod_rejected")[0]["message"] == "The node had condition: [MemoryPressure]. "
    node.kill()
    node.start()
    gauge = b'jettison_node_condition{condition="MemoryPressure"} 1\n'
    node.wait(lambda: gauge in node.metrics(), "the condition to have survived")


def test_an_evicted_pod_comes_back_when_told_so(make_node: MakeNode) -> None:
    """--readmit: after the pressure and the delay it runs again, as another pod."""
    node = make_node("--readmit", "--eviction-pressure-transition-period=1s", evictionHard={"memory.available": "60Mi"})
    node.write(leak(pause=0.02))
    node.start()
    node.wait(lambda: node.facts("pod_evicted"), "the leak to go")
    node.wait(lambda: len(node.facts("pod_admitted")) == 2, "its second life")
    first, second = (values["uid"] for values in node.facts("pod_admitted"))
    assert first != second


def test_a_dry_run_evicts_no_pod(make_node: MakeNode) -> None:
    """The step is on record with its victim; the pod lives."""
    node = make_node("--dry-run", evictionHard={"memory.available": "150Mi"})
    node.write(held("large", 130))
    node.start()
    node.wait(lambda: any(record.evicts for record in node.journal()), "the decision")
    assert node.pids("large")
    assert not node.evicted()
