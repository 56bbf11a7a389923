"""Sends Kubernetes Events, one after the other, in the background.

Nothing waits for them. They wait while the server does not answer, as with client-go: what happened during an outage
of some minutes is told after it. They are lost where the server refuses them or does not keep up: events are not
essential.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

from jettison.errors import JettisonError, NotFound, RuntimeFailure
from jettison.runtimes.kube.client import Document, KubeClient, PatchType
from jettison.runtimes.kube.kinds import EVENTS

_MOST_WAITING: Final = 1000
# Both are client-go's. The limit is for an event at which the server always hangs up: those behind it are sent, too.
_MOST_TRIES: Final = 12
_PAUSE_SECONDS: Final = 10.0
_log = logging.getLogger(__name__)


class EventPosts:
    """A queue of v1 Events. One that counts above 1 was there before and is only brought up to date."""

    def __init__(self, client: KubeClient, pause_seconds: float = _PAUSE_SECONDS) -> None:
        self._client = client
        self._pause_seconds = pause_seconds
        self._waiting: asyncio.Queue[Document] = asyncio.Queue(_MOST_WAITING)

    def post(self, event: Document) -> None:
        """Have it sent, if there is room."""
        if not self._waiting.full():
            self._waiting.put_nowait(event)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            event = await self._waiting.get()
            try:
                await self._deliver(event)
            except JettisonError as error:
                _log.debug("event lost: %s: %s", event["metadata"]["name"], error)

    async def _deliver(self, event: Document) -> None:
        for tries in range(1, _MOST_TRIES):
            try:
                return await self._send(event)
            except RuntimeFailure:
                # Not all nodes at the same moment.
                share = random.uniform(0, 1) if tries == 1 else 1.0  # noqa: S311  no secret
                await asyncio.sleep(self._pause_seconds * share)
        return await self._send(event)

    async def _send(self, event: Document) -> None:
        name, namespace = event["metadata"]["name"], event["metadata"]["namespace"]
        if event["count"] > 1:
            patch = {key: event[key] for key in ("count", "message", "lastTimestamp")}
            try:
                await self._client.patch(EVENTS, name, patch, namespace, how=PatchType.MERGE)
            except NotFound:  # the server forgets events after an hour
                await self._client.create(EVENTS, event, namespace)
        else:
            await self._client.create(EVENTS, event, namespace)
