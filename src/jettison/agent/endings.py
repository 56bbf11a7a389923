"""How long the next victim waits for pods on their way out. Which those are, the runtime knows."""

from __future__ import annotations

from collections.abc import Sequence

from jettison.engine.node.decide import Evict
from jettison.engine.node.evictions import BY_HAND, HARD_GRACE, Eviction, effective_grace, kill_wait, runtime_grace
from jettison.engine.node.signals import Signal
from jettison.engine.pods.preemption import PREEMPTING
from jettison.runtimes.protocol import EndingPod
from jettison.values import frozen

CLEANUP_NS = 30 * 10**9
"""How long a pod that has stopped may take to clear away before the next one goes."""

_SIGNALS = frozenset(signal.value for signal in Signal)


@frozen
class Ending:
    """A pod that was told to end, as it stands at one moment."""

    pod: EndingPod
    now_ns: int

    @property
    def eviction(self) -> Eviction:
        """The last order."""
        return self.pod.eviction

    @property
    def is_given_up(self) -> bool:
        """Its containers had longer than a kubelet would wait for them; the killing goes on."""
        wait = kill_wait(self.eviction.grace_seconds, self.eviction.pod.grace_seconds)
        return self.pod.stopped_ns is None and self.now_ns - self.pod.ordered_ns > wait * 10**9

    @property
    def _runs(self) -> bool:
        return self.pod.stopped_ns is None and not self.is_given_up

    @property
    def may_hurry(self) -> bool:
        """It goes for a soft threshold, and has more time than a hard one gives."""
        grace = self.eviction.grace_seconds
        is_for_pressure = self.eviction.signal in _SIGNALS
        return is_for_pressure and self._runs and (grace is None or grace > HARD_GRACE)

    @property
    def is_making_room(self) -> bool:
        """It still runs, in its own time, which may be an hour: no starving node can wait for that, nor does upstream.

        But it may be told again, for pressure.
        """
        is_in_its_own_time = self.eviction.reason == PREEMPTING or self.eviction.signal == BY_HAND
        return self._runs and is_in_its_own_time

    @property
    def has_time(self) -> bool:
        """It still runs, and has not been killed yet."""
        return self._runs and not self.eviction.is_at_once

    @property
    def grace_seconds(self) -> int:
        """What it really gets: its runtime waits two seconds at least."""
        pod = self.eviction.pod
        return runtime_grace(effective_grace(override=self.eviction.grace_seconds, pod_grace=pod.grace_seconds))

    @property
    def passed_ns(self) -> int:
        """Since the last order."""
        return self.now_ns - self.pod.ordered_ns

    @property
    def is_waited_for(self) -> bool:
        """Whether it must first be seen what this one leaves behind: perhaps no other pod has to go."""
        return not self.is_making_room and not self.is_overdue

    @property
    def is_overdue(self) -> bool:
        """Waited for long enough: its containers, or what it leaves behind, will not be gone soon."""
        if self.pod.stopped_ns is not None:
            return self.now_ns - self.pod.stopped_ns > CLEANUP_NS
        wait = kill_wait(self.eviction.grace_seconds, self.eviction.pod.grace_seconds)
        return self.passed_ns > wait * 10**9 + CLEANUP_NS


def told_instead(decision: Evict, orders: Sequence[Eviction]) -> Sequence[str]:
    """Which pods are told to end, where those are not the ones that the decision names.

    That is a pod in a hurry, or those that were not told yet.
    """
    # By its index: a slice would word them all.
    named = [decision.evictions[0]] if decision.at_most_one else decision.evictions
    told = [order.pod.uid for order in orders]
    return () if told == [order.pod.uid for order in named] else told
