"""How a pod ends: told first, given its time, then killed until nothing of it is left; and cleaned up.

Regular containers are told at once and together; sidecars when the others have gone, last started first. One container
is stopped by its preStop hook, SIGTERM, the rest of its time, and SIGKILL until it is gone. Grace periods only shrink.
Ending at once spares the asking: everything in the containers is killed.
"""

from __future__ import annotations

from dataclasses import replace

from jettison.engine.lifecycle import phases
from jettison.engine.lifecycle.effects import (
    CancelHook,
    CancelSetUp,
    CancelStart,
    CleanUp,
    Kill,
    RunHook,
    Signal,
    StopProbing,
    Turn,
)
from jettison.engine.lifecycle.events import HookDone, ToldToEnd
from jettison.engine.lifecycle.facts import ContainerStopping, DeadlineExceeded, HookFailed, PodCleanedUp
from jettison.engine.lifecycle.rules import SECOND_NS, HookKind, ProbeKind
from jettison.engine.lifecycle.state import ContainerLife, Ending, PodLife, Verdict
from jettison.engine.node import wording
from jettison.engine.node.evictions import RUNTIME_MINIMUM, effective_grace
from jettison.engine.pods.pod import FAILED

KILL_AGAIN_NS = SECOND_NS
"""Between two SIGKILLs to a container that is not gone."""

GIVING_UP = (ProbeKind.STARTUP, ProbeKind.LIVENESS)
"""The probes that restart a container. One that is being stopped is not given up by them as well."""


def told(turn: Turn, event: ToldToEnd) -> None:
    """Begin to end, or hurry. The intention is saved before the first signal."""
    life, now_ns = turn.life, turn.now_ns
    if life.verdict is not None:
        turn.change(is_unwanted=event.is_unwanted or life.is_unwanted)
        turn.save()
        return
    known = None if life.ending is None or life.ending.is_natural else life.ending
    before = known or Ending(0, now_ns, now_ns)
    own = life.rules.grace_seconds
    grace = effective_grace(override=event.grace_seconds, pod_grace=own, in_force=before.grace_seconds)
    until_ns = now_ns + grace * SECOND_NS
    ending = replace(
        before,
        grace_seconds=grace,
        until_monotonic_ns=until_ns if life.ending is None else min(life.ending.until_monotonic_ns, until_ns),
        order=before.order if event.order is None else event.order,
        ordered_monotonic_ns=before.ordered_monotonic_ns if event.order is None else now_ns,
        is_untold=before.is_untold or event.order is not None,
        is_at_once=event.is_at_once or before.is_at_once,
    )
    turn.change(ending=ending, is_unwanted=event.is_unwanted or life.is_unwanted)
    turn.save()
    if life.ending is None:
        _begin(turn)
    elif event.is_at_once:
        _kill_all(turn)
    else:
        _tell_again(turn)


def exceed_deadline(turn: Turn) -> None:
    """It was active for as long as it may."""
    own, now_ns = turn.life.rules.grace_seconds, turn.now_ns
    turn.change(ending=Ending(own, now_ns, now_ns + own * SECOND_NS, is_overdue=True))
    turn.save()
    _begin(turn)
    turn.say(DeadlineExceeded(turn.life.pod, turn.life.rules.deadline_seconds or 0))


def deadline_ns(life: PodLife) -> int | None:
    """It counts from the pod's own start, so also while there is no agent."""
    if life.rules.deadline_seconds is None or life.ending is not None or life.verdict is not None:
        return None
    return (life.started_monotonic_ns or 0) + life.rules.deadline_seconds * SECOND_NS


def end_by_itself(turn: Turn) -> None:
    """Its regular containers have ended for good: what is left are sidecars."""
    own, now_ns = turn.life.rules.grace_seconds, turn.now_ns
    turn.change(ending=Ending(own, now_ns, now_ns + own * SECOND_NS, is_natural=True))
    if any(each.has_processes for each in turn.life.containers):
        turn.save()
    _begin(turn)


def go_on(turn: Turn) -> None:
    """An earlier agent has begun it: what is left of its time is left."""
    ending = turn.life.ending
    if ending is not None:
        latest_ns = turn.now_ns + ending.grace_seconds * SECOND_NS
        turn.change(ending=replace(ending, until_monotonic_ns=min(ending.until_monotonic_ns, latest_ns)))
        _begin(turn)


def _begin(turn: Turn) -> None:
    """The first signals."""
    ending = turn.life.ending
    if ending is None:
        return
    turn.change(set_up_again_ns=None)
    if turn.life.set_up == "under way":
        turn.do(CancelSetUp())
    turn.do(*(CancelStart(each.name) for each in turn.life.containers if each.state == "starting"))
    if ending.is_at_once:
        _kill_all(turn)
        return
    for each in turn.life.containers:
        if each.rules.is_sidecar:
            drop_probes(turn, each.name, GIVING_UP)
    turn.change(untold=tuple([each.name for each in turn.life.containers if not each.rules.is_sidecar]))
    _tell_the_untold(turn)


