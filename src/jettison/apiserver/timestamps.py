"""The time as objects carry it. A busy server writes the same second a thousand times."""

from __future__ import annotations

from functools import lru_cache

from jettison.manifests.times import time_text

_SECOND_NS = 10**9


def stamp(now_ns: int) -> str:
    """`time_text`, remembered."""
    return _stamp(now_ns // _SECOND_NS)


@lru_cache(maxsize=256)
def _stamp(seconds: int) -> str:
    return time_text(seconds * _SECOND_NS)
