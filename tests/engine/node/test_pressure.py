"""From readings to pressure: grace clocks, conditions, freshness, order (spec §5, §16 examples 17 to 22)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jettison.engine.node.pressure import History, Pressure, assess, in_order, still_starved
from jettison.engine.node.signals import Condition, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold
from tests.builders import GI, MI, SECOND_NS, threshold

MEMORY = Signal.MEMORY_AVAILABLE
ALLOCATABLE = Signal.ALLOCATABLE_MEMORY_AVAILABLE
NODEFS = Signal.NODEFS_AVAILABLE
PID = Signal.PID_AVAILABLE
MEMORY_PRESSURE = frozenset({Condition.MEMORY_PRESSURE})
SOFT = threshold(MEMORY, "1Gi", grace_s=30, reclaim="512Mi")
HARD = threshold(MEMORY, "1Gi")


class Passes:
    """One pass after another over the same thresholds, with what is remembered in between."""

    def __init__(self, *thresholds: Threshold, transition_s: int = 300) -> None:
        self.thresholds = thresholds
        self.transition_ns = transition_s * SECOND_NS
        self.history = History()

    def at(self, at_s: int, time_ns: int | None = None, **available: int) -> Pressure:
        """A pass with these readings, in Mi; `memory=900` is memory.available, the capacity is 8Gi."""
        names = {"memory": MEMORY, "nodefs": NODEFS}
        readings = {names[name]: Reading(amount * MI, 8 * GI, time_ns) for name, amount in available.items()}
        pressure = assess(self.thresholds, self.history, readings, at_s * SECOND_NS, self.transition_ns)
        self.history = History(
            True,
            pressure.first_observed,
            pressure.met,
            pressure.condition_observed,
            pressure.conditions,
            readings,
        )
        return pressure


def test_a_soft_threshold_from_crossing_to_resolution() -> None:
    """The condition holds at once, the eviction waits 30 s, and minimum reclaim keeps it going until 1536Mi."""
    passes = Passes(SOFT)
    rows: list[tuple[int, int, bool, bool]] = [
        (0, 900, False, True),
        (29, 900, False, True),
        (30, 900, True, True),
        (40, 1200, True, True),
        (50, 1600, False, True),
        (60, 1200, False, True),
        (339, 1200, False, True),
        (340, 1200, False, False),
    ]
    for at_s, memory, is_starved, is_reported in rows:
        pressure = passes.at(at_s, memory=memory)
        assert bool(pressure.starved) is is_starved, at_s
        assert bool(pressure.conditions) is is_reported, at_s


def test_a_recovery_starts_the_grace_clock_anew() -> None:
    """Below at 0, above at 20, below at 25: the earliest eviction is at 55."""
    passes = Passes(SOFT)
    for at_s, memory, is_met in [
        (0, 900, False),
        (20, 2000, False),
        (25, 900, False),
        (54, 900, False),
        (55, 900, True),
    ]:
        assert bool(passes.at(at_s, memory=memory).met) is is_met, at_s


def test_the_same_measurement_does_not_evict_twice() -> None:
    """The threshold stays met and the condition reported, but nothing is starved until a newer reading."""
    passes = Passes(HARD)
    assert passes.at(0, 100, memory=900).starved == (HARD,)
    again = passes.at(10, 100, memory=900)
    assert (again.met, again.starved, again.conditions) == ((HARD,), (), MEMORY_PRESSURE)
    assert passes.at(20, 99, memory=900).starved == ()
    assert passes.at(30, 101, memory=900).starved == (HARD,)


def test_a_reading_without_a_time_counts_as_new_every_time() -> None:
    """Some sources have no times; they must not be ignored for it."""
    passes = Passes(HARD)
    assert all(passes.at(at_s, None, memory=900).starved == (HARD,) for at_s in (0, 10, 20))
    assert passes.at(30, 5, memory=900).starved == (HARD,)


@pytest.mark.parametrize(("transition_s", "reported"), [(300, MEMORY_PRESSURE), (0, frozenset()), (-5, frozenset())])
def test_a_transition_period_of_nothing_hides_conditions(transition_s: int, reported: frozenset[Condition]) -> None:
    """Pods are evicted all the same."""
    pressure = Passes(HARD, transition_s=transition_s).at(0, memory=900)
    assert (pressure.conditions, pressure.starved) == (reported, (HARD,))


def test_a_threshold_without_a_reading_does_nothing() -> None:
    """It neither triggers nor blocks, and its clock stops."""
    passes = Passes(SOFT, threshold(NODEFS, "1Gi"))
    passes.at(0, memory=900)
    pressure = passes.at(100, nodefs=500)
    assert [each.signal for each in pressure.met] == [NODEFS]
    assert passes.at(101, memory=900).met == ()


def test_minimum_reclaim_counts_only_once_met() -> None:
    """Between threshold and target nothing happens to a threshold that was not met before."""
    passes = Passes(threshold(MEMORY, "1Gi", reclaim="512Mi"))
    assert passes.at(0, memory=1200).met == ()
    assert passes.at(10, memory=1000).met != ()
    assert passes.at(20, memory=1200).met != ()
    assert passes.at(30, memory=1536).met == ()
    assert passes.at(40, memory=1200).met == ()


def test_an_unresolved_threshold_is_not_listed_twice() -> None:
    """Below the threshold itself it is both crossed and unresolved."""
    passes = Passes(threshold(MEMORY, "1Gi", reclaim="512Mi"))
    passes.at(0, memory=900)
    assert len(passes.at(10, memory=900).met) == 1


@pytest.mark.parametrize(
    ("hard_before_soft", "expected"),
    [
        (False, ["memory hard", "allocatable hard", "memory soft", "nodefs hard", "pid hard"]),
        (True, ["memory hard", "allocatable hard", "nodefs hard", "pid hard", "memory soft"]),
    ],
)
def test_memory_is_served_first(hard_before_soft: bool, expected: list[str]) -> None:
    """Always the same order, one that upstream's sort can produce; with the switch hard ones go first."""
    named = {
        "nodefs hard": threshold(NODEFS, "10%"),
        "memory soft": threshold(MEMORY, "2Gi", grace_s=30),
        "pid hard": threshold(PID, "5%"),
        "allocatable hard": threshold(ALLOCATABLE, "1Gi"),
        "memory hard": threshold(MEMORY, "1Gi"),
    }
    names = {each: name for name, each in named.items()}
    forwards = in_order(named.values(), hard_before_soft=hard_before_soft)
    assert [names[each] for each in forwards] == expected
    assert in_order(reversed(named.values()), hard_before_soft=hard_before_soft) == forwards


@pytest.mark.parametrize(
    ("available", "starved"),
    [
        ({"memory": 500, "nodefs": 8000}, [SOFT]),
        ({"memory": 1400, "nodefs": 8000}, [SOFT]),
        ({"memory": 1600, "nodefs": 8000}, []),
        ({"memory": 1600, "nodefs": 900}, [threshold(NODEFS, "1Gi")]),
    ],
)
def test_after_a_reclaim_everything_is_looked_at_with_its_margin(
    available: dict[str, int], starved: Sequence[Threshold]
) -> None:
    """Soft thresholds whatever their grace, and the minimum reclaim of thresholds that were never met."""
    names = {"memory": MEMORY, "nodefs": NODEFS}
    readings = {names[name]: Reading(amount * MI, 8 * GI, None) for name, amount in available.items()}
    assert still_starved([SOFT, threshold(NODEFS, "1Gi")], readings) == starved
