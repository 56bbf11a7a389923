"""Jobs: which pods count, what is decided, what is next; and the short form of completed indexes.

Played through with pods that end and vanish at any moment.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.job_failures import BackOff, FailureRule
from jettison.engine.workloads.job_sync import (
    MOST_MADE,
    MOST_UNCOUNTED,
    Indexes,
    JobGoal,
    JobState,
    JobStep,
    JobVerdict,
    next_step,
    parse_indexes,
    success,
    tally,
    view_job,
)

INT32_MAX = 2**31 - 1

SECOND_NS = 10**9
RUNNING = ApiPod("r", uid="r", phase="Running", is_tracked=True)
SUCCEEDED = ApiPod("s", uid="s", phase="Succeeded", is_tracked=True)
FAILED = ApiPod("f", uid="f", phase="Failed", is_tracked=True)
GOING = replace(RUNNING, uid="g", is_terminating=True)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ((), ""),
        ((3,), "3"),
        ((0, 1), "0,1"),
        ((0, 1, 2), "0-2"),
        ((0, 2, 3, 5, 6, 7), "0,2,3,5-7"),
    ],
)
def test_the_text_is_kubernetes_own(indexes: tuple[int, ...], text: str) -> None:
    made = Indexes().with_indexes(indexes)
    assert str(made) == text
    assert parse_indexes(text, 10) == made


@given(st.sets(st.integers(0, 60)), st.integers(0, 70), st.integers(0, 70))
def test_it_is_a_set(indexes: set[int], count: int, end: int) -> None:
    made = Indexes().with_indexes(indexes)
    assert len(made) == len(indexes)
    assert [each for each in range(62) if each in made] == sorted(indexes)
    assert parse_indexes(str(made), 61) == made
    assert made.first_missing(count, end) == [each for each in range(end) if each not in indexes][:count]


def test_what_cannot_be_is_left_out() -> None:
    """Also a status that names more than there are, or two thousand million."""
    assert str(parse_indexes("x,1,-3,2-y,3-4,9-12", 10)) == "1,3,4,9"
    everything = parse_indexes(f"0-{INT32_MAX}", INT32_MAX)
    assert len(everything) == INT32_MAX
    assert everything.first_missing(5, INT32_MAX) == []


def _step(goal: JobGoal, *pods: ApiPod, state: JobState | None = None, now_ns: int = 10**15) -> JobStep:
    state = state or JobState()
    return next_step(goal, view_job(goal, state, pods, BackOff(), now_ns), now_ns)


@pytest.mark.parametrize(
    ("goal", "pods", "step"),
    [
        (JobGoal(), (), JobStep(create=(None,))),
        (JobGoal(completions=5, parallelism=2), (RUNNING,), JobStep(create=(None,))),
        (JobGoal(completions=2, parallelism=2), (RUNNING, SUCCEEDED), JobStep()),
        (JobGoal(completions=2, parallelism=1), (RUNNING, GOING), JobStep()),
        # Being deleted is failing, and the next one may begin; unless the Job wants to know how it ends.
        (JobGoal(), (GOING,), JobStep(create=(None,))),
        (JobGoal(waits_for_end=True), (GOING,), JobStep()),
        (JobGoal(parallelism=0), (RUNNING,), JobStep(delete=(RUNNING,))),
        (JobGoal(is_suspended=True), (RUNNING,), JobStep(delete=(RUNNING,))),
        (JobGoal(completions=None, parallelism=3), (RUNNING,), JobStep(create=(None, None))),
        (JobGoal(completions=None, parallelism=3), (RUNNING, SUCCEEDED), JobStep()),
    ],
)
def test_as_many_as_are_still_to_do(goal: JobGoal, pods: tuple[ApiPod, ...], step: JobStep) -> None:
    assert _step(goal, *pods) == step


def test_after_a_failure_it_waits() -> None:
    failed = replace(FAILED, finished_ns=100 * SECOND_NS)
    assert _step(JobGoal(), failed, now_ns=103 * SECOND_NS) == JobStep(wait_ns=7 * SECOND_NS)
    assert _step(JobGoal(), failed, now_ns=110 * SECOND_NS) == JobStep(create=(None,))


def test_every_index_has_one_pod() -> None:
    """Those too many go first: without an index, beyond the last, or the second of one."""
    goal = JobGoal(is_indexed=True, completions=4, parallelism=3)
    places = {"a": 0, "b": 0, "c": 9, "d": None}
    zero, twin, far, stray = (replace(RUNNING, uid=uid, index=index) for uid, index in places.items())
    assert _step(goal, zero, far, stray, twin).delete == (zero, far, stray)
    state = JobState(completed=Indexes().with_indexes([1]))
    assert _step(goal, zero, state=state).create == (2, 3)
    assert _step(replace(goal, waits_for_end=True), replace(GOING, index=0)).create == (1, 2)


@pytest.mark.parametrize(
    ("goal", "state", "pods", "reason"),
    [
        (JobGoal(backoff_limit=1), JobState(failed=1), (FAILED,), "BackoffLimitExceeded"),
        (JobGoal(backoff_limit=1), JobState(failed=1), (), None),
        (JobGoal(backoff_limit=0), JobState(), (GOING,), "BackoffLimitExceeded"),
        (JobGoal(backoff_limit=0, waits_for_end=True), JobState(), (GOING,), None),
        (JobGoal(backoff_limit=0), JobState(noted_failed=frozenset("f")), (), "BackoffLimitExceeded"),
        (JobGoal(backoff_limit=0, rules=(FailureRule("Ignore", conditions=(("D", "True"),)),)), JobState(),
         (replace(FAILED, conditions=(("D", "True"),)),), None),
        (JobGoal(backoff_limit=2, restarts_in_place=True), JobState(), (replace(RUNNING, restarts=2),),
         "BackoffLimitExceeded"),
        (JobGoal(backoff_limit=0, restarts_in_place=True), JobState(), (RUNNING,), None),
        (JobGoal(deadline_ns=5), JobState(start_ns=10**15 - 5), (RUNNING,), "DeadlineExceeded"),
        (JobGoal(deadline_ns=6), JobState(start_ns=10**15 - 5), (RUNNING,), None),
        (JobGoal(deadline_ns=5, is_suspended=True), JobState(start_ns=10**15 - 5), (), None),
    ],
)  # fmt: skip
def test_when_it_has_failed(goal: JobGoal, state: JobState, pods: tuple[ApiPod, ...], reason: str | None) -> None:
    verdict = view_job(goal, state, pods, BackOff(), 10**15).verdict
    assert (None if verdict is None else verdict.reason) == reason


def test_what_was_decided_stays() -> None:
    """Also if the pods that decided it are gone."""
    verdict = JobVerdict(False, "PodFailurePolicy", "why")
    view = view_job(JobGoal(), JobState(verdict=verdict), (RUNNING,), BackOff(), 0)
    assert view.verdict == verdict
    assert next_step(JobGoal(), view, 0) == JobStep(delete=(RUNNING,))


def test_at_the_end_every_pod_is_counted() -> None:
    """Of a failed Job all that did not succeed have failed; of a successful one those that were not needed did not."""
    pods = (SUCCEEDED, RUNNING, GOING, replace(FAILED, is_tracked=False))
    lost = tally(JobGoal(), JobState(), pods, JobVerdict(False, "", ""), is_deleted=False)
    assert (lost.release, lost.succeeded, lost.failed) == (("s", "r", "g"), ("s",), ("r", "g"))
    won = tally(JobGoal(waits_for_end=True), JobState(), pods, JobVerdict(True, "", ""), is_deleted=False)
    assert (won.release, won.succeeded, won.failed) == (("s", "r", "g"), ("s",), ())
    none = tally(JobGoal(), JobState(noted_succeeded=frozenset("s")), (SUCCEEDED, RUNNING), None, is_deleted=False)
    assert (none.release, none.succeeded) == (("s",), ())


def test_a_boundless_wish_is_granted_in_pieces() -> None:
    goal = JobGoal(completions=2**31 - 1, parallelism=2**31 - 1)
    assert _step(goal).create == (None,) * MOST_MADE
    assert _step(replace(goal, is_indexed=True)).create == tuple(range(MOST_MADE))


def test_a_crowd_is_counted_in_pieces() -> None:
    active = [replace(RUNNING, uid=f"r{index}") for index in range(2 * MOST_UNCOUNTED)]
    ended = [replace(SUCCEEDED, uid=f"s{index}") for index in range(MOST_UNCOUNTED + 1)]
    found = tally(JobGoal(), JobState(), [*active, *ended], None, is_deleted=False)
    assert (len(found.release), found.is_partial) == (MOST_UNCOUNTED, True)


@pytest.mark.parametrize("seed", range(20))
def test_played_to_the_end_with_failures_and_evictions(seed: int) -> None:
    """An indexed Job whose pods fail, succeed or are deleted in any order: each index is done once, then it is over."""
    chance = random.Random(seed)
    goal = JobGoal(is_indexed=True, completions=6, parallelism=3, backoff_limit=10**6)
    state, pods, number = JobState(), dict[str, ApiPod](), 0
    done: list[int] = []
    for moment in range(2000):
        now_ns = moment * 1000 * SECOND_NS
        found = tally(goal, state, list(pods.values()), None, is_deleted=False)
        done += [pods[uid].index or 0 for uid in found.release if pods[uid].phase == "Succeeded"]
        completed, failed = found.completed, state.failed + len(found.failed)
        state = replace(state, completed=completed, succeeded=len(completed), failed=failed)
        pods = {uid: pod for uid, pod in pods.items() if uid not in found.release}
        view = view_job(goal, state, list(pods.values()), BackOff(), now_ns)
        if success(goal, view):
            break
        for index in next_step(goal, view, now_ns).create:
            number += 1
            pods[f"p{number}"] = replace(RUNNING, uid=f"p{number}", index=index)
        assert len(pods) <= goal.parallelism
        if pods:
            uid = chance.choice(sorted(pods))
            ended = [replace(pods[uid], phase="Failed"), replace(pods[uid], phase="Succeeded")]
            pods[uid] = chance.choice([*ended, replace(pods[uid], is_terminating=True)])
    assert sorted(done) == list(range(6))
    assert state.failed + 6 == number
