"""How one container is stopped: preStop hook, SIGTERM, the rest of its time, SIGKILL until it is gone."""

from __future__ import annotations

from dataclasses import replace

from jettison.engine.lifecycle.effects import CancelHook, Kill, RunHook, Save, Signal, StopProbing, Turn
from jettison.engine.lifecycle.facts import ContainerStopping
from jettison.engine.lifecycle.rules import SECOND_NS, ProbeKind
from jettison.engine.lifecycle.state import ContainerLife
from jettison.engine.node.evictions import RUNTIME_MINIMUM

KILL_AGAIN_NS = SECOND_NS
"""Between two SIGKILLs to a container that is not gone."""

GIVING_UP = (ProbeKind.STARTUP, ProbeKind.LIVENESS)
"""The probes that restart a container. One that is being stopped is not given up by them as well."""


def drop_probes(turn: Turn, container: str, kinds: tuple[ProbeKind, ...]) -> None:
    """Ask no more of these, and do not wait for answers."""
    dropped = [each for each in turn.life.probes if each.container == container and each.kind in kinds]
    if dropped:
        turn.change(probes=tuple(each for each in turn.life.probes if each not in dropped))
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
    known_ns = container.until_monotonic_ns
    container = replace(container, until_monotonic_ns=until_ns if known_ns is None else min(known_ns, until_ns))
    if container.told_monotonic_ns is not None:
        turn.put(_with_kill_due(container))
    elif container.is_hook_running:
        turn.put(container)
    elif container.rules.pre_stop:
        turn.put(replace(container, is_hook_running=True))
        turn.do(RunHook(name, container.run))
        turn.say(ContainerStopping(turn.life.pod, name))
    else:
        _tell(turn, container, turn.now_ns if since_ns is None else min(since_ns, turn.now_ns))
        turn.say(ContainerStopping(turn.life.pod, name))


def _tell(turn: Turn, container: ContainerLife, told_ns: int) -> None:
    turn.do(Signal(container.name))
    turn.put(_with_kill_due(replace(container, told_monotonic_ns=told_ns, is_hook_running=False)))
    # After the signal, so that an agent that takes over does not begin to count anew.
    turn.do(Save())


def _with_kill_due(container: ContainerLife) -> ContainerLife:
    """The kubelet has its runtime wait 2 s after SIGTERM, however short the grace period is."""
    told_ns, until_ns = container.told_monotonic_ns or 0, container.until_monotonic_ns or 0
    kill_ns = max(until_ns, told_ns + RUNTIME_MINIMUM * SECOND_NS)
    known_ns = container.kill_monotonic_ns
    return replace(container, kill_monotonic_ns=kill_ns if known_ns is None else min(known_ns, kill_ns))


def hook_ended(turn: Turn, name: str, run: int) -> None:
    """Whatever came of the hook, the container is told now."""
    container = turn.container(name)
    if container is not None and container.is_hook_running and container.run == run:
        _tell(turn, container, turn.now_ns)


def kill(turn: Turn, name: str) -> None:
    """Without asking."""
    drop_probes(turn, name, GIVING_UP)
    container = turn.container(name)
    if container is None or not container.has_processes:
        return
    if container.is_hook_running:
        turn.do(CancelHook(name))
    turn.do(Kill(name))
    turn.put(
        replace(
            container,
            until_monotonic_ns=turn.now_ns,
            kill_monotonic_ns=turn.now_ns + KILL_AGAIN_NS,
            is_hook_running=False,
        )
    )


def pass_time(turn: Turn) -> None:
    """Hooks and containers whose time is up."""
    for each in turn.life.containers:
        if not each.is_running:
            continue
        until_ns, kill_ns = each.until_monotonic_ns, each.kill_monotonic_ns
        if each.is_hook_running and until_ns is not None and until_ns <= turn.now_ns:
            turn.do(CancelHook(each.name))
            _tell(turn, each, turn.now_ns)
        elif kill_ns is not None and kill_ns <= turn.now_ns:
            turn.do(Kill(each.name))
            turn.put(replace(each, kill_monotonic_ns=turn.now_ns + KILL_AGAIN_NS))


def due_ns(container: ContainerLife) -> int | None:
    """When `pass_time` has something to do."""
    if not container.is_running:
        return None
    return container.until_monotonic_ns if container.is_hook_running else container.kill_monotonic_ns
