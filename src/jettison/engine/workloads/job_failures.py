"""What the failure of a Job's pod means: does it count, does it end the Job, and how long is the wait for the next one?

This is where an eviction can be told from a bug: `DisruptionTarget` is on every pod that was evicted, preempted or
drained, and a rule `Ignore` for it lets a Job be moved around without losing its patience.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from jettison.engine.pods.api_pod import ContainerExit
from jettison.values import frozen

FIRST_BACK_OFF_NS: Final = 10 * 10**9
LONGEST_BACK_OFF_NS: Final = 600 * 10**9


class Action(StrEnum):
    """What a rule does. `FailIndex` belongs to back-off limits per index, which are not kept here: it counts."""

    IGNORE = "Ignore"
    FAIL_JOB = "FailJob"
    COUNT = "Count"
    FAIL_INDEX = "FailIndex"


@frozen
class FailureRule:
    """One entry of `podFailurePolicy.rules`. Exit codes or conditions; where both are given the codes alone are asked.

    `codes` is None where the rule is about conditions, each a type and a status.
    """

    action: str
    codes: tuple[int, ...] | None = None
    takes_listed: bool = True
    container: str | None = None
    conditions: tuple[tuple[str, str], ...] = ()


class Ruling(NamedTuple):
    """`message` is there only when the Job is to fail."""

    counts: bool
    message: str | None = None


COUNTED: Final = Ruling(counts=True)


def rule_on(
    rules: Iterable[FailureRule], pod: str, ends: Sequence[ContainerExit], conditions: Sequence[tuple[str, str]]
) -> Ruling:
    """The first rule that matches decides; without one a failure counts. `pod` is namespace and name, for messages.

    Exit code 0 never matches, not even `NotIn`: a container that ended well is no reason.
    """
    for index, rule in enumerate(rules):
        what = _match(rule, pod, ends, conditions)
        if what is None or rule.action not in tuple(Action):
            continue
        if rule.action == Action.FAIL_JOB:
            return Ruling(counts=True, message=f"{what} matching {rule.action} rule at index {index}")
        return Ruling(counts=rule.action != Action.IGNORE)
    return COUNTED


def _match(
    rule: FailureRule, pod: str, ends: Sequence[ContainerExit], conditions: Sequence[tuple[str, str]]
) -> str | None:
    """What matched, in Kubernetes' words."""
    if rule.codes is not None:
        for end in ends:
            is_asked = rule.container is None or rule.container == end.name
            if is_asked and end.exit_code and (end.exit_code in rule.codes) == rule.takes_listed:
                return f"Container {end.name} for pod {pod} failed with exit code {end.exit_code}"
        return None
    found = next((each for each in conditions if each in rule.conditions), None)
    return None if found is None else f"Pod {pod} has condition {found[0]}"


class BackOff(NamedTuple):
    """Failures since the last success, and when the last of them was."""

    failures: int = 0
    last_ns: int = 0

    def after(self, succeeded_ns: Iterable[int], failed_ns: Iterable[int]) -> BackOff:
        """With pods that ended at these times."""
        failed = sorted(failed_ns)
        last_success_ns = max(succeeded_ns, default=None)
        if last_success_ns is None:
            return BackOff(self.failures + len(failed), failed[-1]) if failed else self
        since = [each for each in failed if each > last_success_ns]
        return BackOff(len(since), since[-1]) if since else BackOff()

    def left_ns(self, now_ns: int) -> int:
        """How long no pod may be made: 10 s after the first failure, twice that after the next, 10 min at most."""
        if not self.failures:
            return 0
        # Beyond 7 failures the power is only a large number.
        wait_ns = min(FIRST_BACK_OFF_NS << min(self.failures - 1, 7), LONGEST_BACK_OFF_NS)
        return max(self.last_ns + wait_ns - now_ns, 0)