def _tell_again(turn: Turn) -> None:
    """Those that were told have less time now."""
    life = turn.life
    again = [each.name for each in life.containers if each.until_monotonic_ns is not None or each.name in life.untold]
    turn.change(untold=tuple(again))
    _tell_the_untold(turn)


def _kill_all(turn: Turn) -> None:
    turn.change(untold=tuple([each.name for each in turn.life.containers]))
    _tell_the_untold(turn)


def _tell_the_untold(turn: Turn) -> None:
    """Some of them with each event. What the ending says by then counts: an order to hurry meets no earlier one."""
    ending, untold = turn.life.ending, turn.life.untold
    if ending is None or not untold:
        return
    left = list(untold)
    while left:
        container = turn.container(left[0])
        if container is not None and container.has_processes:
            if not turn.may_act():
                break
            if ending.is_at_once:
                kill(turn, container.name)
            else:
                stop(turn, container.name, ending.until_monotonic_ns, ending.began_monotonic_ns)
        elif container is not None:
            drop_probes(turn, container.name, GIVING_UP)
        left.pop(0)
    turn.change(untold=tuple(left))


def settle(turn: Turn) -> None:
    """Take the next step of an ending, if the last one is done: the next sidecar, or the verdict."""
    ending = turn.life.ending
    if ending is None or turn.life.verdict is not None or turn.life.untold:
        return
    if any(each.has_processes for each in turn.life.containers if not each.rules.is_sidecar):
        return
    for each in reversed(turn.life.containers):
        if each.has_processes:
            if each.kill_monotonic_ns is None and not each.is_hook_running:
                stop(turn, each.name, ending.until_monotonic_ns)
            return
    if turn.life.set_up == "under way":
        return
    kept = None if ending.is_natural else ending
    verdict = final_verdict(turn.life)
    turn.change(verdict=verdict, ending=kept, stopped_monotonic_ns=turn.now_ns)
    turn.save()
    clean_up(turn)


def final_verdict(life: PodLife) -> Verdict:
    """Of a pod none of whose containers runs any more.

    An eviction has failed it, and so has its deadline, however well it took that. Of the two it is the eviction's.
    """
    order = None if life.ending is None else life.ending.order
    is_overdue = life.ending is not None and life.ending.is_overdue
    phase = FAILED if order is not None or is_overdue else phases.final_phase(life)
    conditions = phases.conditions(life, phase, was_initialized=life.is_initialized)
    if order is not None:
        return Verdict(phase, order.reason, order.message, tuple(order.conditions_after(conditions)))
    if is_overdue:
        return Verdict(phase, wording.DEADLINE_EXCEEDED, wording.DEADLINE_MESSAGE, conditions)
    return Verdict(phase, conditions=conditions)


def clean_up(turn: Turn) -> None:
    """Of a pod that ended by itself the writable directories stay until room is short."""
    turn.do(CleanUp(_is_evicted(turn.life) or turn.life.is_unwanted))


def cleaned_up(turn: Turn) -> None:
    """Nothing is left of it. The agent that ordered an eviction tells its end itself."""
    turn.change(is_cleaned=True)
    turn.save()
    if not _is_evicted(turn.life):
        turn.say(PodCleanedUp(turn.life.pod))


def _is_evicted(life: PodLife) -> bool:
    return life.ending is not None and life.ending.order is not None


def drop_probes(turn: Turn, container: str, kinds: tuple[ProbeKind, ...]) -> None:
    """Ask no more of these, and do not wait for answers."""
    dropped = [each for each in turn.life.probes if each.container == container and each.kind in kinds]
    if dropped:
        turn.change(probes=tuple([each for each in turn.life.probes if each not in dropped]))
        turn.do(*(StopProbing(container, each.kind) for each in dropped if each.is_asked))


