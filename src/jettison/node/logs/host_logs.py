"""What containers of one node wrote, for clients of the Kubernetes API. Refusals have the kubelet's words.

The times of lines are those that `log_times` can tell: at most a second late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from jettison.apiserver.verbs.log_query import LogQuery
from jettison.engine.pods.pod import Pod
from jettison.errors import ApiError, ObservationError
from jettison.node.kubelet.finding import NamedContainer
from jettison.node.logs.log_files import Fate, LogFollower, Stamper, log_blocks, runs_of
from jettison.runtimes.host.volumes.logs import log_file, pod_log_dir

_PAUSE_SECONDS = 0.2
# The agent is asked once a second whether the container still writes.
_LOOKS_FOR_A_QUESTION = 5


class Finder(Protocol):
    """Tells which containers there are."""

    async def find(self, **asked: str) -> NamedContainer:
        """A container by `namespace`, `pod`, `uid` and `container`. Raises ApiError."""


class HostLogs:
    """Of one node."""

    def __init__(self, logs_dir: Path, finder: Finder) -> None:
        self._logs_dir = logs_dir
        self._finder = finder

    async def open(self, namespace: str, name: str, uid: str, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """Of a pod that a remote client names: only what is known to have run here becomes a path."""
        found = await self._finder.find(namespace=namespace, pod=name, uid=uid, container=query.container)
        return self._read(found, query)

    async def _read(self, found: NamedContainer, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """In pieces; an ApiError comes before the first of them."""
        directory = pod_log_dir(self._logs_dir, found.pod) / query.container
        try:
            run = await asyncio.to_thread(_run, directory, found.pod, query)
            left = query.most_bytes
            async with aclosing(self._pieces(directory, run, found, query)) as pieces:
                async for piece in pieces:
                    yield piece if left is None else piece[:left]
                    if left is not None and (left := left - len(piece)) <= 0:
                        return
        except ObservationError as error:
            raise ApiError(str(error), code=500, reason="InternalError", details={}) from error

    async def _pieces(
        self, directory: Path, run: int, found: NamedContainer, query: LogQuery
    ) -> AsyncGenerator[bytes, None]:
        place = 0
        stamper = Stamper() if query.has_times else None
        blocks = log_blocks(log_file(directory, run), query.tail_lines, query.since_ns, stamper)
        while (part := await asyncio.to_thread(next, blocks, None)) is not None:
            block, place = part
            yield block
        follower = LogFollower(directory, run, place, lambda: Fate.OVER, stamper=stamper)
        is_written, looks = query.is_followed, 0
        while is_written:
            await asyncio.sleep(_PAUSE_SECONDS)
            looks += 1
            if looks % _LOOKS_FOR_A_QUESTION == 0:
                # Asked before it is read, or its last words would be missed.
                is_written = await self._is_written(found, run)
            if news := b"".join(await asyncio.to_thread(lambda: list(follower.news()))):
                yield news

    async def _is_written(self, found: NamedContainer, run: int) -> bool:
        try:
            now = await self._finder.find(
                namespace=found.namespace, pod=found.asked_name, uid=found.uid, container=found.container
            )
        except ApiError as refusal:
            # An agent that is busy or restarted is no reason to hang up.
            return refusal.code >= 500
        return now.is_running and now.run == run and now.uid == found.uid


def _run(directory: Path, pod: Pod, query: LogQuery) -> int:
    runs = runs_of(directory)
    if query.is_previous:
        if len(runs) < 2:
            raise _refusal(f'previous terminated container "{query.container}" in pod "{pod.name}" not found')
        return runs[-2]
    if not runs:
        raise _refusal(f'container "{query.container}" in pod "{pod.name}" is waiting to start: ContainerCreating')
    return runs[-1]


def _refusal(message: str) -> ApiError:
    return ApiError(message, code=400, reason="BadRequest", details={})
