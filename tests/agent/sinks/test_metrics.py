"""Facts as numbers, in the text that scrapers read."""

from __future__ import annotations

import re

import pytest

from jettison import events
from jettison.agent.http.exposition import Counter, Histogram, exposition
from jettison.agent.sinks.metrics import MOST_COUNTED, Metrics
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.facts import ConditionChanged, PodsRanked, RemovalReason
from jettison.engine.node.signals import Condition, Reclaimable, Signal
from jettison.engine.pods.preemption import preemption_of
from jettison.events import Fact
from tests.builders import pod

EVICTION = Eviction(pod("web"), "low", 1, "memory.available")
PREEMPTION = preemption_of(pod("old"))


def samples(*facts: Fact) -> dict[str, float]:
    metrics = Metrics()
    for fact in facts:
        metrics.take(fact, 0)
    lines = [line for line in metrics.text().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            [events.EvictionStarted(EVICTION, 2_000_000), events.PodEvicted(EVICTION, 1_500_000_000)],
            {
                'kubelet_evictions{eviction_signal="memory.available"}': 1,
                'jettison_decision_latency_seconds_bucket{le="0.0025"}': 1,
                'jettison_decision_latency_seconds_bucket{le="0.001"}': 0,
                "jettison_decision_latency_seconds_sum": 0.002,
                "jettison_kill_latency_seconds_count": 1,
                "jettison_kill_latency_seconds_sum": 1.5,
            },
        ),
        (
            [events.EvictionStarted(EVICTION, 1), events.EvictionTimedOut(EVICTION), events.PodEvicted(EVICTION, 1)],
            {
                'kubelet_evictions{eviction_signal="memory.available"}': 1,
                "jettison_eviction_timeouts_total": 1,
            },
        ),
        (
            [events.EvictionStarted(PREEMPTION, 1), events.PodEvicted(PREEMPTION, 1)],
            {'kubelet_preemptions{preemption_signal=""}': 1},
        ),
        (
            [PodsRanked(Signal.NODEFS_AVAILABLE, 3, {Signal.NODEFS_AVAILABLE: 30_000_000})],
            {
                'kubelet_eviction_stats_age_seconds_bucket{eviction_signal="nodefs.available",le="0.025"}': 0,
                'kubelet_eviction_stats_age_seconds_bucket{eviction_signal="nodefs.available",le="0.05"}': 1,
                'kubelet_eviction_stats_age_seconds_bucket{eviction_signal="nodefs.available",le="+Inf"}': 1,
                'kubelet_eviction_stats_age_seconds_sum{eviction_signal="nodefs.available"}': 0.03,
                'kubelet_eviction_stats_age_seconds_count{eviction_signal="nodefs.available"}': 1,
            },
        ),
        (
            [events.PodRejected(pod(), reason, "") for reason in ("Evicted", "OutOfcpu", "OutOfgpu", "OutOftpu", "My")],
            {
                'kubelet_admission_rejections_total{reason="Evicted"}': 1,
                'kubelet_admission_rejections_total{reason="OutOfcpu"}': 1,
                'kubelet_admission_rejections_total{reason="OutOfExtendedResources"}': 2,
                'kubelet_admission_rejections_total{reason="Other"}': 1,
            },
        ),
        (
            [
                events.ImageRemoved("i", (), 5, why)
                for why in (RemovalReason.SPACE, RemovalReason.AGE, RemovalReason.SPACE)
            ],
            {
                'kubelet_image_garbage_collected_total{reason="space"}': 2,
                'kubelet_image_garbage_collected_total{reason="age"}': 1,
            },
        ),
        (
            [events.ReclaimFinished(3, 2, 4096), events.ReclaimFinished(1, 0, 10)],
            {
                'jettison_reclaimed_total{kind="containers"}': 4,
                'jettison_reclaimed_total{kind="images"}': 2,
                "jettison_reclaimed_bytes_total": 4106,
            },
        ),
        (
            [events.AlarmRaised("memcg"), events.AlarmRaised("memcg"), events.AlarmRaised("\n")],
            {'jettison_alarms_total{source="memcg"}': 2, 'jettison_alarms_total{source="other"}': 1},
        ),
        (
            [events.OutOfMemoryKill(None, "", 2), events.OutOfMemoryKill(pod(), "c", 1)],
            {'jettison_oom_kills_total{scope="node"}': 2, 'jettison_oom_kills_total{scope="pod"}': 1},
        ),
        (
            [
                events.ObservationFailed("x"),
                events.ActionFailed("x", "y"),
                events.KillFailed(pod(), "c", "y"),
                events.CollectionFailed(Reclaimable.CONTAINERS, "y"),
                events.LimitsRefused("kubepods", "y"),
            ],
            {"jettison_observation_failures_total": 1, "jettison_action_failures_total": 4},
        ),
        (
            [ConditionChanged(Condition.DISK_PRESSURE, True)],
            {
                'jettison_node_condition{condition="DiskPressure"}': 1,
                'jettison_node_condition{condition="PIDPressure"}': 0,
            },
        ),
    ],
)
def test_what_is_counted(facts: list[Fact], expected: dict[str, float]) -> None:
    found = samples(*facts)

    assert {name: found.get(name) for name in expected} == expected


