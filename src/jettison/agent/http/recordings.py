"""A recording of the node, over its socket: begun and stopped by an order, fetched by a reader that asks once a second.

There is one at a time. A reader that stays away for a minute has ended it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor

import msgspec

from jettison.agent.agent import Agent
from jettison.agent.http.server import Answer, Query, Route
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recorder import JournalRecorder
from jettison.agent.journal.tape import NodeTape
from jettison.clock import Clock
from jettison.errors import ApiError

CONTENT_TYPE = "application/octet-stream"


class Recordings:
    """Of one node."""

    def __init__(
        self, agent: Agent, recorder: JournalRecorder, journal: Journal, clock: Clock, node: str, executor: Executor
    ) -> None:
        self._agent = agent
        self._recorder = recorder
        self._journal = journal
        self._clock = clock
        self._node = node
        self._executor = executor
        self._tape: NodeTape | None = None
        self._number = 0

    def routes(self) -> Mapping[str, Route]:
        """Questions."""
        return {"/recording": self.fetch}

    def orders(self) -> Mapping[str, Route]:
        """By POST."""
        return {"/orders/record": self.begin, "/orders/stop-recording": self.stop}

    def begin(self, _: Query) -> Answer:
        """Answers with the number by which it is fetched."""
        if self._tape is not None and not self._tape.end:
            raise ApiError("the node is being recorded already, and can be once at a time", code=409)
        self._number += 1
        # So that whether a step is written does not depend on what was before the recording.
        self._recorder.steps.forget()
        self._tape = NodeTape(self._agent, self._journal, self._clock, self._node, self._executor)
        self._agent.look_soon()
        return Answer(msgspec.json.encode({"node": self._node, "id": self._number}))

    async def fetch(self, query: Query) -> Answer:
        """Frames since the last time; none when there is nothing new."""
        tape = self._known(query)
        frames = await asyncio.wrap_future(tape.fetch())
        if tape.end and not frames:
            self._tape = None
            raise ApiError(f"the recording has ended: {tape.end}", code=409)
        return Answer(frames, CONTENT_TYPE)

    async def stop(self, query: Query) -> Answer:
        """Answers with the last frames."""
        tape = self._known(query)
        tape.stop()
        self._tape = None
        return Answer(await asyncio.wrap_future(tape.fetch()), CONTENT_TYPE)

    def _known(self, query: Query) -> NodeTape:
        if self._tape is None or query.get("id") != str(self._number):
            raise ApiError("there is no such recording, or no longer", code=404)
        return self._tape
