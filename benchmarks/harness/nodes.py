"""A node that leaves nothing behind, however a benchmark ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.live.node import LiveNode


@contextmanager
def running(node: LiveNode) -> Iterator[None]:
    """From the start of its agent to the end of its last pod."""
    node.start()
    try:
        yield
    finally:
        try:
            node.stop()
        finally:
            if node.process is not None:
                node.kill()
