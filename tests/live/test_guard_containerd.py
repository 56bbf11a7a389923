"""Guarding containers of containerd: those of `ctr`, and pods that another program has started through CRI."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from jettison import events
from jettison.clock import Clock, SystemClock
from jettison.engine import Policy
from jettison.engine.pods.pod import Pod
from jettison.events import Fact
from jettison.node.cluster_settings import GuardSettings
from jettison.node.guard import Guard
from jettison.node.settings import NodeSettings
from jettison.runtimes.adopted.rules_file import shipped_rules
from jettison.runtimes.adopted.runtime import AdoptedRuntime
from jettison.runtimes.adopted.settings import AdoptedSettings
from jettison.runtimes.containerd.workloads import ContainerdWorkloads
from jettison.runtimes.cri.client import CriClient
from jettison.runtimes.cri.messages import EXITED, OF_NODE, OWN_PROCESSES
from jettison.runtimes.linux.cgroups.mounts import Hierarchy
from jettison.runtimes.protocol import Hosting
from jettison.runtimes.workloads import WorkloadSource
from tests.builders import MI
from tests.janitor import fresh_name
from tests.live.containerd import IMAGE, Containerd, write_image
from tests.live.test_guard import PATIENCE, holding, until
from tests.runtimes.test_contract import GUARDING_CONTRACT, RULES, Behaviour, phase_of

pytestmark = pytest.mark.timeout(300)

# Of this run: runc keeps the containers of all containerds of a machine in one place, by namespace and name.
NAMESPACE = fresh_name()
MEMORY = 128 * MI
LABELS = {"io.kubernetes.pod.namespace": "default", "io.kubernetes.container.name": "c"}


@pytest.fixture(scope="module")
def raw(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """With the image in a namespace of its own."""
    archive = tmp_path_factory.mktemp("a") / "i.tar"
    write_image(archive, IMAGE, ["/bin/sleep", "3600"])
    containerd.ctr("images", "import", str(archive), namespace=NAMESPACE)
    yield containerd
    containerd.ctr("images", "rm", "--sync", IMAGE, namespace=NAMESPACE)
    for place in ("/run/containerd/runc", "/run/containerd/io.containerd.runtime.v2.task"):
        with suppress(OSError):
            Path(place, NAMESPACE).rmdir()


def run(runtime: Containerd, cgroup: str, name: str, command: list[str], *options: str) -> None:
    """As an operator does: nothing but `ctr` knows of it."""
    place = ("--cgroup", f"/{cgroup}/{name}")
    runtime.ctr("run", "--detach", *place, *options, IMAGE, name, *command, namespace=NAMESPACE)


def clear(runtime: Containerd, cgroup: str) -> None:
    """Everything of the namespace, and its cgroups, which the kernel gives back a moment after the last process."""
    running = _tasks(runtime)
    for name in runtime.ctr("containers", "ls", "-q", namespace=NAMESPACE).split():
        if name in running:
            runtime.ctr("tasks", "rm", "--force", name, namespace=NAMESPACE)
        runtime.ctr("containers", "rm", name, namespace=NAMESPACE)
    deadline = time.monotonic() + PATIENCE
    for tree in Path("/sys/fs/cgroup").iterdir():
        for folder, _, _ in os.walk(tree / cgroup, topdown=False):
            while True:
                try:
                    Path(folder).rmdir()
                    break
                except OSError:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)


def _tasks(runtime: Containerd) -> dict[str, str]:
    lines = runtime.ctr("tasks", "ls", namespace=NAMESPACE).splitlines()[1:]
    return {name: state for name, _, state in (line.split() for line in lines)}


@dataclass
class Told:
    facts: list[Fact] = field(default_factory=list)

    def take(self, fact: Fact, time_ns: int) -> None:
        self.facts.append(fact)

    def evicted(self) -> list[str]:
        return [fact.eviction.pod.name for fact in self.facts if isinstance(fact, events.PodEvicted)]


@asynccontextmanager
async def guarding(
    path: Path, runtime: Containerd, cgroup: str, *, enforces: bool = True
) -> AsyncIterator[tuple[Guard, Told]]:
    told = Told()
    config = {"evictionHard": {"memory.available": "40Mi"}, "enforceNodeAllocatable": ["none"]}
    node = NodeSettings(fresh_name(), path / "state", policy=Policy.of(config), is_dry_run=not enforces)
    adopted = AdoptedSettings(
        node.node_name,
        path,
        node.node_state / "stopping.json",
        shipped=shipped_rules(),
        cgroup=cgroup,
        memory=MEMORY,
        runtime=runtime.socket,
    )
    async with Guard(GuardSettings(node, adopted), told) as guard:
        yield guard, told


@pytest.mark.parametrize("enforces", [False, True], ids=["observe", "enforce"])
def test_the_leak_of_ctr_is_stopped_by_containerd_and_never_removed(
    raw: Containerd, tmp_path: Path, enforces: bool
) -> None:
    """The protected one holds more, and stays; an observer touches nothing and says what it would do."""
    cgroup = f"jettison-{fresh_name()}"

    async def scenario() -> None:
        async with guarding(tmp_path, raw, cgroup, enforces=enforces) as (guard, told):
            run(raw, cgroup, "leak", holding(35))
            await until(lambda: {each.pod.name for each in guard.statuses()} == {"leak", "database"}, "both")
            if enforces:
                await until(lambda: told.evicted() == ["leak"], "the eviction of the leak")
                await until(lambda: _tasks(raw) == {"leak": "STOPPED", "database": "RUNNING"}, "containerd's books")
                status = next(each for each in guard.statuses() if each.pod.name == "leak")
                assert (status.reason, status.pod.namespace) == ("Evicted", "containerd")
            else:
                await until(lambda: bool(guard.agent.history.conditions), "memory pressure")
                assert _tasks(raw) == {"leak": "RUNNING", "database": "RUNNING"}
            assert set(raw.ctr("containers", "ls", "-q", namespace=NAMESPACE).split()) == {"leak", "database"}

    try:
        run(raw, cgroup, "database", holding(55), "--label", "jettison.dev/protect=true")
        asyncio.run(scenario())
    finally:
        clear(raw, cgroup)


def foreign_pod(name: str, parent: str, annotations: dict[str, str]) -> dict[str, Any]:
    """What a kubelet says of a pod to its runtime."""
    labels = {f"io.kubernetes.pod.{key}": value for key, value in (("uid", name), ("name", name), ("namespace", "n1"))}
    return {
        "metadata": {"name": name, "uid": name, "namespace": "n1"},
        "labels": labels,
        "annotations": annotations,
        "linux": {"cgroup_parent": parent, "security_context": {"namespace_options": {"network": OF_NODE}}},
    }


def test_a_pod_of_another_program_is_one_pod_and_is_stopped_through_cri(raw: Containerd, tmp_path: Path) -> None:
    """Both its containers go, its sandbox stays with the program that made it. A static pod is known as one."""
    cgroup = f"jettison-{fresh_name()}"
    plain = foreign_pod("foreign", f"/{cgroup}/pod", {"jettison.dev/priority": "7", "other": "x"})
    kept = foreign_pod("kept", f"/{cgroup}/kept", {"kubernetes.io/config.source": "file"})

    async def started(client: CriClient, sandbox: str, pod: dict[str, Any], name: str, command: list[str]) -> str:
        config = {
            "metadata": {"name": name},
            "image": {"image": IMAGE},
            "command": command,
            "labels": {**pod["labels"], "io.kubernetes.container.name": name},
            "linux": {"security_context": {"namespace_options": {"network": OF_NODE, "pid": OWN_PROCESSES}}},
        }
        container = await client.create_container(sandbox, config, pod)
        await client.start_container(container)
        return container

    async def scenario(client: CriClient, first: str, second: str) -> None:
        await started(client, second, kept, "c", ["/bin/sleep", "3600"])
        calm = await started(client, first, plain, "calm", ["/bin/sleep", "3600"])
        async with guarding(tmp_path, raw, cgroup) as (guard, told):
            await until(lambda: len(guard.statuses()) == 2, "both pods")
            pods = {str(each.pod): each.pod for each in guard.statuses()}
            assert {name: (pod.priority, pod.is_static) for name, pod in pods.items()} == {
                "n1/foreign": (7, False),
                "n1/kept": (None, True),
            }
            greedy = await started(client, first, plain, "greedy", holding(95))
            await until(lambda: told.evicted() == ["foreign"], "the eviction")
            for each in (calm, greedy):
                # The books follow the kernel after some milliseconds.
                while (status := await client.status(each)) is not None and status.state != EXITED:
                    await asyncio.sleep(0.02)
                assert status is not None
            assert {each.id for each in await client.sandboxes({})} >= {first, second}

    async def with_sandboxes() -> None:
        client, made = CriClient(raw.socket), list[str]()
        try:
            for pod in (plain, kept):
                made.append(await client.run_sandbox(pod))
            await scenario(client, *made)
        finally:
            for sandbox in made:
                await client.stop_sandbox(sandbox)
                await client.remove_sandbox(sandbox)
            client.close()

    try:
        asyncio.run(with_sandboxes())
    finally:
        clear(raw, cgroup)


@dataclass
class GuardedSubject:
    """A part of this machine of 128 MiB; `ctr` starts what runs there."""

    containerd: Containerd
    patience: float = 60.0

    @asynccontextmanager
    async def opened(self, tmp_path: Path) -> AsyncIterator[Hosting]:
        self._cgroup = f"jettison-{fresh_name()}"
        (Path("/sys/fs/cgroup/memory") / self._cgroup).mkdir()

        async def more(memory: Hierarchy) -> list[WorkloadSource]:
            return [ContainerdWorkloads(self.containerd.socket, memory, has_pods=True)]

        settings = AdoptedSettings("n", tmp_path, tmp_path / "s.json", cgroup=self._cgroup, memory=MEMORY)
        runtime = await AdoptedRuntime.open(settings, RULES, SystemClock(), lambda _fact: None, more)
        try:
            # It starts nothing, so it takes only that part of the contract that asks for no start.
            yield cast("Hosting", runtime)
        finally:
            await runtime.close()
            clear(self.containerd, self._cgroup)

    async def run(self, runtime: Hosting, name: str, behaviour: Behaviour) -> Pod:
        programs = {
            # As process 1 of its namespace it does not hear SIGTERM: it ends when its time is over.
            Behaviour.CALM: ["/bin/sleep", "600"],
            Behaviour.DEAF: ["/bin/sh", "-c", "trap '' TERM; exec sleep 600"],
            Behaviour.HUNGRY: holding(104),
        }
        labels = {**LABELS, "io.kubernetes.pod.uid": f"uid-{name}", "io.kubernetes.pod.name": name}
        options = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
        run(self.containerd, self._cgroup, name, programs[behaviour], *options)
        wanted = Pod(name, "default", f"uid-{name}")
        async with asyncio.timeout(self.patience):
            while phase_of(runtime, wanted) != "Running":
                await asyncio.sleep(0.02)
        return next(each.pod for each in runtime.statuses() if each.pod.uid == wanted.uid)

    def clock(self, runtime: Hosting) -> Clock:
        return SystemClock()


@pytest.mark.parametrize("name", GUARDING_CONTRACT)
def test_guarded_containers_keep_the_contract(name: str, raw: Containerd, tmp_path: Path) -> None:
    """And leave nothing behind: not a task, not a cgroup."""
    subject = GuardedSubject(raw)
    GUARDING_CONTRACT[name](subject, tmp_path)
    assert _tasks(raw) == {}
