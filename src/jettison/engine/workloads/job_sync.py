"""What a Job does next: how its pods count, whether it is decided, and which pods to make or to delete.

A pod counts once, and its finalizer is the proof: a pod that still has it was not counted. Counting takes two writes,
so that neither a crash nor a pod that vanishes meanwhile loses or doubles one: the uid goes into the status as
uncounted, the finalizer goes, and then the counter moves.

Completion indexes are kept as `status.completedIndexes` writes them, `0,2,3,5-9`: as ranges and not one by one, because
a Job may have two thousand million completions, and a status may say that all are done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice
from typing import Final, NamedTuple

from jettison.engine.numbers.strconv import atoi
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.pods.pod import FAILED, PENDING, RUNNING, SUCCEEDED
from jettison.engine.workloads.job_failures import BackOff, FailureRule, Ruling, rule_on
from jettison.errors import InputError
from jettison.values import frozen

MOST_UNCOUNTED: Final = 500
"""How many pods are counted in one go: their uids stand in the status meanwhile, 20 KB of them."""

MOST_MADE: Final = 500
"""How many pods are made in one go, whatever the parallelism."""


@frozen
class Indexes:
    """A set of indexes: ranges in order that do not touch one another."""

    ranges: tuple[range, ...] = ()

    def __contains__(self, index: int) -> bool:
        position = bisect_right(self.ranges, index, key=lambda each: each.start)
        return position > 0 and index in self.ranges[position - 1]

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __str__(self) -> str:
        """Three or more in a row as a range, two with a comma."""
        return ",".join(map(_text, self.ranges))

    def with_indexes(self, indexes: Iterable[int]) -> Indexes:
        """These as well."""
        return _merged([*self.ranges, *(range(each, each + 1) for each in indexes)])

    def first_missing(self, count: int, end: int) -> list[int]:
        """The first `count` indexes below `end` that are not in here."""
        return list(islice(self._missing(end), count))

    def _missing(self, end: int) -> Iterator[int]:
        begin = 0
        for each in self.ranges:
            yield from range(begin, min(each.start, end))
            begin = each.stop
        yield from range(begin, end)


def parse_indexes(text: str, completions: int) -> Indexes:
    """Those below `completions`. A part that is no number is left out: this is the status of a running Job."""
    found = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        try:
            begin, end = atoi(first), atoi(last or first)
        except InputError:
            continue
        if run := range(max(begin, 0), min(end + 1, completions)):
            found.append(run)
    return _merged(found)


def _merged(runs: Iterable[range]) -> Indexes:
    merged: list[range] = []
    for each in sorted(runs, key=lambda run: run.start):
        if merged and each.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, each.stop))
        else:
            merged.append(each)
    return Indexes(tuple(merged))


def _text(run: range) -> str:
    return ",".join(map(str, run)) if len(run) <= 2 else f"{run[0]}-{run[-1]}"


@frozen
class JobGoal:
    """What the Job's spec wants. Without `completions` the first success ends it; `waits_for_end`: a pod that is
    terminating has not failed yet, and is not replaced before it has."""

    parallelism: int = 1
    completions: int | None = 1
    is_indexed: bool = False
    backoff_limit: int = 6
    deadline_ns: int | None = None
    is_suspended: bool = False
    waits_for_end: bool = False
    restarts_in_place: bool = False
    rules: tuple[FailureRule, ...] = ()

    def has_failed(self, pod: ApiPod) -> bool:
        """Unless the Job asks to wait, being deleted is failing: an orphan may never come to say how it ended."""
        if pod.phase == FAILED:
            return True
        return not self.waits_for_end and pod.is_terminating and pod.phase != SUCCEEDED

    def takes(self, pod: ApiPod) -> bool:
        """Whether it can count: in an indexed Job one without a place of its own cannot."""
        return not self.is_indexed or (pod.index is not None and pod.index < (self.completions or 0))

    def ruling(self, pod: ApiPod) -> Ruling:
        """What its failure means."""
        return rule_on(self.rules, str(pod), pod.ends, pod.conditions)


class JobVerdict(NamedTuple):
    """It is decided, whatever its pods still do."""

    is_success: bool
    reason: str
    message: str


@frozen
class JobState:
    """What the Job's status remembers. Uids in the two sets are noted but not yet in the counters."""

    succeeded: int = 0
    failed: int = 0
    noted_succeeded: frozenset[str] = frozenset()
    noted_failed: frozenset[str] = frozenset()
    completed: Indexes = field(default_factory=Indexes)
    start_ns: int | None = None
    verdict: JobVerdict | None = None


