"""Watches, for tests that look at one event after another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from jettison.runtimes.kube.client import WatchEvent


async def one_by_one(lists: AsyncIterator[Sequence[WatchEvent]]) -> AsyncIterator[WatchEvent]:
    """What came together, one after another."""
    async for events in lists:
        for event in events:
            yield event