def stop(turn: Turn, name: str, until_ns: int, since_ns: int | None = None) -> None:
    """SIGTERM, after the preStop hook if there is one. Told again, a container has less time at most.

    `since_ns` is when it should have been told. An agent that died right then may have done it or not, so it is told
    now, and has no more time than it had.
    """
    drop_probes(turn, name, GIVING_UP)
    container = turn.container(name)
    if container is None or not container.is_running:
        return
    _cancel_post_start(turn, container)
    known_ns, told_ns = container.until_monotonic_ns, container.told_monotonic_ns
    until_ns = until_ns if known_ns is None else min(known_ns, until_ns)
    is_new = told_ns is None and not container.is_hook_running
    if is_new and container.rules.pre_stop is None:
        _tell(turn, container, until_ns, turn.now_ns if since_ns is None else min(since_ns, turn.now_ns))
    else:
        after = container._replace(
            until_monotonic_ns=until_ns,
            kill_monotonic_ns=container.kill_monotonic_ns
            if told_ns is None
            else _kill_ns(container, until_ns, told_ns),
            is_hook_running=told_ns is None,
            is_post_start_running=False,
        )
        turn.put(after)
        turn.do(*([RunHook(name, container.run)] if is_new else []))
    if is_new:
        turn.say(ContainerStopping(turn.life.pod, name))


def _cancel_post_start(turn: Turn, container: ContainerLife) -> None:
    """A container that is to end is not waited for by its postStart hook."""
    if container.is_post_start_running:
        turn.do(CancelHook(container.name, HookKind.POST_START))


def _tell(turn: Turn, container: ContainerLife, until_ns: int, told_ns: int) -> None:
    turn.do(Signal(container.name))
    turn.put(
        container._replace(
            until_monotonic_ns=until_ns,
            told_monotonic_ns=told_ns,
            kill_monotonic_ns=_kill_ns(container, until_ns, told_ns),
            is_hook_running=False,
            is_post_start_running=False,
        )
    )
    # After the signal, so that an agent that takes over does not begin to count anew.
    turn.save(is_late=True)


def _kill_ns(container: ContainerLife, until_ns: int, told_ns: int) -> int:
    """The kubelet has its runtime wait 2 s after SIGTERM, however short the grace period is."""
    kill_ns = max(until_ns, told_ns + RUNTIME_MINIMUM * SECOND_NS)
    known_ns = container.kill_monotonic_ns
    return kill_ns if known_ns is None else min(known_ns, kill_ns)


def hook_ended(turn: Turn, event: HookDone) -> None:
    """Whatever came of the hook, the container is told now."""
    container = turn.container(event.container)
    if container is not None and container.is_hook_running and container.run == event.run:
        if event.why:
            turn.say(HookFailed(turn.life.pod, container.name, event.kind.value, event.why))
        _tell(turn, container, container.until_monotonic_ns or turn.now_ns, turn.now_ns)


def kill(turn: Turn, name: str) -> None:
    """Without asking."""
    drop_probes(turn, name, GIVING_UP)
    container = turn.container(name)
    if container is None or not container.has_processes:
        return
    _cancel_post_start(turn, container)
    if container.is_hook_running:
        turn.do(CancelHook(name))
    turn.do(Kill(name))
    turn.put(
        container._replace(
            until_monotonic_ns=turn.now_ns,
            kill_monotonic_ns=turn.now_ns + KILL_AGAIN_NS,
            is_hook_running=False,
            is_post_start_running=False,
        )
    )


def pass_time(turn: Turn) -> None:
    """Containers that were not told yet; hooks and containers whose time is up."""
    _tell_the_untold(turn)
    if turn.life.ending is None:
        _stop_the_doomed(turn)
    for each in turn.life.containers:
        due_at_ns = None if each.until_monotonic_ns is None else due_ns(each)
        if due_at_ns is None or due_at_ns > turn.now_ns:
            continue
        if not turn.may_act():
            return
        if each.is_hook_running:
            turn.do(CancelHook(each.name))
            why = "it was still running when the grace period was over"
            turn.say(HookFailed(turn.life.pod, each.name, HookKind.PRE_STOP.value, why))
            _tell(turn, each, due_at_ns, turn.now_ns)
        else:
            turn.do(Kill(each.name))
            turn.put(each._replace(kill_monotonic_ns=turn.now_ns + KILL_AGAIN_NS))


def _stop_the_doomed(turn: Turn) -> None:
    """A probe had failed, and an agent died while it stopped the container: the time for that has begun already."""
    for each in turn.life.containers:
        if not each.is_doomed or not each.is_running or each.is_hook_running or each.kill_monotonic_ns is not None:
            continue
        if not turn.may_act():
            return
        own_ns = turn.life.rules.grace_seconds * SECOND_NS
        until_ns = each.until_monotonic_ns
        if until_ns is None:
            # An older version of this program has written no end.
            until_ns = (turn.now_ns if each.told_monotonic_ns is None else each.told_monotonic_ns) + own_ns
        stop(turn, each.name, min(until_ns, turn.now_ns + own_ns))


def due_ns(container: ContainerLife) -> int | None:
    """When `pass_time` has something to do with one that is being stopped."""
    if not container.is_running:
        return None
    return container.until_monotonic_ns if container.is_hook_running else container.kill_monotonic_ns
