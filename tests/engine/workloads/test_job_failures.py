"""Rules for failed pods, and how long a Job waits after one."""

from __future__ import annotations

import pytest

from jettison.engine.pods.api_pod import ContainerExit
from jettison.engine.workloads.job_failures import COUNTED, BackOff, FailureRule, Ruling, rule_on

SECOND_NS = 10**9
DISRUPTED = (("Ready", "False"), ("DisruptionTarget", "True"))
IGNORE = FailureRule("Ignore", conditions=(("DisruptionTarget", "True"),))


@pytest.mark.parametrize(
    ("rules", "ends", "conditions", "ruling"),
    [
        ([], [("c", 1)], (), COUNTED),
        ([IGNORE], [("c", 137)], DISRUPTED, Ruling(counts=False)),
        ([IGNORE], [("c", 137)], (("DisruptionTarget", "False"),), COUNTED),
        ([FailureRule("Count", codes=(1,)), IGNORE], [("c", 1)], DISRUPTED, COUNTED),
        ([FailureRule("Ignore", codes=(1, 2))], [("a", 0), ("b", 2)], (), Ruling(counts=False)),
        ([FailureRule("Ignore", codes=(1,), takes_listed=False)], [("a", 0)], (), COUNTED),
        ([FailureRule("Ignore", codes=(1,), takes_listed=False)], [("a", 3)], (), Ruling(counts=False)),
        ([FailureRule("Ignore", codes=(1,), container="b")], [("a", 1), ("b", 2)], (), COUNTED),
        ([FailureRule("FailIndex", codes=(1,))], [("a", 1)], (), COUNTED),
        (
            [FailureRule("Whatever", codes=(1,)), FailureRule("Ignore", codes=(1,))],
            [("a", 1)],
            (),
            Ruling(counts=False),
        ),
        (
            [IGNORE, FailureRule("FailJob", codes=(42,))],
            [("main", 42)],
            (),
            Ruling(True, "Container main for pod ns/p failed with exit code 42 matching FailJob rule at index 1"),
        ),
        (
            [FailureRule("FailJob", conditions=(("ConfigIssue", "True"),))],
            [],
            (("ConfigIssue", "True"),),
            Ruling(True, "Pod ns/p has condition ConfigIssue matching FailJob rule at index 0"),
        ),
    ],
)
def test_the_first_rule_that_matches_decides(
    rules: list[FailureRule], ends: list[tuple[str, int]], conditions: tuple[tuple[str, str], ...], ruling: Ruling
) -> None:
    assert rule_on(rules, "ns/p", [ContainerExit(*each) for each in ends], conditions) == ruling


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (8, 600), (10**9, 600)]
)
def test_the_wait_doubles_up_to_ten_minutes(failures: int, seconds: int) -> None:
    back_off = BackOff(failures, 100 * SECOND_NS)
    assert back_off.left_ns(100 * SECOND_NS) == seconds * SECOND_NS
    assert back_off.left_ns((100 + seconds) * SECOND_NS) == 0


def test_a_success_makes_forget_the_failures_before_it() -> None:
    assert BackOff(3, 5).after([], [9, 7]) == BackOff(5, 9)
    assert BackOff(3, 5).after([], []) == BackOff(3, 5)
    assert BackOff(3, 5).after([8], [7]) == BackOff()
    assert BackOff(3, 5).after([8], [7, 9, 10]) == BackOff(2, 10)
