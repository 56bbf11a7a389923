"""How long a pod gets, and what its status says afterwards (spec §9.2 to §9.5, §16 example 50)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.node.evictions import (
    HARD_GRACE,
    Eviction,
    PodCondition,
    effective_grace,
    kill_wait,
    runtime_grace,
    soft_grace,
)
from tests.builders import pod


@pytest.mark.parametrize(
    ("maximum", "own", "override", "effective", "runtime", "wait"),
    [
        (0, 30, 0, 1, 2, 10),
        (60, 30, 30, 30, 30, 45),
        (20, 300, 20, 20, 20, 30),
        (60, None, 60, 60, 60, 90),
        (-1, 30, -1, 1, 2, 10),
        (None, 30, HARD_GRACE, 1, 2, 10),
        (None, None, HARD_GRACE, 1, 2, 10),
    ],
)
def test_from_the_operators_maximum_to_the_runtimes_timeout(
    maximum: int | None, own: int | None, override: int, effective: int, runtime: int, wait: int
) -> None:
    """The table of §9.2; without a maximum it is a hard eviction."""
    found = replace(pod(), grace_seconds=own)
    wanted = HARD_GRACE if maximum is None else soft_grace(found, maximum)
    assert wanted == override
    assert effective_grace(override=wanted, pod_grace=own) == effective
    assert runtime_grace(effective) == runtime
    assert kill_wait(wanted, own) == wait


@pytest.mark.parametrize(
    ("override", "own", "deletion", "in_force", "effective"),
    [
        (None, 30, None, 0, 30),
        (None, None, None, 0, 1),
        (None, 30, 5, 0, 5),
        (10, 30, 5, 0, 5),
        (3, 30, 5, 0, 3),
        (60, 30, None, 20, 20),
        (5, 30, None, 20, 5),
        (0, 30, None, 0, 1),
        (None, 0, None, 0, 1),
    ],
)
def test_a_grace_period_only_shrinks(
    override: int | None, own: int | None, deletion: int | None, in_force: int, effective: int
) -> None:
    """Deletion and override both count, the pod's own period only where neither does; one second is the least."""
    found = effective_grace(override=override, pod_grace=own, deletion_grace=deletion, in_force=in_force)
    assert found == effective


@pytest.mark.parametrize(
    ("override", "own", "wait"), [(None, None, 10), (None, 30, 45), (1, 30, 10), (7, 30, 10), (8, 30, 12), (-9, 30, 10)]
)
def test_how_long_to_wait_for_a_pod_to_end(override: int | None, own: int | None, wait: int) -> None:
    """Half as long again as it gets, ten seconds at least."""
    assert kill_wait(override, own) == wait


READY = PodCondition("Ready", "False")
TARGET = PodCondition("DisruptionTarget", "True", "TerminationByKubelet", "low", 3)


@pytest.mark.parametrize(
    ("before", "condition", "after"),
    [
        ([READY], TARGET, [READY, TARGET]),
        ([], TARGET, [TARGET]),
        ([PodCondition("DisruptionTarget", "False"), READY], TARGET, [TARGET, READY]),
        ([READY], None, [READY]),
    ],
)
def test_the_conditions_of_an_ended_pod(
    before: list[PodCondition], condition: PodCondition | None, after: list[PodCondition]
) -> None:
    """The new one takes its namesake's place or comes last; an eviction for a limit leaves none."""
    assert Eviction(pod(), "", 1, "", condition=condition).conditions_after(before) == after
