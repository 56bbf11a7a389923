"""How soon pods may be made for an owner whose pods fail at once: a node that rejects them must not cause a storm.

Upstream's ReplicaSet and StatefulSet controllers replace a failed pod at once, whatever became of the one before: 413
pods in 11 s were measured against a node that rejected all of them. Here the first replacement comes at once, for an
eviction is no reason to wait. When that fails as fast, the next one comes after 1 s, then after twice as long each
time, and it comes alone: the others follow once it has lived for 10 s.

Only pods count that this process made and that failed within 10 s of it. So nothing here depends on other machines'
clocks, and a restart or a changed owner begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jettison.clock import Clock
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.pods.pod import FAILED
from jettison.runtimes.kube.cache import Key, key_of
from jettison.runtimes.kube.client import Document

QUICK_NS: Final = 10 * 10**9
"""A pod that has lived for so long did not fail at once, however it ends."""

FIRST_NS: Final = 10**9
LONGEST_NS: Final = 300 * 10**9

_FREE: Final = 1
"""So many failures in a row delay nothing."""


class CreationAllowance(NamedTuple):
    """How many pods may be made now, None for any number, and after how long to ask again, 0 for no need to."""

    most: int | None = None
    wait_ns: int = 0
    # Set once for every failure that is waited for, for the event.
    is_news: bool = False


@dataclass(slots=True)
class _Owner:
    uid: str
    generation: int
    # Each creation of one or more pods is a round.
    round: int = 0
    # The last one that was made before the last failure that counted: what fails of it later does not count again.
    failed_round: int = 0
    streak: int = 0
    due_ns: int = 0
    # When they were made and in which round, until it is known what became of them.
    young: dict[str, tuple[int, int]] = field(default_factory=dict)


class QuickFailures:
    """By the key of the owner."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owners: dict[Key, _Owner] = {}

    def begin(self, owner: Document) -> None:
        """Pods are about to be made."""
        self._known(owner).round += 1

    def made(self, owner: Document, uid: str) -> None:
        """This one was."""
        known = self._known(owner)
        known.young[uid] = self._clock.monotonic_ns(), known.round

    def allow(self, owner: Document, pods: Iterable[ApiPod]) -> CreationAllowance:
        """What may be made for the owner, of which these are all pods, ended ones included."""
        known = self._known(owner)
        if not known.young and not known.streak:
            return CreationAllowance()
        now_ns = self._clock.monotonic_ns()
        is_news = self._judge(known, pods, now_ns)
        if known.streak <= _FREE:
            return CreationAllowance()
        if known.due_ns > now_ns:
            return CreationAllowance(0, known.due_ns - now_ns, is_news)
        if known.young:
            # One was made to see whether it lives.
            return CreationAllowance(0, max(made_ns for made_ns, _ in known.young.values()) + QUICK_NS - now_ns)
        return CreationAllowance(1)

    def forget(self, key: Key) -> None:
        """The owner is gone."""
        self._owners.pop(key, None)

    def _judge(self, known: _Owner, pods: Iterable[ApiPod], now_ns: int) -> bool:
        """Count what has failed at once, forget what has not; whether there was a failure to be waited for."""
        here = {pod.uid: pod for pod in pods}
        has_failed = has_lived = False
        for uid, (made_ns, number) in list(known.young.items()):
            pod = here.get(uid)
            is_old = now_ns - made_ns > QUICK_NS
            if is_old or (pod is not None and pod.is_ended):
                del known.young[uid]
                is_failure = not is_old and pod is not None and pod.phase == FAILED
                has_failed = has_failed or (is_failure and number > known.failed_round)
                has_lived = has_lived or not is_failure
        if has_failed:
            known.streak += 1
            known.failed_round = known.round
            if known.streak > _FREE:
                # Beyond ten doublings it is the longest in any case.
                wait_ns = FIRST_NS << min(known.streak - _FREE - 1, 10)
                known.due_ns = now_ns + min(wait_ns, LONGEST_NS)
            return known.streak > _FREE
        if has_lived:
            known.streak = 0
        return False

    def _known(self, owner: Document) -> _Owner:
        metadata = owner["metadata"]
        key, uid, generation = key_of(owner), metadata["uid"], metadata.get("generation") or 0
        known = self._owners.get(key)
        if known is None or known.uid != uid or known.generation != generation:
            known = self._owners[key] = _Owner(uid, generation)
        return known


def told(allowance: CreationAllowance) -> str:
    """The message of the event about it."""
    seconds = -(-allowance.wait_ns // 10**9)
    return f"Back-off creating pods: they fail as soon as they are created; the next one is created in {seconds}s"
