"""Which events are worth an object of their own: the rules of Kubernetes' own event client (spec §5.8).

Three rules, in this order. More than a few events about one object that differ only in their message within ten
minutes become one, whose message says so. An event that was there before only counts up. And a source
that has sent 25 events about an object may send one more every five minutes; the rest is lost, though it still counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from jettison.values import frozen

FOLD_AT = 10
"""The tenth different message is the first to be folded."""

FOLD_WITHIN_NS = 600 * 10**9
FOLDED = "(combined from similar events): "

BURST = 25
REFILL_NS = 300 * 10**9

REMEMBERED = 1024
"""Upstream remembers 4096 of each; an agent has a quarter of the memory to spend."""

T = TypeVar("T")


@frozen
class Subject:
    """What an event is about. `field_path` names a container of a pod."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    field_path: str = ""

    @property
    def whole(self) -> Subject:
        """The object without the part of it: limits are per object."""
        return replace(self, field_path="") if self.field_path else self


@frozen
class Recorded:
    """An event as it is kept. The name is that of its object; later occurrences update it."""

    name: str
    subject: Subject
    type: str
    reason: str
    message: str
    first_ns: int
    last_ns: int
    count: int = 1
    annotations: tuple[tuple[str, str], ...] | None = None


class _Remembered(OrderedDict[Hashable, T], Generic[T]):
    """Forgets what was used least recently."""

    def remember(self, key: Hashable, value: T) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


@dataclass(slots=True)
class _Similar:
    # At most ten, and mostly one.
    messages: list[str] = field(default_factory=list)
    last_ns: int = 0


@dataclass(slots=True)
class _Bucket:
    """Tokens are counted in nanoseconds of refill, so that nothing is lost to rounding."""

    level_ns: int
    last_ns: int


class Correlator:
    """Decides what becomes of each event."""

    def __init__(self) -> None:
        self._similar: _Remembered[_Similar] = _Remembered()
        self._seen: _Remembered[Recorded] = _Remembered()
        self._buckets: _Remembered[_Bucket] = _Remembered()

    def correlate(self, event: Recorded) -> Recorded | None:
        """The event to keep, perhaps under an older one's name; None when the object has had its share."""
        event, key = self._fold(event)
        before = self._seen.get(key)
        if before is not None:
            event = replace(event, name=before.name, first_ns=before.first_ns, count=before.count + 1)
        self._seen.remember(key, event)
        return event if self._has_token(event) else None

    def _fold(self, event: Recorded) -> tuple[Recorded, Hashable]:
        group = (event.subject.whole, event.type, event.reason)
        similar = self._similar.get(group)
        if similar is None or event.last_ns - similar.last_ns > FOLD_WITHIN_NS:
            similar = _Similar()
        if event.message not in similar.messages:
            similar.messages.append(event.message)
        similar.last_ns = event.last_ns
        self._similar.remember(group, similar)
        if len(similar.messages) < FOLD_AT:
            return event, (event.subject, event.type, event.reason, event.message)
        similar.messages.pop()
        return replace(event, message=FOLDED + event.message, annotations=None), group

    def _has_token(self, event: Recorded) -> bool:
        full = BURST * REFILL_NS
        bucket = self._buckets.get(event.subject.whole) or _Bucket(full, event.last_ns)
        passed = max(event.last_ns - bucket.last_ns, 0)
        bucket.level_ns = min(bucket.level_ns + passed, full)
        bucket.last_ns = event.last_ns
        self._buckets.remember(event.subject.whole, bucket)
        if bucket.level_ns < REFILL_NS:
            return False
        bucket.level_ns -= REFILL_NS
        return True
