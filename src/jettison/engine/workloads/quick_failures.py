"""How soon pods may be made for an owner whose pods fail at once: a node that rejects them must not cause a storm.

Upstream's ReplicaSet and StatefulSet controllers replace a failed pod at once, whatever became of the one before: 413
pods in 11 s were measured against a node that rejected all of them. Here the first replacement comes at once, for an
eviction is no reason to wait. When that fails as fast, the next one comes after 1 s, then after twice as long each
time, and it comes alone: the others follow once it has lived for 10 s.

Only pods count that were noted when they were made and that failed within 10 s of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Final, NamedTuple

from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.pods.pod import FAILED
from jettison.values import frozen

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


_ANY: Final = CreationAllowance()


@frozen
class CreationRecord:
    """What is remembered of the pods that were made for one owner."""

    # Each creation of one or more pods is a round.
    round: int = 0
    # The last one that was made before the last failure that counted: what fails of it later does not count again.
    failed_round: int = 0
    streak: int = 0
    due_ns: int = 0
    # When they were made and in which round, until it is known what became of them.
    young: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def next_round(self) -> CreationRecord:
        """Pods are about to be made."""
        return replace(self, round=self.round + 1)

    def with_pod(self, uid: str, now_ns: int) -> CreationRecord:
        """This one was."""
        return replace(self, young={**self.young, uid: (now_ns, self.round)})


def allow(record: CreationRecord, pods: Iterable[ApiPod], now_ns: int) -> tuple[CreationRecord, CreationAllowance]:
    """What may be made for the owner. `pods` are all of its pods that are in the record, ended ones included."""
    if not record.young and not record.streak:
        return record, _ANY
    after = _judged(record, pods, now_ns)
    if after.streak <= _FREE:
        return after, _ANY
    if after.due_ns > now_ns:
        return after, CreationAllowance(0, after.due_ns - now_ns, after.streak > record.streak)
    if after.young:
        # One was made to see whether it lives.
        return after, CreationAllowance(0, max(made_ns for made_ns, _ in after.young.values()) + QUICK_NS - now_ns)
    return after, CreationAllowance(1)


def _judged(record: CreationRecord, pods: Iterable[ApiPod], now_ns: int) -> CreationRecord:
    """Count what has failed at once, forget what has not."""
    here = {pod.uid: pod for pod in pods}
    young = dict(record.young)
    has_failed = has_lived = False
    for uid, (made_ns, number) in record.young.items():
        pod = here.get(uid)
        is_old = now_ns - made_ns >= QUICK_NS
        if is_old or (pod is not None and pod.is_ended):
            del young[uid]
            is_failure = not is_old and pod is not None and pod.phase == FAILED
            has_failed = has_failed or (is_failure and number > record.failed_round)
            has_lived = has_lived or not is_failure
    if len(young) == len(record.young):
        return record
    if not has_failed:
        return replace(record, young=young, streak=0 if has_lived else record.streak)
    streak, due_ns = record.streak + 1, record.due_ns
    if streak > _FREE:
        # Beyond ten doublings it is the longest in any case.
        due_ns = now_ns + min(FIRST_NS << min(streak - _FREE - 1, 10), LONGEST_NS)
    return CreationRecord(record.round, record.round, streak, due_ns, young)
