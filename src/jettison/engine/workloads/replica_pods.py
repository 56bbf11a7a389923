"""Pods of which a workload keeps a number: when the next one becomes available, and which one is deleted first."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.pods.pod import PENDING, RUNNING

P = TypeVar("P", bound=ApiPod)

_PHASES: Final = {PENDING: 0, "Unknown": 1, RUNNING: 2}


def next_available_ns(pods: Iterable[ApiPod], min_ready_seconds: int, now_ns: int) -> int | None:
    """When the next one becomes available by nothing but waiting."""
    if min_ready_seconds <= 0:
        return None
    moments = (pod.available_ns(min_ready_seconds) for pod in pods)
    return min((moment for moment in moments if moment is not None and moment > now_ns), default=None)


def deletion_order(pods: Sequence[P], neighbours: Mapping[str, int], now_ns: int) -> list[P]:
    """The pod that is missed least comes first. `neighbours`: how many active pods of the same workload a node has.

    Ages are compared by their powers of two, so that of pods which are about as old it is chance that decides and the
    oldest is not always safe.
    """

    def compare(one: ApiPod, two: ApiPod) -> int:
        plain = _standing(one, neighbours), _standing(two, neighbours)
        if plain[0] != plain[1]:
            return -1 if plain[0] < plain[1] else 1
        if one.is_ready and one.ready_since_ns != two.ready_since_ns:
            return _compare_ages((one.ready_since_ns, one.uid), (two.ready_since_ns, two.uid), now_ns)
        if one.most_restarts != two.most_restarts:
            return -1 if one.most_restarts > two.most_restarts else 1
        if one.created_ns != two.created_ns:
            return _compare_ages((one.created_ns, one.uid), (two.created_ns, two.uid), now_ns)
        return 0

    return sorted(pods, key=functools.cmp_to_key(compare))


def _standing(pod: ApiPod, neighbours: Mapping[str, int]) -> tuple[bool, int, bool, int, int]:
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
