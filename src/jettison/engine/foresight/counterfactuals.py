"""The smallest single changes after which a pod would have been spared, or would have been the victim.

Each is searched for, and what is found is what the engine answers to the changed case: nothing here knows the order in
which pods go. A search tries ever larger steps, halves the gap between the last that failed and the first that did not,
rounds the result to an amount that a person would write, and runs that as well. Where only names would decide, which
Kubernetes leaves to chance, a change does not count. Larger steps are run, too: where one of
them fails the change is marked, because "at least" would not be true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jettison.engine.foresight.cases import Case, Consequence, play
from jettison.engine.foresight.levers import Lever, Unit, What, levers, limit_levers
from jettison.engine.node.signals import Signal, readings
from jettison.engine.pods.pod import Pod
from jettison.errors import PolicyError
from jettison.values import frozen

_STRIDE = 4
# A rounded amount is at most a sixteenth of the way further than it must be.
_COARSE = 16
_GRAINS = (2**30, 2**28, 2**26, 2**24, 2**20, 2**16, 2**10)
_DECIMAL_GRAINS = (10**6, 10**5, 10**4, 1000, 100, 10)


@frozen
class Counterfactual:
    """One number changed, and what would have happened then."""

    lever: Lever
    # The value nearest to the present one with which it would have been so; one step less would not do.
    least: int
    # The same, rounded to what a person would write; it was run as well.
    suggested: int
    # With `suggested`.
    choice: Consequence
    # Whether it would have been so with every larger change that was tried.
    is_steady: bool

    @property
    def is_upwards(self) -> bool:
        """Whether the number must be larger than it is."""
        return self.lever.furthest > self.lever.now


def sparing(case: Case, pod: Pod) -> list[Counterfactual]:
    """For a pod that goes: every single change that was found to spare it."""
    chosen = play(case)
    if not chosen.takes(pod.uid):
        return []
    if chosen.starved is None:
        found: Iterable[Lever] = limit_levers(case, pod)
    else:
        found = levers(case, pod, chosen.starved.signal, spares=True)
    return _searched(found, lambda choice: choice.spares(pod.uid))


def dooming(case: Case, pod: Pod) -> list[Counterfactual]:
    """For a pod that is spared: every single change that was found to make it the victim.

    Where nothing is starved, that is asked for every signal that has a threshold.
    """
    chosen = play(case)
    if chosen.takes(pod.uid) or pod.is_critical:
        return []
    signals = _guarded(case) if chosen.starved is None else [chosen.starved.signal]
    found = _searched(
        (lever for signal in signals for lever in levers(case, pod, signal, spares=False)),
        lambda choice: choice.takes_surely(pod.uid),
    )
    return list(_distinct(found))


def _guarded(case: Case) -> list[Signal]:
    measured = readings(case.snapshot.node)
    guarded = {each.signal for each in case.policy.layouts[case.snapshot.layout].all if not each.is_inert}
    return [signal for signal in Signal if signal in guarded and signal in measured]


def _distinct(found: Iterable[Counterfactual]) -> Iterator[Counterfactual]:
    """Two signals may lead to one change; the smaller one counts."""
    best: dict[tuple[What, str], Counterfactual] = {}
    for each in found:
        key = (each.lever.what, each.lever.subject)
        known = best.get(key)
        if known is None or abs(each.least - each.lever.now) < abs(known.least - known.lever.now):
            best[key] = each
    yield from best.values()


def _searched(found: Iterable[Lever], is_so: Callable[[Consequence], bool]) -> list[Counterfactual]:
    results = (_search(lever, is_so) for lever in found)
    return [each for each in results if each is not None]


def _search(lever: Lever, is_so: Callable[[Consequence], bool]) -> Counterfactual | None:
    distance = abs(lever.furthest - lever.now)
    way = 1 if lever.furthest > lever.now else -1

    def answer(steps: int) -> Consequence | None:
        """None where it would not be so, or where there is no such configuration."""
        try:
            choice = play(lever.apply(lever.now + way * steps))
        except PolicyError:
            return None
        return choice if is_so(choice) else None

    failed, step = 0, min(1, distance)
    while step and answer(step) is None:
        if step == distance:
            return None
        failed, step = step, min(step * _STRIDE, distance)
    if not step:
        return None
    while step - failed > 1:
        middle = (failed + step) // 2
        failed, step = (failed, middle) if answer(middle) is not None else (middle, step)
    least, steady = lever.now + way * step, _is_steady(step, distance, answer)
    suggested = _rounded(lever, least, way)
    choice = answer(abs(suggested - lever.now))
    if choice is None:
        suggested, choice = least, answer(step)
    assert choice is not None
    return Counterfactual(lever, least, suggested, choice, steady)


def _is_steady(step: int, distance: int, answer: Callable[[int], Consequence | None]) -> bool:
    while step < distance:
        step = min(step * _STRIDE, distance)
        if answer(step) is None:
            return False
    return True


def _rounded(lever: Lever, least: int, way: int) -> int:
    """The nearest round amount that is no smaller a change, and still possible."""
    grains = _GRAINS if lever.unit is Unit.BYTES else _DECIMAL_GRAINS
    if lever.unit is Unit.POINTS:
        return least
    change = abs(least - lever.now)
    for grain in grains:
        rounded = -(-least // grain) * grain if way > 0 else least // grain * grain
        is_possible = rounded <= lever.furthest if way > 0 else rounded >= lever.furthest
        if is_possible and grain * _COARSE <= change:
            return rounded
    return least
