"""What every runtime must do, whatever it is made of: one suite, and one line for each runtime that takes it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jettison.clock import SystemClock
from jettison.engine.node.decide import Nothing, Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.signals import Reclaimable, Signal, readings
from jettison.engine.node.snapshot import Reading
from jettison.engine.pods.pod import Pod
from jettison.errors import PodGone
from jettison.manifests.pods import pod_from
from jettison.runtimes.host.runtime import HostRuntime
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.protocol import Hosting, PodManifest, PodStatus
from tests.builders import MI, policy

Open = Callable[[Path], AbstractAsyncContextManager[Hosting]]

RULES = policy({"memory.available": "32Mi"}, guards_allocatable=True)
_numbers = count()


def host(*, uses_cgroups: bool) -> Open:
    """A node of 128 MiB on this machine."""

    @asynccontextmanager
    async def opened(tmp_path: Path) -> AsyncIterator[Hosting]:
        name = f"contract-{os.getpid()}-{next(_numbers)}"
        settings = HostSettings(
            name, tmp_path / "state", tmp_path / "node", f"jettison-{name}", 128 * MI, 200, uses_cgroups
        )
        runtime = await HostRuntime.open(settings, RULES, SystemClock(), lambda _fact: None)
        try:
            yield runtime
        finally:
            for status in runtime.statuses():
                await runtime.stop(status.pod.uid, 0)
            await until(lambda: all(runtime.is_finished(status.pod.uid) for status in runtime.statuses()))
            await runtime.close()

    return opened


RUNTIMES = [
    pytest.param(
        host(uses_cgroups=True),
        id="host with cgroups",
        marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make cgroups"),
    ),
    pytest.param(host(uses_cgroups=False), id="host with process groups"),
]

every_runtime = pytest.mark.parametrize("open_", RUNTIMES)

SLEEPS = ["sleep", "60"]
# Says that it hears the signal, and stays.
STUBBORN = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]


def manifest(name: str, command: list[str], **spec: Any) -> PodManifest:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "c", "command": command}], **spec},
    }
    return PodManifest(pod_from(document), document, "test")


def eviction(pod: Pod, grace_seconds: int | None = 1) -> Eviction:
    return Eviction(pod, "The node was low on resource: memory. ", grace_seconds, "memory.available")


async def until(holds: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


def status_of(runtime: Hosting, pod: Pod) -> PodStatus | None:
    return next((status for status in runtime.statuses() if status.pod.uid == pod.uid), None)


def phase_of(runtime: Hosting, pod: Pod) -> str:
    status = status_of(runtime, pod)
    return "" if status is None else status.phase


def play(open_: Open, tmp_path: Path, scenario: Callable[[Hosting], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_(tmp_path) as runtime:
            await scenario(runtime)

    asyncio.run(run())


@every_runtime
def test_an_empty_node_can_be_observed(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        snapshot = await runtime.observe()
        found = readings(snapshot.node)
        for signal in (Signal.MEMORY_AVAILABLE, Signal.NODEFS_AVAILABLE, Signal.PID_AVAILABLE):
            assert 0 < found[signal].available <= found[signal].capacity
        assert not snapshot.pods
        assert not snapshot.usages
        assert found[Signal.MEMORY_AVAILABLE].capacity == runtime.machine().memory

    play(open_, tmp_path, scenario)


@every_runtime
def test_a_started_pod_runs_and_is_measured(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        wanted = manifest("a", SLEEPS)
        await runtime.start(wanted)
        await until(lambda: phase_of(runtime, wanted.pod) == "Running")
        snapshot = await runtime.observe()
        assert [pod.uid for pod in snapshot.pods] == ["uid-a"]
        usage = snapshot.usages["uid-a"]
        assert usage.processes == 1
        assert usage.working_set is not None
        assert [container.name for container in usage.containers] == ["c"]
        assert not runtime.is_finished("uid-a")

    play(open_, tmp_path, scenario)


@every_runtime
def test_an_eviction_returns_when_the_pod_has_ended_and_it_stays_for_all_to_see(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        wanted = manifest("a", SLEEPS)
        await runtime.start(wanted)
        await until(lambda: phase_of(runtime, wanted.pod) == "Running")
        await runtime.evict(eviction(wanted.pod))
        snapshot = await runtime.observe()
        assert "uid-a" not in snapshot.usages
        await until(lambda: runtime.is_finished("uid-a"))
        status = status_of(runtime, wanted.pod)
        assert status is not None
        assert (status.phase, status.reason) == ("Failed", "Evicted")
        assert status.message == "The node was low on resource: memory. "
        assert not (await runtime.observe()).pods

    play(open_, tmp_path, scenario)


@every_runtime
def test_a_pod_that_is_not_there_cannot_be_evicted(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        wanted = manifest("a", SLEEPS)
        with pytest.raises(PodGone):
            await runtime.evict(eviction(wanted.pod))
        await runtime.start(wanted)
        await until(lambda: phase_of(runtime, wanted.pod) == "Running")
        await runtime.evict(eviction(wanted.pod))
        await until(lambda: runtime.is_finished("uid-a"))
        with pytest.raises(PodGone):
            await runtime.evict(eviction(wanted.pod))

    play(open_, tmp_path, scenario)


@every_runtime
def test_a_second_eviction_shortens_the_grace_of_the_first(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        wanted = manifest("a", STUBBORN)
        await runtime.start(wanted)
        await until(lambda: phase_of(runtime, wanted.pod) == "Running")
        await asyncio.sleep(0.2)  # until the trap is set
        first = asyncio.create_task(runtime.evict(eviction(wanted.pod, 60)))
        await asyncio.sleep(0.2)
        assert not first.done()
        began = time.monotonic()
        await runtime.evict(eviction(wanted.pod, 1))
        await first
        # One second is raised to the two that a runtime always waits.
        assert 0.5 < time.monotonic() - began < 10

    play(open_, tmp_path, scenario)


@every_runtime
def test_nobody_is_finished_who_runs_and_whoever_is_unknown_is(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        assert runtime.is_finished("nobody")
        wanted = manifest("a", SLEEPS)
        await runtime.start(wanted)
        assert not runtime.is_finished("uid-a")
        await runtime.stop("uid-a", 1)
        await until(lambda: runtime.is_finished("uid-a"))
        assert status_of(runtime, wanted.pod) is None

    play(open_, tmp_path, scenario)


@every_runtime
def test_a_rejected_pod_is_remembered_as_failed(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        wanted = manifest("a", SLEEPS)
        await runtime.reject(wanted, "Evicted", "The node had condition: [MemoryPressure]. ")
        status = status_of(runtime, wanted.pod)
        assert status is not None
        assert (status.phase, status.reason) == ("Failed", "Evicted")
        assert not (await runtime.observe()).pods
        assert runtime.is_finished("uid-a")

    play(open_, tmp_path, scenario)


@every_runtime
def test_alarms_can_be_waited_for(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        alarms = runtime.alarms()
        waiting = asyncio.ensure_future(anext(alarms))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting

    play(open_, tmp_path, scenario)


@every_runtime
def test_a_reclaim_with_nothing_to_free_frees_nothing(open_: Open, tmp_path: Path) -> None:
    async def scenario(runtime: Hosting) -> None:
        starved = policy({"nodefs.available": "10%"}).thresholds[0]
        order = Reclaim((Reclaimable.CONTAINERS, Reclaimable.IMAGES), starved, Reading(0, 1, 1), Nothing(""), ())
        done = await runtime.reclaim(order)
        assert (done.containers, done.images, done.freed_bytes, done.errors) == (0, 0, 0, ())

    play(open_, tmp_path, scenario)
