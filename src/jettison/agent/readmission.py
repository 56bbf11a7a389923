"""Evicted pods get another chance once the pressure is over, later each time: a leak must not cause a storm."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass
from typing import Any

from jettison.clock import Clock
from jettison.engine.signals import Condition
from jettison.engine.wording import DEADLINE_EXCEEDED
from jettison.runtimes.protocol import Hosting, PodStatus

FIRST_DELAY_NS = 10 * 10**9
LONGEST_DELAY_NS = 300 * 10**9
# Who has run so long since the last time starts over with the first delay.
FORGIVEN_NS = 600 * 10**9

LIVES = "jettison.dev/lives"
DELAY = "jettison.dev/readmission-delay-seconds"
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Life:
    """How often a pod was admitted again, and how long it had to wait the last time.

    It is kept in the pod's annotations, and those with the pod: an agent that dies leaves pods, and the next one must
    recognise them.
    """

    number: int = 0
    delay_ns: int = FIRST_DELAY_NS

    def mark(self, annotations: Mapping[str, Any]) -> dict[str, Any]:
        """The annotations with these; what a manifest says about it does not count."""
        others = {key: value for key, value in annotations.items() if key not in (LIVES, DELAY)}
        return others | {LIVES: str(self.number), DELAY: str(self.delay_ns // 10**9)} if self.number else others

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Life:
        """As marked in a pod's document."""
        annotations = (document.get("metadata") or {}).get("annotations") or {}
        number, seconds = (str(annotations.get(key, "0")) for key in (LIVES, DELAY))
        if not _NUMBER.fullmatch(number) or not _NUMBER.fullmatch(seconds):
            return cls()
        return cls(int(number), min(max(int(seconds) * 10**9, FIRST_DELAY_NS), LONGEST_DELAY_NS))


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
    def lives(self) -> dict[str, Life]:
        """Of each pod that had to go."""
        return {key: Life(chances.lives, chances.delay_ns) for key, chances in self._pods.items()}

    def recall(self, key: str, life: Life, admitted_ns: int) -> None:
        """What an earlier agent has counted."""
        if life.number and (key not in self._pods or self._pods[key].lives < life.number):
            self._pods[key] = _Chances(life.number, life.delay_ns, admitted_ns)

    def evicted(self, key: str, now_ns: int) -> None:
        """The pod had to go; its delay starts."""
        chances = self._pods.get(key)
        if chances is None:
            self._pods[key] = _Chances(0, FIRST_DELAY_NS, now_ns, now_ns)
        elif chances.evicted_ns is None:
            has_behaved = now_ns - chances.admitted_ns >= FORGIVEN_NS
            chances.delay_ns = FIRST_DELAY_NS if has_behaved else min(2 * chances.delay_ns, LONGEST_DELAY_NS)
            chances.evicted_ns = now_ns

    def spare(self, keys: Collection[str], now_ns: int) -> None:
        """Nobody but these needs another chance any longer: a manifest was corrected, and what runs now may stay."""
        for key, chances in self._pods.items():
            if chances.evicted_ns is not None and key not in keys:
                chances.evicted_ns, chances.admitted_ns = None, now_ns

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
    """Looks for pods of a node that were turned out, and says when they may come back: never, unless `readmits`.

    Those that came back already are recognised in any case.
    """

    def __init__(
        self,
        runtime: Hosting,
        clock: Clock,
        conditions: Callable[[], frozenset[Condition]],
        *,
        readmits: bool = True,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._conditions = conditions
        self._readmits = readmits
        self._chances = Readmission()
        now_ns, monotonic_ns = clock.now_ns(), clock.monotonic_ns()
        for status in runtime.statuses():
            age_ns = 0 if status.started_ns is None else max(now_ns - status.started_ns, 0)
            self._chances.recall(str(status.pod), Life.of(status.document), monotonic_ns - age_ns)

    @property
    def lives(self) -> dict[str, Life]:
        """Of each pod that had to go."""
        return self._chances.lives

    def is_due(self, uids: Container[str]) -> bool:
        """Whether the time of one of these pods has come."""
        if not self._readmits:
            return False
        now_ns = self._clock.monotonic_ns()
        statuses = [status for status in self._runtime.statuses() if status.pod.uid in uids]
        turned_out = [str(each.pod) for each in statuses if _was_turned_out(each) and not each.is_ending]
        for key in turned_out:
            self._chances.evicted(key, now_ns)
        self._chances.spare(turned_out, now_ns)
        return bool(self._chances.due(now_ns, is_under_pressure=bool(self._conditions())))


def _was_turned_out(status: PodStatus) -> bool:
    """Evicted, preempted or not admitted, rather than failed by itself or out of time: its reason says so."""
    return status.phase == "Failed" and status.reason not in ("", DEADLINE_EXCEEDED)
