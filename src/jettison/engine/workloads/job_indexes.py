"""Completion indexes of a Job, kept as `status.completedIndexes` writes them: `0,2,3,5-9`.

As ranges and not one by one: a Job may have two thousand million completions, and a status may say that all are done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from jettison.engine.numbers.strconv import atoi
from jettison.errors import InputError


@dataclass(frozen=True, slots=True)
class Indexes:
    """A set of indexes: ranges in order that do not touch one another."""

    ranges: tuple[range, ...] = ()

    def __contains__(self, index: int) -> bool:
        position = bisect_right(self.ranges, index, key=lambda each: each.start)
        return position > 0 and index in self.ranges[position - 1]

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __str__(self) -> str:
        """Three or more in a row as a range, two with a comma."""
        return ",".join(map(_text, self.ranges))

    def with_indexes(self, indexes: Iterable[int]) -> Indexes:
        """These as well."""
        return _merged([*self.ranges, *(range(each, each + 1) for each in indexes)])

    def first_missing(self, count: int, end: int) -> list[int]:
        """The first `count` indexes below `end` that are not in here."""
        return list(islice(self._missing(end), count))

    def _missing(self, end: int) -> Iterator[int]:
        begin = 0
        for each in self.ranges:
            yield from range(begin, min(each.start, end))
            begin = each.stop
        yield from range(begin, end)


def parse_indexes(text: str, completions: int) -> Indexes:
    """Those below `completions`. A part that is no number is left out: this is the status of a running Job."""
    found = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        try:
            begin, end = atoi(first), atoi(last or first)
        except InputError:
            continue
        if run := range(max(begin, 0), min(end + 1, completions)):
            found.append(run)
    return _merged(found)


def _merged(runs: Iterable[range]) -> Indexes:
    merged: list[range] = []
    for each in sorted(runs, key=lambda run: run.start):
        if merged and each.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, each.stop))
        else:
            merged.append(each)
    return Indexes(tuple(merged))


def _text(run: range) -> str:
    return ",".join(map(str, run)) if len(run) <= 2 else f"{run[0]}-{run[-1]}"
