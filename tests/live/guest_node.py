"""Runs inside the guest: two guarded nodes on a cgroup v2 machine, as large as the machine and smaller."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from jettison.agent.fact_values import name_of, values_of
from jettison.agent.http.client import fetch
from jettison.engine.config.policy import Policy
from jettison.events import Fact
from jettison.node.node import Node
from jettison.node.settings import NodeSettings
from jettison.node.watch import SOCKET_NAME
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, discover
from jettison.runtimes.linux.cgroups.usage import ROOT, UsageReader
from jettison.runtimes.linux.files.kernel_files import read_number
from jettison.runtimes.linux.proc import Machine
from jettison.runtimes.linux.psi import PressureFile
from tests.live import guest_kernel, guest_probe
from tests.live.guest_side import CGROUPS, MIB, counters, report

HOLD = "import time; held = bytearray(b'x') * ({mib} << 20); time.sleep(600)"
# Deaf to SIGTERM, and with a child that left its session and its parent: only a kill of the whole cgroup ends it.
LEAK = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
held = []
while True:
    held.append(bytearray(b'x') * (1 << 20))
    time.sleep(0.02)
"""
# Only the child takes more than it may, once it is told so; the other one would wait for it without end.
PAIR = """
import os, time
while not os.path.exists("{told}"):
    time.sleep(0.2)
if os.fork() == 0:
    held = bytearray(b'x') * (64 << 20)
    os._exit(0)
while True:
    time.sleep(1)
"""
# More file than the container may cache: nearly every touch waits for the disk and for room.
THRASH = f"""
import mmap, os
disk = os.open("{guest_kernel.DISK}", os.O_RDONLY)
view = mmap.mmap(disk, 48 << 20, prot=mmap.PROT_READ)
while True:
    sum(view[at] for at in range(0, 48 << 20, 4096))
"""


class Heard:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.facts: list[tuple[str, dict[str, Any]]] = []

    def take(self, fact: Fact, time_ns: int) -> None:
        self.facts.append((name_of(fact), values_of(fact)))

    def has(self, name: str, **values: object) -> bool:
        return any(each == name and values.items() <= said.items() for each, said in self.facts)


class Watching:
    """One guarded node and what it says."""

    def __init__(self, node: Node, heard: Heard, manifests: Path) -> None:
        self.node, self.heard, self._manifests = node, heard, manifests
        self.cgroup = CGROUPS / node.settings.node_cgroup
        # Tells the pair to begin.
        self.told = manifests.parent / "told"

    def want(self, name: str, program: str, **resources: dict[str, str]) -> None:
        """A pod of one container, which is not started again; its uid is its name, and so its cgroup's."""
        command = [sys.executable, "-IS", "-c", program]
        container = {"name": "main", "command": command, "resources": resources}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "uid": name},
            "spec": {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": [container]},
        }
        self.write(document)

    def write(self, document: dict[str, Any]) -> None:
        """A manifest, at once or not at all."""
        name = document["metadata"]["name"]
        (self._manifests / f"{name}.new").write_text(json.dumps(document))
        (self._manifests / f"{name}.new").rename(self._manifests / f"{name}.json")

    async def until(self, is_true: Callable[[], object], what: str, seconds: float = 200) -> None:
        deadline = time.monotonic() + seconds
        while not is_true():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {what} within {seconds} s: {self.heard.facts}")
            # Every 20 ms the looks alone took a quarter of the whole run.
            await asyncio.sleep(0.2)

    def running(self) -> dict[str, dict[str, int]]:
        """By pod's cgroup, below the node's: its processes, each with its oom_score_adj."""
        found = {}
        for place in sorted(self.cgroup.rglob("container-main")):
            pids = (place / "cgroup.procs").read_text().split()
            scores = {pid: read_number(Path("/proc", pid, "oom_score_adj")) for pid in pids}
            alive = {pid: score for pid, score in scores.items() if score is not None}
            found[str(place.parent.relative_to(self.cgroup))] = alive
        return found


@asynccontextmanager
async def guarded(
    name: str, policy: Policy, memory: int | None = None, *, endpoint: str = "", ends: bool = True
) -> AsyncIterator[Watching]:
    """A node of its own, which ends with its pods, unless told otherwise, and reports what is left of it."""
    directory = Path("/tmp") / name
    manifests = directory / "manifests"
    manifests.mkdir(parents=True, exist_ok=True)
    heard = Heard()
    settings = NodeSettings(
        name,
        directory,
        directory / "files",
        node_memory=memory,
        policy=policy,
        manifests=(manifests,),
        cri_endpoint=endpoint,
    )
    node = await Node(settings, heard, owns_process=True).open()
    running = asyncio.create_task(node.run())
    try:
        yield Watching(node, heard, manifests)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if ends:
            await node.stop_pods()
        await node.close()
        left = [str(path) for path in (CGROUPS / "jettison").rglob("*") if path.is_dir()]
        report(**{f"{name}_facts": heard.facts, f"{name}_left": left})


def policy_of(threshold: int, **more: object) -> Policy:
    hard = {"memory.available": str(threshold)}
    return Policy.of({"evictionHard": hard, **more})


def kernel_kills() -> int:
    return counters(Path("/proc/vmstat"))["oom_kill"]


