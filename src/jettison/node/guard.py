"""A watch over workloads that others started: all that `jettison guard` is once its command line has been read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import msgspec

from jettison import events
from jettison.agent.http.server import Answer, Query, Route
from jettison.clock import SystemClock
from jettison.node.cluster_settings import GuardSettings, Settings
from jettison.node.guarding import watch_until_told
from jettison.node.watch import Watch
from jettison.runtimes.adopted.runtime import AdoptedRuntime

# Seconds in which the answer to the last order leaves.
_FAREWELL = 0.05


class Guard(Watch):
    """Stops what it did not start, and never starts or removes anything."""

    runtime: AdoptedRuntime

    def __init__(self, settings: GuardSettings, *sinks: events.Sink, owns_process: bool = False) -> None:
        super().__init__(settings.node, *sinks, owns_process=owns_process)
        self._adopted = settings.adopted

    async def _open_runtime(self) -> AdoptedRuntime:
        return await AdoptedRuntime.open(self._adopted, self.settings.policy, SystemClock(), self.emit)

    def _orders(self) -> Mapping[str, Route]:
        return {"/orders/down": self._down}

    def _down(self, _: Query) -> Answer:
        """Only the agent ends: what it guards is not its own."""
        self.emit(events.OrderReceived("down"))
        asyncio.get_running_loop().call_later(_FAREWELL, self._is_told_to_stop.set)
        return Answer(msgspec.json.encode({"node": self.settings.node_name, "pods": 0}))

    def reread(self, settings: Settings) -> None:
        """The rules; engines and cgroups that are named anew take a restart."""
        if isinstance(settings, GuardSettings):
            self.runtime.use_rules(settings.adopted.rules)

    def _guarded(self) -> str:
        pods = self.runtime.pods()
        kinds = Counter(each.workloads[0].kind for each in pods)
        spared = sum(each.is_protected for each in pods)
        found = ", ".join(f"{number} of {kind}" for kind, number in sorted(kinds.items())) or "none yet"
        mode = "it only observes: --enforce makes it act" if self.settings.is_dry_run else "it stops what must go"
        return f"{found}; {spared} protected; {mode}"


def carry_out(settings: GuardSettings) -> None:
    """Returns when it was told to stop."""
    watch_until_told(settings.node, lambda log: Guard(settings, log, owns_process=True))
