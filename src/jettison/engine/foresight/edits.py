"""What another policy would do to a node as it is: which pods it would evict, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jettison.engine.config.policy import Policy
from jettison.engine.foresight.cases import Case, Consequence, play, remembered
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import PodUsage
from jettison.engine.pods.pod import Pod
from jettison.values import frozen

_DAY_NS = 24 * 3600 * 10**9


@frozen
class EvictionStep:
    """One eviction of a row of them."""

    pod: Pod
    consequence: Consequence


def evictions_now(case: Case, *, after_grace: bool = False) -> Iterator[EvictionStep]:
    """The pods that go until nothing is starved: each gives back what it uses, and nothing else changes.

    What is freed by removing images and dead containers is not known, and counts as nothing. With `after_grace` every
    soft threshold that is crossed counts as crossed for its grace period.
    """
    while case.snapshot.pods:
        if after_grace:
            case = replace(case, history=_aged(case))
        found = play(case)
        if not found.pods:
            return
        # What was met stays met until its minimum reclaim is reached.
        case = replace(case, history=remembered(case))
        for pod in found.pods:
            yield EvictionStep(pod, found)
            case = _without(case, pod)


def under(case: Case, policy: Policy) -> Case:
    """The same node with another policy. What is remembered of thresholds that it does not have is forgotten."""
    known = {each for layout in policy.layouts.values() for each in layout.all}
    history = case.history
    crossed = {each: since for each, since in history.first_observed.items() if each in known}
    met = tuple(each for each in history.met if each in known)
    return replace(case, policy=policy, history=replace(history, first_observed=crossed, met=met, knows_layout=True))


def _aged(case: Case) -> History:
    """Every threshold that may be crossed, since yesterday."""
    since_ns = case.snapshot.now_ns - _DAY_NS
    thresholds = case.policy.layouts[case.snapshot.layout].all
    crossed = {**dict.fromkeys(thresholds, since_ns), **dict.fromkeys(case.history.first_observed, since_ns)}
    return replace(case.history, first_observed=crossed, readings={})


def _without(case: Case, pod: Pod) -> Case:
    freed = case.with_usage(pod, PodUsage())
    left = [each for each in freed.snapshot.pods if each.uid != pod.uid]
    # The next look finds newer readings.
    history = replace(freed.history, readings={})
    return replace(freed.changed(lambda seen: replace(seen, pods=left)), history=history)
