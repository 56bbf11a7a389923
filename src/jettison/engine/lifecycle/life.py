"""`advance(pod, event) → (pod, effects)`: everything about a pod's life that touches no process.

A runtime turns what happened into events and effects into calls; the rules are here and nowhere else. Nothing in here
waits: what has to happen later is a `WakeAt`, and time passes only through the moments that events carry. So a
simulator runs years in seconds, and a test needs no sleep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jettison.engine.lifecycle import ending, probing, runs
from jettison.engine.lifecycle import events as ev
from jettison.engine.lifecycle.effects import CancelHook, Effect, Remove, RunHook, SetUp, Start, Turn, WakeAt
from jettison.engine.lifecycle.facts import (
    ContainerBackOff,
    ContainerFinished,
    ContainerStarted,
    HookFailed,
    PodWaiting,
)
from jettison.engine.lifecycle.rules import SECOND_NS, HookKind
from jettison.engine.lifecycle.runs import plan
from jettison.engine.lifecycle.state import ContainerLife, PodLife, Trouble, new_containers


def advance(life: PodLife, event: ev.Event) -> tuple[PodLife, list[Effect]]:
    """The life after the event, and what the runtime has to do, in this order."""
    turn = Turn(life, event.at)
    handle: Callable[[Turn, Any], None] = _HANDLERS[type(event)]
    handle(turn, event)
    _pass_time(turn)
    _settle(turn)
    due_ns = turn.now_ns if turn.is_cut else _due_ns(turn.life, turn.now_ns)
    # A timer that has rung is set again, also for the same moment: it may have rung a little early.
    if due_ns != turn.life.wake_at_ns or (due_ns is not None and isinstance(event, ev.TimePassed)):
        turn.change(wake_at_ns=due_ns)
        turn.do(WakeAt(due_ns))
    return turn.life, turn.whole()


def _asked(turn: Turn, _: ev.Asked) -> None:
    _set_up(turn)


def _set_up(turn: Turn) -> None:
    turn.change(set_up="under way", set_up_again_ns=None)
    turn.do(SetUp())


def _found(turn: Turn, event: ev.Found) -> None:
    """Go on where an agent that died has left off."""
    if turn.life.is_cleaned:
        return
    before, pauses = turn.life.containers, turn.life.pauses
    by_name = {each.name: each for each in event.containers}
    containers, said = list[ContainerLife](), list[ContainerLife]()
    for container in before:
        found, after = by_name.get(container.name), container
        if found is not None:
            is_running, was_born = found.is_running, found.was_born
            after = runs.found_again(container, turn.now, is_running=is_running, was_born=was_born, pauses=pauses)
            is_ended = after is not container and after.state == "terminated"
            after = after._replace(has_processes=is_running or found.has_remains)
            said += [after] if is_ended and not is_running else []
            after = probing.begin(turn, after) if is_running else after
        containers.append(after)
    turn.change(containers=tuple(containers))
    if any(_is_other_to_save(*each) for each in zip(before, containers, strict=True)):
        turn.save()
    for each in said:
        _say_finished(turn, each)
    turn.do(*(Remove(each.name) for each in turn.life.containers if each.has_processes and not each.is_running))
    if turn.life.verdict is not None:
        ending.clean_up(turn)
    elif turn.life.ending is not None:
        ending.go_on(turn)
    else:
        _set_up(turn)


def _is_other_to_save(before: ContainerLife, after: ContainerLife) -> bool:
    return (before.state, before.run) != (after.state, after.run)


def _added(turn: Turn, event: ev.Added) -> None:
    """A pod that ends gets no more."""
    if turn.life.ending is not None or turn.life.verdict is not None:
        return
    known = {each.name for each in turn.life.containers}
    new = [ContainerLife(each) for each in event.rules.ephemeral_containers if each.name not in known]
    turn.change(rules=event.rules, containers=(*turn.life.containers, *new))
    if new:
        turn.save()


def _set_up_done(turn: Turn, event: ev.SetUpDone) -> None:
    _take_rules(turn, event)
    turn.change(set_up="done", trouble=None, set_up_again_ns=None)


def _take_rules(turn: Turn, event: ev.SetUpDone | ev.SetUpFailed) -> None:
    if event.rules is not turn.life.rules:
        turn.change(rules=event.rules, containers=new_containers(event.rules, turn.life.containers))


def _set_up_failed(turn: Turn, event: ev.SetUpFailed) -> None:
    """The pauses between attempts grow, each kind between its own bounds."""
    _take_rules(turn, event)
    _set_up_later(turn, event.trouble)


def _set_up_later(turn: Turn, trouble: Trouble) -> None:
    pause, longer = runs.next_pauses(turn.life.set_up_pause, trouble, turn.life.pauses)
    again_ns = turn.now_ns + round(pause * SECOND_NS)
    turn.change(set_up="waiting", trouble=trouble, set_up_pause=longer, set_up_again_ns=again_ns)
    _say_waiting(turn, trouble, pause)


def _say_waiting(turn: Turn, trouble: Trouble, pause: float) -> None:
    turn.say(PodWaiting(turn.life.pod, trouble.reason, trouble.told, trouble.event, pause))


def _set_up_cancelled(turn: Turn, _: ev.SetUpCancelled) -> None:
    turn.change(set_up="waiting")


def _started(turn: Turn, event: ev.Started) -> None:
    container = turn.container(event.container)
    if container is None or container.state != "starting":
        return
    container = runs.running(container, turn.now)
    turn.put(container)
    turn.save()
    turn.say(ContainerStarted(turn.life.pod, container.name, container.run))
    if container.is_post_start_running and turn.life.ending is None:
        turn.do(RunHook(container.name, container.run, HookKind.POST_START))
    else:
        turn.put(probing.begin(turn, runs.after_post_start(container)))
    if turn.life.ending is not None:
        # It was quicker than the order to cancel its start.
        ending.go_on(turn)


def _not_started(turn: Turn, event: ev.NotStarted) -> None:
    container = turn.container(event.container)
    if container is not None and container.state == "starting":
        _finished(turn, runs.not_started(container, turn.now, event.why, turn.life.pauses))


def _start_hindered(turn: Turn, event: ev.StartHindered) -> None:
    """An ephemeral container waits by itself. For another one the whole set-up is repeated until all is there; an image
    that is gone from under a pod that runs is a failed start, because the rest of the pod goes on.
    """
    container, trouble = turn.container(event.container), event.trouble
    if container is None or container.state != "starting":
        return
    if container.rules.is_ephemeral:
        after, pause = runs.hindered(container, turn.now, trouble, turn.life.pauses)
        _not_begun(turn, after)
        _say_waiting(turn, trouble, pause)
    elif trouble.is_refusal:
        _finished(turn, runs.not_started(container, turn.now, trouble.told, turn.life.pauses))
    else:
        if turn.life.ending is None:
            _set_up_later(turn, trouble)
        _not_begun(turn, runs.cancelled(container))


def _start_cancelled(turn: Turn, event: ev.StartCancelled) -> None:
    container = turn.container(event.container)
    if container is not None and container.state == "starting":
        _not_begun(turn, runs.cancelled(container))


def _not_begun(turn: Turn, container: ContainerLife) -> None:
    turn.put(container)
    turn.save()
    turn.do(Remove(container.name))


def _exited(turn: Turn, event: ev.Exited) -> None:
    container = turn.container(event.container)
    if container is not None and container.is_running:
        probing.end(turn, container.name)
        if container.is_post_start_running:
            turn.do(CancelHook(container.name, HookKind.POST_START))
        is_oom, message, pauses = event.is_oom, event.message, turn.life.pauses
        ended = runs.ended(container, turn.now, event.exit_code, is_oom=is_oom, message=message, pauses=pauses)
        _finished(turn, ended)


def _finished(turn: Turn, container: ContainerLife) -> None:
    """The exit is saved first, because nothing could find it out again."""
    turn.put(container)
    turn.save()
    _say_finished(turn, container)
    turn.do(Remove(container.name))


def _say_finished(turn: Turn, each: ContainerLife) -> None:
    turn.say(ContainerFinished(turn.life.pod, each.name, each.exit_code or 0, each.reason, each.message))


def _removed(turn: Turn, event: ev.Removed) -> None:
    container = turn.container(event.container)
    if container is not None:
        turn.put(container._replace(has_processes=False))


def _hook_done(turn: Turn, event: ev.HookDone) -> None:
    if event.kind is HookKind.PRE_STOP:
        ending.hook_ended(turn, event)
        return
    container = turn.container(event.container)
    if container is None or not container.is_post_start_running or container.run != event.run:
        return
    if not event.why:
        turn.put(probing.begin(turn, runs.after_post_start(container)))
        turn.save()
        return
    # It is ended as by a probe that fails, and its restart policy says what follows.
    turn.say(HookFailed(turn.life.pod, container.name, event.kind.value, event.why))
    until_ns = turn.now_ns + turn.life.rules.grace_seconds * SECOND_NS
    turn.put(container._replace(is_post_start_running=False, is_doomed=True, until_monotonic_ns=until_ns))
    turn.save()
    ending.stop(turn, container.name, until_ns)


def _time_passed(turn: Turn, _: ev.TimePassed) -> None:
    """Time passes in every event; see `_pass_time`."""


def _eviction_told(turn: Turn, _: ev.EvictionTold) -> None:
    known = turn.life.ending
    if known is not None and known.is_untold:
        turn.change(ending=replace(known, is_untold=False))
        turn.save()


def _cleaned_up(turn: Turn, _: ev.CleanedUp) -> None:
    ending.cleaned_up(turn)


_HANDLERS: dict[type[ev.Event], Callable[[Turn, Any], None]] = {
    ev.Asked: _asked,
    ev.Found: _found,
    ev.Added: _added,
    ev.SetUpDone: _set_up_done,
    ev.SetUpFailed: _set_up_failed,
    ev.SetUpCancelled: _set_up_cancelled,
    ev.Started: _started,
    ev.NotStarted: _not_started,
    ev.StartHindered: _start_hindered,
    ev.StartCancelled: _start_cancelled,
    ev.Exited: _exited,
    ev.Removed: _removed,
    ev.HookDone: _hook_done,
    ev.ProbeAnswered: probing.answered,
    ev.TimePassed: _time_passed,
    ev.ToldToEnd: ending.told,
    ev.EvictionTold: _eviction_told,
    ev.CleanedUp: _cleaned_up,
}


def _pass_time(turn: Turn) -> None:
    """Do what is due."""
    if turn.life.verdict is not None:
        return
    deadline_ns = ending.deadline_ns(turn.life)
    if deadline_ns is not None and deadline_ns <= turn.now_ns:
        ending.exceed_deadline(turn)
    ending.pass_time(turn)
    probing.ask_what_is_due(turn)
    again_ns = turn.life.set_up_again_ns
    if again_ns is not None and again_ns <= turn.now_ns:
        _set_up(turn)


def _settle(turn: Turn) -> None:
    """Take the next step towards what should be: start what is to run, or end what is to end.

    Containers are started one at a time, as the kubelet does. Ephemeral ones do not make the others wait: the image of
    one may take minutes to come.
    """
    if turn.life.ending is None and turn.life.verdict is None and turn.life.set_up == "done":
        _start_next(turn)
        ephemeral = runs.next_ephemeral(turn.life.ephemerals, turn.now_ns)
        if ephemeral is not None and turn.life.ending is None:
            _begin_run(turn, ephemeral)
    ending.settle(turn)


def _start_next(turn: Turn) -> None:
    life = turn.life
    for each in life.containers:
        if (each.state == "starting" or each.is_post_start_running) and not each.rules.is_ephemeral:
            return
    next_ = plan(life.rules.restart_policy, life.inits, life.regulars, turn.now_ns, was_initialized=life.is_initialized)
    if next_.is_initialized and not life.is_initialized:
        turn.change(is_initialized=True)
        turn.save()
    if next_.is_over:
        ending.end_by_itself(turn)
        return
    for each in life.containers:
        if not each.is_back_off_said and each.name in next_.waiting and turn.may_act():
            turn.put(each._replace(is_back_off_said=True))
            turn.say(ContainerBackOff(life.pod, each.name, each.back_off))
    starting = turn.container(next_.start[0]) if next_.start else None
    if starting is not None:
        _begin_run(turn, starting)


def _begin_run(turn: Turn, container: ContainerLife) -> None:
    after = runs.begun(container, turn.now)
    turn.put(after)
    turn.save()
    turn.do(Start(after.name, after.run))


def _due_ns(life: PodLife, now_ns: int) -> int | None:
    """When something is due that no other event will bring."""
    if life.verdict is not None:
        return None
    due = [life.set_up_again_ns, ending.deadline_ns(life)]
    due += [ending.due_ns(each) for each in life.containers if each.until_monotonic_ns is not None]
    due += [each.due_monotonic_ns for each in life.probes if not each.is_asked]
    if life.ending is None and life.set_up == "done":
        # One that is due already waits for another one to have started, which is an event.
        later = [runs.due_ns(each, now_ns) for each in life.containers if each.is_back_off_said]
        later += [each.start_again_ns for each in life.containers if each.start_again_ns is not None]
        due += [each for each in later if each > now_ns]
    return min([each for each in due if each is not None], default=None)
