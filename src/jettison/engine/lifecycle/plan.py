"""Which containers of a pod to start next, from what they do now.

Init containers run one after another; each must succeed before the next. A sidecar among them must be up before the
next, and is kept running from then on. When all are through, the regular containers run together; when all of those
have ended for good, so has the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jettison.engine.lifecycle import runs
from jettison.engine.lifecycle.rules import RestartPolicy
from jettison.engine.lifecycle.state import ContainerLife


@dataclass(frozen=True, slots=True)
class Plan:
    """`start` now, and look again when something changes or at `due_ns`. `waiting` are in back-off."""

    start: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    due_ns: int | None = None
    is_initialized: bool = False
    is_over: bool = False


def plan(
    policy: RestartPolicy,
    inits: Sequence[ContainerLife],
    regulars: Sequence[ContainerLife],
    now_ns: int,
    *,
    was_initialized: bool,
) -> Plan:
    """The next step. Now is on the monotonic clock, and so is what the plan says."""
    wanted = list(inits) if was_initialized else _up_to_the_unfinished(inits)
    is_initialized = was_initialized or wanted is None
    if is_initialized:
        if all(_is_over(each, policy) for each in regulars):
            return Plan(is_initialized=True, is_over=True)
        wanted = [*(each for each in inits if each.rules.is_sidecar), *regulars]
    elif wanted and _is_over(wanted[-1], policy):
        return Plan(is_over=True)
    start, waiting, due_ns = list[str](), list[str](), list[int]()
    for each in wanted or ():
        if each.has_processes or each.state in ("starting", "running"):
            continue
        if each.state == "waiting":
            start.append(each.name)
        elif runs.is_to_restart(each, policy):
            due = runs.due_ns(each, now_ns)
            (start if due <= now_ns else waiting).append(each.name)
            due_ns += [due] if due > now_ns else []
    return Plan(tuple(start), tuple(waiting), min(due_ns, default=None), is_initialized)


def _up_to_the_unfinished(inits: Sequence[ContainerLife]) -> list[ContainerLife] | None:
    """The init containers up to the first that is not done yet; None when all are."""
    for index, each in enumerate(inits):
        is_done = each.is_up if each.rules.is_sidecar else each.has_succeeded and not each.has_processes
        if not is_done:
            return list(inits[: index + 1])
    return None


def _is_over(each: ContainerLife, policy: RestartPolicy) -> bool:
    return each.state == "terminated" and not each.has_processes and not runs.is_to_restart(each, policy)
