"""Evicted pods get another chance once the pressure is over, later each time: a leak must not cause a storm."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from jettison.clock import Clock
from jettison.engine.signals import Condition
from jettison.engine.wording import DEADLINE_EXCEEDED
from jettison.runtimes.protocol import Hosting, PodStatus

FIRST_DELAY_NS = 10 * 10**9
LONGEST_DELAY_NS = 300 * 10**9
# Who has run so long since the last time starts over with the first delay.
FORGIVEN_NS = 600 * 10**9


@dataclass(slots=True)
class _Chances:
    lives: int
    delay_ns: int
    admitted_ns: int
    evicted_ns: int | None = None


class Readmission:
    """Counts lives and delays by namespace/name."""

    def __init__(self) -> None:
        self._pods: dict[str, _Chances] = {}

    @property
    def lives(self) -> dict[str, int]:
        """How often each pod was admitted again."""
        return {key: chances.lives for key, chances in self._pods.items()}

    def evicted(self, key: str, now_ns: int) -> None:
        """The pod had to go; its delay starts."""
        chances = self._pods.get(key)
        if chances is None:
            self._pods[key] = _Chances(0, FIRST_DELAY_NS, now_ns, now_ns)
        elif chances.evicted_ns is None:
            has_behaved = now_ns - chances.admitted_ns >= FORGIVEN_NS
            chances.delay_ns = FIRST_DELAY_NS if has_behaved else min(2 * chances.delay_ns, LONGEST_DELAY_NS)
            chances.evicted_ns = now_ns

    def due(self, now_ns: int, *, is_under_pressure: bool) -> list[str]:
        """Whose delay is over, while nothing is short. They count as admitted from now."""
        if is_under_pressure:
            return []
        found = []
        for key, chances in self._pods.items():
            if chances.evicted_ns is not None and now_ns - chances.evicted_ns >= chances.delay_ns:
                chances.lives += 1
                chances.admitted_ns = now_ns
                chances.evicted_ns = None
                found.append(key)
        return found


class Readmitter:
    """Looks for pods of a node that were turned out, and says when they may come back."""

    def __init__(self, runtime: Hosting, clock: Clock, conditions: Callable[[], frozenset[Condition]]) -> None:
        self._runtime = runtime
        self._clock = clock
        self._conditions = conditions
        self._chances = Readmission()

    @property
    def lives(self) -> dict[str, int]:
        """How often each pod was admitted again."""
        return self._chances.lives

    def is_due(self, uids: Container[str]) -> bool:
        """Whether the time of one of these pods has come."""
        now_ns = self._clock.monotonic_ns()
        for status in self._runtime.statuses():
            if status.pod.uid in uids and _was_turned_out(status) and not status.is_ending:
                self._chances.evicted(str(status.pod), now_ns)
        return bool(self._chances.due(now_ns, is_under_pressure=bool(self._conditions())))


def _was_turned_out(status: PodStatus) -> bool:
    """Evicted, preempted or not admitted, rather than failed by itself or out of time: its reason says so."""
    return status.phase == "Failed" and status.reason not in ("", DEADLINE_EXCEEDED)
