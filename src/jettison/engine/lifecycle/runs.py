"""How a container goes from one run to the next: begun, running, ended, started again; and which is next.

Init containers run one after another; each must succeed before the next. A sidecar among them must be up before the
next, and is kept running from then on. When all are through, the regular containers run together; when all of those
have ended for good, so has the pod. Ephemeral containers run beside all of these, each once.
"""

from __future__ import annotations

from collections.abc import Sequence

from jettison.engine.lifecycle.facts import NOT_STARTED
from jettison.engine.lifecycle.rules import PAUSES, SECOND_NS, Moment, Pauses, ProbeKind, RestartPolicy, probe_of
from jettison.engine.lifecycle.state import ContainerLife, FinishedRun, Trouble
from jettison.values import frozen

FORGIVEN_NS = 600 * SECOND_NS
"""A container that has run for so long since its last start begins anew, without back-off."""

UNKNOWN_EXIT = 137
START_ERROR = 128


def begun(container: ContainerLife, now: Moment) -> ContainerLife:
    """The next run is about to start."""
    return ContainerLife(
        container.rules,
        "starting",
        container.run + 1,
        begun_monotonic_ns=now.monotonic_ns,
        back_off=container.back_off,
        last=_last(container),
        has_processes=True,
        before=container,
        trouble=container.trouble,
    )


def _last(container: ContainerLife) -> FinishedRun | None:
    """A start that came to nothing leaves a container that waits, and the run before that is still the last."""
    if container.state != "terminated":
        return container.last
    return FinishedRun(
        container.run,
        container.exit_code,
        container.reason,
        container.message,
        container.started_ns,
        container.finished_ns,
    )


def running(container: ContainerLife, now: Moment) -> ContainerLife:
    """Its program runs. Without a startup probe it counts as started, without a readiness probe as ready then.

    A postStart hook comes before both.
    """
    has_hook = container.rules.post_start is not None
    is_started = not has_hook and probe_of(container.rules, ProbeKind.STARTUP) is None
    return container._replace(
        state="running",
        started_ns=now.wall_ns,
        is_started=is_started,
        is_post_start_running=has_hook,
        before=None,
        trouble=None,
    )


def after_post_start(container: ContainerLife) -> ContainerLife:
    """Its postStart hook is over; what follows is as without one."""
    is_started = container.is_started or probe_of(container.rules, ProbeKind.STARTUP) is None
    if is_started is container.is_started and not container.is_post_start_running:
        return container
    return container._replace(is_post_start_running=False, is_started=is_started)


def cancelled(container: ContainerLife) -> ContainerLife:
    """As if the start had never been tried, but for what has to be removed."""
    return (container.before or ContainerLife(container.rules))._replace(has_processes=True)


def hindered(container: ContainerLife, now: Moment, trouble: Trouble, pauses: Pauses) -> tuple[ContainerLife, float]:
    """As before the start, with what it lacks; and in how many seconds it is tried again."""
    before = cancelled(container)
    pause, longer = next_pauses(before.start_pause, trouble, pauses)
    again_ns = now.monotonic_ns + round(pause * SECOND_NS)
    return before._replace(trouble=trouble, start_pause=longer, start_again_ns=again_ns), pause


def next_pauses(last: float, trouble: Trouble, pauses: Pauses) -> tuple[float, float]:
    """Until the next attempt at what something lacks, and until the one after it: each kind has bounds of its own."""
    shortest, longest = pauses.refusal if trouble.is_refusal else pauses.set_up
    pause = min(max(last, shortest), longest)
    return pause, min(2 * pause, longest)


def ended(
    container: ContainerLife,
    now: Moment,
    exit_code: int | None,
    *,
    is_oom: bool = False,
    message: str = "",
    pauses: Pauses = PAUSES,
) -> ContainerLife:
    """Its main process is gone; an exit code of None means that nothing could tell how."""
    if exit_code is None:
        reason = "ContainerStatusUnknown"
        message = "The container could not be located when the pod was terminated"
        return _terminated(container, now, pauses, UNKNOWN_EXIT, reason, message)
    if exit_code != 0 and is_oom:
        return _terminated(container, now, pauses, exit_code, "OOMKilled", message)
    return _terminated(container, now, pauses, exit_code, "Error" if exit_code else "Completed", message)


