"""exec, attach, portforward of pods, and `proxy` of nodes: the API server checks the request, and the node answers it.

A request for another protocol (SPDY/3.1 or WebSocket) is passed on as it is. Once the node has agreed, bytes are
carried both ways and not looked at. At most a piece is in memory for each direction: the next one is read when the one
before has been taken. What a client may have of this at once is counted by `limits`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from jettison.apiserver.access.authorization import Authorizer
from jettison.apiserver.connections.limits import Receive, Scope, Send
from jettison.apiserver.http.presenting import Response
from jettison.apiserver.http.requests import Request, Target
from jettison.apiserver.http.statuses import bad_request, not_found
from jettison.apiserver.objects.resources import NODES, PODS
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.container_logs import containers_of, only_container
from jettison.apiserver.verbs.node_client import (
    NodeClient,
    NodeQuestion,
    Parameters,
    node_path,
    refusal_of,
    unavailable,
)
from jettison.engine.numbers.strconv import quote
from jettison.errors import UnreachableError
from jettison.runtimes.machine.background_tasks import until_one_ends

if TYPE_CHECKING:
    from jettison.runtimes.kube.http import HttpResponse

STREAMS: Final = frozenset({"exec", "attach", "portforward", "proxy"})

STALL_SECONDS: Final = 600.0
"""A side that has not read for so long is disconnected. Output that is read in a pager stands still for minutes."""

_HIGHEST_PORT: Final = 65_535
_PIECE_BYTES: Final = 32 * 1024
# The kubelet's names for what the API calls stdin, stdout, stderr.
_CHANNELS: Final = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
_ASKED: Final = (
    "upgrade", "x-stream-protocol-version", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol",
)  # fmt: skip
_TOLD: Final = ("upgrade", "x-stream-protocol-version", "sec-websocket-accept", "sec-websocket-protocol")


class NodeStreams:
    """The handler. Without `nodes` no node can be asked."""

    def __init__(self, store: Store, authorizer: Authorizer, nodes: NodeClient | None) -> None:
        self._store = store
        self._authorizer = authorizer
        self._nodes = nodes

    async def serve(
        self, request: Request, target: Target, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Until both sides have gone; None if the answer was streamed. Raises ApiError before it begins."""
        is_proxied = target.subresource == "proxy"
        # What is wrong with the pod is said first.
        question = None if is_proxied else self._streamed(request, target)
        if self._nodes is None:
            raise unavailable("no node of this server can be asked")
        wanted = _upgrade_headers(scope)
        if question is None:
            question = self._proxied(request, target)
        elif not wanted:
            self._nodes.check_address(question.node, question.about)
            raise bad_request("Upgrade request required")
        async with self._nodes.ask(replace(question, headers=wanted, lasts=True)) as answer:
            if answer.status == 101:
                await _tunnel(answer, scope, receive)
                return None
            if not is_proxied:
                raise await refusal_of(question.node, answer)
            await _pass_on(answer, receive, send)
            return None

    def _proxied(self, request: Request, target: Target) -> NodeQuestion:
        """`[https:]NAME[:PORT]`: of a node only the kubelet's port is asked, under both spellings."""
        assert self._nodes is not None
        scheme, name, port = _parts(target.name)
        if self._store.get(NODES, "", name) is None:
            raise not_found(NODES, target.name)
        if scheme not in ("", "https") or (port and port != str(self._nodes.kubelet_port(name))):
            raise bad_request(f"of node {name} only its own port is asked, over https: /api/v1/nodes/{name}/proxy/")
        parameters = tuple((key, value) for key, values in request.parameters.items() for value in values)
        path = node_path(*target.rest.split("/")[1:]) or "/"
        return NodeQuestion(name, path, parameters, request.method)

    def _streamed(self, request: Request, target: Target) -> NodeQuestion:
        # A WebSocket begins with GET, and what it does is no reading.
        self._authorizer.check(request.user, replace(request.access, verb="create"))
        ports = _ports(request) if target.subresource == "portforward" else []
        found = self._store.get(PODS, target.namespace, target.name)
        if found is None:
            raise not_found(PODS, target.name)
        pod = found.object
        names, parameters = (target.namespace, target.name), [("uid", str(found.metadata["uid"]))]
        if target.subresource == "portforward":
            path = node_path("portForward", *names)
            parameters += [("port", each) for each in ports]
        else:
            container = request.parameter("container") or only_container(pod)
            if container not in containers_of(pod):
                raise bad_request(f"container {container} is not valid for pod {target.name}")
            path = node_path(target.subresource, *names, container)
            parameters += [(theirs, "1") for ours, theirs in _CHANNELS if request.is_set(ours)]
            parameters += [("command", each) for each in request.parameters.get("command", ())]
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {target.name} does not have a host assigned")
        return NodeQuestion(pod["spec"]["nodeName"], path, parameters, request.method, about=PODS)


