"""What guarding costs a node on which nothing happens: 110 idle pods, the memory and the processor time of the agent.

Memory is resident size with shared libraries, and what processes that the agent has started for itself have beyond
that, against a bare interpreter with asyncio in the same run. Processor time
is that of all threads, over half a minute that begins when everything has settled: two of the agent's own rounds, three
of its disk's, thirty looks for changed manifests.

Then what it is made to read costs, beside all of that: a manifest file as large as may be, in memory that stays, and
the largest pod that an API can send, in the longest turn of the event loop and in memory at once. To read a manifest
takes a child; how long its start holds up the loop stands beside the same of a fork. The start of a pod is measured in
the longest round of the loop, beside one by forks of the agent, and with the memory of the process that forks in its
place, which is there while something is started and half a minute longer.

Then the worst manifest, 32 containers that do everything together (`harness/crowded_pod.py`): processor time of the
busiest round of the loop in each phase of its life, and the longest round while the disk with its records is busy. The
best of several tries counts; what the machine adds to rounds that are all alike stands below.

With `--containers` the pods run in containers of a containerd of the benchmark's own; 110 of them take 1.6 GB of other
programs' memory. The manifests are left out then.

The bars: 30 MB, with containers 36 MB, and 0.5 % of a core; 1 MB, 1 ms, 1 MB, 1 ms and 1 ms; 1 ms for each phase.
"""

from __future__ import annotations

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the node is that of the live tests

import jettison
from benchmarks.harness import crowded_pod, largest_pod, longest_gap
from benchmarks.harness.nodes import running
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.linux.processes import read_processes
from tests.live import containerd
from tests.live.node import LiveNode, pod

PODS = 110
RSS_BAR_MB, BOXED_BAR_MB, CPU_BAR_PERCENT = 30.0, 36.0, 0.5
MANIFEST_BAR_MB, TURN_BAR_MS = 1.0, 1.0
# Watched for a minute, because some of the work comes once a minute.
SETTLE, WATCH = 15.0, 60.0
# Seconds for all pods to start; 20 are enough on a busy machine with two cores.
PATIENCE = 120.0
_PRIVATE = ("Private_Clean", "Private_Dirty")
BASELINE = "import asyncio, sys; print(flush=True); sys.stdin.read()"


def main() -> int:
    """Print both; exit 1 when a bar is not met."""
    parser = argparse.ArgumentParser(description="memory and processor time of an agent with idle pods")
    parser.add_argument("--pods", type=int, default=PODS, help="[110]")
    parser.add_argument("--seconds", type=float, default=WATCH, help="for which processor time is counted [60]")
    parser.add_argument("--containers", action="store_true", help="on containerd, instead of as processes")
    options = parser.parse_args()
    if discover().holding("memory") is None or os.geteuid() != 0:
        print("footprint: skipped, needs root and the memory controller")
        return 0
    # An installed package comes with bytecode; without it 1 MB of what is measured were a compiler's leftovers.
    compileall.compile_dir(Path(jettison.__file__).parent, quiet=1)
    baseline_mb = bare_interpreter_mb()
    if options.containers:
        return in_containers(options.pods, options.seconds, baseline_mb)
    with tempfile.TemporaryDirectory() as directory:
        node = LiveNode(Path(directory), starts_quickly=False)
        node.write(*(pod(f"idle-{number}", ["sleep", "3600"], memory="1Mi") for number in range(options.pods)))
        with running(node):
            measured_mb, cpu_percent = watch(node, options.pods, options.seconds)
            file_mb, starter_mb = largest_file(node)
    print(f"footprint: {options.pods} idle pods, a bare interpreter with asyncio has {baseline_mb:.1f} MB")
    is_small = row(
        "resident memory", measured_mb, "MB", RSS_BAR_MB, f"{measured_mb / baseline_mb:.2f} times the bare one"
    )
    is_quiet = row("processor time", cpu_percent, "%", CPU_BAR_PERCENT, f"of a core, over {options.seconds:.0f} s")
    each_mb = (measured_mb - baseline_mb) / max(1, options.pods)
    is_bounded = row("a full manifest", file_mb, "MB", MANIFEST_BAR_MB, f"{file_mb / each_mb:.1f} times an idle pod")
    text = largest_pod.line()
    whole, sliced = largest_pod.at_once(text), largest_pod.in_slices(text)
    ratios = [f"{ours / theirs:.4f} of decoding it at once" for ours, theirs in zip(sliced, whole, strict=True)]
    is_bounded &= row("largest API pod", sliced.milliseconds, "ms", TURN_BAR_MS, ratios[0])
    is_bounded &= row("largest API pod", sliced.megabytes, "MB", MANIFEST_BAR_MB, ratios[1])
    gaps = longest_gap.measure()
    remark = f"{gaps.nothing:.2f} without a child, {gaps.fork:.2f} with a fork"
    is_bounded &= row("a manifest read", gaps.reading, "ms", TURN_BAR_MS, remark)
    ratio, middle = gaps.start / gaps.forked_start, gaps.middle_start / gaps.middle_forked_start
    remark = (
        f"{ratio:.2f} of {gaps.forked_start:.1f} by forks; in the middle {gaps.middle_start:.2f}, {middle:.2f} of it"
    )
    is_bounded &= row("a pod's start", gaps.start, "ms", TURN_BAR_MS, remark)
    crowd, of_it = gaps.middle_crowd, gaps.middle_crowd / gaps.middle_forked_crowd
    print(f"  with 32 containers {gaps.crowd:.2f} ms, in the middle {crowd:.2f}, {of_it:.2f} of what it is by forks")
    print(f"  meanwhile the process that starts containers has {starter_mb:.1f} MB of its own")
    is_bounded &= worst_manifest()
    return 0 if is_small and is_quiet and is_bounded else 1


