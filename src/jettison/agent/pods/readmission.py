"""Evicted pods get another chance once the pressure is over, later each time: a leak must not cause a storm.

That is what `--readmit` asks for. A pod that never ran, because it came while the node was under pressure, is admitted
when the pressure ends in any case: it has caused none, and nothing else would ever start it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

from jettison.clock import Clock, Instant
from jettison.engine.node.evictions import EVICTED
from jettison.engine.node.signals import Condition
from jettison.engine.node.wording import DEADLINE_EXCEEDED
from jettison.runtimes.protocol import Hosting, PodStatus
from jettison.values import frozen

FIRST_DELAY_NS = 10 * 10**9
LONGEST_DELAY_NS = 300 * 10**9
# A pod that has run this long since the last time starts again with the first delay.
FORGIVEN_NS = 600 * 10**9

LIVES = "jettison.dev/lives"
DELAY = "jettison.dev/readmission-delay-seconds"
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
# In the message of a pod that was not admitted.
_CONDITIONS = re.compile(r"\[([A-Za-z ]+)\]", re.ASCII)


@frozen
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
        number, seconds = str(annotations.get(LIVES, "0")), str(annotations.get(DELAY, FIRST_DELAY_NS // 10**9))
        if not _NUMBER.fullmatch(number) or not _NUMBER.fullmatch(seconds):
            return cls()
        # It waited for the pressure alone where there was no delay.
        delay_ns = min(max(int(seconds) * 10**9, FIRST_DELAY_NS), LONGEST_DELAY_NS) if int(seconds) else 0
        return cls(int(number), delay_ns)


@dataclass(slots=True)
class _Chances:
    lives: int
    delay_ns: int
    admitted_ns: int
    evicted_ns: int | None = None
    # One that never ran has nothing to atone for.
    has_run: bool = True


class Readmission:
    """Counts lives and delays by namespace/name."""

    def __init__(self) -> None:
        self._pods: dict[str, _Chances] = {}

    @property
    def lives(self) -> dict[str, Life]:
        """Of each pod that had to go."""
        return {key: Life(chances.lives, chances.delay_ns) for key, chances in self._pods.items()}

    @property
    def is_one_waiting(self) -> bool:
        """Whether a pod waits for its next chance."""
        return any(chances.evicted_ns is not None for chances in self._pods.values())

    def recall(self, key: str, life: Life, admitted_ns: int) -> None:
        """What an earlier agent has counted."""
        if life.number and (key not in self._pods or self._pods[key].lives < life.number):
            self._pods[key] = _Chances(life.number, life.delay_ns, admitted_ns)

    def evicted(self, key: str, now_ns: int, *, has_run: bool = True) -> None:
        """The pod had to go, or was not let in; its delay starts, if it has one."""
        chances = self._pods.get(key)
        if chances is None:
            self._pods[key] = _Chances(0, FIRST_DELAY_NS if has_run else 0, now_ns, now_ns, has_run)
        elif chances.evicted_ns is None:
            if has_run:
                chances.delay_ns = next_delay_ns(chances.delay_ns, now_ns - chances.admitted_ns)
            chances.evicted_ns, chances.has_run = now_ns, has_run

    def spare(self, keys: Collection[str], now_ns: int) -> None:
        """Only these still need another chance: a manifest was corrected, and what runs now may stay."""
        for key, chances in self._pods.items():
            if chances.evicted_ns is not None and key not in keys:
                chances.evicted_ns, chances.admitted_ns = None, now_ns

    def due(self, now_ns: int, *, is_under_pressure: bool) -> list[str]:
        """Whose delay is over, while nothing is short. They count as admitted from now."""
        if is_under_pressure:
            return []
        found = []
        for key, chances in self._pods.items():
            delay_ns = chances.delay_ns if chances.has_run else 0
            if chances.evicted_ns is not None and now_ns - chances.evicted_ns >= delay_ns:
                chances.lives += 1
                chances.admitted_ns = now_ns
                chances.evicted_ns = None
                found.append(key)
        return found


class Readmitter:
    """Looks for pods of a node that were turned out, and says when they may come back.

    Unless `readmits` only those do that never ran. Those that came back already are recognised in any case.
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
        # What was looked at last: a status is made anew when it changes.
        self._seen: tuple[Container[str], Sequence[PodStatus]] = ((), ())
        now = Instant.of(clock)
        for status in runtime.statuses():
            started_ns = now.wall_ns if status.started_ns is None else status.started_ns
            # What runs was started in this boot.
            age_ns = now.age_ns(started_ns, is_same_boot=True)
            self._chances.recall(str(status.pod), Life.of(status.document), now.monotonic_ns - age_ns)

    @property
    def lives(self) -> dict[str, Life]:
        """Of each pod that had to go."""
        return self._chances.lives

    def is_due(self, uids: Container[str]) -> bool:
        """Whether the time of one of these pods has come."""
        statuses = self._runtime.statuses()
        if not self._chances.is_one_waiting and self._is_seen(uids, statuses):
            return False
        self._seen = uids, tuple(statuses)
        now_ns = self._clock.monotonic_ns()
        turned_out = {}
        for status in statuses:
            if status.pod.uid not in uids or status.is_ending:
                continue
            prospect = prospect_of(status, readmits=self._readmits)
            if prospect is not None and prospect.comes_back:
                turned_out[str(status.pod)] = prospect.has_run
        for key, has_run in turned_out.items():
            self._chances.evicted(key, now_ns, has_run=has_run)
        self._chances.spare(turned_out.keys(), now_ns)
        return bool(self._chances.due(now_ns, is_under_pressure=bool(self._conditions())))

    def _is_seen(self, uids: Container[str], statuses: Sequence[PodStatus]) -> bool:
        known, before = self._seen
        return known is uids and len(before) == len(statuses) and all(map(is_, before, statuses))


