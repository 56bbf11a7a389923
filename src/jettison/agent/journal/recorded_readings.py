"""Readings on record, or as an agent tells them, as series of numbers: what trends and recommendations are made from.

Also here: how long hard evictions took, from the facts beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from jettison.agent.journal.reading import Record, read_journal
from jettison.agent.journal.recent_readings import READINGS
from jettison.agent.journal.records import STEP
from jettison.engine.foresight.trends import Series
from jettison.engine.node.evictions import HARD_GRACE
from jettison.engine.node.signals import Signal
from jettison.errors import ManifestError
from jettison.manifests.files.decoding import Wire, convert, decode

MOST_SAMPLES = 20_000
"""Of a signal; two days of a calm node. A journal that is full of readings has more, and the newest count."""

_SIGNALS = frozenset(signal.value for signal in Signal)
_STARTED, _ENDED = "eviction_started", "pod_evicted"


class _SignalRecord(Wire):
    capacity: int
    available: list[int | None]


class _ReadingsRecord(Wire):
    times: list[int] = msgspec.field(default_factory=list)
    signals: dict[str, _SignalRecord] = msgspec.field(default_factory=dict)


_DECODER = msgspec.json.Decoder(_ReadingsRecord)


@dataclass(slots=True)
class Past:
    """What a node went through: its signals, oldest first, and the lengths of what was done about them."""

    series: dict[Signal, Series] = field(default_factory=dict)
    # In hard evictions: from the alarm or tick to the signal that told a pod to end, and from there to its end.
    told_ns: list[int] = field(default_factory=list)
    ended_ns: list[int] = field(default_factory=list)

    def add(self, record: _ReadingsRecord) -> None:
        """Samples in front of those that are known. Of another capacity they are of another node."""
        for name, column in record.signals.items():
            if name not in _SIGNALS:
                continue
            pairs = zip(record.times, column.available, strict=False)
            samples = [(time_ns, number) for time_ns, number in pairs if number is not None]
            known = self.series.get(Signal(name))
            if known is None:
                self.series[Signal(name)] = Series(column.capacity, samples)
            elif known.capacity == column.capacity and len(known.samples) < MOST_SAMPLES:
                before = known.samples[0][0] if known.samples else 2**63
                older = [each for each in samples if each[0] < before]
                self.series[Signal(name)] = Series(known.capacity, older + list(known.samples))


def told_past(document: object, source: str) -> Past:
    """Of what an agent answers to `/readings`."""
    past = Past()
    past.add(convert(document, _ReadingsRecord, source))
    return past


def recorded_past(directory: Path, since_ns: int | None = None, begin: Past | None = None) -> Past:
    """From the journal, newest first; records that cannot be read are passed over. `begin` has what is newer."""
    past = begin or Past()
    _gather(read_journal(directory, newest_first=True, since_ns=since_ns), past)
    return past


def _gather(newest_first: Iterable[Record], past: Past) -> None:
    for record in newest_first:
        if record.kind == READINGS:
            try:
                past.add(decode(_DECODER, record.data, READINGS))
            except ManifestError:
                continue
        elif record.kind != STEP:
            _add_length(record, past)


def _add_length(record: Record, past: Past) -> None:
    names = {_STARTED: ("decided_ns", past.told_ns), _ENDED: ("took_ns", past.ended_ns)}
    if record.event in names and _is_hard(record):
        name, lengths = names[record.event]
        length = record.values.get(name)
        if isinstance(length, int) and length >= 0:
            lengths.append(length)


def _is_hard(record: Record) -> bool:
    """Of a hard threshold. In other evictions a pod has a grace period, and an operator's has no alarm either."""
    return record.values.get("signal") in _SIGNALS and record.values.get("grace_seconds") == HARD_GRACE
