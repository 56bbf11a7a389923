"""What a StatefulSet does next: which ordinal is made, which one goes.

In order (`OrderedReady`) it takes one step and waits until that has come true: a pod is made when all before it are
available, and the highest one goes when all that stay are. In parallel no pod waits for another, except in an update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import chain, islice, takewhile
from typing import Final, NamedTuple

from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.pods.pod import RUNNING
from jettison.values import frozen

MOST_STEPS: Final = 500
"""How much is done in one go, however many replicas are wanted."""


@frozen
class StatefulGoal:
    """How the set should be. `partition` is None where a pod is replaced only after it was deleted.

    `kept` is how many ordinals, from the first on, belong to the former revision: one of them that is evicted while a
    new revision is tried out on those above comes back as it was.
    """

    replicas: int
    revision: str
    start: int = 0
    partition: int | None = 0
    is_parallel: bool = False
    kept: int = 0
    min_ready_seconds: int = 0
    now_ns: int = 0

    @property
    def ordinals(self) -> range:
        """Those that should exist."""
        return range(self.start, self.start + self.replicas)

    def is_ready(self, pod: ApiPod) -> bool:
        """Here the phase counts too: it must be Running."""
        return pod.is_ready and pod.phase == RUNNING

    def is_available(self, pod: ApiPod) -> bool:
        """Ready, and for long enough."""
        return self.is_ready(pod) and pod.is_available(self.min_ready_seconds, self.now_ns)

    def is_serving(self, pod: ApiPod) -> bool:
        """Available, and not about to go."""
        return self.is_available(pod) and not pod.is_terminating

    def keeps(self, ordinal: int) -> bool:
        """Whether its pod is made in the former revision."""
        return ordinal < self.start + self.kept


class Cause(Enum):
    """Why a pod goes."""

    # Failed or Succeeded, evicted for instance: it is to come back under the same name.
    ENDED = auto()
    SCALED_DOWN = auto()
    OUTDATED = auto()


class Create(NamedTuple):
    """Make the pod of this ordinal."""

    ordinal: int


class Delete(NamedTuple):
    """Ask for the end of the pod of this ordinal."""

    ordinal: int
    cause: Cause


Step = Create | Delete


def next_steps(goal: StatefulGoal, pods: Mapping[int, ApiPod]) -> list[Step]:
    """What can be done now; nothing where something must come true first, or where all is well."""
    condemned = [each for each in sorted(pods, reverse=True) if each not in goal.ordinals]
    if goal.is_parallel:
        down = (Delete(each, Cause.SCALED_DOWN) for each in condemned if not pods[each].is_terminating)
        steps = list(islice(chain(_parallel(goal, pods), down), MOST_STEPS))
    else:
        steps, is_settled = _in_order(goal, pods, condemned)
        if not is_settled:
            return steps
    made = {each.ordinal for each in steps if isinstance(each, Create)}
    return [*steps, *_update(goal, pods, made)]


def identifiable(goal: StatefulGoal, pods: Mapping[int, ApiPod]) -> list[int]:
    """The ordinals whose pods get the labels of their place now, where they lack them.

    In order that is done as far as nothing has to be waited for, in parallel for all that have not ended.
    """
    if goal.is_parallel:
        return [each for each in sorted(pods) if each in goal.ordinals and not pods[each].is_ended]
    return list(takewhile(lambda each: each in pods and goal.is_serving(pods[each]), goal.ordinals))


def _parallel(goal: StatefulGoal, pods: Mapping[int, ApiPod]) -> Iterator[Step]:
    for ordinal in goal.ordinals:
        pod = pods.get(ordinal)
        if pod is None:
            yield Create(ordinal)
        elif pod.is_ended and not pod.is_terminating:
            yield Delete(ordinal, Cause.ENDED)


def _in_order(goal: StatefulGoal, pods: Mapping[int, ApiPod], condemned: Sequence[int]) -> tuple[list[Step], bool]:
    """One step at most, and whether there is nothing to wait for."""
    for ordinal in goal.ordinals:
        pod = pods.get(ordinal)
        if pod is None:
            return [Create(ordinal)], False
        if pod.is_ended and not pod.is_terminating:
            return [Delete(ordinal, Cause.ENDED)], False
        if not goal.is_serving(pod):
            return [], False
    if not condemned:
        return [], True
    # A sick pod is given time to recover before it goes; only for the lowest of them there is no use in waiting.
    lowest_sick = next((each for each in reversed(condemned) if not goal.is_serving(pods[each])), None)
    highest = condemned[0]
    last = pods[highest]
    if last.is_terminating or not (goal.is_available(last) or highest == lowest_sick):
        return [], False
    return [Delete(highest, Cause.SCALED_DOWN)], False


def _update(goal: StatefulGoal, pods: Mapping[int, ApiPod], made: set[int]) -> Iterator[Step]:
    """From the highest ordinal down to the partition: the next outdated pod, once all above it are well again."""
    if goal.partition is None:
        return
    for ordinal in reversed(goal.ordinals[goal.partition :]):
        pod = pods.get(ordinal)
        if pod is None or ordinal in made:
            return
        if pod.revision != goal.revision and not pod.is_terminating:
            # An ended one was seen to already; a second order for the same pod would only be a second event.
            if not pod.is_ended:
                yield Delete(ordinal, Cause.OUTDATED)
            return
        if not goal.is_serving(pod):
            return


class StatefulCounts(NamedTuple):
    """The numbers of a status."""

    replicas: int
    ready: int
    available: int
    current: int
    updated: int


def counts_of(goal: StatefulGoal, pods: Sequence[ApiPod], current: str) -> StatefulCounts:
    """All pods of the set, those beyond its size too; `current` is the revision that a rollout comes from."""
    staying = [each for each in pods if not each.is_terminating]
    return StatefulCounts(
        len(pods),
        sum(map(goal.is_ready, pods)),
        sum(map(goal.is_available, pods)),
        sum(each.revision == current for each in staying),
        sum(each.revision == goal.revision for each in staying),
    )


def is_updated(counts: StatefulCounts, goal: StatefulGoal) -> bool:
    """Whether the update revision has become the current one, which it never does without a rolling update."""
    is_complete = counts.updated == counts.ready == counts.replicas == goal.replicas
    return is_complete and goal.partition is not None
