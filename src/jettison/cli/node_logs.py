"""Where `kubectl logs` finds what a pod wrote: on the node that it is bound to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from jettison.apiserver.container_logs import LogQuery
from jettison.cli.host_logs import HostLogs
from jettison.engine.pods import Pod
from jettison.errors import ApiError

Json = dict[str, Any]


class NodeLogs:
    """`nodes` are those of this process."""

    def __init__(self) -> None:
        self.nodes: dict[str, HostLogs] = {}

    async def read_log(self, pod: Json, query: LogQuery) -> AsyncIterator[bytes]:
        """In pieces; an ApiError comes before the first of them."""
        metadata, node = pod["metadata"], pod["spec"].get("nodeName") or ""
        if query.container not in _containers(pod):
            raise _refusal(f"container {query.container} is not valid for pod {metadata['name']}")
        if not node:
            raise _refusal(f"pod {metadata['name']} does not have a host assigned")
        logs = self.nodes.get(node)
        if logs is None:
            message = f'the logs of node "{node}" are where it runs: only nodes of this process are read'
            raise ApiError(message, code=503, reason="ServiceUnavailable", details={})
        async for piece in logs.read(Pod(metadata["name"], metadata["namespace"], metadata["uid"]), query):
            yield piece


def _containers(pod: Json) -> list[str]:
    spec = pod["spec"]
    return [each["name"] for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))]


def _refusal(message: str) -> ApiError:
    return ApiError(message, code=400, reason="BadRequest", details={})
