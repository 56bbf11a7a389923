"""Pods on their way out, and how long the next one waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jettison.engine.node.decide import Evict
from jettison.engine.node.evictions import BY_HAND, HARD_GRACE, Eviction, effective_grace, kill_wait, runtime_grace
from jettison.engine.pods.preemption import PREEMPTING

CLEANUP_NS = 30 * 10**9
"""How long a pod that has stopped may take to clear away before the next one goes."""


@dataclass(slots=True)
class Ending:
    """A pod that was told to end, once or, when it had to hurry, twice."""

    # The last order, and when it was given.
    eviction: Eviction
    is_for_pressure: bool
    began_ns: int
    # When it was told for the first time.
    first_ns: int
    # None while its containers still run, and are waited for.
    stopped_ns: int | None = None
    # How many orders have not returned yet.
    orders: int = 0
    # Its containers have really stopped, which is on record then.
    has_ended: bool = False
    # An earlier agent has told it.
    is_adopted: bool = False
    # That nothing is left of it is on record, too.
    is_cleared: bool = False

    @property
    def may_hurry(self) -> bool:
        """It goes for a soft threshold, and has more time than a hard one gives."""
        grace = self.eviction.grace_seconds
        return self.is_for_pressure and self.stopped_ns is None and (grace is None or grace > HARD_GRACE)

    @property
    def is_making_room(self) -> bool:
        """It still runs, in its own time, which may be an hour: no starving node can wait for that, nor does upstream.

        But it may be told again, for pressure.
        """
        is_in_its_own_time = self.eviction.reason == PREEMPTING or self.eviction.signal == BY_HAND
        return self.stopped_ns is None and is_in_its_own_time

    @property
    def has_time(self) -> bool:
        """It still runs, and has not been killed yet."""
        return self.stopped_ns is None and not self.eviction.is_at_once

    @property
    def grace_seconds(self) -> int:
        """What it really gets: its runtime waits two seconds at least."""
        pod = self.eviction.pod
        return runtime_grace(effective_grace(override=self.eviction.grace_seconds, pod_grace=pod.grace_seconds))

    def is_waited_for(self, now_ns: int) -> bool:
        """Whether it must first be seen what this one leaves behind: perhaps nobody else has to go."""
        return not self.is_making_room and not self.is_overdue(now_ns)

    def is_overdue(self, now_ns: int) -> bool:
        """Waited for long enough: its containers, or what it leaves behind, will not be gone soon."""
        if self.stopped_ns is not None:
            return now_ns - self.stopped_ns > CLEANUP_NS
        wait = kill_wait(self.eviction.grace_seconds, self.eviction.pod.grace_seconds)
        return now_ns - self.began_ns > wait * 10**9 + CLEANUP_NS


def told_instead(decision: Evict, orders: Sequence[Eviction]) -> Sequence[str]:
    """Who is told to end, where that is not who the decision names: one in a hurry, or those who were not told yet."""
    # By its index: a slice would word them all.
    named = [decision.evictions[0]] if decision.at_most_one else decision.evictions
    told = [order.pod.uid for order in orders]
    return () if told == [order.pod.uid for order in named] else told
