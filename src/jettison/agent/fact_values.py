"""What a fact is called and what it says, for everything that writes facts down.

The log and the journal show the same words, because a line found in one is looked up in the other. A name is the
fact's own (`PodEvicted` is `pod_evicted`) and part of what users rely on, so a fact must not be renamed lightly. The
values follow the types of the fact's fields: a new fact needs nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import msgspec

from jettison.agent.amounts import span
from jettison.agent.safe_text import quoted
from jettison.engine.node.amounts import short
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.signals import ROWS, Resource, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold
from jettison.engine.pods.pod import Pod
from jettison.events import Fact

_SIGNALS = frozenset(signal.value for signal in Signal)
_INSIDE_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def name_of(fact: Fact) -> str:
    """`ThresholdCrossed` is `threshold_crossed`."""
    return _snake(type(fact).__name__)


@cache
def _snake(name: str) -> str:
    return _INSIDE_WORD.sub("_", name).lower()


def values_of(fact: Fact) -> dict[str, Any]:
    """Flat, in the order of the fact's fields; JSON can hold every value."""
    return dict(pair for field in fields(fact) for pair in _pairs(field.name, getattr(fact, field.name)))


def with_amounts(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same for people: bytes as `99Mi`. What is available or there in all is of the signal that is named."""
    signal = str(values.get("threshold") or values.get("signal") or "").partition("<")[0]
    resource = ROWS[Signal(signal)].resource if signal in _SIGNALS else None
    resources = {
        "available": resource,
        "capacity": resource,
        "fall_per_second": resource,
        "freed_bytes": Resource.EPHEMERAL_STORAGE,
        "size_bytes": Resource.EPHEMERAL_STORAGE,
    }
    return {name: _amount(value, resources.get(name)) for name, value in values.items()}


def _amount(value: object, resource: Resource | None) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return short(value, resource) if resource is not None and is_number else value  # type: ignore[arg-type]


def value_pairs(values: Mapping[str, Any]) -> list[str]:
    """`name=value` for each value that says something, as lines for people have them: `decided=1.4ms`."""
    texts = ((name.removesuffix("_ns"), _value_text(name, value)) for name, value in with_amounts(values).items())
    return [f"{name}={quoted(text)}" for name, text in texts if text]


def _value_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and name.endswith("_ns"):
        return span(value).replace(" ", "")
    if isinstance(value, list):
        return "; ".join(map(str, value))
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode() if value else ""
    return "" if value is None else str(value).strip()


def pods_of(fact: Fact) -> list[Pod]:
    """The pods that the fact is about."""
    about = [getattr(fact, field.name) for field in fields(fact)]
    return [each for each in about if isinstance(each, Pod)] + [
        each.pod for each in about if isinstance(each, Eviction)
    ]


def _pairs(name: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Pod):
        yield from ((name, str(value)), ("uid", value.uid))
    elif isinstance(value, Eviction):
        yield from _pairs("pod", value.pod)
        yield from (("reason", value.reason), ("signal", value.signal), ("grace_seconds", value.grace_seconds))
        yield "message", value.message
        if value.is_at_once:
            yield "is_at_once", True
    elif isinstance(value, Threshold):
        yield name, str(value)
    elif isinstance(value, Reading):
        yield from (("available", value.available), ("capacity", value.capacity))
    elif isinstance(value, Mapping):
        yield name, {str(key): item for key, item in value.items()}
    elif isinstance(value, tuple):
        yield name, [_clean(each) for each in value]
    else:
        yield name, _clean(value)


def _clean(value: object) -> object:
    """A file's name may be any bytes, and what is not UTF-8 cannot be written as JSON."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode(errors="backslashreplace").decode()