@frozen
class JobView:
    """The Job as it is. `active` are in the order in which they would be missed least."""

    active: tuple[ApiPod, ...]
    leaving: tuple[ApiPod, ...]
    succeeded: int
    failed: int
    completed: Indexes
    back_off: BackOff
    verdict: JobVerdict | None


class JobStep(NamedTuple):
    """What to do about pods. In `create` an index for each, None in a Job without; `wait_ns` until more can be made."""

    delete: tuple[ApiPod, ...] = ()
    create: tuple[int | None, ...] = ()
    wait_ns: int = 0


class JobTally(NamedTuple):
    """Pods that may lose their finalizer, and what they count as: uids, and all completed indexes."""

    release: tuple[str, ...]
    succeeded: tuple[str, ...]
    failed: tuple[str, ...]
    completed: Indexes
    is_partial: bool


def view_job(goal: JobGoal, state: JobState, pods: Sequence[ApiPod], back_off: BackOff, now_ns: int) -> JobView:
    """Counters as they will be when everything noted has been counted."""
    fresh = [pod for pod in pods if pod.is_tracked and goal.takes(pod)]
    succeeded = [pod for pod in fresh if pod.phase == SUCCEEDED and pod.uid not in state.noted_succeeded]
    failed = [pod for pod in fresh if goal.has_failed(pod) and pod.uid not in state.noted_failed]
    completed = state.completed
    count = state.succeeded + len(succeeded) + len(state.noted_succeeded)
    if goal.is_indexed:
        completed = completed.with_indexes(pod.index for pod in succeeded if pod.index is not None)
        count = len(completed)
    failures = state.failed + sum(goal.ruling(pod).counts for pod in failed) + len(state.noted_failed)
    return JobView(
        active=tuple(pod for pod in pods if pod.is_active),
        leaving=tuple(pod for pod in pods if pod.is_leaving),
        succeeded=count,
        failed=failures,
        completed=completed,
        back_off=back_off.after((pod.finished_ns for pod in succeeded), (pod.finished_ns for pod in failed)),
        verdict=state.verdict or _failure(goal, state, pods, failures, now_ns),
    )


def _failure(goal: JobGoal, state: JobState, pods: Sequence[ApiPod], failures: int, now_ns: int) -> JobVerdict | None:
    for pod in pods:
        message = goal.ruling(pod).message if goal.rules and goal.has_failed(pod) else None
        if message is not None:
            return JobVerdict(False, "PodFailurePolicy", message)
    if failures > goal.backoff_limit or _restarted_too_often(goal, pods):
        return JobVerdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left_ns = deadline_left_ns(goal, state, now_ns)
    if left_ns is not None and left_ns <= 0:
        return JobVerdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def deadline_left_ns(goal: JobGoal, state: JobState, now_ns: int) -> int | None:
    """How long it may still be active; None: without limit, or it is not active at all."""
    if goal.deadline_ns is None or state.start_ns is None or goal.is_suspended:
        return None
    return state.start_ns + goal.deadline_ns - now_ns


def _restarted_too_often(goal: JobGoal, pods: Sequence[ApiPod]) -> bool:
    """Where containers are restarted in their pod. Surprise: at the limit and not above it, except for a limit of 0."""
    if not goal.restarts_in_place:
        return False
    restarts = sum(pod.restarts for pod in pods if pod.phase in (RUNNING, PENDING))
    return restarts >= max(goal.backoff_limit, 1)


