"""What the node's signals read lately: the last ten minutes to hours of an agent, for trends and recommendations.

Looks come every 10 s on a calm node and ten times a second on one that falls. What comes within a second of the last
sample is taken together with it, at its lowest: a dip must not be lost, and a busy node must not forget its past. 600
samples take 48 kB.

Every 60 samples go into the journal as one record, so that a command can read them while no agent runs:

    {"version": 1, "kind": "readings", "time": ns, "node": name, "pods": [], "times": [ns, …],
     "signals": {name: {"capacity": n, "available": [n or null, …]}, …}}
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Reading

READINGS = "readings"
"""The kind of such a record."""

MOST_SAMPLES = 600
SAMPLES_PER_RECORD = 60
SLOT_NS = 10**9

_SIGNALS = tuple(Signal)
_WIDTH = 1 + len(_SIGNALS)
# What was not measured; no reading is that small.
_NOTHING = -(2**63)


class RecentReadings:
    """Samples in the order in which they came, by the agent's steady clock."""

    def __init__(self) -> None:
        # Rows of a time and one number per signal. Cut in half now and then rather than at every look.
        self._rows = array("q")
        self._capacities: dict[Signal, int] = {}
        # How many of the samples are not on record.
        self._fresh = 0

    def __len__(self) -> int:
        return len(self._rows) // _WIDTH

    def add(self, now_ns: int, found: Mapping[Signal, Reading]) -> None:
        """One look. A signal whose capacity is another now begins anew: its past says nothing about it."""
        rows = self._rows
        for place, signal in enumerate(_SIGNALS, 1):
            reading = found.get(signal)
            if reading is not None and self._capacities.get(signal, reading.capacity) != reading.capacity:
                for at in range(place, len(rows), _WIDTH):
                    rows[at] = _NOTHING
            if reading is not None:
                self._capacities[signal] = reading.capacity
        row = [_held(found.get(signal)) for signal in _SIGNALS]
        last = len(rows) - _WIDTH
        if last >= 0 and 0 <= now_ns - rows[last] < SLOT_NS:
            for place, number in enumerate(row, last + 1):
                if number != _NOTHING and (rows[place] == _NOTHING or number < rows[place]):
                    rows[place] = number
            return
        rows.append(now_ns)
        rows.extend(row)
        self._fresh += 1
        if len(self) > MOST_SAMPLES:
            del rows[: (len(self) - MOST_SAMPLES) * _WIDTH]

    @property
    def is_due(self) -> bool:
        """Whether there are enough samples for a record."""
        return self._fresh > SAMPLES_PER_RECORD

    @property
    def fresh(self) -> int:
        """How many samples are not on record."""
        return self._fresh

    def take(self, by_ns: int, *, is_last: bool = False) -> dict[str, Any]:
        """The samples that are not on record, as `document` has them. The newest may still be added to, so it is not
        among them unless there will be no other."""
        left = 0 if is_last else 1
        document = self.document(by_ns, len(self) - self._fresh, self._fresh - left)
        self._fresh = left
        return document

    def document(self, by_ns: int, first: int = 0, count: int | None = None) -> dict[str, Any]:
        """Samples as values for JSON, with `by_ns` added to their times."""
        first = max(first, 0)
        last = len(self) if count is None else min(first + max(count, 0), len(self))
        rows = self._rows[first * _WIDTH : last * _WIDTH]
        columns = {signal: rows[place::_WIDTH] for place, signal in enumerate(_SIGNALS, 1)}
        return {
            "times": [time_ns + by_ns for time_ns in rows[::_WIDTH]],
            "signals": {
                signal.value: {
                    "capacity": self._capacities[signal],
                    "available": [None if number == _NOTHING else number for number in columns[signal]],
                }
                for signal in _SIGNALS
                if signal in self._capacities
            },
        }


def _held(reading: Reading | None) -> int:
    """Within 64 bits: a runtime may tell any number."""
    return _NOTHING if reading is None else min(max(reading.available, _NOTHING + 1), 2**63 - 1)
