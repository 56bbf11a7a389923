"""Watches a node until it is told to stop, and reloads what it may: what `up`, `guard`, `node` and `relieve` share.

Which runtime is watched is not known here: relief beside a kubelet loads none that starts pods.

At SIGHUP the command line and the files that it names are read again, and what can change while a node runs does. They
are read by the program itself in a process of its own, exactly as at the start: a file with a mistake, or a
configuration that a start would refuse, is reported and changes nothing. The agent waits for that process in a thread,
so the node is guarded meanwhile. Thresholds, grace periods, minimum reclaim, the transition period and the marks of the
collectors change; of everything else that is another now, it is said that it takes a restart.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence

from jettison import events
from jettison.agent.journal.policy_records import SettingChange, policy_changes, with_live_changes
from jettison.agent.sinks.log import LogSink
from jettison.engine.numbers.quantity import Quantity
from jettison.errors import JettisonError
from jettison.node.process.frame import greet, until_told
from jettison.node.process.handover import read_again
from jettison.node.settings import NodeSettings
from jettison.node.watch import Watch


def watch_until_told(settings: NodeSettings, make: Callable[[LogSink], Watch]) -> None:
    """Of the watch that is made; it has this process to itself."""
    watches: list[Watch] = []
    reload = Reloader(lambda: watches).reload
    until_told(lambda log: _run(make(log), watches), is_verbose=settings.is_verbose, reload=reload)


async def _run(watch: Watch, watches: list[Watch]) -> None:
    await watch.open()
    watches.append(watch)
    try:
        say_where(watch)
        await watch.run(lambda greeting: greet(greeting, sys.stdout))
    finally:
        await watch.close()


def say_where(node: Watch) -> None:
    """The port is not known before."""
    listen = node.settings.listen
    if listen is not None and node.port is not None:
        host = f"[{listen[0]}]" if ":" in listen[0] else listen[0]
        greet(f"listening on http://{host}:{node.port}", sys.stderr)


class Reloader:
    """For the nodes of one process; `nodes` are those that are there by now, in the order of their settings."""

    def __init__(self, nodes: Callable[[], Sequence[Watch]]) -> None:
        self._nodes = nodes

    async def reload(self) -> None:
        """Read everything again and apply what has changed. Whatever goes wrong is said, and changes nothing."""
        nodes = self._nodes()
        if not nodes:
            return
        try:
            settings, remarks = await asyncio.to_thread(read_again)
            policies = [each.policy for each in settings.every_node]
            # All of them before any: a mistake in what is for one node is a mistake in the file.
            merged = [with_live_changes(node.agent.policy, new) for node, new in zip(nodes, policies, strict=True)]
        except JettisonError as error:
            for node in nodes:
                node.emit(events.ReloadFailed(str(error)))
            return
        for node, new, policy in zip(nodes, policies, merged, strict=True):
            changes = policy_changes(node.agent.policy, new)
            if any(each.is_live for each in changes):
                before = node.told_of_itself()
                node.use(policy)
                changes += _untold(before, node.told_of_itself())
            node.reread(settings)
            for each in changes:
                kind = events.SettingChanged if each.is_live else events.RestartNeeded
                node.emit(kind(each.key, each.old, each.new))
            live = sum(each.is_live for each in changes)
            node.emit(events.Reloaded(live, len(changes) - live, remarks))


def _untold(before: Mapping[str, Quantity], after: Mapping[str, Quantity]) -> list[SettingChange]:
    """A node says at its start what it has for pods; hard thresholds are taken off that."""
    names = [name for name in after if before.get(name) != after[name]]
    return [
        SettingChange(
            f"allocatable {name} in the cluster's eyes", str(before.get(name)), str(after[name]), is_live=False
        )
        for name in names
    ]