def success(goal: JobGoal, view: JobView) -> JobVerdict | None:
    """Enough pods have succeeded, and none is at work any more."""
    if view.active:
        return None
    is_enough = view.succeeded > 0 if goal.completions is None else view.succeeded >= goal.completions
    if not is_enough:
        return None
    return JobVerdict(True, "CompletionsReached", "Reached expected number of succeeded pods")


def next_step(goal: JobGoal, view: JobView, now_ns: int) -> JobStep:
    """Delete or create, never both: where an index has too many pods, those go first."""
    if view.verdict is not None or goal.is_suspended:
        return JobStep(delete=view.active)
    active = len(view.active)
    if goal.completions is None:
        # After the first success no pod is made, and those at work may end.
        wanted = active if view.succeeded else goal.parallelism
    else:
        wanted = max(min(goal.completions - view.succeeded, goal.parallelism), 0)
    if surplus := tuple(_surplus(goal, view.active, active - wanted)):
        return JobStep(delete=surplus)
    missing = wanted - active - (len(view.leaving) if goal.waits_for_end else 0)
    if missing <= 0:
        return JobStep()
    if wait_ns := view.back_off.left_ns(now_ns):
        return JobStep(wait_ns=wait_ns)
    return JobStep(create=_new_indexes(goal, view, min(missing, MOST_MADE)))


def _surplus(goal: JobGoal, active: Sequence[ApiPod], count: int) -> Iterator[ApiPod]:
    """At least `count`; of an indexed Job all that have no index of their own, and of equal ones all but the last."""
    kept: Sequence[ApiPod] = active
    if goal.is_indexed:
        owner = {pod.index: pod.uid for pod in active if goal.takes(pod)}
        kept = [pod for pod in active if goal.takes(pod) and owner[pod.index] == pod.uid]
        chosen = {pod.uid for pod in kept}
        yield from (pod for pod in active if pod.uid not in chosen)
    yield from kept[: max(count - (len(active) - len(kept)), 0)]


def _new_indexes(goal: JobGoal, view: JobView, count: int) -> tuple[int | None, ...]:
    if not goal.is_indexed:
        return (None,) * count
    busy = (*view.active, *(view.leaving if goal.waits_for_end else ()))
    taken = view.completed.with_indexes(pod.index for pod in busy if pod.index is not None)
    return tuple(taken.first_missing(count, goal.completions or 0))


def tally(
    goal: JobGoal, state: JobState, pods: Sequence[ApiPod], verdict: JobVerdict | None, *, is_deleted: bool
) -> JobTally:
    """Which pods can be counted now: those that have ended, and all of them when the Job is decided."""
    is_over = is_deleted or verdict is not None
    is_failure = verdict is not None and not verdict.is_success
    countable = [pod for pod in pods if pod.is_tracked and (is_over or pod.phase == SUCCEEDED or goal.has_failed(pod))]
    chosen = countable[:MOST_UNCOUNTED]
    succeeded: list[str] = []
    failed: list[str] = []
    indexes: list[int] = []
    for pod in chosen:
        if pod.phase == SUCCEEDED and pod.uid not in state.noted_failed:
            if not goal.is_indexed:
                succeeded.append(pod.uid)
            elif goal.takes(pod) and pod.index is not None:
                indexes.append(pod.index)
        elif (is_failure or goal.has_failed(pod)) and goal.takes(pod) and goal.ruling(pod).counts:
            failed.append(pod.uid)
    return JobTally(
        release=tuple(pod.uid for pod in chosen),
        succeeded=tuple(uid for uid in succeeded if uid not in state.noted_succeeded),
        failed=tuple(uid for uid in failed if uid not in state.noted_failed),
        completed=state.completed.with_indexes(indexes),
        is_partial=len(countable) > MOST_UNCOUNTED,
    )