def _ports(request: Request) -> list[str]:
    listed = [each for value in request.parameters.get("ports", ()) for each in value.split(",")]
    for each in listed:
        is_number = each.isascii() and each.isdigit()
        if not is_number or int(each) > _HIGHEST_PORT:
            why = "value out of range" if is_number else "invalid syntax"
            raise bad_request(f"cannot convert to []int32: strconv.ParseUint: parsing {quote(each)}: {why}")
    return listed


def _parts(text: str) -> tuple[str, str, str]:
    """Scheme, name and port; each but the name may be empty."""
    parts = text.split(":")
    match len(parts):
        case 1:
            return "", text, ""
        case 2 if parts[0] in ("http", "https"):
            return parts[0], parts[1], ""
        case 2:
            return "", parts[0], parts[1]
        case 3:
            return parts[0], parts[1], parts[2]
    raise bad_request(f'invalid node request "{text}"')


def _upgrade_headers(scope: Scope) -> Parameters:
    """What makes a request one for another protocol; empty where it is none."""
    found = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    connection = ",".join(value.lower() for name, value in found if name == "connection")
    if "upgrade" not in {each.strip() for each in connection.split(",")}:
        return ()
    # Several headers of one name mean a list.
    joined = [(name, ", ".join(value for each, value in found if each == name)) for name in _ASKED]
    wanted = [(name, value) for name, value in joined if value]
    return [("connection", "Upgrade"), *wanted] if any(name == "upgrade" for name, _ in wanted) else ()


async def _pass_on(answer: HttpResponse, receive: Receive, send: Send) -> None:
    """Status, type and body, as they come."""
    content_type = answer.headers.get("content-type", "text/plain").encode("latin-1")
    headers = [(b"content-type", content_type)]

    async def work() -> None:
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        async for piece in answer.chunks():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    await until_one_ends(work(), _left(receive))


async def _tunnel(answer: HttpResponse, scope: Scope, receive: Receive) -> None:
    connection = scope.get("connection")
    if connection is None:
        raise bad_request("this connection cannot be upgraded")
    reader, writer = connection.take_over()
    told = [(name, answer.headers[name]) for name in _TOLD if name in answer.headers]
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", *(f"{name}: {value}" for name, value in told)]

    async def to_client() -> None:
        writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
        async for data in answer.chunks():
            async with asyncio.timeout(STALL_SECONDS):
                writer.write(data)
                await writer.drain()

    async def to_node() -> None:
        while data := await reader.read(_PIECE_BYTES):
            await answer.write(data, STALL_SECONDS)

    try:
        await until_one_ends(_ending_quietly(to_client), _ending_quietly(to_node), _left(receive))
    finally:
        connection.leave()


async def _ending_quietly(work: Callable[[], Awaitable[None]]) -> None:
    """A side that is gone, or does not read, is the end of a tunnel and no error."""
    with suppress(OSError, UnreachableError):
        await work()


async def _left(receive: Receive) -> None:
    """Returns when the client has gone or the server stops."""
    while (await receive())["type"] != "http.disconnect":
        pass
