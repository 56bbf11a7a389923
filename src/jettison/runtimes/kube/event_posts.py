"""Sends Kubernetes Events, one after the other, in the background.

Nothing waits for them. They are lost where the server does not take them or does not keep up: events are not essential.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from jettison.errors import JettisonError, NotFound
from jettison.runtimes.kube.client import Document, KubeClient, PatchType
from jettison.runtimes.kube.kinds import EVENTS

_MOST_WAITING: Final = 1000
_log = logging.getLogger(__name__)


class EventPosts:
    """A queue of v1 Events. One that counts above 1 was there before and is only brought up to date."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
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
                await self._send(event)
            except JettisonError as error:
                _log.debug("event lost: %s: %s", event["metadata"]["name"], error)

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
