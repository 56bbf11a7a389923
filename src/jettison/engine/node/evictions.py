"""The order to end one pod: how long it gets, what it is told, what its status says afterwards (spec §9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jettison.engine.pods.pod import Pod
from jettison.values import frozen

HARD_GRACE = 1
"""Seconds for a hard eviction; 0 would fall back to the pod's own period."""

RUNTIME_MINIMUM = 2
"""Seconds that a runtime always waits between SIGTERM and SIGKILL."""

EVICTED = "Evicted"
BY_HAND = "operator"
"""Instead of a signal: the operator of the node asked for it."""

DISRUPTION_TARGET = "DisruptionTarget"
TERMINATION_BY_KUBELET = "TerminationByKubelet"


@frozen
class PodCondition:
    """One condition of a pod's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


@frozen
class Eviction:
    """End this pod."""

    pod: Pod
    message: str
    # None: the pod keeps its own termination period.
    grace_seconds: int | None
    # The label of the metric: the starved signal, or the kind of limit that was broken.
    signal: str
    # None where upstream records a plain event; empty where it records an annotated one with nothing in it.
    annotations: Mapping[str, str] | None = None
    # Only evictions for pressure mark the pod as the target of a disruption.
    condition: PodCondition | None = None
    reason: str = EVICTED
    # No SIGTERM and no grace at all: freeze and kill.
    is_at_once: bool = False

    def conditions_after(self, conditions: Iterable[PodCondition]) -> list[PodCondition]:
        """The pod's conditions once it has ended: the new one replaces its namesake or comes last."""
        after = list(conditions)
        if self.condition is None:
            return after
        for index, each in enumerate(after):
            if each.type == self.condition.type:
                after[index] = self.condition
                return after
        return [*after, self.condition]


def by_hand(pod: Pod, grace_seconds: int | None = None) -> Eviction:
    """The order to end a pod because the operator says so; Kubernetes has none, its operators ask the API."""
    message = "The pod was evicted by the operator of the node"
    condition = PodCondition(DISRUPTION_TARGET, "True", TERMINATION_BY_KUBELET, message)
    return Eviction(pod, message, grace_seconds, BY_HAND, None, condition)


def soft_grace(pod: Pod, max_pod_grace: int) -> int:
    """The operator's maximum or the pod's own period, whichever is shorter; a negative maximum wins as well."""
    return max_pod_grace if pod.grace_seconds is None else min(max_pod_grace, pod.grace_seconds)


def effective_grace(
    *, override: int | None, pod_grace: int | None, deletion_grace: int | None = None, in_force: int = 0
) -> int:
    """What the pod really gets. A grace period only ever shrinks, and is never below one second."""
    grace, is_decided = in_force, False
    for wanted in (deletion_grace, override):
        if wanted is not None:
            is_decided = True
            if grace == 0 or wanted < grace:
                grace = wanted
    if grace == 0 and not is_decided and pod_grace is not None:
        grace = pod_grace
    return max(grace, 1)


def runtime_grace(seconds: int) -> int:
    """What the runtime waits before SIGKILL."""
    return max(seconds, RUNTIME_MINIMUM)


def kill_wait(override: int | None, pod_grace: int | None) -> int:
    """Seconds after which one stops waiting for a pod to end; the eviction counts as done all the same."""
    grace = (pod_grace or 0) if override is None else override
    return max(10, grace + _half(grace))


def _half(number: int) -> int:
    """Go's division truncates towards zero."""
    return number // 2 if number >= 0 else -(-number // 2)
