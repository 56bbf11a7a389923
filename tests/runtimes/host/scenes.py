"""Pod documents in one line, and a supervisor with real places to run them in; nothing is left afterwards."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from jettison.clock import SystemClock
from jettison.engine.node.evictions import Eviction, PodCondition
from jettison.engine.pods.pod import Pod
from jettison.events import Fact
from jettison.manifests.pods import pod_from
from jettison.runtimes.host.cgroups.places import Places
from jettison.runtimes.host.pods import record_files
from jettison.runtimes.host.pods.record_files import RecordFiles
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.host.supervisor import Supervisor
from jettison.runtimes.host.volumes.pod_directories import HostServices, make_directories
from jettison.runtimes.protocol import ContainerStatus, PodManifest, PodStatus
from tests.runtimes.host.nodes import Node, node, settings

T = TypeVar("T")

SLEEPS = ["sleep", "60"]
# Hears SIGTERM and stays; gives itself up in case the test that should end it cannot.
STUBBORN = ["sh", "-c", "trap '' TERM; exec sleep 600"]


def container(command: list[str], name: str = "c", **more: Any) -> dict[str, Any]:
    """One container of a document."""
    return {"name": name, "command": command, **more}


def shell(script: str, name: str = "c", **more: Any) -> dict[str, Any]:
    """A container that runs a script."""
    return container(["sh", "-c", script], name, **more)


def python(program: str, name: str = "c", **more: Any) -> dict[str, Any]:
    """A container that runs a Python program."""
    return container([sys.executable, "-I", "-S", "-c", program], name, **more)


def document(*containers: dict[str, Any], name: str = "a", **spec: Any) -> dict[str, Any]:
    """A pod's; its uid is made from its name."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 7},
        "spec": {"containers": list(containers), **spec},
    }


def manifest(*containers: dict[str, Any], name: str = "a", **spec: Any) -> PodManifest:
    """The same, as the agent hands it over."""
    found = document(*containers, name=name, **spec)
    return PodManifest(pod_from(found), found, "test")


def eviction(pod: Pod, grace_seconds: int | None = 1) -> Eviction:
    """An order as the engine gives it for memory."""
    message = "The node was low on resource: memory. "
    condition = PodCondition("DisruptionTarget", "True", "TerminationByKubelet", message, pod.generation)
    return Eviction(pod, message, grace_seconds, "memory.available", {"starved_resource": "memory"}, condition)


class Scene:
    """A supervisor, what it said, and where its files are."""

    def __init__(self, settings: HostSettings, places: Places, facts: list[Fact], pool: ThreadPoolExecutor) -> None:
        make_directories(settings)
        self.settings = settings
        self.places = places
        self.facts = facts
        self.files = RecordFiles(settings.records_dir, pool, facts.append)
        self.services = HostServices(settings, places, self.files, pool, SystemClock(), facts.append)
        self.supervisor = Supervisor(self.services)

    def status(self, name: str = "a") -> PodStatus:
        """Of the pod."""
        return next(status for status in self.supervisor.statuses() if status.pod.name == name)

    def container(self, name: str = "c", pod: str = "a") -> ContainerStatus:
        """Of one of its containers."""
        return next(each for each in self.status(pod).containers if each.name == name)

    def condition(self, kind: str, pod: str = "a") -> PodCondition:
        """One of its conditions."""
        return next(each for each in self.status(pod).conditions if each.type == kind)

    def pid(self, container: str = "c", pod: str = "a") -> int:
        """Of a container's main process; 0 without one."""
        active = next(each for each in self.supervisor.active() if each.manifest.pod.name == pod)
        return next(each.pid for each in active.containers if each.name == container)

    def said(self, kind: type[T]) -> list[T]:
        """The facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def log(self, container: str = "c", run: int = 0, pod: str = "a") -> str:
        """What a run of a container wrote."""
        return (self.settings.logs_dir / f"default_{pod}_uid-{pod}" / container / f"{run}.log").read_text()

    def write_dir(self, container: str = "c", run: int = 0, pod: str = "a") -> Path:
        """Of a run of a container."""
        return self.settings.pod_dir(f"uid-{pod}") / "containers" / container / str(run)

    async def phase(self, wanted: str, pod: str = "a") -> PodStatus:
        """Wait for it."""
        await until(lambda: self.status(pod).phase == wanted)
        return self.status(pod)


class HangingDisk:
    """Takes nothing until it may; `begun` tells when it was asked to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_write = threading.Event(), threading.Event()
        self.lines: list[bytes] = []
        self._append = record_files._append
        monkeypatch.setattr(record_files, "_append", self.append)

    def append(self, path: Path, line: bytes, *flags: int) -> int:
        self.begun.set()
        assert self.may_write.wait(60)
        self.lines.append(line)
        return self._append(path, line, *flags)


@asynccontextmanager
async def opened(settings: HostSettings, places: Places) -> AsyncIterator[Scene]:
    """A supervisor on a node that exists; letting go of it leaves its pods running."""
    with ThreadPoolExecutor(2) as pool:
        scene = Scene(settings, places, [], pool)
        await scene.supervisor.adopt()
        try:
            yield scene
        finally:
            await scene.supervisor.close()


@asynccontextmanager
async def ending_all(scene: Scene) -> AsyncIterator[Scene]:
    """Ends and forgets every pod afterwards."""
    try:
        yield scene
    finally:
        for status in scene.supervisor.statuses():
            await scene.supervisor.stop(status.pod.uid, 0)


def play(tmp_path: Path, scenario: Callable[[Scene], Awaitable[None]], **changes: object) -> None:
    """Run the scenario on a node of its own, with other settings than usual."""

    async def run() -> None:
        with node(settings(tmp_path, **changes)) as made:
            async with opened(made.settings, made.kubepods) as scene, ending_all(scene):
                async with asyncio.timeout(60):
                    await scenario(scene)

    asyncio.run(run())


def twice(
    tmp_path: Path,
    before: Callable[[Scene], Awaitable[None]],
    after: Callable[[Scene], Awaitable[None]],
    between: Callable[[Node], None] = lambda _: None,
    **changes: object,
) -> None:
    """An agent and, after its death, the next one on the same node; pods end after the second."""

    async def run() -> None:
        with node(settings(tmp_path, **changes)) as made:
            async with opened(made.settings, made.kubepods) as scene:
                await before(scene)
            between(made)
            async with opened(made.settings, made.kubepods) as scene, ending_all(scene):
                async with asyncio.timeout(40):
                    await after(scene)

    asyncio.run(run())


async def until(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for it."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


def handles_term(pid: int) -> bool:
    """Whether it catches or ignores SIGTERM. A shell that was just started has not set its trap yet."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = (int(line.split()[1], 16) for line in lines if line.startswith(("SigIgn:", "SigCgt:")))
    return any(mask >> (signal.SIGTERM - 1) & 1 for mask in masks)
