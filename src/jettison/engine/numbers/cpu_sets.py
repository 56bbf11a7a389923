"""CPU lists such as `0-3,7`: only how many CPUs they name matters here."""

from __future__ import annotations

from jettison.engine.numbers.strconv import atoi, quote
from jettison.errors import InputError


def count_cpus(text: str) -> int:
    """How many different CPUs `text` names, or an InputError with Kubernetes' words."""
    if not text:
        return 0
    ranges = sorted(_range(piece) for piece in text.split(","))
    # Counted range by range: `0-9999999999` must not be walked.
    count, counted_to = 0, None
    for start, end in ranges:
        if counted_to is not None and start <= counted_to:
            start = counted_to + 1
        if start <= end:
            count += end - start + 1
            counted_to = end
    return count


def _range(piece: str) -> tuple[int, int]:
    first, dash, last = piece.partition("-")
    start = atoi(first)
    end = atoi(last) if dash else start
    if start > end:
        raise InputError(f"invalid range {quote(piece)} ({start} > {end})")
    return start, end
