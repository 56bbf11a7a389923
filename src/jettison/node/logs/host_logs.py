"""What containers of one node wrote, for clients of the Kubernetes API. Refusals have the kubelet's words.

The times of lines are those that `log_times` can tell: at most a second late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from jettison.apiserver.verbs.log_query import LogQuery
from jettison.engine.pods.pod import Pod
from jettison.errors import ApiError, ObservationError
from jettison.manifests.pods import is_mirror
from jettison.membership.mirrors import mirror_name
from jettison.node.logs.log_files import Fate, LogFollower, Stamper, log_blocks, runs_of
from jettison.runtimes.host.volumes.logs import log_file, pod_log_dir
from jettison.runtimes.protocol import PodStatus

Json = dict[str, Any]

_PAUSE_SECONDS = 0.2


class HostLogs:
    """Of one node; `statuses` tells which containers still write. A static pod is asked for by its mirror's name."""

    def __init__(self, node: str, logs_dir: Path, statuses: Callable[[], Sequence[PodStatus]]) -> None:
        self._node = node
        self._logs_dir = logs_dir
        self._statuses = statuses

    def read_log(self, pod: Json, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """Of a pod as the API has it; that it has such a container is known."""
        metadata = pod["metadata"]
        if is_mirror(pod):
            return self.find(metadata["namespace"], metadata["name"], metadata["uid"], query)
        return self.read(Pod(metadata["name"], metadata["namespace"], metadata["uid"]), query)

    def find(self, namespace: str, name: str, uid: str, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """Of a pod that a remote client names: only what is known to have run here becomes a path."""
        for status in sorted(self._statuses(), key=lambda each: each.pod.is_static):
            if self._is_meant(status.pod, namespace, name, uid):
                if all(each.name != query.container for each in status.containers):
                    raise _refusal(f'container "{query.container}" in pod "{name}" has not run')
                return self.read(status.pod, query)
        message = f'pod "{name}" is not on this node'
        raise ApiError(message, code=404, reason="NotFound", details={})

    def _is_meant(self, pod: Pod, namespace: str, name: str, uid: str) -> bool:
        """A mirror has another uid than its pod; that no other pod here has its name was checked first."""
        if pod.is_static:
            return (pod.namespace, mirror_name(pod.name, self._node)) == (namespace, name)
        return (pod.namespace, pod.name) == (namespace, name) and uid in (pod.uid, "")

    async def read(self, pod: Pod, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """In pieces; an ApiError comes before the first of them."""
        directory = pod_log_dir(self._logs_dir, pod) / query.container
        try:
            run = await asyncio.to_thread(_run, directory, pod, query)
            left = query.most_bytes
            async with aclosing(self._pieces(directory, run, pod, query)) as pieces:
                async for piece in pieces:
                    yield piece if left is None else piece[:left]
                    if left is not None and (left := left - len(piece)) <= 0:
                        return
        except ObservationError as error:
            raise ApiError(str(error), code=500, reason="InternalError", details={}) from error

    async def _pieces(self, directory: Path, run: int, pod: Pod, query: LogQuery) -> AsyncGenerator[bytes, None]:
        place = 0
        stamper = Stamper() if query.has_times else None
        blocks = log_blocks(log_file(directory, run), query.tail_lines, query.since_ns, stamper)
        while (found := await asyncio.to_thread(next, blocks, None)) is not None:
            block, place = found
            yield block
        follower = LogFollower(directory, run, place, lambda: Fate.OVER, stamper=stamper)
        is_written = query.is_followed
        while is_written:
            await asyncio.sleep(_PAUSE_SECONDS)
            # Asked before it is read, or its last words would be missed.
            is_written = self._is_written(pod.uid, query.container, run)
            if news := b"".join(await asyncio.to_thread(lambda: list(follower.news()))):
                yield news

    def _is_written(self, uid: str, container: str, run: int) -> bool:
        status = next((each for each in self._statuses() if each.pod.uid == uid), None)
        found = () if status is None else status.containers
        return any(each.name == container and each.state == "running" and each.restarts == run for each in found)


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
