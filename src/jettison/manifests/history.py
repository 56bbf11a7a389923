"""`engine.history.History` as JSON and back, so that it outlives a process. The format has a version.

The times in it are the wall clock's as of `savedAt`. Where a clock may be set between two readers, `bootId` and
`monotonicNs` tell the second one how much time has really passed.

A reclaim under way is not kept. Whether it sufficed or not, the history after it is the same; the next step reads the
node anew and orders another reclaim if it must.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

import msgspec

from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Amount, Percentage, Threshold
from jettison.engine.numbers.durations import duration_text, parse_duration
from jettison.engine.numbers.quantity import Quantity, parse
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import Wire, decode, shortened
from jettison.manifests.times import exact_time_text, parse_time
from jettison.values import frozen

VERSION = 1
KIND = "JettisonHistory"

T = TypeVar("T")


@frozen
class SavedAt:
    """When it was: by the wall clock, and within a boot."""

    wall_ns: int
    boot_id: str
    monotonic_ns: int


@frozen
class SavedHistory:
    """A history and the node it is about; without a name where the summary had none."""

    history: History
    node: str = ""
    at: SavedAt | None = None


class _Amount(Wire, omit_defaults=True):
    """One of the two. A fraction is a 32-bit float written out, because `10%` would be read with other last bits."""

    quantity: str | None = None
    fraction: str | None = None


class _Threshold(Wire, omit_defaults=True):
    signal: str
    amount: _Amount
    grace_period: str = "0s"
    minimum_reclaim: _Amount | None = None
    is_inert: bool = False


class _Crossed(Wire):
    threshold: _Threshold
    since: str


class _Reading(Wire):
    available: int
    capacity: int
    time: str | None = None


class _History(Wire):
    kind: str
    version: int
    node: str = ""
    knows_layout: bool = False
    first_observed: list[_Crossed] = msgspec.field(default_factory=list)
    met: list[_Threshold] = msgspec.field(default_factory=list)
    condition_observed: dict[str, str] = msgspec.field(default_factory=dict)
    conditions: list[str] = msgspec.field(default_factory=list)
    readings: dict[str, _Reading] = msgspec.field(default_factory=dict)
    saved_at: str = ""
    boot_id: str = ""
    monotonic_ns: int = 0


class _Head(Wire):
    kind: str = ""
    version: int = 0


_HEAD = msgspec.json.Decoder(_Head)
_HISTORY = msgspec.json.Decoder(_History)


def encode_history(saved: SavedHistory) -> bytes:
    """Indented JSON that `parse_history` reads back as an equal history."""
    history = saved.history
    document = _History(
        KIND,
        VERSION,
        saved.node,
        history.knows_layout,
        [_Crossed(_from_threshold(each), exact_time_text(since)) for each, since in history.first_observed.items()],
        [_from_threshold(each) for each in history.met],
        {condition.value: exact_time_text(seen) for condition, seen in history.condition_observed.items()},
        sorted(history.conditions),
        {signal.value: _from_reading(reading) for signal, reading in history.readings.items()},
    )
    if saved.at is not None:
        document.saved_at = exact_time_text(saved.at.wall_ns)
        document.boot_id, document.monotonic_ns = saved.at.boot_id, saved.at.monotonic_ns
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def parse_history(data: bytes, source: str = "history") -> SavedHistory:
    """What was saved, or a ManifestError that says why it cannot be used."""
    head = decode(_HEAD, data, source)
    if head.kind != KIND:
        raise ManifestError(f"{source}: kind is `{shortened(head.kind)}`, expected `{KIND}`")
    if head.version != VERSION:
        raise ManifestError(f"{source}: version is `{head.version}`, this program reads version {VERSION}")
    document = decode(_HISTORY, data, source)
    try:
        at = None
        if document.saved_at:
            at = SavedAt(parse_time(document.saved_at), document.boot_id, document.monotonic_ns)
        return SavedHistory(_history(document), document.node, at)
    except InputError as error:
        raise ManifestError(f"{source}: {error}") from error


def _history(document: _History) -> History:
    return History(
        document.knows_layout,
        {_threshold(each.threshold): parse_time(each.since) for each in document.first_observed},
        tuple(_threshold(each) for each in document.met),
        {_named(Condition, name): parse_time(seen) for name, seen in document.condition_observed.items()},
        frozenset(_named(Condition, name) for name in document.conditions),
        {_named(Signal, name): _reading(each) for name, each in document.readings.items()},
    )


def _from_threshold(threshold: Threshold) -> _Threshold:
    reclaim = threshold.minimum_reclaim
    return _Threshold(
        threshold.signal.value,
        _from_amount(threshold.amount),
        duration_text(threshold.grace_ns),
        None if reclaim is None else _from_amount(reclaim),
        threshold.is_inert,
    )


def _threshold(document: _Threshold) -> Threshold:
    reclaim = document.minimum_reclaim
    return Threshold(
        _named(Signal, document.signal),
        _amount(document.amount),
        parse_duration(document.grace_period),
        None if reclaim is None else _amount(reclaim),
        document.is_inert,
    )


def _from_amount(amount: Amount) -> _Amount:
    if isinstance(amount, Percentage):
        return _Amount(fraction=repr(amount.fraction))
    return _Amount(quantity=_quantity_text(amount))


def _quantity_text(quantity: Quantity) -> str:
    """As it prints, unless that loses something: 1000E prints as `1`."""
    text = str(quantity)
    return text if parse(text) == quantity else f"{Decimal(quantity.unscaled)}e{quantity.scale}"


def _amount(document: _Amount) -> Amount:
    if (document.quantity is None) == (document.fraction is None):
        raise ManifestError("an amount has either a quantity or a fraction")
    if document.quantity is not None:
        return parse(document.quantity)
    try:
        fraction = float(document.fraction or "")
    except ValueError as error:
        raise ManifestError(f"`{shortened(document.fraction or '')}` is not a fraction such as `0.1`") from error
    return Percentage(math.nan if math.isnan(fraction) else fraction)


def _from_reading(reading: Reading) -> _Reading:
    time_ns = reading.time_ns
    return _Reading(reading.available, reading.capacity, None if time_ns is None else exact_time_text(time_ns))


def _reading(document: _Reading) -> Reading:
    return Reading(document.available, document.capacity, None if document.time is None else parse_time(document.time))


def _named(names: Callable[[str], T], text: str) -> T:
    try:
        return names(text)
    except ValueError as error:
        raise ManifestError(f"`{shortened(text)}` is not a name that this program knows") from error
