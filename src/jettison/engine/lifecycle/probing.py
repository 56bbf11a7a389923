"""When a container is asked how it is, and what the answers come to.

Counted as the kubelet counts: `failures` or `successes` of the same kind in a row change the verdict, and an answer
that could not be had at all counts for nothing. A startup probe comes first and alone; the others begin when it has
succeeded. A container that is being stopped is asked only whether it is ready.
"""

from __future__ import annotations

from jettison.engine.lifecycle import ending
from jettison.engine.lifecycle.effects import Probe, Turn
from jettison.engine.lifecycle.events import ProbeAnswered
from jettison.engine.lifecycle.facts import ProbeFailed
from jettison.engine.lifecycle.rules import SECOND_NS, ProbeKind, probe_of
from jettison.engine.lifecycle.state import ContainerLife, Probing

_AFTER_STARTUP = (ProbeKind.LIVENESS, ProbeKind.READINESS)


def begin(turn: Turn, container: ContainerLife) -> ContainerLife:
    """Its program runs; returns the container as ready as it is without having been asked."""
    kinds = _AFTER_STARTUP if container.is_started else (ProbeKind.STARTUP,)
    if container.is_started:
        container = container._replace(is_ready=probe_of(container.rules, ProbeKind.READINESS) is None)
    begun_ns = turn.now_ns if container.begun_monotonic_ns is None else container.begun_monotonic_ns
    found = [rules for kind in kinds if (rules := probe_of(container.rules, kind)) is not None]
    if found:
        new = (
            Probing(container.name, container.run, each, max(begun_ns + each.initial_delay * SECOND_NS, turn.now_ns))
            for each in found
        )
        turn.change(probes=(*turn.life.probes, *new))
    return container


def end(turn: Turn, container: str) -> None:
    """It does not run any more."""
    ending.drop_probes(turn, container, tuple(ProbeKind))


def ask_what_is_due(turn: Turn) -> None:
    """The probes whose time has come, the longest due first."""
    now_ns, after = turn.now_ns, list(turn.life.probes)
    due = [
        (each.due_monotonic_ns, index)
        for index, each in enumerate(after)
        if not each.is_asked and each.due_monotonic_ns <= now_ns
    ]
    for _, index in sorted(due):
        if not turn.may_act():
            break
        each = after[index]
        turn.do(Probe(each.container, each.run, each.kind))
        after[index] = each._replace(is_asked=True)
    if due:
        turn.change(probes=tuple(after))


def answered(turn: Turn, event: ProbeAnswered) -> None:
    """Count the answer. The answer of a probe that has ended is ignored."""
    found = _asked(turn.life.probes, event)
    container = turn.container(event.container)
    if found is None or container is None:
        return
    due_ns = max(found.due_monotonic_ns + found.rules.period * SECOND_NS, turn.now_ns)
    is_news, streak, latest, verdict = False, found.streak, found.latest, found.verdict
    if event.is_well is not None:
        streak, latest = streak + 1 if event.is_well is latest else 1, event.is_well
        needed = found.rules.successes if latest else found.rules.failures
        is_news = streak >= needed and latest is not verdict
        verdict = latest if is_news else verdict
    after = Probing(found.container, found.run, found.rules, due_ns, False, streak, latest, verdict)
    turn.change(probes=tuple([after if each is found else each for each in turn.life.probes]))
    if is_news:
        _decided(turn, container, after, event.why)


def _asked(probes: tuple[Probing, ...], event: ProbeAnswered) -> Probing | None:
    """The one that waits for this answer."""
    for each in probes:
        if each.container == event.container and each.kind is event.kind and each.run == event.run and each.is_asked:
            return each
    return None


def _decided(turn: Turn, container: ContainerLife, probing: Probing, why: str) -> None:
    is_well, kind = bool(probing.verdict), probing.kind
    if not is_well:
        turn.say(ProbeFailed(turn.life.pod, container.name, kind.value, why))
    if kind is ProbeKind.READINESS:
        turn.put(container._replace(is_ready=is_well))
    elif not is_well:
        grace = turn.life.rules.grace_seconds if probing.rules.grace is None else probing.rules.grace
        until_ns = turn.now_ns + grace * SECOND_NS
        turn.put(container._replace(is_doomed=True, until_monotonic_ns=until_ns))
        turn.save()
        ending.stop(turn, container.name, until_ns)
    elif kind is ProbeKind.STARTUP:
        end(turn, container.name)
        turn.put(begin(turn, container._replace(is_started=True)))
        turn.save()
