"""The node's pods follow the manifests: started, stopped, and given a second chance."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jettison import events
from jettison.agent.pods.directories import ManifestDirectory
from jettison.agent.pods.keeper import Keeper
from jettison.agent.pods.readmission import Readmitter
from jettison.agent.pods.sources import Manifests, Wish
from jettison.engine.node.signals import Condition
from jettison.errors import WriteError
from jettison.runtimes.protocol import PodManifest, PodStatus
from tests.agent.scripted_runtime import ScriptedHost
from tests.agent.test_admission import Door, manifest


class SlowRuntime(ScriptedHost):
    """Pods take their time to end."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = asyncio.Event()

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        await self.may_end.wait()
        await super().stop(uid, grace_seconds)


class House:
    """A keeper over one directory."""

    directories: ClassVar[list[ManifestDirectory]] = []

    def __init__(self, path: Path, *conditions: Condition, readmits: bool = False) -> None:
        self.path = path
        self.conditions = frozenset(conditions)
        self.runtime = SlowRuntime()
        self.open(readmits=readmits)

    def open(self, *, readmits: bool = False) -> None:
        """An agent, and after it the next one: what the runtime has is all that it finds."""
        runtime = self.runtime
        self.door = Door(*self.conditions, runtime=runtime)
        emit = self.door.said.append
        readmitter = Readmitter(runtime, runtime.clock, lambda: self.conditions, readmits=readmits)
        directory = ManifestDirectory(self.path, emit)
        self.directories.append(directory)
        manifests = Manifests([directory], emit, readmitter, runtime.statuses())
        self.keeper = Keeper(runtime, self.door.admitter, [manifests], emit, clock=runtime.clock)

    def write(self, name: str, **spec: Any) -> None:
        document = {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "main"}], **spec}}
        (self.path / f"{name}.json").write_text(json.dumps(document))

    def running(self) -> list[str]:
        return [status.pod.name for status in self.runtime.statuses()]

    def uids(self) -> list[str]:
        return [status.pod.uid for status in self.runtime.statuses()]

    def states(self) -> dict[str, str]:
        """The reasons by name."""
        return {status.pod.name: status.reason for status in self.runtime.statuses()}

    def evict(self, reason: str = "Evicted") -> None:
        """All of them."""
        self.runtime.running = [
            replace(each, phase="Failed", reason=reason, started_ns=1) for each in self.runtime.running
        ]

    async def look(self) -> None:
        await self.keeper.look()
        await asyncio.sleep(0.01)


async def with_an_evicted_pod(path: Path) -> House:
    """`a` is Failed, and waits 10 s to be admitted again."""
    house = House(path, readmits=True)
    house.runtime.may_end.set()
    house.write("a")
    await house.look()
    house.evict()
    await house.look()
    return house


def test_important_pods_start_first(tmp_path: Path) -> None:
    """On a full node the room goes to critical pods, then to high priorities."""

    async def scenario() -> None:
        house = House(tmp_path)
        house.write("a-low", priority=1)
        house.write("b-high", priority=1000)
        house.write("c-critical", priorityClassName="system-node-critical")
        await house.keeper.look()
        assert house.running() == ["c-critical", "b-high", "a-low"]

    asyncio.run(scenario())


def test_a_slow_goodbye_holds_no_other_up(tmp_path: Path) -> None:
    """While one pod uses its grace period the next look starts another; and no pod is stopped twice."""

    async def scenario() -> None:
        house = House(tmp_path)
        house.write("slow")
        await house.keeper.look()
        (tmp_path / "slow.json").unlink()
        await house.keeper.look()
        house.write("next")
        await house.keeper.look()
        assert house.running() == ["slow", "next"]
        house.runtime.may_end.set()
        await asyncio.sleep(0.01)
        assert house.running() == ["next"]

    asyncio.run(scenario())


def test_an_evicted_pod_gets_another_life(tmp_path: Path) -> None:
    """With --readmit, after its delay and as another pod; the failed one makes room for it."""

    async def scenario() -> None:
        house = House(tmp_path, readmits=True)
        house.write("a")
        await house.keeper.look()
        first = house.runtime.running[0].pod
        house.runtime.running = [PodStatus(first, "Failed", "Evicted", started_ns=1)]
        await house.keeper.look()
        assert [status.pod.uid for status in house.runtime.running] == [first.uid]
        house.runtime.clock.pass_seconds(11)
        house.runtime.may_end.set()
        await house.keeper.look()
        await asyncio.sleep(0.01)
        assert [status.pod.uid != first.uid for status in house.runtime.running] == [True]

    asyncio.run(scenario())


