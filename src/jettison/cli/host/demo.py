"""`jettison demo`: a small node under real memory pressure, and the explanation of what it did about it."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from jettison import events
from jettison.agent.amounts import span
from jettison.agent.journal.explanations import explain
from jettison.agent.journal.reading import PodQuery
from jettison.agent.journal.stories import story_of
from jettison.agent.safe_text import printable
from jettison.engine.config.policy import Policy
from jettison.engine.node.facts import ConditionChanged, ThresholdCrossed
from jettison.errors import JettisonError
from jettison.events import Fact
from jettison.node.node import Node
from jettison.node.settings import NodeSettings
from jettison.runtimes.machine.background_tasks import until_one_ends

MI = 2**20
NODE_MEMORY = 512 * MI
LEAK = "leak"
PATIENCE_SECONDS = 90.0
# After the eviction: long enough to see that the other pods keep running.
AFTERMATH_SECONDS = 3.0

# Not that of a virtual environment, which may lie below /tmp: pods have one of their own.
_PYTHON = str(Path(sys.executable).resolve())
# Holds `size` MiB and waits; the leak takes 1 MiB more every 70 ms.
_HOLD = "import time; held = bytearray(b'x') * ({size} << 20); time.sleep(3600)"
_GROW = "import time; held = []\nwhile True: held.append(bytearray(b'x') * (1 << 20)); time.sleep(0.07)"


def pod(name: str, program: str, resources: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod with one container that runs `program`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "command": [_PYTHON, "-c", program], "resources": resources or {}}],
            **spec,
        },
    }


def demo_pods() -> list[tuple[dict[str, Any], str]]:
    """Five pods, and what each of them is there for."""
    guaranteed = {"memory": "64Mi", "cpu": "100m"}
    return [
        (
            pod("critical", _HOLD.format(size=10), priorityClassName="system-node-critical"),
            "critical priority: never evicted",
        ),
        (
            pod("guaranteed", _HOLD.format(size=30), {"requests": guaranteed, "limits": guaranteed}),
            "Guaranteed, within its request of 64Mi",
        ),
        (
            pod("modest", _HOLD.format(size=40), {"requests": {"memory": "100Mi"}}),
            "Burstable, below its request of 100Mi",
        ),
        (
            pod("greedy", _HOLD.format(size=90), {"requests": {"memory": "32Mi"}}),
            "Burstable, far above its request of 32Mi",
        ),
        (pod(LEAK, _GROW), "BestEffort, and it leaks"),
    ]


class Narrator:
    """Says what happens as it happens, in words rather than log lines."""

    def __init__(self) -> None:
        self.evicted = asyncio.Event()
        self.kernel_kills = 0
        self.victim = ""
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """One line with the seconds since the start."""
        click.echo(printable(f"{time.monotonic() - self._began:6.1f} s  {text}"))

    def take(self, fact: Fact, time_ns: int) -> None:  # noqa: ARG002  a Sink
        """Most facts need no words here."""
        match fact:
            case ThresholdCrossed(threshold, reading):
                self.say(
                    f"{threshold.signal} is {reading.available // MI}Mi, below the threshold of {threshold.amount}"
                )
            case ConditionChanged(condition, is_true):
                self.say(f"the node reports {condition}" if is_true else f"{condition} is over")
            case events.EvictionStarted(eviction, int(decided_ns)):
                self.victim = eviction.pod.name
                self.say(f"evicting {eviction.pod.name}, told to end {span(decided_ns)} after the alarm")
            case events.PodEvicted(eviction, took_ns):
                self.say(f"{eviction.pod.name} has ended after {span(took_ns)}")
                self.evicted.set()
            case events.OutOfMemoryKill(_, container, _):
                self.kernel_kills += 1
                self.say(f"the kernel's OOM killer was faster and killed {container}")
            case events.PodRejected(rejected, reason, message):
                self.say(f"{rejected.name} was rejected: {reason}: {message}")
            case events.ActionFailed(what, why):
                self.say(f"could not {what}: {why}")
            case events.AgentStarted(_, lacks):
                for line in lacks:
                    self.say(f"less than it could be: {line}")


@click.command()
def command() -> int:
    """Run a node of 512Mi with five real pods, one of which leaks, and show which pod is evicted and why.

    It takes half a minute, changes nothing else on this machine, and removes everything at the end. It works without
    root, too, with process groups instead of cgroups.
    """
    with tempfile.TemporaryDirectory(prefix="jettison-demo-") as directory:
        return asyncio.run(_demo(Path(directory)))


async def _demo(directory: Path) -> int:
    policy = Policy.of({"evictionHard": {"memory.available": "100Mi"}, "evictionPressureTransitionPeriod": "30s"})
    manifests = directory / "pods"
    manifests.mkdir()
    click.echo("A node of 512Mi, hard threshold memory.available<100Mi, and five pods:\n")
    for number, (manifest, meaning) in enumerate(demo_pods()):
        click.echo(f"  {manifest['metadata']['name']:<11} {meaning}")
        (manifests / f"{number}.json").write_bytes(msgspec.json.encode(manifest))
    click.echo()
    name = f"demo-{os.getpid()}"
    settings = NodeSettings(name, directory, node_memory=NODE_MEMORY, policy=policy, manifests=(manifests,))
    narrator = Narrator()
    async with Node(settings, narrator) as node:
        try:
            verdict = await _watch(node, narrator)
            click.echo()
            story = story_of(settings.node_state / "journal", PodQuery.parse(f"demo/{LEAK}"))
            for line in explain(story) if story is not None else ():
                click.echo(printable(line))
        finally:
            await node.stop_pods()
    click.echo(f"\n{verdict}")
    return 0


async def _watch(node: Node, narrator: Narrator) -> str:
    """Until the leak is gone; then whether all other pods are well."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await until_one_ends(narrator.evicted.wait(), node.wait(), _progress(node, narrator))
    except TimeoutError:
        raise JettisonError(f"no pod was evicted within {PATIENCE_SECONDS:.0f} s") from None
    await asyncio.sleep(AFTERMATH_SECONDS)
    alive = sorted(status.pod.name for status in node.runtime.statuses() if status.phase == "Running")
    if narrator.victim != LEAK or len(alive) != len(demo_pods()) - 1 or narrator.kernel_kills:
        raise JettisonError(
            f"not as it should be: evicted `{narrator.victim}`, alive {', '.join(alive) or 'none'}, "
            f"{narrator.kernel_kills} kills by the kernel"
        )
    return f"{', '.join(alive)} still run, and the kernel's OOM killer killed nothing. The node has been removed."


async def _progress(node: Node, narrator: Narrator) -> None:
    while True:
        await asyncio.sleep(3)
        node.agent.look_soon()
        await asyncio.sleep(0.1)
        snapshot = node.agent.snapshot
        if snapshot is None:
            continue
        leaking = next((each.uid for each in snapshot.pods if each.name == LEAK), "")
        usage, memory = snapshot.usages.get(leaking), snapshot.node.memory
        if usage is not None and memory is not None:
            narrator.say(f"{(memory.available or 0) // MI}Mi available, {LEAK} uses {(usage.working_set or 0) // MI}Mi")
