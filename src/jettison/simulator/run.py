"""One run of a scenario, and what came of it in numbers, a story and series for pictures.

All of it is bounded: a story keeps its first lines and counts the rest, a series drops every second point when it is
full. So a day of a hundred nodes takes as much memory as an hour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jettison.engine.node.signals import ROWS, Condition, Signal, readings
from jettison.engine.node.snapshot import Reading
from jettison.simulator.scenario import Scenario
from jettison.simulator.simulated_nodes import SimulatedNode
from jettison.simulator.stories import Happening
from jettison.simulator.world import SimulatedWorld

MOST_LINES = 2_000
MOST_POINTS = 4_000
_SIGNALS = (Signal.MEMORY_AVAILABLE, Signal.NODEFS_AVAILABLE)

COUNTED = {
    "evict": "evictions",
    "oom kill": "oom_kills",
    "reject": "rejections",
    "api evict": "api_evictions",
    "refused": "refusals",
    "reclaim": "reclaims",
    "drained": "drained",
    "drain timed out": "drains_timed_out",
    "eviction timed out": "evictions_timed_out",
}
"""What is counted of a story, and as what."""


class SignalSeries:
    """What was left of one signal of one node at each look, thinned out as it grows."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.available: list[int] = []
        self.capacity = 0
        self._every = 1
        self._count = 0

    def add(self, seconds: float, reading: Reading) -> None:
        """One more look."""
        self.capacity = reading.capacity
        self._count += 1
        if self._count % self._every:
            return
        self.seconds.append(seconds)
        self.available.append(reading.available)
        if len(self.seconds) >= MOST_POINTS:
            self.seconds, self.available = self.seconds[::2], self.available[::2]
            self._every *= 2


@dataclass(slots=True)
class RunResult:
    """What came of one run."""

    scenario: str
    seed: int
    seconds: float
    steps: int = 0
    pods_left: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    condition_changes: int = 0
    # Seconds under each condition, of all nodes together.
    pressure_seconds: float = 0.0
    first_eviction: float | None = None
    # The least that was left, as a share of what there is, of any node.
    least_memory: float = 1.0
    least_disk: float = 1.0
    story: list[Happening] = field(default_factory=list)
    untold: int = 0
    # By node and signal; only where they were asked for.
    series: dict[tuple[str, str], SignalSeries] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Flat, for tables."""
        return {
            "seed": self.seed,
            **{name: self.counts[what] for what, name in COUNTED.items()},
            "condition_changes": self.condition_changes,
            "pressure_seconds": round(self.pressure_seconds, 3),
            "first_eviction_seconds": self.first_eviction,
            "least_memory_share": round(self.least_memory, 6),
            "least_disk_share": round(self.least_disk, 6),
            "pods_left": self.pods_left,
            "steps": self.steps,
        }


class Watcher:
    """Listens to a world and adds up."""

    def __init__(self, result: RunResult, *, keeps_series: bool, also: Callable[[Happening], None] | None) -> None:
        self._result = result
        self._keeps_series = keeps_series
        self._also = also
        self._since: dict[tuple[str, str], float] = {}

    def tell(self, each: Happening) -> None:
        """Something happened."""
        result = self._result
        result.counts[each.what] += 1
        if each.what == "evict" and result.first_eviction is None:
            result.first_eviction = round(each.seconds, 9)
        if each.what == "condition":
            self._count_condition(each)
        if len(result.story) < MOST_LINES:
            result.story.append(each)
        else:
            result.untold += 1
        if self._also is not None:
            self._also(each)

    def _count_condition(self, each: Happening) -> None:
        self._result.condition_changes += 1
        key = (each.node, each.about)
        if each.detail == "True":
            self._since[key] = each.seconds
        elif key in self._since:
            self._result.pressure_seconds += each.seconds - self._since.pop(key)

    def look(self, node: SimulatedNode, seconds: float) -> None:
        """An agent has looked."""
        snapshot = node.agent.snapshot
        if snapshot is None:
            return
        result, stats = self._result, snapshot.node
        if stats.memory is not None and stats.memory.available is not None:
            result.least_memory = min(
                result.least_memory, stats.memory.available / node.runtime.machine_model.size.memory
            )
        if stats.fs is not None and stats.fs.available is not None and stats.fs.capacity:
            result.least_disk = min(result.least_disk, stats.fs.available / stats.fs.capacity)
        if self._keeps_series:
            found = readings(stats)
            for signal in _SIGNALS:
                result.series.setdefault((node.name, signal.value), SignalSeries()).add(seconds, found[signal])

    def close(self, seconds: float) -> None:
        """The run is over: conditions that hold still count up to here."""
        self._result.pressure_seconds += sum(seconds - since for since in self._since.values())
        self._since = {}


def run(
    scenario: Scenario,
    seed: int | None = None,
    *,
    keeps_series: bool = False,
    also: Callable[[Happening], None] | None = None,
) -> RunResult:
    """From the beginning to the end of the scenario. The same seed gives the same result."""
    seconds = scenario.duration_ns / 1e9
    result = RunResult(scenario.name, scenario.seed if seed is None else seed, seconds)
    watcher = Watcher(result, keeps_series=keeps_series, also=also)
    world = SimulatedWorld(scenario, watcher.tell, seed=result.seed)
    for node in world.nodes.values():
        node.looked = lambda each: watcher.look(each, world.agenda.now_ns / 1e9)
    world.run()
    watcher.close(seconds)
    result.steps, result.pods_left = world.steps, len(world.pods)
    return result


def lines_of(scenario: Scenario, node: str, signal: str) -> list[tuple[str, int]]:
    """The thresholds of a node for one signal, as texts and amounts; for pictures."""
    spec = next(each for each in scenario.nodes if each.size.name == node)
    size = spec.size
    capacity = size.memory if ROWS[Signal(signal)].condition is Condition.MEMORY_PRESSURE else size.disk
    return [
        (str(each), each.quantity(capacity).value)
        for each in spec.policy.layouts[size.layout].all
        if each.signal.value == signal and not each.is_inert
    ]
