"""How soon a pod that grows at 200 MiB/s is stopped once the node has too little memory left, and how far it got.

One node of 512Mi with `memory.available<384Mi` and some idle neighbours, guarded by `jettison up` in a process of its
own. Again and again a pod grows past the line. It notes for itself, every 64 KiB, how much the node uses by the counter
that thresholds are about, and when SIGTERM reached it: so the time to the signal includes its delivery, and does
not rely on what the guarding program reports. The baseline takes turns with it: the same process in a cgroup of the
same kind, a look every 100 ms, SIGKILL. Where earlyoom or nohang are installed they take part, by the machine's
MemAvailable.

With `--containers` all pods run in containers of a containerd of the benchmark's own; it is not asked for anything
between the crossing and the death.

The bars hold where the kernel has threshold events, which is cgroup version 1: in the middle at most 5 ms from the
crossing to the signal, and at most 2 MiB beyond the line; with containers at most 8 ms to the signal and 60 ms to the
death.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the node is that of the live tests

from benchmarks.harness.nodes import running
from benchmarks.harness.peers import Peer, installed_peers
from benchmarks.harness.poller import polling
from benchmarks.harness.trial import MI, Grower, Reaction, TrialFailed, trial
from jettison.runtimes.linux.cgroups.limits import CgroupV1, CgroupV2
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, discover
from jettison.runtimes.linux.cgroups.usage import UsageReader
from tests.live import containerd
from tests.live.node import LiveNode, pod

RATE_MIB = 200
NODE_MIB, AVAILABLE_MIB = 512, 384
# Less than the difference by what the neighbours have, so that all processes die at about the same size.
HEADROOM_MIB = 120
MOST_MIB = 300
# Processor time enough to grow as fast as it should, and to take notice of a signal, on a busy machine too.
REQUESTS = {"memory": "1Mi", "cpu": "500m"}
MOST_PEER_RUNS = 10
SIGNAL_BAR_MS, OVERSHOOT_BAR_MIB = 5.0, 2.0
BOXED_SIGNAL_BAR_MS, BOXED_DEATH_BAR_MS = 8.0, 60.0
# Where a container sees the counters of the node.
COUNTERS = "/counters"
# Seconds for each thing that is waited for; and between readiness and growth, for the alarms to be set.
PATIENCE, SETTLE = 20.0, 0.3

OURS, BASELINE = "jettison", "poller, 100 ms, SIGKILL"
Contestants = Mapping[str, Callable[[], Reaction]]


def main() -> int:
    """Print the table; exit 1 when a bar is not met."""
    parser = argparse.ArgumentParser(description="time from crossing a threshold to signal and death")
    parser.add_argument("--runs", type=int, default=30, help="of each; of peers at most 10 [30]")
    parser.add_argument("--neighbours", type=int, default=5, help="idle pods beside the growing one [5]")
    parser.add_argument("--containers", action="store_true", help="pods on containerd, instead of processes")
    options = parser.parse_args()
    mounts = discover()
    memory = mounts.holding("memory")
    if memory is None or os.geteuid() != 0:
        print("reaction: skipped, needs root and the memory controller")
        return 0
    version, words = ("v2", CgroupV2) if memory.is_unified else ("v1", CgroupV1)
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        scratch = Path(name)
        grower = Grower.build(scratch, RATE_MIB, is_static=options.containers)
        print(f"reaction: {options.runs} runs at {RATE_MIB} MiB/s (grower in {grower.language}), cgroup {version}")
        with (
            guarded(mounts, options.neighbours, in_containers=options.containers) as node,
            polling(mounts, words.MEMORY_USAGE) as poller,
        ):
            usage = memory.mount_point / node.cgroup / words.MEMORY_USAGE
            contestants: Contestants = {
                OURS: lambda: node.run(grower, scratch, usage),
                BASELINE: lambda: poller.run(grower, scratch, HEADROOM_MIB, MOST_MIB),
            }
            results = compete(contestants, options.runs)
        peers: Contestants = dict(peer_contestants(grower, scratch))
        results |= compete(peers, min(options.runs, MOST_PEER_RUNS))
    return report(results, has_bars=not memory.is_unified, in_containers=options.containers)


class GuardedNode:
    """`jettison up`, and one growing pod after another."""

    def __init__(self, node: LiveNode, reader: UsageReader, *, in_containers: bool) -> None:
        self._in_containers = in_containers
        self.cgroup = f"jettison/{node.name}"
        self._node = node
        self._reader = reader
        self._count = 0

    def run(self, grower: Grower, scratch: Path, usage: Path) -> Reaction:
        """A new pod each time; it is gone afterwards."""
        self._count += 1
        name = f"grower-{self._count}"
        with trial(grower, scratch, usage, MOST_MIB) as each:
            self._node.write(self._pod(name, each.arguments, scratch, usage))
            try:
                each.await_start(PATIENCE)
                time.sleep(SETTLE)
                memory = self._reader.memory(self.cgroup)
                assert memory is not None
                each.go()
                line = (NODE_MIB - AVAILABLE_MIB) * MI + (memory.inactive_file or 0)
                return each.reaction(line, each.await_death(PATIENCE))
            finally:
                (self._node.manifests / f"{name}.json").unlink()
                self._node.wait(lambda: not self._is_known(name), f"{name} to be forgotten", PATIENCE)

    def _pod(self, name: str, arguments: Sequence[str], scratch: Path, usage: Path) -> dict[str, Any]:
        """A container has the files of the trial at their own path, but not the counter: its /sys is read-only."""
        if not self._in_containers:
            return pod(name, arguments, container={"resources": {"requests": REQUESTS}}, hostIPC=True)
        places = {"trial": (scratch, str(scratch)), "counters": (usage.parent, COUNTERS)}
        mounts = [{"name": volume, "mountPath": path} for volume, (_, path) in places.items()]
        volumes = [{"name": volume, "hostPath": {"path": str(path)}} for volume, (path, _) in places.items()]
        words = [f"{COUNTERS}/{usage.name}" if word == str(usage) else word for word in arguments]
        box = {"image": containerd.IMAGE, "resources": {"requests": REQUESTS}, "volumeMounts": mounts}
        return pod(name, words, container=box, volumes=volumes)

    def _is_known(self, name: str) -> bool:
        return any(record["document"]["metadata"]["name"] == name for record in self._node.records())


@contextmanager
def guarded(mounts: CgroupMounts, neighbours: int, *, in_containers: bool = False) -> Iterator[GuardedNode]:
    """Ready, with all neighbours running; nothing is left of it afterwards."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        flags = ["--node-memory", f"{NODE_MIB}Mi", "--eviction-hard", f"memory.available<{AVAILABLE_MIB}Mi"]
        box = {}
        if in_containers:
            runtime = stack.enter_context(containerd.running(home / "c"))
            flags += ["--cri-endpoint", runtime.endpoint]
            box = {"image": containerd.IMAGE}
        (home / "n").mkdir()
        node = LiveNode(home / "n", flags, starts_quickly=False)
        names = [f"idle-{number}" for number in range(neighbours)]
        node.write(*(pod(name, ["/bin/sleep", "3600"], memory="1Mi", container=box) for name in names))
        reader = UsageReader(mounts)
        with running(node), closing(reader):
            node.wait(lambda: all(map(node.pids, names)), "the neighbours", PATIENCE + neighbours)
            yield GuardedNode(node, reader, in_containers=in_containers)