def test_conditions_that_an_earlier_agent_left_are_shown() -> None:
    lines = Metrics([Condition.MEMORY_PRESSURE]).text().splitlines()

    assert 'jettison_node_condition{condition="MemoryPressure"} 1' in lines
    assert 'jettison_node_condition{condition="DiskPressure"} 0' in lines


def test_an_eviction_that_stopped_late_counts_once_and_the_next_one_again() -> None:
    started, late, ended = (
        events.EvictionStarted(EVICTION, 1),
        events.EvictionTimedOut(EVICTION),
        events.PodEvicted(EVICTION, 1),
    )
    cleared = events.PodCleanedUp(EVICTION.pod)
    name = 'kubelet_evictions{eviction_signal="memory.available"}'

    assert samples(started, late, ended)[name] == 1
    assert samples(started, late, ended, cleared, started, ended)[name] == 2


def test_a_preemption_that_did_not_stop_in_time_is_none() -> None:
    found = samples(events.EvictionStarted(PREEMPTION, 1), events.EvictionTimedOut(PREEMPTION))

    assert not any(count for name, count in found.items() if name.startswith("kubelet_preemptions"))


def test_before_anything_happened_what_has_no_labels_is_zero() -> None:
    found = samples()

    assert found["jettison_observation_failures_total"] == 0
    assert found['jettison_kill_latency_seconds_bucket{le="+Inf"}'] == 0
    assert 'jettison_node_condition{condition="MemoryPressure"}' in found


def test_a_condition_that_an_earlier_agent_reported_is_shown_from_the_start() -> None:
    text = Metrics([Condition.PID_PRESSURE]).text()

    assert 'jettison_node_condition{condition="PIDPressure"} 1' in text
    assert 'jettison_node_condition{condition="DiskPressure"} 0' in text


def test_pods_that_are_never_cleared_away_do_not_pile_up() -> None:
    metrics = Metrics()
    for number in range(3 * MOST_COUNTED):
        metrics.take(events.PodEvicted(Eviction(pod(f"p{number}"), "", 1, "pid.available"), 1), 0)

    assert len(metrics._counted) <= MOST_COUNTED


def test_another_process_number_is_read_when_it_is_asked_for() -> None:
    metrics, dropped = Metrics(), [0]
    metrics.watch("jettison_log_lines_dropped_total", "Lines.", lambda: dropped[0])
    dropped[0] = 7

    assert metrics.text().endswith("_dropped_total counter\njettison_log_lines_dropped_total 7\n")


def test_every_line_is_one_a_scraper_reads() -> None:
    metrics = Metrics()
    metrics.take(events.EvictionStarted(EVICTION, 12345), 0)
    sample = re.compile(r'[a-z_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? (\+Inf|[0-9.e+-]+)')
    comment = re.compile(r"# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|histogram))")

    lines = metrics.text().splitlines()

    assert lines
    assert [line for line in lines if not sample.fullmatch(line) and not comment.fullmatch(line)] == []
    assert len({line for line in lines if line.startswith("# TYPE")}) == sum(
        line.startswith("# TYPE") for line in lines
    )


def test_label_values_are_escaped() -> None:
    counter = Counter("c", "two\nlines \\", "l")
    counter.add('a"b\\c\nd')

    assert exposition([counter]) == '# HELP c two\\nlines \\\\\n# TYPE c counter\nc{l="a\\"b\\\\c\\nd"} 1\n'


def test_a_bound_belongs_to_its_own_bucket() -> None:
    histogram = Histogram("h", "x", [1, 2.5])
    for amount in (1, 2.5, 2.6):
        histogram.observe(amount)

    assert exposition([histogram]).splitlines()[2:] == [
        'h_bucket{le="1"} 1',
        'h_bucket{le="2.5"} 2',
        'h_bucket{le="+Inf"} 3',
        "h_sum 6.1",
        "h_count 3",
    ]


def test_everything_that_is_counted_is_there_from_the_start() -> None:
    """Or the first eviction would be no increase to an alert that watches for one."""
    found = samples()
    for signal in Signal:
        assert found[f'kubelet_evictions{{eviction_signal="{signal}"}}'] == 0
        assert found[f'kubelet_eviction_stats_age_seconds_count{{eviction_signal="{signal}"}}'] == 0
    for name in (
        'kubelet_evictions{eviction_signal="emptydirfs.limit"}',
        'kubelet_preemptions{preemption_signal="memory"}',
        'kubelet_admission_rejections_total{reason="OutOfmemory"}',
        'kubelet_image_garbage_collected_total{reason="space"}',
        'jettison_alarms_total{source="memcg"}',
        'jettison_oom_kills_total{scope="pod"}',
        'jettison_reclaimed_total{kind="containers"}',
        "jettison_eviction_timeouts_total",
    ):
        assert found[name] == 0, name