def test_what_came_under_pressure_is_admitted_when_that_ends(tmp_path: Path) -> None:
    """Without --readmit and without a delay: it never ran, so it has caused nothing. One that ran stays away."""

    async def scenario() -> None:
        house = House(tmp_path)
        house.runtime.may_end.set()
        house.write("ran")
        await house.look()
        house.evict()
        house.conditions = frozenset({Condition.MEMORY_PRESSURE})
        house.open()
        house.write("late")
        for _ in range(3):
            await house.look()
            house.runtime.clock.pass_seconds(600)
        assert house.states() == {"ran": "Evicted", "late": "Evicted"}
        house.conditions = frozenset()
        house.open()
        await house.look()
        await house.look()
        assert house.states() == {"ran": "Evicted", "late": ""}

    asyncio.run(scenario())


def test_a_pod_that_was_out_of_time_gets_none(tmp_path: Path) -> None:
    """That does not change by itself, whatever the node is short of."""

    async def scenario() -> None:
        house = House(tmp_path, readmits=True)
        house.write("a")
        await house.keeper.look()
        first = house.runtime.running[0].pod
        house.evict("DeadlineExceeded")
        house.runtime.may_end.set()
        for _ in range(2):
            await house.keeper.look()
            house.runtime.clock.pass_seconds(600)
        assert [status.pod.uid for status in house.runtime.running] == [first.uid]

    asyncio.run(scenario())


def test_a_corrected_manifest_ends_the_waiting_of_the_pod_before_it(tmp_path: Path) -> None:
    """The delay of the one that was evicted must not end the one that runs instead."""

    async def scenario() -> None:
        house = await with_an_evicted_pod(tmp_path)
        house.write("a", priority=5)
        await house.look()
        (corrected,) = house.uids()
        for _ in range(3):
            house.runtime.clock.pass_seconds(11)
            await house.look()
        assert house.uids() == [corrected]
        assert house.runtime.statuses()[0].phase == "Running"

    asyncio.run(scenario())


@pytest.mark.parametrize("readmits", [True, False])
def test_the_next_agent_recognises_a_pod_in_its_second_life(tmp_path: Path, *, readmits: bool) -> None:
    """The one before was killed, and all that is left is what the runtime has on record."""

    async def scenario() -> None:
        house = await with_an_evicted_pod(tmp_path)
        house.runtime.clock.pass_seconds(11)
        await house.look()
        (second,) = house.uids()
        house.open(readmits=readmits)
        await house.look()
        await house.look()
        assert house.uids() == [second]
        assert house.runtime.statuses()[0].phase == "Running"

    asyncio.run(scenario())


def test_the_next_agent_goes_on_counting(tmp_path: Path) -> None:
    """After 10 s for the first eviction it is 20 s for the second, whichever pod waits."""

    async def scenario() -> None:
        house = await with_an_evicted_pod(tmp_path)
        house.runtime.clock.pass_seconds(11)
        await house.look()
        house.open(readmits=True)
        await house.look()
        second = house.uids()
        house.evict()
        await house.look()
        house.runtime.clock.pass_seconds(19)
        await house.look()
        assert house.uids() == second
        house.runtime.clock.pass_seconds(1)
        await house.look()
        assert house.uids() != second

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "mistake", ["kind: [", "", "kind: Deployment", "kind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: x}"]
)
@pytest.mark.parametrize("restarts", [True, False])
def test_a_mistake_stops_no_other_pod(tmp_path: Path, mistake: str, *, restarts: bool) -> None:
    """Neither what this agent started nor what the one before did; when the file is right again, it counts."""

    async def scenario() -> None:
        house = House(tmp_path)
        house.runtime.may_end.set()
        house.write("a")
        house.write("b")
        await house.look()
        before = house.uids()
        file = tmp_path / "a.json"
        file.write_text(mistake or "\0")
        if restarts:
            house.open()
        await house.look()
        await house.look()
        assert house.uids() == before
        assert house.door.names().count("ActionFailed") == 1
        house.write("a", priority=7)
        await house.look()
        assert house.running() == ["b", "a"]
        assert len({*house.uids(), *before}) == 3

    asyncio.run(scenario())


