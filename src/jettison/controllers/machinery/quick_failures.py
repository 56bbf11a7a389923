"""The records of `engine/workloads/quick_failures` by owner: how soon pods may be made where they fail at once.

Only pods count that this process made. So nothing here depends on other machines' clocks, and a restart or a changed
owner begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jettison.clock import Clock
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.quick_failures import CreationAllowance, CreationRecord, allow
from jettison.runtimes.kube.cache import Key, key_of
from jettison.runtimes.kube.client import Document


@dataclass(slots=True)
class _Owner:
    uid: str
    generation: int
    record: CreationRecord


class QuickFailures:
    """By the key of the owner."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owners: dict[Key, _Owner] = {}

    def begin(self, owner: Document) -> None:
        """Pods are about to be made."""
        known = self._known(owner)
        known.record = known.record.next_round()

    def made(self, owner: Document, uid: str) -> None:
        """This one was."""
        known = self._known(owner)
        known.record = known.record.with_pod(uid, self._clock.monotonic_ns())

    def allow(self, owner: Document, pods: Iterable[ApiPod]) -> CreationAllowance:
        """What may be made for the owner, of which these are all pods, ended ones included."""
        known = self._known(owner)
        known.record, allowance = allow(known.record, pods, self._clock.monotonic_ns())
        return allowance

    def forget(self, key: Key) -> None:
        """The owner is gone."""
        self._owners.pop(key, None)

    def _known(self, owner: Document) -> _Owner:
        metadata = owner["metadata"]
        key, uid, generation = key_of(owner), metadata["uid"], metadata.get("generation") or 0
        known = self._owners.get(key)
        if known is None or known.uid != uid or known.generation != generation:
            known = self._owners[key] = _Owner(uid, generation, CreationRecord())
        return known


def told(allowance: CreationAllowance) -> str:
    """The message of the event about it."""
    seconds = -(-allowance.wait_ns // 10**9)
    return f"Back-off creating pods: they fail as soon as they are created; the next one is created in {seconds}s"
