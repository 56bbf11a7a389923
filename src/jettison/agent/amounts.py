"""Amounts for programs, and lengths of time for people. Amounts for people are in `engine/node/amounts`."""

from __future__ import annotations

from typing import Any

from jettison.engine.node.amounts import whole
from jettison.engine.numbers.quantity import Quantity
from jettison.manifests.files.decoding import shortened


def amount_data(quantity: Quantity | None) -> dict[str, Any] | None:
    """For JSON: Kubernetes' text, and the number rounded up; null beyond 64 bits, which few readers could take."""
    if quantity is None:
        return None
    number = whole(quantity)
    return {"text": shortened(str(quantity)), "value": number if -(2**63) <= number < 2**63 else None}


def span(nanoseconds: int) -> str:
    """A length of time for people: `0.4 ms`, `1.9 s`."""
    if nanoseconds < 10**9:
        return f"{nanoseconds / 10**6:.1f} ms"
    return f"{nanoseconds / 10**9:.1f} s"