def test_what_is_gone_while_no_agent_runs_takes_its_pods_along(tmp_path: Path) -> None:
    """Its file is known to be gone, which is more than being unreadable."""

    async def scenario() -> None:
        house = House(tmp_path)
        house.runtime.may_end.set()
        house.write("a")
        house.write("b")
        await house.look()
        (tmp_path / "a.json").unlink()
        house.open()
        await house.look()
        assert house.running() == ["b"]

    asyncio.run(scenario())


def test_pods_of_a_directory_that_cannot_be_found_stay(tmp_path: Path) -> None:
    """It may be on a disk that comes later. Once it is there, it counts."""

    async def scenario() -> None:
        here, away = tmp_path / "here", tmp_path / "away"
        here.mkdir()
        house = House(here)
        house.runtime.may_end.set()
        house.write("a")
        house.write("b")
        await house.look()
        before = house.uids()
        here.rename(away)
        house.open()
        await house.look()
        await house.look()
        assert house.uids() == before
        assert [fact.why for fact in house.door.said if isinstance(fact, events.ActionFailed)] == [
            f"{here}: No such file or directory; its pods stay as they are"
        ]
        (away / "b.json").unlink()
        away.rename(here)
        await house.look()
        assert house.uids() == before[:1]

    asyncio.run(scenario())


def test_a_pod_that_moved_out_of_a_file_with_a_mistake_is_not_there_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        house = House(tmp_path)
        house.runtime.may_end.set()
        house.write("a")
        await house.look()
        (tmp_path / "z.json").write_text((tmp_path / "a.json").read_text())
        (tmp_path / "a.json").write_text("kind: Deployment")
        await house.look()
        assert house.running() == ["a"]

    asyncio.run(scenario())


class Wanting:
    """A source whose wishes the test makes."""

    def __init__(self, *wishes: Wish, is_known: bool = True) -> None:
        self.is_known = is_known
        self.has_changed = True
        self.all = {wish.manifest.pod.uid: wish for wish in wishes}

    async def look(self) -> bool:
        return self.has_changed

    def wishes(self) -> dict[str, Wish]:
        return self.all


class GracefulRuntime(SlowRuntime):
    """Remembers how long each pod was given."""

    def __init__(self) -> None:
        super().__init__()
        self.graces: list[int | None] = []

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        self.graces.append(grace_seconds)
        await super().stop(uid, grace_seconds)


def _keeper(*sources: Wanting) -> tuple[Keeper, GracefulRuntime]:
    runtime = GracefulRuntime()
    door = Door(runtime=runtime)
    return Keeper(runtime, door.admitter, sources, door.said.append), runtime


def test_nothing_is_stopped_before_all_wishes_are_known() -> None:
    """An agent that starts before it has heard from its API must not take its pods for unwanted."""

    async def scenario() -> None:
        unknown = Wanting(is_known=False)
        keeper, runtime = _keeper(Wanting(Wish(manifest("mine"))), unknown)
        await runtime.start(manifest("theirs"))
        await keeper.look()
        assert [status.pod.name for status in runtime.statuses()] == ["theirs", "mine"]
        assert runtime.graces == []
        unknown.is_known = True
        await keeper.look()
        await asyncio.sleep(0)
        assert runtime.graces == [None]

    asyncio.run(scenario())


def test_a_source_that_learns_its_wishes_while_another_is_looked_at_is_asked_again() -> None:
    """Else its pods would be unwanted for a moment, and a moment is enough to end them."""

    async def scenario() -> None:
        late = Wanting(is_known=False)

        class Slow(Wanting):
            async def look(self) -> bool:
                late.is_known, late.all = True, {"uid-theirs": Wish(manifest("theirs"))}
                return False

        keeper, runtime = _keeper(late, Slow())
        await runtime.start(manifest("theirs"))
        late.has_changed = False
        await keeper.look()
        late.has_changed = True
        await keeper.look()
        await asyncio.sleep(0)
        assert runtime.graces == []

    asyncio.run(scenario())


