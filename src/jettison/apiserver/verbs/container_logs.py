"""GET of what a container has printed: an answer in pieces, which has no end while a log is followed.

The node that runs the pod is asked, on this machine as on another one (`node_client`); here is what the request means,
and how it is refused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from jettison.apiserver.access.auth import User
from jettison.apiserver.connections.limits import Count, Share
from jettison.apiserver.http.requests import Request, Target, integer
from jettison.apiserver.http.statuses import bad_request, not_found
from jettison.apiserver.objects.go_times import time_complaint
from jettison.apiserver.objects.resources import PODS
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, refusal
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.log_query import LogQuery, LogSource
from jettison.apiserver.verbs.node_client import (
    NodeClient,
    NodeQuestion,
    Parameters,
    node_path,
    refusal_of,
    unavailable,
)
from jettison.clock import Clock
from jettison.errors import ApiError
from jettison.manifests.times import exact_time_text, parse_time

Json = dict[str, Any]

LOGS: Final = Share(all=32, one_user=16, reserve=8)
"""Of one node at once. It has 32 places for logs and commands together, and does not know for which user it is asked:
one viewer that followed 32 logs kept administrators from every `exec`. Their own logs are not counted.
"""

_KINDS: Final = ("initContainers", "containers", "ephemeralContainers")


class ContainerLogs:
    """The handler."""

    def __init__(self, store: Store, clock: Clock, source: LogSource | None) -> None:
        self._store = store
        self._clock = clock
        self._source = source
        # By node, as long as a log of it is read.
        self._open: dict[str, Count] = {}

    def open(self, request: Request, target: Target) -> AsyncGenerator[bytes, None] | None:
        """What is to be sent; None for a pod without a node, which has written nothing. Raises ApiError, too."""
        amounts = {name: integer(request, name) for name in ("tailLines", "limitBytes", "sinceSeconds")}
        since_ns = _since_ns(request, amounts["sinceSeconds"], self._clock)
        if mistakes := list(_mistakes(request, amounts)):
            raise refusal("", "PodLogOptions", target.name, mistakes)
        found = self._store.get(PODS, target.namespace, target.name)
        if found is None:
            raise not_found(PODS, target.name)
        query = LogQuery(
            request.parameter("container") or only_container(found.object),
            amounts["tailLines"],
            amounts["limitBytes"],
            request.is_set("previous"),
            request.is_set("follow"),
            since_ns,
            # Everything but a clear no is a yes here, as upstream reads it.
            request.parameters.get("timestamps", ["false"])[0].lower() not in ("false", "0"),
        )
        if query.container not in containers_of(found.object):
            raise bad_request(f"container {query.container} is not valid for pod {target.name}")
        if not found.object["spec"].get("nodeName"):
            return None
        if self._source is None:
            raise unavailable("no node of this server keeps logs")
        pieces = self._source.read_log(found.object, query)
        return (
            pieces
            if request.user.role == "admin"
            else self._shared(found.object["spec"]["nodeName"], request.user, pieces)
        )

    async def _shared(self, node: str, user: User, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(pieces):
            count = self._open.setdefault(node, Count(LOGS))
            if not count.has_room(user.name, is_administrator=False):
                message = f'too many logs of node "{node}" are read, please try again later'
                raise ApiError(message, code=429, reason="TooManyRequests", details={"retryAfterSeconds": 1})
            count.add(user.name)
            try:
                async for piece in pieces:
                    yield piece
            finally:
                count.add(user.name, -1)
                if count.is_empty:
                    del self._open[node]


def _mistakes(request: Request, amounts: Mapping[str, int | None]) -> Iterator[Mistake]:
    tail_lines, most_bytes, seconds = amounts.values()
    if tail_lines is not None and tail_lines < 0:
        yield invalid("tailLines", tail_lines, "must be greater than or equal to 0")
    if most_bytes is not None and most_bytes < 1:
        yield invalid("limitBytes", most_bytes, "must be greater than 0")
    if seconds is not None and request.parameter("sinceTime"):
        # An empty name of a field is written so.
        yield forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")
    elif seconds is not None and seconds < 1:
        yield invalid("sinceSeconds", seconds, "must be greater than 0")
    if "stream" in request.parameters:
        yield forbidden("stream", "may not be specified")


def _since_ns(request: Request, seconds: int | None, clock: Clock) -> int | None:
    moment = request.parameter("sinceTime")
    if moment and (why := time_complaint(moment)):
        raise bad_request(why)
    if seconds is not None:
        return clock.now_ns() - seconds * 10**9
    return parse_time(moment) if moment else None


def containers_of(pod: Json) -> list[str]:
    """Their names, of all three kinds."""
    spec = pod["spec"]
    return [each["name"] for key in _KINDS for each in spec.get(key) or ()]


def only_container(pod: Json) -> str:
    """The name of the one that is meant where none is given. Raises 400 where that is not clear."""
    names = [each["name"] for each in pod["spec"].get("containers") or ()]
    if len(names) == 1:
        return str(names[0])
    listed = " ".join(names)
    raise bad_request(
        f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{listed}]"
    )


class NodeLogs:
    """Logs of all nodes."""

    def __init__(self, nodes: NodeClient) -> None:
        self._nodes = nodes

    async def read_log(self, pod: Json, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """In pieces; the first is empty, and says that the node has accepted the request."""
        node = pod["spec"]["nodeName"]
        question = NodeQuestion(node, _path(pod, query), _parameters(pod, query), lasts=query.is_followed, about=PODS)
        async with self._nodes.ask(question) as response:
            if response.status != 200:
                raise await refusal_of(node, response)
            yield b""
            async for piece in response.chunks():
                yield piece


def _path(pod: Json, query: LogQuery) -> str:
    metadata = pod["metadata"]
    return node_path("containerLogs", metadata["namespace"], metadata["name"], query.container)


def _parameters(pod: Json, query: LogQuery) -> Parameters:
    """As a kubelet has them; `uid`, which it does not know, keeps apart what has the same name."""
    amounts = {"tailLines": query.tail_lines, "limitBytes": query.most_bytes}
    wishes = {"follow": query.is_followed, "previous": query.is_previous, "timestamps": query.has_times}
    since = {} if query.since_ns is None else {"sinceTime": exact_time_text(query.since_ns)}
    found = {
        "uid": pod["metadata"]["uid"],
        **since,
        **{name: str(amount) for name, amount in amounts.items() if amount is not None},
        **{name: "true" for name, is_wished in wishes.items() if is_wished},
    }
    return tuple(found.items())
