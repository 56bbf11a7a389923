"""One stream of facts, many places where they go."""

from __future__ import annotations

from jettison.clock import Clock
from jettison.events import Fact, Sink


class Broadcast:
    """The node's `Emit`: every sink gets each fact, with the same time."""

    def __init__(self, clock: Clock, *sinks: Sink) -> None:
        self._clock = clock
        self._sinks = list(sinks)

    def add(self, sink: Sink) -> None:
        """A sink that is made later, because it needs what the first facts are about."""
        self._sinks.append(sink)

    def __call__(self, fact: Fact) -> None:
        now_ns = self._clock.now_ns()
        for sink in self._sinks:
            sink.take(fact, now_ns)
