"""Counters, gauges and histograms, and Prometheus' text format for them.

Written here because the usual client library costs several megabytes of an agent that has 28, and brings threads,
registries and multi-process files that one loop in one process does not need.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]


class Family:
    """One metric with all its label values. `read` gives its samples when it is asked for them.

    With `time_ns` they carry the time of their measurement, and not that of the scrape.
    """

    def __init__(
        self, name: str, kind: str, meaning: str, read: Callable[[], Iterable[Sample]], *, time_ns: int | None = None
    ) -> None:
        self.name = name
        self.kind = kind
        self.meaning = meaning
        self.read = read
        self.time_ns = time_ns


class Counter(Family):
    """Goes up. It is shown from the start, for the known values of its label, so that the first increase is seen.

    It may be read in another thread than the one that counts.
    """

    def __init__(
        self, name: str, meaning: str, label: str | None = None, kind: str = "counter", *, known: Iterable[str] = ()
    ) -> None:
        super().__init__(name, kind, meaning, self._samples)
        self._label = label
        self._values: dict[str, float] = dict.fromkeys(sorted(known), 0) if label else {"": 0}

    def add(self, value: str = "", amount: float = 1) -> None:
        """Count for this value of the label."""
        self._values[value] = self._values.get(value, 0) + amount

    def set(self, value: str, amount: float) -> None:
        """What a gauge does."""
        self._values[value] = amount

    def _samples(self) -> Iterator[Sample]:
        for value, amount in list(self._values.items()):
            yield self.name, ((self._label, value),) if self._label else (), amount


class Gauge(Counter):
    """Goes up and down."""

    def __init__(self, name: str, meaning: str, label: str | None = None) -> None:
        super().__init__(name, meaning, label, kind="gauge")


class Histogram(Family):
    """How often a value was at most so much."""

    def __init__(
        self, name: str, meaning: str, bounds: Sequence[float], label: str | None = None, known: Iterable[str] = ()
    ) -> None:
        super().__init__(name, "histogram", meaning, self._samples)
        self._bounds = tuple(bounds)
        self._label = label
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        for value in ("",) if label is None else sorted(known):
            self._begin(value)

    def observe(self, amount: float, value: str = "") -> None:
        """Count this amount for this value of the label."""
        if value not in self._counts:
            self._begin(value)
        self._counts[value][bisect_left(self._bounds, amount)] += 1
        self._sums[value] += amount

    def _begin(self, value: str) -> None:
        self._sums[value] = 0.0
        self._counts[value] = [0] * (len(self._bounds) + 1)

    def _samples(self) -> Iterator[Sample]:
        for value, counts in list(self._counts.items()):
            labels: Labels = ((self._label, value),) if self._label else ()
            total = 0
            for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
                total += count
                yield f"{self.name}_bucket", (*labels, ("le", _number(bound))), total
            yield f"{self.name}_sum", labels, self._sums[value]
            yield f"{self.name}_count", labels, total


def exposition(families: Iterable[Family]) -> str:
    """The text a scraper reads. A family without samples is announced all the same."""
    return "".join(line for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    meaning = family.meaning.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {family.name} {meaning}\n# TYPE {family.name} {family.kind}\n"
    time = "" if family.time_ns is None else f" {family.time_ns // 10**6}"
    for name, labels, amount in family.read():
        inside = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels)
        yield f"{name}{{{inside}}} {_number(amount)}{time}\n" if inside else f"{name} {_number(amount)}{time}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(amount: float) -> str:
    if amount == float("inf"):
        return "+Inf"
    return str(int(amount)) if amount == int(amount) else repr(float(amount))
