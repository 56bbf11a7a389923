"""Rules about workloads and disruption budgets: what makes evictions loop, and drains wait without end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jettison.engine.budgets.budget import Budget, scaled
from jettison.engine.labels.selectors import select
from jettison.engine.lint.subjects import Objection, Objects, PodGroup
from jettison.errors import InputError

Objections = Iterator[Objection]

_DAEMON_SET = "DaemonSet"


def daemon_set_without_priority(objects: Objects) -> Objections:
    """Its pod is evicted like any other and made again at once, on the same node under the same pressure."""
    if objects.has_default_priority:
        return
    for group in objects.groups:
        if group.kind == _DAEMON_SET and not group.has_priority:
            said = "its pods have no priority, so they are evicted early, and made again on the same node at once"
            yield Objection(str(group), said, "set priorityClassName, e.g. system-node-critical for what a node needs")


def budget_matches_nothing(objects: Objects) -> Objections:
    """It guards no pod, which is mostly a typing mistake in its selector."""
    for budget, guarded in _guarded(objects):
        if not guarded:
            yield Objection(
                _named(budget),
                f"selects no pod of namespace `{budget.namespace}`",
                "compare its selector with the labels",
            )


def budgets_overlap(objects: Objects) -> Objections:
    """A pod with two budgets is never evicted: the API answers every attempt with an error."""
    pairs = list(_guarded(objects))
    for place, (budget, guarded) in enumerate(pairs):
        for other, also in pairs[place + 1 :]:
            shared = [each for each in guarded if each in also]
            if shared:
                said = f"selects pods of {shared[0]} as well as budget {other}: an eviction of one fails with an error"
                yield Objection(_named(budget), said, "let each pod have one budget")


def budget_never_satisfied(objects: Objects) -> Objections:
    """More healthy pods are wanted than there are."""
    for budget, guarded in _guarded(objects):
        wanted, there = _wanted(budget, guarded), _count(guarded)
        if wanted is not None and there is not None and guarded and wanted > there:
            said = f"wants {wanted} healthy pods, and there are {there} in all: no pod may ever be evicted"
            yield Objection(_named(budget), said, f"write minAvailable: {max(there - 1, 0)}, or maxUnavailable: 1")


def single_replica_budget(objects: Objects) -> Objections:
    """One pod, of which one must be there: it can be neither evicted nor moved."""
    for budget, guarded in _guarded(objects):
        if _is_blocked(budget, guarded) and _count(guarded) == 1:
            said = f"wants the only pod of {guarded[0]} to be there: every drain of its node waits without end"
            yield Objection(_named(budget), said, "run two replicas, or write maxUnavailable: 1")


def budget_blocks_drain(objects: Objects) -> Objections:
    """All pods must be there, so none may go, even when all are healthy."""
    for budget, guarded in _guarded(objects):
        if not _is_blocked(budget, guarded) or _count(guarded) == 1:
            continue
        what = (
            f"minAvailable: {budget.min_available}"
            if budget.min_available is not None
            else f"maxUnavailable: {budget.max_unavailable}"
        )
        there = _count(guarded)
        of = "all pods" if there is None else f"all {there} pods"
        said = f"{what} wants {of} to be there: no pod may go, and every drain of their nodes waits without end"
        yield Objection(_named(budget), said, "write maxUnavailable: 1")


def invalid_budget(objects: Objects) -> Objections:
    """A selector or a number that the API would refuse."""
    for budget in objects.budgets:
        try:
            select(budget.selector)
            for value in (budget.min_available, budget.max_unavailable):
                if value is not None:
                    scaled(value, 100, round_up=True)
        except InputError as error:
            yield Objection(_named(budget), str(error))


def _guarded(objects: Objects) -> Iterator[tuple[Budget, list[PodGroup]]]:
    """Each budget that can be counted, with the groups whose pods it selects."""
    broken = {each.where for each in invalid_budget(objects)}
    for budget in objects.budgets:
        if _named(budget) in broken:
            continue
        selector = select(budget.selector)
        yield (
            budget,
            [
                group
                for group in objects.groups
                if not group.is_owned and group.namespace == budget.namespace and selector.matches(group.labels)
            ],
        )


def _count(guarded: Sequence[PodGroup]) -> int | None:
    """None where one of them has as many pods as something else decides."""
    counts = [group.replicas for group in guarded]
    return None if None in counts else sum(count for count in counts if count is not None)


def _wanted(budget: Budget, guarded: Sequence[PodGroup]) -> int | None:
    """How many must be healthy, as the disruption controller counts."""
    there = _count(guarded)
    if budget.min_available is not None:
        if isinstance(budget.min_available, int):
            return budget.min_available
        return None if there is None else scaled(budget.min_available, there, round_up=True)
    if budget.max_unavailable is None or there is None:
        return None
    return max(there - scaled(budget.max_unavailable, there, round_up=True), 0)


def _is_blocked(budget: Budget, guarded: Sequence[PodGroup]) -> bool:
    """Whether no pod may go even when all of them are healthy, and that many could be."""
    if not guarded:
        return False
    there, wanted = _count(guarded), _wanted(budget, guarded)
    if there is None:
        return budget.max_unavailable in (0, "0%") or budget.min_available == "100%"
    return there > 0 and wanted == there


def _named(budget: Budget) -> str:
    return f"PodDisruptionBudget {budget}"
