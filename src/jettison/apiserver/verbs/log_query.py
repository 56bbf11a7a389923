"""What the API server asks of a node about logs. Nodes import this much of the API server, and no more."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final, Protocol

from jettison.values import frozen

Json = dict[str, Any]

CERTIFICATE_ANNOTATION: Final = "jettison.dev/serving-certificate"
"""On a Node: the certificate of its log server. No authority signs it; the API server trusts this one alone."""


@frozen
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
    """Where the output of containers is kept: a node in this process, or a client of those elsewhere."""

    def read_log(self, pod: Json, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """In pieces, of which the first may be empty; a refusal is an ApiError before it. To be closed."""
