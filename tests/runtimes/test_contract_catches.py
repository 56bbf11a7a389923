"""Each test of the contract can fail: for each a double with the fault that it is there to find."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.snapshot import PodUsage, Snapshot
from jettison.runtimes.protocol import Alarm, EndingPod, PodManifest, PodStatus, Reclaimed
from tests.agent.scripted_runtime import CAPACITY, ScriptedHost, pod
from tests.runtimes import test_contract
from tests.runtimes.test_contract import CONTRACT, ScriptedSubject


class ForgetsProcessIds(ScriptedHost):
    async def observe(self) -> Snapshot:
        found = await super().observe()
        return replace(found, node=found.node._replace(processes=None))


class ForgetsTheDisk(ScriptedHost):
    async def observe(self) -> Snapshot:
        found = await super().observe()
        return replace(found, node=found.node._replace(fs=None))


class HasAStrangerOnIt(ScriptedHost):
    async def observe(self) -> Snapshot:
        return replace(await super().observe(), pods=(pod("stranger"),))


class LiesAboutItsMemory(ScriptedHost):
    def machine(self) -> MachineCapacity:
        return MachineCapacity(cores=2, memory=2 * CAPACITY)


class StartsNothing(ScriptedHost):
    async def start(self, manifest: PodManifest) -> None:
        self.running.append(PodStatus(manifest.pod, "Pending"))


class MeasuresNoPod(ScriptedHost):
    async def observe(self) -> Snapshot:
        found = await super().observe()
        return replace(found, usages=dict.fromkeys(found.usages, PodUsage(None, None, None, [], [])))


class MeasuresNoContainer(ScriptedHost):
    async def observe(self) -> Snapshot:
        found = await super().observe()
        return replace(found, usages={uid: usage._replace(containers=[]) for uid, usage in found.usages.items()})


class EvictsNobody(ScriptedHost):
    async def evict(self, order: Eviction) -> None:
        self.evictions.append(order)


class ForgetsWhomItEvicted(ScriptedHost):
    async def evict(self, order: Eviction) -> None:
        await super().evict(order)
        await self.stop(order.pod.uid)


class LosesTheMessage(ScriptedHost):
    async def evict(self, order: Eviction) -> None:
        await super().evict(replace(order, message=""))


class TellsItAgain(ScriptedHost):
    def told(self, uid: str) -> None:
        pass


class KeepsNoOrder(ScriptedHost):
    def endings(self) -> Sequence[EndingPod]:
        return []


class ForgetsTheFirstOrder(ScriptedHost):
    def end(self, order: Eviction) -> None:
        self.under_way.pop(order.pod.uid, None)
        self.clock.pass_seconds(1)
        super().end(order)


class EvictsTheDead(ScriptedHost):
    async def evict(self, order: Eviction) -> None:
        self.pods.append(order.pod)
        self.ended.discard(order.pod.uid)
        await super().evict(order)


class IsNotHurried(ScriptedHost):
    async def evict(self, order: Eviction) -> None:
        await super().evict(replace(order, grace_seconds=30))


class WaitsForNobody(ScriptedHost):
    async def evict(self, order: Eviction) -> None:
        self.deaf.clear()
        await super().evict(order)


class IsFinishedTooSoon(ScriptedHost):
    def is_finished(self, uid: str) -> bool:
        return True


class IsNeverFinished(ScriptedHost):
    def is_finished(self, uid: str) -> bool:
        return False


class StopsNothing(ScriptedHost):
    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        pass


class RemembersWhatWasStopped(ScriptedHost):
    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        self.pods = [each for each in self.pods if each.uid != uid]


class RunsWhatItRejects(ScriptedHost):
    async def reject(self, manifest: PodManifest, reason: str, message: str) -> None:
        await super().reject(manifest, reason, message)
        self.pods.append(manifest.pod)


class ForgetsWhatItRejects(ScriptedHost):
    async def reject(self, manifest: PodManifest, reason: str, message: str) -> None:
        pass


class AlwaysRings(ScriptedHost):
    async def alarms(self) -> AsyncIterator[Alarm]:
        while True:
            yield Alarm("poll", self.clock.monotonic_ns())
            await asyncio.sleep(0)


class NeverRings(ScriptedHost):
    def ring(self, source: str) -> None:
        pass


class StopsListening(ScriptedHost):
    async def alarms(self) -> AsyncIterator[Alarm]:
        nothing: list[Alarm] = []
        for alarm in nothing:
            yield alarm


class RingsForNothing(ScriptedHost):
    async def observe(self) -> Snapshot:
        self.available = CAPACITY
        return await super().observe()


class RingsInThePast(ScriptedHost):
    def ring(self, source: str) -> None:
        self.alarms_rung.put_nowait(Alarm(source, 0))


class BoastsOfRoom(ScriptedHost):
    async def reclaim(self, order: Reclaim) -> Reclaimed:
        return Reclaimed(containers=1, freed_bytes=1)


FAULTS: list[tuple[str, type[ScriptedHost]]] = [
    ("test_an_empty_node_can_be_observed", ForgetsProcessIds),
    ("test_an_empty_node_can_be_observed", HasAStrangerOnIt),
    ("test_the_disk_of_a_node_can_be_observed", ForgetsTheDisk),
    ("test_the_memory_of_a_node_is_that_of_its_machine", LiesAboutItsMemory),
    ("test_a_started_pod_runs_and_is_measured", StartsNothing),
    ("test_a_started_pod_runs_and_is_measured", MeasuresNoPod),
    ("test_a_started_pod_runs_and_is_measured", IsFinishedTooSoon),
    ("test_the_containers_of_a_pod_are_measured", MeasuresNoContainer),
    ("test_an_eviction_returns_when_the_pod_has_ended", EvictsNobody),
    ("test_an_eviction_returns_when_the_pod_has_ended", IsNeverFinished),
    ("test_an_evicted_pod_stays_for_all_to_see", ForgetsWhomItEvicted),
    ("test_an_evicted_pod_stays_for_all_to_see", LosesTheMessage),
    ("test_an_eviction_is_an_ending_until_it_is_told", TellsItAgain),
    ("test_an_eviction_is_an_ending_until_it_is_told", KeepsNoOrder),
    ("test_a_pod_that_was_told_to_end_is_an_ending_at_once", KeepsNoOrder),
    ("test_a_pod_that_was_told_to_end_can_be_told_to_hurry", ForgetsTheFirstOrder),
    ("test_a_pod_that_is_not_there_cannot_be_evicted", EvictsTheDead),
    ("test_a_second_eviction_shortens_the_grace_of_the_first", IsNotHurried),
    ("test_a_second_eviction_shortens_the_grace_of_the_first", WaitsForNobody),
    ("test_a_pod_is_finished_when_it_is_gone_or_unknown_and_not_before", IsFinishedTooSoon),
    ("test_a_pod_is_finished_when_it_is_gone_or_unknown_and_not_before", IsNeverFinished),
    ("test_a_pod_is_finished_when_it_is_gone_or_unknown_and_not_before", StopsNothing),
    ("test_a_pod_that_was_stopped_is_forgotten", RemembersWhatWasStopped),
    ("test_a_pod_that_was_stopped_is_forgotten", StopsNothing),
    ("test_a_rejected_pod_is_remembered_as_failed", RunsWhatItRejects),
    ("test_a_rejected_pod_is_remembered_as_failed", ForgetsWhatItRejects),
    ("test_a_calm_node_raises_no_alarm", AlwaysRings),
    ("test_an_alarm_rings_when_memory_runs_out", NeverRings),
    ("test_an_alarm_rings_when_memory_runs_out", StopsListening),
    ("test_an_alarm_rings_when_memory_runs_out", RingsForNothing),
    ("test_an_alarm_rings_when_memory_runs_out", RingsInThePast),
    ("test_a_reclaim_with_nothing_to_free_frees_nothing", BoastsOfRoom),
]


@pytest.mark.parametrize(("test", "double"), FAULTS, ids=lambda each: getattr(each, "__name__", ""))
def test_the_contract_catches(test: str, double: type[ScriptedHost], tmp_path: Path) -> None:
    """What must come and does not come is waited for a fifth of a second only: here it is known not to come."""
    with pytest.raises((AssertionError, TimeoutError, KeyError, ValueError, pytest.fail.Exception)):
        CONTRACT[test](ScriptedSubject(double, patience=0.2), tmp_path)


def test_no_test_of_the_contract_is_without_a_fault() -> None:
    written = {name for name in vars(test_contract) if name.startswith("test_")}
    assert written == set(CONTRACT) == {test for test, _ in FAULTS}
