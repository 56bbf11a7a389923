"""RFC 3339 times and nanoseconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from jettison.errors import ManifestError
from jettison.manifests.decoding import shortened

_RFC3339 = re.compile(r"([0-9T:-]+)(?:\.([0-9]{1,9})[0-9]*)?(Z|[+-][0-9]{2}:[0-9]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> int:
    """Nanoseconds since the epoch; `datetime` alone would cut them to microseconds."""
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        whole = datetime.fromisoformat(match[1] + match[3])
        if len(match[1]) != len("2030-01-01T00:00:00"):
            raise ValueError(text)
    except ValueError as error:
        raise ManifestError(f"`{shortened(text)}` is not a time such as `2030-01-01T00:00:00Z`") from error
    return (whole - _EPOCH) // timedelta(seconds=1) * 10**9 + int((match[2] or "0").ljust(9, "0"))


def time_text(time_ns: int) -> str:
    """With seconds and no finer, as Kubernetes writes its times."""
    return (_EPOCH + timedelta(seconds=time_ns // 10**9)).strftime("%Y-%m-%dT%H:%M:%SZ")