def worst_manifest() -> bool:
    """The rows of the worst manifest; True when the bar is met in each phase."""
    is_met, measured = True, crowded_pod.measure()
    for phase, held in measured.phases.items():
        ratio = held.crowd[0] / held.at_once[0]
        remark = f"{ratio:.2f} of all at once; of one {held.one[0]:.2f}; in the middle {held.crowd[1]:.2f}"
        is_met &= row(f"32 x {phase}", held.crowd[0], "ms", TURN_BAR_MS, remark)
    best, middle = measured.machine
    print(f"  to the busiest of 500 equal rounds this machine adds {best:.2f} ms, in the middle {middle:.2f}")
    for phase, held in crowded_pod.measure(is_disk_busy=True).phases.items():
        told = [f"{best:.1f} ms, in the middle {middle:.1f}" for best, middle in (held.crowd, held.at_once)]
        print(f"  on a busy disk, {phase}: {told[0]}; at once {told[1]}")
    return is_met


def in_containers(pods: int, seconds: float, baseline_mb: float) -> int:
    """The same of an agent whose pods are containers."""
    with tempfile.TemporaryDirectory() as directory, containerd.running(Path(directory)) as runtime:
        home = Path(directory, "node")
        home.mkdir()
        node = LiveNode(home, ["--cri-endpoint", runtime.endpoint], starts_quickly=False)
        box = {"image": containerd.IMAGE}
        idle = (pod(f"idle-{number}", ["/bin/sleep", "3600"], memory="1Mi", container=box) for number in range(pods))
        node.write(*idle)
        with running(node):
            measured_mb, cpu_percent = watch(node, pods, seconds)
    print(f"footprint: {pods} idle pods in containers, a bare interpreter with asyncio has {baseline_mb:.1f} MB")
    ratio = f"{measured_mb / baseline_mb:.2f} times the bare one"
    is_small = row("resident memory", measured_mb, "MB", BOXED_BAR_MB, ratio)
    is_quiet = row("processor time", cpu_percent, "%", CPU_BAR_PERCENT, f"of a core, over {seconds:.0f} s")
    return 0 if is_small and is_quiet else 1


def largest_file(node: LiveNode) -> tuple[float, float]:
    """Megabytes by which the agent grows when it runs the pod of a file that is nearly as large as may be; and those of
    the process that has started it.

    It takes the place of an idle pod: a node has 110 at most.
    """
    assert node.process is not None
    (node.manifests / "idle-0.json").unlink()
    node.wait(
        lambda: "idle-0" not in {each["document"]["metadata"]["name"] for each in node.records()}, "room", PATIENCE
    )
    before = rss_mb(node.process.pid)
    variables = [{"name": f"V{number}", "value": f"{number} " + "x" * 130} for number in range(340)]
    container = {"name": "other", "command": ["sleep", "3600"], "env": variables}
    node.write(
        pod(
            "full", ["sleep", "3600"], container={"env": variables}, initContainers=[{**container, "command": ["true"]}]
        )
    )
    node.wait(lambda: node.pids("full"), "the pod of the full file", PATIENCE)
    time.sleep(SETTLE)
    return max(0.0, rss_mb(node.process.pid) - before), helpers_mb(node.process.pid)


def watch(node: LiveNode, pods: int, seconds: float) -> tuple[float, float]:
    """Megabytes and percent of a core, once all pods run and the agent has settled."""
    node.wait(lambda: node.log.exists() and len(node.facts("container_started")) == pods, "all pods to run", PATIENCE)
    time.sleep(SETTLE)
    assert node.process is not None
    pid = node.process.pid
    began, used_before = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    used, elapsed = cpu_seconds(pid) - used_before, time.monotonic() - began
    return rss_mb(pid) + helpers_mb(pid), 100 * used / elapsed


def bare_interpreter_mb() -> float:
    """What every program that uses asyncio loads."""
    command = [sys.executable, "-c", BASELINE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = rss_mb(process.pid)
        process.communicate()
    return found


def rss_mb(pid: int) -> float:
    """Megabytes, of a million bytes each."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def helpers_mb(pid: int) -> float:
    """What the processes that the agent has started for itself have alone. They stay in its session; pods do not."""
    own = [each for each in read_processes() if each.parent == pid and each.session == os.getsid(pid)]
    texts = [Path(f"/proc/{each.pid}/smaps_rollup").read_text() for each in own if not each.is_zombie]
    private = [int(text.partition(f"\n{name}:")[2].split()[0]) for text in texts for name in _PRIVATE]
    return sum(private) * 1024 / 1e6


def cpu_seconds(pid: int) -> float:
    """Of all threads, to the nanosecond; the clock ticks of /proc/PID/stat are 10 ms."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def row(name: str, measured: float, unit: str, bar: float, remark: str) -> bool:
    """One line; True when the bar is met."""
    is_met = measured <= bar
    print(f"{name:16}{measured:>8.2f} {unit:3} bar {bar:>5.1f} {unit:3} {'met' if is_met else 'MISSED':7} {remark}")
    return is_met


if __name__ == "__main__":
    sys.exit(main())
