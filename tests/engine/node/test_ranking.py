"""In which order pods go (spec §8, §16 examples 39 to 43)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jettison.engine.node.ranking import Ranking, rank
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import ContainerUsage, Layout, PodUsage, VolumeUsage
from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import Pod, Volume
from tests.builders import DEDICATED, GI, MI, SHARED, SPLIT, memory_used, pod


def names(ranking: Ranking) -> str:
    return " ".join(candidate.pod.name for candidate in ranking)


def order(
    signal: Signal,
    pods: Sequence[Pod],
    usages: dict[str, PodUsage],
    layout: Layout = SHARED,
    *,
    by_inodes: bool = False,
) -> str:
    return names(rank(signal, pods, usages, layout, inodes_by_inodes=by_inodes))


def on_disk(root: float, logs: float, volume: float, inodes: int = 0) -> PodUsage:
    """Gigabytes in writable layer, logs and one emptyDir; all inodes in the writable layer."""
    container = ContainerUsage("c", None, int(root * GI), inodes, int(logs * GI), 0)
    return PodUsage(containers=[container], volumes=[VolumeUsage("v", int(volume * GI), 0)])


@pytest.mark.parametrize("signal", [Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE])
def test_memory(signal: Signal) -> None:
    """No statistics, then over the request by priority and excess, then the rest: f exceeds nothing, b is before f."""
    pods = [
        pod("a", 0, memory="500Mi"),
        pod("b", 1000, memory="100Mi"),
        pod("c", 0, memory="100Mi"),
        pod("d", 0, memory="200Mi"),
        pod("e", 5000, memory="1Gi"),
        pod("f", -10, memory="300Mi"),
        pod("g", 0),
    ]
    used = {"a": 400, "b": 900, "c": 150, "d": 600, "f": 300}
    usages = {name: memory_used(amount * MI) for name, amount in used.items()} | {"g": memory_used(None)}
    assert order(signal, pods, usages) == "e d c b f g a"


def test_processes() -> None:
    """Priority comes first here, even before missing statistics; the request plays no part."""
    pods = [pod("p1", 10), pod("p2", 0), pod("p3", 0), pod("p4", 0), pod("p5", -1)]
    usages = {
        "p1": PodUsage(processes=5000),
        "p2": PodUsage(processes=10),
        "p3": PodUsage(processes=300),
        "p5": PodUsage(),
    }
    assert order(Signal.PID_AVAILABLE, pods, usages) == "p5 p4 p3 p2 p1"


VOLUME = [Volume("v", is_local=True)]
DISK_PODS = [
    pod("A", volumes=VOLUME, ephemeral_storage="1Gi"),
    pod("B", volumes=VOLUME),
    pod("C", volumes=VOLUME, ephemeral_storage="4Gi"),
]
DISK_USAGES = {"A": on_disk(3, 0.5, 0.25, 1010), "B": on_disk(0, 0.25, 0.125, 8), "C": on_disk(1, 1, 2, 105010)}


@pytest.mark.parametrize(
    ("signal", "layout", "expected"),
    [
        (Signal.NODEFS_AVAILABLE, SHARED, "A B C"),
        (Signal.NODEFS_AVAILABLE, DEDICATED, "B A C"),
        (Signal.IMAGEFS_AVAILABLE, DEDICATED, "A B C"),
        (Signal.CONTAINERFS_AVAILABLE, DEDICATED, "A B C"),
        (Signal.NODEFS_AVAILABLE, SPLIT, "A B C"),
        (Signal.IMAGEFS_AVAILABLE, SPLIT, "B A C"),
        (Signal.NODEFS_INODES_FREE, SHARED, "B A C"),
        (Signal.IMAGEFS_INODES_FREE, SPLIT, "B A C"),
    ],
)
def test_disk(signal: Signal, layout: Layout, expected: str) -> None:
    """Only what lies on the starved filesystem counts; for inodes upstream subtracts the bytes of the request."""
    assert order(signal, DISK_PODS, DISK_USAGES, layout) == expected


def test_inodes_by_inodes() -> None:
    """The heaviest user goes first once no bytes are subtracted."""
    assert order(Signal.NODEFS_INODES_FREE, DISK_PODS, DISK_USAGES, by_inodes=True) == "C A B"


def test_only_local_volumes_count_and_each_once() -> None:
    """A claim's files lie elsewhere, and a second entry of the same name is upstream's to ignore."""
    mine = pod("mine", volumes=[Volume("v", is_local=True)])
    claim = pod("claim", volumes=[Volume("v", is_local=False)])
    volumes = [VolumeUsage("v", 10, 1), VolumeUsage("v", 1000, 1), VolumeUsage("w", 1000, 1)]
    usages = {"mine": PodUsage(volumes=volumes), "claim": PodUsage(volumes=volumes)}
    ranking = rank(Signal.NODEFS_AVAILABLE, [claim, mine], usages, SHARED)
    assert [(each.pod.name, str(each.usage)) for each in ranking] == [("mine", "10"), ("claim", "0")]


def test_a_volume_that_the_pod_names_twice_counts_twice() -> None:
    """No valid pod does so; upstream adds up by the names of the spec, not by what was measured."""
    twice = pod("twice", volumes=[Volume("v", is_local=True), Volume("v", is_local=True)])
    (candidate,) = rank(
        Signal.NODEFS_AVAILABLE, [twice], {"twice": PodUsage(volumes=[VolumeUsage("v", 10, 1)])}, SHARED
    )
    assert str(candidate.usage) == "20"


def test_absent_numbers_count_as_nothing_but_absent_statistics_do_not() -> None:
    """A pod none of whose containers runs has no statistics, and goes first whatever its priority."""
    important, idle = pod("important", 1000), pod("idle", -1000)
    assert order(Signal.NODEFS_AVAILABLE, [important, idle], {"idle": PodUsage()}) == "important idle"
    assert order(Signal.MEMORY_AVAILABLE, [important, idle], {"idle": PodUsage()}) == "important idle"
    assert order(Signal.PID_AVAILABLE, [important, idle], {"idle": PodUsage()}) == "idle important"
    measured = PodUsage(containers=[ContainerUsage("c")], volumes=[VolumeUsage("v")])
    mine = pod("mine", volumes=[Volume("v", is_local=True)])
    for signal in (Signal.MEMORY_AVAILABLE, Signal.NODEFS_AVAILABLE, Signal.NODEFS_INODES_FREE, Signal.PID_AVAILABLE):
        (candidate,) = rank(signal, [mine], {"mine": measured}, SHARED)
        assert str(candidate.usage) == "0"


def test_a_pod_without_inodes_exceeds_nothing() -> None:
    """One inode is enough to go before it, whatever the priorities."""
    usages = {"none": on_disk(1, 1, 1, 0), "one": on_disk(0, 0, 0, 1)}
    pods = [pod("none", -5), pod("one", 1000, ephemeral_storage="1Gi")]
    assert order(Signal.NODEFS_INODES_FREE, pods, usages) == "one none"


def test_one_byte_over_the_request_is_over() -> None:
    """And to use exactly the request is not, for memory and for disk."""
    pods = [
        pod("equal", -5, memory="1Mi", ephemeral_storage="1Mi"),
        pod("over", 5, memory="1Mi", ephemeral_storage="1Mi"),
    ]
    for size, expected in ((MI, "equal over"), (MI + 1, "over equal")):
        memory = {"equal": memory_used(MI), "over": memory_used(size)}
        assert order(Signal.MEMORY_AVAILABLE, pods, memory) == expected
        disk = {
            name: PodUsage(containers=[ContainerUsage("c", None, used)])
            for name, used in (("equal", MI), ("over", size))
        }
        assert order(Signal.NODEFS_AVAILABLE, pods, disk) == expected


def test_equal_pods_are_ordered_by_namespace_name_and_uid() -> None:
    """Upstream leaves them to chance; ours is one of its possible orders and always the same."""
    equal = [Pod("b", "x", "1"), Pod("a", "y", "2"), Pod("a", "x", "4"), Pod("a", "x", "3")]
    ranking = rank(Signal.MEMORY_AVAILABLE, equal, {}, SHARED)
    assert [str(each.pod) + each.pod.uid for each in ranking] == ["x/a3", "x/a4", "x/b1", "y/a2"]
    assert all(ranking.are_equal(0, other) for other in range(4))


def test_a_candidate_carries_the_keys_that_put_it_there() -> None:
    """The keys of each pod answer why it stands where it stands."""
    ranking = rank(
        Signal.MEMORY_AVAILABLE,
        [pod("a", 7, memory="100Mi"), pod("b")],
        {"a": memory_used(150 * MI)},
        SHARED,
    )
    silent, greedy = ranking
    assert (silent.pod.name, silent.has_usage, silent.usage, silent.excess, silent.exceeds_request) == (
        "b",
        False,
        None,
        None,
        None,
    )
    assert (greedy.position, greedy.priority, greedy.exceeds_request) == (1, 7, True)
    assert [str(each) for each in (greedy.usage, greedy.request, greedy.excess)] == ["150Mi", "100Mi", "50Mi"]
    assert not ranking.are_equal(0, 1)


def test_a_request_may_be_a_fraction_of_a_byte() -> None:
    """`1.5` bytes are less than two and more than one; integers would call it equal."""
    halves = pod("a", memory="1500m")
    used_two = rank(Signal.MEMORY_AVAILABLE, [halves], {"a": memory_used(2)}, SHARED)[0]
    used_one = rank(Signal.MEMORY_AVAILABLE, [halves], {"a": memory_used(1)}, SHARED)[0]
    assert used_two.exceeds_request
    assert not used_one.exceeds_request
    assert used_one.excess == parse("-500m")


def test_inode_candidates_are_compared_with_a_request_of_nothing() -> None:
    """Any inode exceeds, though the excess shown has the bytes subtracted: that is the key."""
    (candidate,) = rank(Signal.NODEFS_INODES_FREE, DISK_PODS[:1], DISK_USAGES, SHARED)
    assert candidate.exceeds_request
    assert candidate.excess == parse(str(1010 - GI))
    (better,) = rank(Signal.NODEFS_INODES_FREE, DISK_PODS[:1], DISK_USAGES, SHARED, inodes_by_inodes=True)
    assert better.excess == parse("1010")


def test_process_candidates_exceed_nothing() -> None:
    """There is no request for processes, so the question is not asked."""
    (candidate,) = rank(Signal.PID_AVAILABLE, [pod("a")], {"a": PodUsage(processes=5)}, SHARED)
    assert candidate.exceeds_request is None
    assert str(candidate.usage) == "5"


def test_a_ranking_is_a_sequence() -> None:
    """Slices and negative positions work; an empty node has an empty order."""
    ranking = rank(Signal.PID_AVAILABLE, [pod("a"), pod("b"), pod("c")], {}, SHARED)
    assert len(ranking) == 3
    assert ranking[-1].pod.name == "c"
    assert [each.position for each in ranking[1:]] == [1, 2]
    with pytest.raises(IndexError):
        ranking[3]
    assert not rank(Signal.PID_AVAILABLE, [], {}, SHARED)
