"""How fast virtual time passes: looks of agents a second on one core, memory over time, and sweeps over cores.

    .venv/bin/python benchmarks/simulate.py            # a minute
    .venv/bin/python benchmarks/simulate.py --soak     # and a storm of 100 nodes for 24 virtual hours, with its rules

A node has 30 pods; every third one's memory is a sawtooth, which bends once in two minutes. A machine that does other
work as well is slower, so the speed is told beside that of a loop that only adds.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))

from jettison.simulator.run import run
from jettison.simulator.scenario import parse_scenario
from jettison.simulator.sweep import jobs_of, run_here
from jettison.simulator.world import SimulatedWorld

if TYPE_CHECKING:
    from tests.simulator.test_worlds import Watch

WANTED = 20_000
CALM = """
duration: {seconds}s
nodes:
  - {{name: n, count: 10, memory: 16Gi, config: {{evictionHard: {{memory.available: 100Mi, nodefs.available: 10%}}}}}}
workloads:
  - {{name: flat, replicas: 200, template: {{requests: {{memory: 64Mi}}, usage: {{memory: 64Mi, disk: 1Mi}}}}}}
  - name: teeth
    replicas: 100
    template: {{requests: {{memory: 64Mi}}, usage: {{memory: {{kind: sawtooth, low: 32Mi, high: 96Mi, period: 2m}}}}}}
"""
STORM = """
duration: 20m
nodes: [{name: n, count: 4, memory: 2Gi, config: {evictionHard: {memory.available: 150Mi}}}]
workloads:
  - {name: w, replicas: 40, template: {usage: {memory: {kind: ramp, from: 50Mi, to: 500Mi, over: 70s, jitter: 0.3}}}}
"""


def adding() -> float:
    """Seconds of processor time for ten million additions: 0.5 on an idle core of 2024."""
    began, total = time.process_time(), 0
    for number in range(10**7):
        total += number
    return time.process_time() - began


def looks_a_second() -> float:
    """Of ten nodes with 30 pods each, once all pods run: the best of 60 stretches of 10 min, some 30 ms each.

    On a machine that does other work most stretches are interrupted, and what interrupts them empties the caches.
    """
    world = SimulatedWorld(parse_scenario(CALM.format(seconds=10**6)))
    world.run(60 * 10**9)
    found = []
    for _ in range(60):
        steps, began = world.steps, time.process_time()
        world.run(world.agenda.now_ns + 600 * 10**9)
        found.append((world.steps - steps) / (time.process_time() - began))
    return max(found)


def memory_over_time() -> tuple[int, int]:
    """Kilobytes at most after an hour of a storm, and after ten."""
    found = []
    for hours in (1, 10):
        run(parse_scenario(STORM.replace("20m", f"{hours}h")))
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return found[0], found[1]


def sweep_seconds(processes: int) -> tuple[float, float]:
    """Of 32 runs: wall-clock time, and the processor time of all processes by their number.

    The second is the first on a machine that does nothing else.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "storm.yaml"
        path.write_text(STORM)
        jobs = jobs_of(path, [], 32, 0)
        began, used = time.monotonic(), processor_seconds()
        run_here(jobs, processes, lambda _: None)
        return time.monotonic() - began, (processor_seconds() - used) / processes


def processor_seconds() -> float:
    """Of this process and those that it has started and waited for."""
    usages = (resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in usages)


def soak(rules: Watch) -> None:
    """A day, hour by hour: each happening is checked when it happens."""
    began = time.process_time()
    for hour in range(1, 25):
        rules.world.run(hour * 3600 * 10**9)
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        said = f"hour {hour}: {rules.seen:,} happenings, {rules.world.steps:,} looks, {kilobytes} kB at most"
        print(f"  {said}, {time.process_time() - began:.0f} s", flush=True)
    print(f"24 h of a storm on 100 nodes: no rule broken in {rules.seen:,} happenings")


def main() -> None:
    """Print all of it."""
    bare = adding()
    speed = looks_a_second()
    print(f"looks a second, 30 pods a node: {speed:,.0f} ({speed / WANTED:.2f} of {WANTED:,})")
    print(f"  ten million additions took {bare:.2f} s here, so an idle core would do about {speed * bare / 0.5:,.0f}")
    first, tenth = memory_over_time()
    print(f"memory after 1 h of a storm: {first} kB; after 10 h: {tenth} kB ({tenth / first:.2f})")
    cores = os.cpu_count() or 1
    (alone, one), (together, each) = sweep_seconds(1), sweep_seconds(cores)
    print(f"32 runs in 1 process: {alone:.1f} s; in {cores}: {together:.1f} s ({alone / together:.2f} times as fast)")
    print(f"  by processor time {one:.1f} and {each:.1f} s: {one / each:.2f} times as fast where nothing else runs")
    if "--soak" in sys.argv:
        from tests.simulator.test_worlds import storm  # noqa: PLC0415  it needs hypothesis

        soak(storm(100))


if __name__ == "__main__":
    main()
