"""Pods as those see them that keep a number of them: which count, since when, and who is deleted first."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_SECOND_NS: Final = 10**9
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class ReplicaPod:
    """`restarts` is the most of any container, and the most of any sidecar; times are 0 where nobody wrote one."""

    name: str
    uid: str = ""
    node: str = ""
    phase: str = ""
    is_terminating: bool = False
    is_ready: bool = False
    ready_since_ns: int = 0
    created_ns: int = 0
    deletion_cost: int = 0
    restarts: tuple[int, int] = (0, 0)

    @property
    def is_terminal(self) -> bool:
        """It has ended: evicted by its node, say. It counts for nothing, and its replacement is due."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_active(self) -> bool:
        """It counts as one of those that are wanted."""
        return not self.is_terminal and not self.is_terminating

    @property
    def is_leaving(self) -> bool:
        """Its end was asked for, and it has not ended yet."""
        return self.is_terminating and not self.is_terminal

    def available_ns(self, min_ready_seconds: int) -> int | None:
        """From when on it counts as available; None where that is not in sight."""
        if not self.is_ready or (min_ready_seconds > 0 and not self.ready_since_ns):
            return None
        return self.ready_since_ns + max(min_ready_seconds, 0) * _SECOND_NS

    def is_available(self, min_ready_seconds: int, now_ns: int) -> bool:
        """Ready, and for long enough to believe it. Who asks for no time at all does not look at the clock."""
        since_ns = self.available_ns(min_ready_seconds)
        return since_ns is not None and (min_ready_seconds <= 0 or since_ns <= now_ns)


def next_available_ns(pods: Iterable[ReplicaPod], min_ready_seconds: int, now_ns: int) -> int | None:
    """When the next one becomes available by nothing but waiting."""
    if min_ready_seconds <= 0:
        return None
    moments = (pod.available_ns(min_ready_seconds) for pod in pods)
    return min((moment for moment in moments if moment is not None and moment > now_ns), default=None)


def deletion_order(pods: Sequence[ReplicaPod], neighbours: Mapping[str, int], now_ns: int) -> list[ReplicaPod]:
    """Who is missed least comes first. `neighbours`: how many active pods of the same workload a node has.

    Ages are compared by their powers of two, so that of pods which are about as old it is chance that decides and the
    oldest is not safe for ever.
    """

    def compare(one: ReplicaPod, two: ReplicaPod) -> int:
        plain = _standing(one, neighbours), _standing(two, neighbours)
        if plain[0] != plain[1]:
            return -1 if plain[0] < plain[1] else 1
        if one.is_ready and one.ready_since_ns != two.ready_since_ns:
            return _compare_ages((one.ready_since_ns, one.uid), (two.ready_since_ns, two.uid), now_ns)
        if one.restarts != two.restarts:
            return -1 if one.restarts > two.restarts else 1
        if one.created_ns != two.created_ns:
            return _compare_ages((one.created_ns, one.uid), (two.created_ns, two.uid), now_ns)
        return 0

    return sorted(pods, key=functools.cmp_to_key(compare))


def _standing(pod: ReplicaPod, neighbours: Mapping[str, int]) -> tuple[bool, int, bool, int, int]:
    """Without a node, pending, not ready, cheap, crowded: in this order."""
    return bool(pod.node), _PHASES.get(pod.phase, 0), pod.is_ready, pod.deletion_cost, -neighbours.get(pod.node, 0)


def _compare_ages(one: tuple[int, str], two: tuple[int, str], now_ns: int) -> int:
    """The younger first; no time at all is younger still."""
    (since_one, uid_one), (since_two, uid_two) = one, two
    if not since_one or not since_two:
        return -1 if not since_one else 1
    difference = _power(now_ns - since_one) - _power(now_ns - since_two)
    if difference:
        return difference
    return -1 if uid_one < uid_two else 1


def _power(age_ns: int) -> int:
    return int(math.log2(age_ns)) if age_ns > 0 else -1
