"""RFC 3339 times and nanoseconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from jettison.errors import ManifestError
from jettison.manifests.files.decoding import shortened

_SECONDS = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
_RFC3339 = re.compile(rf"({_SECONDS})(?:\.([0-9]{{1,9}})[0-9]*)?(Z|[+-][0-9]{{2}}:[0-9]{{2}})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_LENGTH = len("2030-01-01T00:00:00Z")


def parse_time(text: str) -> int:
    """Nanoseconds since the epoch; `datetime` alone would cut them to microseconds.

    The plain form is remembered: a cluster writes the same second hundreds of times, and reading it takes 3 µs.
    """
    return _remembered(text) if len(text) == _PLAIN_LENGTH else _parse(text)


def time_or_none(text: object) -> int | None:
    """For a status that another client wrote: a time that cannot be read is as good as none."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ManifestError:
        return None


def _parse(text: str) -> int:
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        # In UTC, because 9999-12-31T23:59:59-01:00 is a text but not a time that could be printed again.
        whole = datetime.fromisoformat(match[1] + match[3]).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ManifestError(f"`{shortened(text)}` is not a time such as `2030-01-01T00:00:00Z`") from error
    return (whole - _EPOCH) // timedelta(seconds=1) * 10**9 + int((match[2] or "0").ljust(9, "0"))


_remembered = lru_cache(maxsize=1024)(_parse)


def time_text(time_ns: int) -> str:
    """With seconds and no finer, as Kubernetes writes its times. An OverflowError beyond the years 1 to 9999."""
    return _second_text(time_ns // 10**9)


@lru_cache(maxsize=1024)
def _second_text(seconds: int) -> str:
    # Not strftime: its %Y writes the year 1 as `1`, which no reader takes.
    return (_EPOCH + timedelta(seconds=seconds)).isoformat().removesuffix("+00:00") + "Z"


def milli_time_text(time_ns: int) -> str:
    """To the millisecond: to compare what happened within one second."""
    return f"{time_text(time_ns)[:-1]}.{time_ns // 10**6 % 1000:03d}Z"


def fixed_time_text(time_ns: int) -> str:
    """To the nanosecond, always with all nine digits, so that lines of a log line up."""
    return f"{time_text(time_ns)[:-1]}.{time_ns % 10**9:09d}Z"


def exact_time_text(time_ns: int) -> str:
    """To the nanosecond where there are any; `parse_time` gives the same number back."""
    return fixed_time_text(time_ns) if time_ns % 10**9 else time_text(time_ns)