def next_delay_ns(before_ns: int, lasted_ns: int) -> int:
    """After a life that lasted so long; 0 before: there was none."""
    if not before_ns or lasted_ns >= FORGIVEN_NS:
        return FIRST_DELAY_NS
    return min(2 * before_ns, LONGEST_DELAY_NS)


@frozen
class Prospect:
    """What is to become of a pod from a manifest that was turned out."""

    comes_back: bool
    has_run: bool


def prospect_of(status: PodStatus, *, readmits: bool) -> Prospect | None:
    """None for a pod that lives, failed by itself or ran out of time: that does not change with the pressure."""
    if status.phase != "Failed" or status.reason in ("", DEADLINE_EXCEEDED):
        return None
    has_run = status.started_ns is not None or bool(status.containers)
    # Other reasons not to be admitted (no room, another node's pod) do not end with the pressure.
    waits_for_pressure = not has_run and status.reason == EVICTED
    return Prospect(readmits or waits_for_pressure, not waits_for_pressure)


def prospect_text(status: PodStatus, *, readmits: bool, lasted_ns: int = 0) -> str:
    """When and how the pod comes back; empty where there is nothing to say. It lived for so long the last time."""
    prospect = prospect_of(status, readmits=readmits)
    if prospect is None:
        return ""
    if not prospect.comes_back:
        return (
            "does not come back by itself: `jettison restart` or a changed manifest brings it back, and so does an"
            " agent with --readmit"
        )
    if not prospect.has_run:
        named = _CONDITIONS.search(status.message)
        what = named[1].split() if named else ["the pressure"]
        return f"never ran, and comes back when {' and '.join(what)} {'end' if len(what) > 1 else 'ends'}"
    life = Life.of(status.document)
    delay_ns = next_delay_ns(life.delay_ns if life.number else 0, lasted_ns)
    return f"comes back {delay_ns // 10**9} s after it went, or when the pressure is over if that is later"
