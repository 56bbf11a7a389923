"""What is asked of whoever keeps logs. Nodes elsewhere know this much of the API server, and no more."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final, Protocol

Json = dict[str, Any]

CERTIFICATE_ANNOTATION: Final = "jettison.dev/serving-certificate"
"""Of a node: what it shows whoever asks it for logs. Nobody else vouches for it."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which log, and how much of it."""

    container: str
    # None: all there are.
    tail_lines: int | None = None
    most_bytes: int | None = None
    # The run before the last one.
    is_previous: bool = False
    # Go on as it writes, until it ends.
    is_followed: bool = False
    # Only lines that were written then or later.
    since_ns: int | None = None
    # Each line with its time before it.
    has_times: bool = False


class LogSource(Protocol):
    """Whoever keeps what containers print: a node in this process, or a way to those elsewhere."""

    def read_log(self, pod: Json, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """In pieces, of which the first may be empty; a refusal is an ApiError before it. To be closed."""
