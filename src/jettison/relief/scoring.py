"""How good are the predictions? Pods that were said to go next, against evictions and OOM kills that really came.

A *hit* is a pod that came to its end and was predicted before, a *miss* one that was not, a *false alarm* a prediction
after which nothing came. A prediction holds for a while: a pod that ends an hour later did not end because of it. The
same pod named at every look is one prediction; its lead time counts from the first. Ends that relief brought about
itself prove nothing and are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from jettison.values import frozen

HOLDS_NS = 600 * 10**9
"""How long a prediction holds, where the operator says nothing else."""


@frozen
class Prediction:
    """At this time the pod was the next to go."""

    time_ns: int
    uid: str
    name: str


@frozen
class SeenEnd:
    """At this time the pod came to its end: `Evicted`, or `OOMKilled`. `is_relief`: because relief asked for it."""

    time_ns: int
    uid: str
    name: str
    reason: str
    is_relief: bool = False


@frozen
class Hit:
    """A pod that was predicted and came to its end."""

    end: SeenEnd
    lead_ns: int


@frozen
class Score:
    """All predictions of a time against all that came in it."""

    hits: Sequence[Hit]
    misses: Sequence[SeenEnd]
    false_alarms: Sequence[Prediction]
    # Predictions that still hold at the end of the record: not known yet.
    pending: Sequence[Prediction]
    relieved: Sequence[SeenEnd]

    @property
    def median_lead_ns(self) -> int | None:
        """Of all hits."""
        return round(median(hit.lead_ns for hit in self.hits)) if self.hits else None

    @property
    def precision(self) -> float | None:
        """Of the predictions whose outcome is known, how many came true."""
        known = len(self.hits) + len(self.false_alarms)
        return len(self.hits) / known if known else None

    @property
    def recall(self) -> float | None:
        """Of the ends that came, how many were predicted."""
        came = len(self.hits) + len(self.misses)
        return len(self.hits) / came if came else None


def score(predictions: Iterable[Prediction], ends: Iterable[SeenEnd], until_ns: int, holds_ns: int = HOLDS_NS) -> Score:
    """`until_ns` is where the record ends. Both are taken in the order of their times."""
    spells = _spells(sorted(predictions, key=lambda each: each.time_ns), holds_ns)
    hits: list[Hit] = []
    misses: list[SeenEnd] = []
    relieved: list[SeenEnd] = []
    for end in sorted(ends, key=lambda each: each.time_ns):
        spell = next((each for each in spells if each.covers(end)), None)
        if spell is not None:
            spell.is_settled = True
        if end.is_relief:
            relieved.append(end)
        elif spell is None:
            misses.append(end)
        else:
            hits.append(Hit(end, end.time_ns - spell.first.time_ns))
    open_spells = [each for each in spells if not each.is_settled]
    return Score(
        hits,
        misses,
        [each.first for each in open_spells if each.last_ns + holds_ns <= until_ns],
        [each.first for each in open_spells if each.last_ns + holds_ns > until_ns],
        relieved,
    )


@dataclass(slots=True)
class _Spell:
    """One pod, named again and again without a pause longer than a prediction holds."""

    first: Prediction
    last_ns: int
    holds_ns: int
    is_settled: bool = False

    def covers(self, end: SeenEnd) -> bool:
        is_in_time = self.first.time_ns <= end.time_ns <= self.last_ns + self.holds_ns
        return not self.is_settled and self.first.uid == end.uid and is_in_time


def _spells(predictions: Iterable[Prediction], holds_ns: int) -> list[_Spell]:
    found: list[_Spell] = []
    newest: dict[str, _Spell] = {}
    for each in predictions:
        spell = newest.get(each.uid)
        if spell is not None and each.time_ns - spell.last_ns <= holds_ns:
            spell.last_ns = each.time_ns
            continue
        newest[each.uid] = spell = _Spell(each, each.time_ns, holds_ns)
        found.append(spell)
    return found