def peer_contestants(grower: Grower, scratch: Path) -> Iterator[tuple[str, Callable[[], Reaction]]]:
    """The installed ones; of the others it is said why they do not take part."""
    for peer in installed_peers():
        if isinstance(peer, Peer):
            yield peer.name, partial(peer.run, grower, scratch)
        else:
            print(f"  {peer}")


def compete(contestants: Contestants, runs: int) -> dict[str, list[Reaction]]:
    """In turn, so that what else goes on on the machine hits all of them alike."""
    results: dict[str, list[Reaction]] = {name: [] for name in contestants}
    for _ in range(runs):
        for name, run in contestants.items():
            try:
                results[name].append(run())
            except TrialFailed as failure:
                print(f"  {name}: {failure}")
    return results


def report(results: Mapping[str, Sequence[Reaction]], *, has_bars: bool, in_containers: bool) -> int:
    """The table and the exit code. Ratios are of medians, against the poller."""
    print(f"{'':24}{'runs':>5}{'signal, ms':>25}{'death, ms':>25}{'beyond, MiB':>25}")
    print(f"{'':29}" + 3 * f"{'median':>10}{'p99':>8}{'ratio':>7}")
    table = {name: [Column(values) for values in columns(reactions)] for name, reactions in results.items()}
    for name, found in table.items():
        cells = [each.text(base) for each, base in zip(found, table[BASELINE], strict=True)]
        print(f"{name:24}{len(results[name]):>5}" + "".join(cells))
    signal, death, beyond = table[OURS]
    if not has_bars:
        print("no bars: without threshold events memory is polled")
        return 0
    if in_containers:
        is_met = signal.median <= BOXED_SIGNAL_BAR_MS and death.median <= BOXED_DEATH_BAR_MS
        bars = f"{BOXED_SIGNAL_BAR_MS} ms to the signal, {BOXED_DEATH_BAR_MS} ms to the death, in the middle"
    else:
        is_met = signal.median <= SIGNAL_BAR_MS and beyond.median <= OVERSHOOT_BAR_MIB
        bars = f"{SIGNAL_BAR_MS} ms to the signal, {OVERSHOOT_BAR_MIB} MiB beyond the line, in the middle"
    print(f"bars: {bars}: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


def columns(reactions: Sequence[Reaction]) -> list[list[float]]:
    """Signal, death and overshoot of all runs."""
    signals = [each.signal_ms for each in reactions if each.signal_ms is not None]
    return [signals, [each.death_ms for each in reactions], [each.overshoot / MI for each in reactions]]


class Column:
    """What became of one number in all runs; infinite where there is none, so that no bar is met by failing."""

    def __init__(self, values: Sequence[float]) -> None:
        ordered = sorted(values) or [math.inf]
        self.median = statistics.median(ordered)
        self.p99 = ordered[min(round(0.99 * len(ordered)), len(ordered) - 1)]

    def text(self, baseline: Column) -> str:
        """Beside the baseline."""
        return f"{self.median:>10.2f}{self.p99:>8.2f}{self.median / baseline.median:>7.2f}"


if __name__ == "__main__":
    sys.exit(main())