def test_a_grace_period_is_passed_on_and_can_be_shortened() -> None:
    """Once for each that is shorter; a longer one or the same changes nothing."""

    async def scenario() -> None:
        source = Wanting()
        keeper, runtime = _keeper(source)
        await runtime.start(manifest("deaf"))
        for grace in (60, 60, 90, 5, 0):
            source.all = {"uid-deaf": Wish(manifest("deaf"), grace_seconds=grace)}
            await keeper.look()
            await asyncio.sleep(0)
            assert runtime.statuses()
        assert runtime.graces == [60, 5, 0]
        runtime.may_end.set()
        async with asyncio.timeout(30):
            while runtime.statuses():
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_what_is_over_is_neither_started_nor_forgotten() -> None:
    """But a pod that is over elsewhere and runs here is ended."""

    async def scenario() -> None:
        over = [Wish(manifest(name), is_over=True) for name in ("never-ran", "ended", "runs")]
        keeper, runtime = _keeper(Wanting(*over))
        runtime.may_end.set()
        await runtime.start(manifest("runs"))
        runtime.running.append(PodStatus(manifest("ended").pod, "Failed", "Evicted"))
        await keeper.look()
        await asyncio.sleep(0.01)
        assert [status.pod.name for status in runtime.statuses()] == ["ended"]

    asyncio.run(scenario())


def test_a_keeper_that_is_woken_does_not_wait() -> None:
    async def scenario() -> None:
        source = Wanting()
        keeper, runtime = _keeper(source)
        running = asyncio.create_task(keeper.run())
        await asyncio.sleep(0.01)
        source.all = {"uid-web": Wish(manifest("web"))}
        keeper.wake()
        await asyncio.sleep(0.1)
        assert [status.pod.name for status in runtime.statuses()] == ["web"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_pod_that_failed_to_start_is_tried_again_though_nothing_changed(tmp_path: Path) -> None:
    """A full disk takes no record of it; later there may be room. Each attempt is told, so they become rarer."""

    class FullRuntime(SlowRuntime):
        attempts: ClassVar[list[int]] = []

        async def start(self, manifest: PodManifest) -> None:
            self.attempts.append(self.clock.time_ns // 10**9 - 1000)
            if len(self.attempts) < 12:
                raise WriteError("no room")
            await super().start(manifest)

    async def scenario() -> None:
        house = House(tmp_path)
        house.runtime = full = FullRuntime()
        house.open()
        house.write("a")
        for _ in range(1200):
            await house.keeper.look()
            full.clock.pass_seconds(1)
        assert house.running() == ["a"]
        assert full.attempts == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]

    asyncio.run(scenario())


def test_many_pods_at_once_leave_the_loop_its_turns(tmp_path: Path) -> None:
    """A refusal waits for nothing: 450 of them in one file were 0.7 s in which the node was not looked at."""

    async def scenario() -> None:
        house = House(tmp_path, Condition.MEMORY_PRESSURE)
        house.runtime.may_end.set()
        for number in range(40):
            house.write(f"p{number}")
        turns: list[int] = []

        async def watch() -> None:
            while True:
                turns.append(len(house.running()))
                await asyncio.sleep(0)

        watcher = asyncio.create_task(watch())
        await house.keeper.look()
        coming = set(turns)
        for path in tmp_path.iterdir():
            path.unlink()
        turns.clear()
        await house.look()
        watcher.cancel()
        assert coming >= set(range(40))
        assert len(set(turns)) >= 40

    asyncio.run(scenario())


class OneWish:
    """A source that wants one pod, with what was added to it."""

    is_known = True

    def __init__(self) -> None:
        self.wish = Wish(manifest("a"))

    def add(self, *names: str, **changes: Any) -> None:
        known = self.wish.manifest
        spec = {**(known.document.get("spec") or {}), "ephemeralContainers": [{"name": name} for name in names]}
        self.wish = replace(self.wish, manifest=replace(known, document={**known.document, "spec": spec}), **changes)

    async def look(self) -> bool:
        return True

    def wishes(self) -> dict[str, Wish]:
        return {self.wish.manifest.pod.uid: self.wish}


def test_what_is_added_to_a_pod_is_passed_on_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        house, source = House(tmp_path), OneWish()
        house.keeper = Keeper(house.runtime, house.door.admitter, [source], house.door.said.append)
        for names in ((), ("d",), ("d",), ("d", "e")):
            source.add(*names)
            await house.look()
        assert house.running() == ["a"]
        assert house.runtime.added == ["a", "a"]
        house.evict()
        source.add("d", "e", "f")
        await house.look()
        source.add("d", "e", "f", grace_seconds=1)
        await house.look()
        assert house.runtime.added == ["a", "a"], "a pod that ends or has ended gets no more"

    asyncio.run(scenario())
