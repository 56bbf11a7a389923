"""Two looks make a rate: made-up cgroups, a clock that the test moves, and a source that is asked too often."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy
from jettison.runtimes.machine import stats_reader
from jettison.runtimes.machine.stats_reader import StatsReader, StatsSource
from jettison.runtimes.stats import KUBELET, PODS, NodeSubject, PodSubject, StatsSubject

SECOND = 10**9
STALL = "some avg10={0}.00 avg60=0.00 avg300=0.00 total=0\n"


class HandClock:
    """Shows what the test wants."""

    now = 1000 * SECOND

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now

    def steady_ns(self) -> int:
        return self.now


class World:
    """One node with a pod of two containers, in files."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, HandClock()
        for name in ("node", "pods", "pod", "pod/a", "pod/b"):
            self.use(name, 0)
        (root / "proc").mkdir()
        mounts = CgroupMounts((Hierarchy(root, "/", frozenset({"memory", "cpu"}), is_unified=True),))
        self.reader = StatsReader(mounts, self.clock, root / "proc")

    def use(self, name: str, cpu_us: int, stall: int = 0) -> None:
        directory = self.root / name
        directory.mkdir(exist_ok=True)
        (directory / "memory.stat").write_text("anon 5\nfile 2\npgfault 1\npgmajfault 1\ninactive_file 1\n")
        (directory / "memory.current").write_text("9\n")
        (directory / "cpu.stat").write_text(f"usage_usec {cpu_us}\n")
        (directory / "memory.pressure").write_text(STALL.format(stall))

    def subject(self, *, started_ns: int = 1, has_cgroup: bool = True) -> NodeSubject:
        containers = {"a": StatsSubject("pod/a", started_ns=started_ns), "b": StatsSubject("pod/b", started_ns=1)}
        whole = StatsSubject("pod" if has_cgroup else None, started_ns=1)
        pod = PodSubject("uid", whole, containers, volumes={"memory": str(self.root), "gone": str(self.root / "none")})
        return NodeSubject(StatsSubject("node"), {PODS: StatsSubject("pods"), KUBELET: StatsSubject(None, ())}, [pod])


def test_the_rate_is_the_difference_of_two_looks(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.reader.read(world.subject())
    assert world.reader.is_incomplete()
    assert first.pods["uid"].containers["a"].nano_cores is None
    world.clock.now += 10 * SECOND
    for name, used_us in (("node", 5_000_000), ("pod/a", 2_500_000), ("pod/b", 1)):
        world.use(name, used_us)
    second = world.reader.read(world.subject())
    assert not world.reader.is_incomplete()
    pod = second.pods["uid"]
    assert second.whole is not None
    assert pod.whole is not None
    assert second.whole.nano_cores == 500_000_000
    assert {name: each.nano_cores for name, each in pod.containers.items()} == {"a": 250_000_000, "b": 100}
    assert pod.whole.nano_cores == 0
    # A daemon without processes is left out, a volume that is gone too.
    assert set(second.system) == {PODS}
    assert set(pod.volumes) == {"memory"}
    assert pod.network is None


def test_a_look_is_compared_with_one_of_the_last_minute_of_the_same_run(tmp_path: Path) -> None:
    world = World(tmp_path)

    def rate(passed_ns: int, cpu_us: int, started_ns: int = 1) -> int | None:
        world.clock.now += passed_ns
        world.use("pod/a", cpu_us)
        return world.reader.read(world.subject(started_ns=started_ns)).pods["uid"].containers["a"].nano_cores

    rate(0, 0)
    assert rate(SECOND, 1_000_000) == SECOND
    # Too soon to say anything new, and not the beginning of a new comparison either.
    assert rate(SECOND // 100, 1_000_000) == SECOND
    assert rate(SECOND, 1_000_000) == 0
    assert rate(3600 * SECOND, 1_800_000_000) is None
    assert rate(SECOND, 1_800_500_000) == SECOND // 2
    assert rate(SECOND, 100) is None
    assert rate(SECOND, 200, started_ns=2) is None


def test_containers_without_a_cgroup_around_them_are_added_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.reader.read(world.subject(has_cgroup=False))
    world.clock.now += SECOND
    world.use("pod/a", 400_000)
    world.use("pod/b", 100_000)
    whole = world.reader.read(world.subject(has_cgroup=False)).pods["uid"].whole
    assert whole is not None
    assert (whole.nano_cores, whole.counters.cpu_ns) == (SECOND // 2, SECOND // 2)
    assert whole.counters.memory is not None
    assert (whole.counters.memory.usage, whole.counters.memory.rss) == (18, 10)


def test_stalls_of_the_node_are_read_seldom_and_those_of_pods_always(tmp_path: Path) -> None:
    """A file with a trigger on it is the node's or that of all pods, and each reading delays the trigger."""
    world = World(tmp_path)

    def stalls(value: int) -> tuple[float, float]:
        world.use("pods", 0, value)
        world.use("pod", 0, value)
        found = world.reader.read(world.subject())
        pod = found.pods["uid"].whole
        assert pod is not None
        memory = [each.counters.stalls.memory for each in (found.system[PODS], pod)]
        assert memory[0] is not None
        assert memory[1] is not None
        return memory[0].some.avg10, memory[1].some.avg10

    assert stalls(1) == (1, 1)
    world.clock.now += 9 * SECOND
    assert stalls(2) == (1, 2)
    world.clock.now += SECOND
    assert stalls(3) == (3, 3)


def test_a_source_measures_once_a_second_however_often_it_is_asked(tmp_path: Path) -> None:
    """The first question takes two looks; a hundred more at the same time take none."""
    world, looks = World(tmp_path), []

    def subject() -> NodeSubject:
        looks.append(world.clock.now)
        world.clock.now += SECOND
        return world.subject()

    async def ask() -> None:
        with ThreadPoolExecutor(1) as executor:
            source = StatsSource(subject, world.reader, executor, pause_seconds=0)
            answers = await asyncio.gather(*(source.details() for _ in range(100)))
            assert len(looks) == 2
            assert all(each is answers[0] for each in answers)
            assert answers[0].whole is not None
            assert answers[0].whole.nano_cores == 0
            await asyncio.sleep(stats_reader.FRESH_SECONDS + 0.1)
            assert await source.details() is not answers[0]
            assert len(looks) == 3

    asyncio.run(ask())