def found_again(
    container: ContainerLife, now: Moment, *, is_running: bool, was_born: bool, pauses: Pauses = PAUSES
) -> ContainerLife:
    """What a container comes to whose agent died: SIGKILL may fall between the birth of a process and `running`."""
    if is_running:
        # A hook that the agent's death has cut off is not repeated, as with a kubelet that is restarted.
        return after_post_start(container if container.state == "running" else running(container, now))
    if container.state == "starting" and not was_born:
        # No foreign program has run: the number of the run is free again.
        return container._replace(state="waiting", run=container.run - 1)
    return ended(container, now, None, pauses=pauses) if container.state in ("starting", "running") else container


def not_started(container: ContainerLife, now: Moment, why: str, pauses: Pauses = PAUSES) -> ContainerLife:
    """There is no process, and why."""
    return _terminated(container, now, pauses, START_ERROR, NOT_STARTED, why)


def _terminated(
    container: ContainerLife, now: Moment, pauses: Pauses, exit_code: int, reason: str, message: str = ""
) -> ContainerLife:
    return container._replace(
        state="terminated",
        finished_ns=now.wall_ns,
        ended_monotonic_ns=now.monotonic_ns,
        exit_code=exit_code,
        reason=reason,
        message=message,
        back_off=_back_off(container, now, *pauses.restart),
        is_ready=False,
        is_hook_running=False,
        is_post_start_running=False,
        kill_monotonic_ns=None,
        before=None,
        trouble=None,
    )


def _back_off(container: ContainerLife, now: Moment, first: int, longest: int) -> int:
    """0, 10, 20, 40 … 300 seconds. The first restart comes at once, as with the kubelet."""
    begun_ns = container.begun_monotonic_ns
    if container.run == 0 or (begun_ns is not None and now.monotonic_ns - begun_ns > FORGIVEN_NS):
        return 0
    return min(2 * container.back_off, longest) if container.back_off else first


def is_to_restart(container: ContainerLife, policy: RestartPolicy) -> bool:
    """Whether a container that has ended is started again."""
    if container.rules.is_ephemeral:
        return False
    if container.rules.is_sidecar:
        return True
    if policy is RestartPolicy.NEVER:
        return False
    if container.is_doomed or container.exit_code != 0:
        return True
    return policy is RestartPolicy.ALWAYS and not container.rules.is_init


def due_ns(container: ContainerLife, now_ns: int) -> int:
    """When the next run may start, on the monotonic clock. A container that ended at an unknown time does not wait."""
    ended_ns = container.ended_monotonic_ns
    return now_ns if ended_ns is None else ended_ns + container.back_off * SECOND_NS


def next_ephemeral(ephemerals: Sequence[ContainerLife], now_ns: int) -> ContainerLife | None:
    """Which one may start now. One at a time, in the order in which they were added; a hindered one lets others go
    first.
    """
    if any(each.state == "starting" for each in ephemerals):
        return None
    ready = (each for each in ephemerals if each.state == "waiting" and not each.has_processes)
    return next((each for each in ready if each.start_again_ns is None or each.start_again_ns <= now_ns), None)


@frozen
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
    start, waiting, later = list[str](), list[str](), list[int]()
    for each in wanted or ():
        if each.has_processes or each.state in ("starting", "running"):
            continue
        if each.state == "waiting":
            start.append(each.name)
        elif is_to_restart(each, policy):
            due = due_ns(each, now_ns)
            (start if due <= now_ns else waiting).append(each.name)
            later += [due] if due > now_ns else []
    return Plan(tuple(start), tuple(waiting), min(later, default=None), is_initialized)


def _up_to_the_unfinished(inits: Sequence[ContainerLife]) -> list[ContainerLife] | None:
    """The init containers up to the first that is not done yet; None when all are."""
    for index, each in enumerate(inits):
        is_done = each.is_up if each.rules.is_sidecar else each.has_succeeded and not each.has_processes
        if not is_done:
            return list(inits[: index + 1])
    return None


def _is_over(each: ContainerLife, policy: RestartPolicy) -> bool:
    return each.state == "terminated" and not each.has_processes and not is_to_restart(each, policy)