async def whole_machine(mounts: CgroupMounts) -> None:
    """The memory scenario, with the root of all cgroups as what is measured."""
    memory = UsageReader(mounts).memory(ROOT)
    assert memory is not None
    # Some 60 MiB of these are for the agent, the interpreters and what the calm pods hold, the rest is for the leak.
    threshold = Machine().memory().total - memory.working_set - 110 * MIB
    killed = kernel_kills()
    async with guarded("whole", policy_of(threshold, singleProcessOOMKill=True)) as watching:
        amounts = {"memory": "32Mi", "cpu": "500m"}
        watching.want("calm", HOLD.format(mib=10), requests=amounts, limits=amounts)
        watching.want("busy", HOLD.format(mib=20), requests={"memory": "16Mi"})
        want_pair(watching)
        watching.want("leak", LEAK)
        await watching.until(lambda: sorted(map(len, watching.running().values())) == [1, 1, 1, 2], "pods")
        own = Path("/proc/self")
        report(
            whole_threshold=threshold,
            whole_before=watching.running(),
            agent=[(own / "cgroup").read_text().strip(), int((own / "oom_score_adj").read_text())],
        )
        await watching.until(lambda: watching.heard.has("pod_cleaned_up", pod="default/leak"), "eviction")
        phases = {status.pod.name: [status.phase, status.reason] for status in watching.node.runtime.statuses()}
        report(whole_after=watching.running(), whole_phases=phases, whole_kernel_kills=kernel_kills() - killed)
        await pair(watching, "apart", 1)


async def part_of_it() -> None:
    """A node of 128 MiB: two containers are killed at their own limit, another one stalls at its own."""
    killed = kernel_kills()
    async with guarded("part", policy_of(16 * MIB), 128 * MIB) as watching:
        watching.want("calm", HOLD.format(mib=10))
        want_pair(watching)
        watching.want("capped", HOLD.format(mib=64), limits={"memory": "24Mi"})
        await watching.until(lambda: watching.heard.has("out_of_memory_kill"), "kill by the kernel")
        await watching.until(lambda: watching.heard.has("container_finished"), "end of the container")
        report(part_kernel_kills=kernel_kills() - killed)
        await pair(watching, "together", 0)
        fired: list[bool] = []
        trigger = PressureFile(watching.cgroup / "memory.pressure").arm(50_000, 500_000)
        asyncio.get_running_loop().add_reader(trigger.fileno(), lambda: fired.append(trigger.consume()))
        await asyncio.sleep(0.8)
        report(trigger=[trigger.stall_us, trigger.window_us], is_silent_when_calm=not fired)
        watching.want("thrash", THRASH, limits={"memory": "24Mi"})
        await watching.until(lambda: fired and watching.heard.has("alarm_raised", source="psi"), "stall")
        asyncio.get_running_loop().remove_reader(trigger.fileno())
        trigger.close()
        statuses = {each.pod.name: each for each in watching.node.runtime.statuses()}
        capped = statuses["capped"]
        socket = watching.node.settings.node_state / SOCKET_NAME
        summary = await asyncio.to_thread(fetch, socket, "/stats/summary", timeout=60)
        report(
            part_summary=json.loads(summary.body),
            part_limits=[(watching.cgroup / name / "memory.max").read_text().strip() for name in ("", "kubepods")],
            part_phases={name: each.phase for name, each in statuses.items()},
            capped=[[each.state, each.reason, each.exit_code] for each in capped.containers],
        )


def want_pair(watching: Watching) -> None:
    """With the other pods, because a look at manifests of its own takes a second here; `pair` tells it to begin."""
    program = PAIR.replace("{told}", str(watching.told))
    watching.want("pair", program, limits={"memory": "24Mi"})


async def pair(watching: Watching, name: str, left: int) -> None:
    """Two processes in a container, one of which hits the container's limit; so many are to be left."""
    place = next(place for place in watching.running() if place.endswith("podpair"))
    watching.told.touch()
    await watching.until(lambda: watching.heard.has("out_of_memory_kill", pod="default/pair"), "kill by the kernel")

    def count() -> int:
        return len(watching.running().get(place, ()))

    # Dying takes seconds on a busy machine. One more that is killed along has been, and told, a second later.
    await watching.until(lambda: count() <= left, "end of what was killed")
    await asyncio.sleep(1)
    (status,) = (each for each in watching.node.runtime.statuses() if each.pod.name == "pair")
    told = [values for event, values in watching.heard.facts if event == "out_of_memory_kill"]
    kills = sum(values["kills"] for values in told if values["pod"] == "default/pair")
    containers = [[each.state, each.reason] for each in status.containers]
    report(**{name: [containers, kills, count()]})


async def main() -> None:
    mounts = discover()
    report(version=None if mounts.version is None else mounts.version.value)
    guest_kernel.readers(mounts)
    await guest_kernel.polling(mounts, policy_of(16 * MIB), 16 * MIB)
    await whole_machine(mounts)
    await part_of_it()
    guest_kernel.killing(mounts)


if __name__ == "__main__":
    guest_probe.system()
    guest_probe.imports()
    asyncio.run(main())
    sys.exit(7)
