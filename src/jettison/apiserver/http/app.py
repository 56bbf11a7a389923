"""The ASGI application: from the bytes of a request to the bytes of its answer.

The order is Kubernetes': is the user known (401), may it do that (403), is there such a resource (404), does it have
that verb (405), and only then what the handler says. No web framework is used: a route table and request objects would
cost more than an eviction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec

from jettison.apiserver.access.auth import ANONYMOUS, Authenticator, User, impersonated, impersonation, with_own_groups
from jettison.apiserver.access.authorization import Authorizer, answer_review
from jettison.apiserver.connections.limits import MOST_BODY_BYTES, Answers, Receive, Scope, Send, read_body
from jettison.apiserver.connections.rounds import UserRounds
from jettison.apiserver.http import discovery, health
from jettison.apiserver.http.bodies import create_options, read_object
from jettison.apiserver.http.forms import JSON, PLAIN, YAML, check_route, form_of, wants_yaml
from jettison.apiserver.http.presenting import Response, encode, show_document
from jettison.apiserver.http.requests import Request, Target, method_not_allowed, timeout_seconds
from jettison.apiserver.http.statuses import failure_status, internal_error, unknown_path
from jettison.apiserver.http.yaml_answers import yaml_of
from jettison.apiserver.objects.ownership.records import documents
from jettison.apiserver.objects.ownership.tracking import blank, track
from jettison.apiserver.objects.resources import BINDINGS, GROUP_VERSIONS, NODE_METRICS, NODES, POD_METRICS
from jettison.apiserver.objects.writing import check_namespace
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.container_logs import ContainerLogs, NodeLogs
from jettison.apiserver.verbs.eviction import Evictions, Settings
from jettison.apiserver.verbs.log_query import LogSource
from jettison.apiserver.verbs.node_client import NodeClient
from jettison.apiserver.verbs.node_streams import STREAMS, NodeStreams
from jettison.apiserver.verbs.patching import patch_type
from jettison.apiserver.verbs.proxies import METHODS as PROXY_METHODS
from jettison.apiserver.verbs.proxies import Proxies
from jettison.apiserver.verbs.resource_usage import PAUSE_SECONDS, ResourceUsage
from jettison.apiserver.verbs.rest import Objects, expected
from jettison.apiserver.verbs.subresources import Subresources
from jettison.apiserver.verbs.token_requests import TokenRequests
from jettison.apiserver.verbs.watch import PACE, Watcher, WatchPace, open_watch
from jettison.clock import Clock
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError

Handler = Callable[[Request, Target], Awaitable[Response]]

_log = logging.getLogger(__name__)
# Inside a group that is served, an unknown version is told in JSON; elsewhere there is nothing but a plain 404.
_GROUP_PATHS: Final = ("/api/", *(f"/apis/{group}/" for group, _ in GROUP_VERSIONS if group))
_PIECE_BYTES: Final = 64 * 1024
_MOST_WARNING_CHARS: Final = 4096
_LONGEST_CUT_WARNING: Final = 256
# The key of a scope under which its user is kept.
_USER: Final = "jettison.user"
# A client that has stopped reading cannot be told that its watch is over; after this long the connection is closed.
_LAST_PIECE_SECONDS: Final = 30.0


class Application:
    """Everything that the API serves, on one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        authenticator: Authenticator,
        *,
        evictions: Settings | None = None,
        logs: LogSource | None = None,
        nodes: NodeClient | None = None,
        has_accounts: bool = False,
        watch_pace: WatchPace = PACE,
        usage_pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        """`nodes` asks nodes, and `logs` are asked in its place for logs. `has_accounts`: a controller gives every
        namespace its `default` service account.
        """
        self._store = store
        self._clock = clock
        self._watch_pace = watch_pace
        self._authenticator = authenticator
        self._authorizer = Authorizer(store)
        objects = Objects(store, clock, self._authorizer, has_accounts=has_accounts)
        self._writer = objects.writer
        subresources = Subresources(objects, Evictions(store, clock, evictions))
        self._logs = ContainerLogs(store, clock, logs or (None if nodes is None else NodeLogs(nodes)))
        self._usage = ResourceUsage(store, clock, nodes, usage_pause_seconds)
        self._streams = NodeStreams(store, self._authorizer, nodes)
        self._proxies = Proxies(store, nodes)
        self._handlers: dict[tuple[str, str], Handler] = {
            ("get", ""): objects.read,
            ("list", ""): objects.list_all,
            ("create", ""): objects.create,
            ("update", ""): objects.update,
            ("patch", ""): objects.patch,
            ("delete", ""): objects.delete,
            ("deletecollection", ""): objects.delete_collection,
            ("get", "status"): objects.read,
            ("update", "status"): subresources.update_status,
            ("patch", "status"): objects.patch,
            **{
                (verb, part): handler
                for part in ("ephemeralcontainers", "resize")
                for verb, handler in (("get", objects.read), ("update", objects.update), ("patch", objects.patch))
            },
            ("update", "finalize"): subresources.finalize,
            ("get", "scale"): subresources.read_scale,
            ("update", "scale"): subresources.write_scale,
            ("patch", "scale"): subresources.write_scale,
            ("create", "eviction"): subresources.evict,
            ("create", "binding"): subresources.bind,
            ("create", "token"): TokenRequests(objects, authenticator.accounts).create,
        }
        self._bind = subresources.bind
        self._answers = Answers()
        self._rounds = UserRounds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        user, held = ANONYMOUS, 0
        try:
            request = Request(scope["method"], scope["path"], scope["query_string"], scope["headers"])
            try:
                response = await self._serve(request, scope, receive, send)
                if response is None:
                    return
                if response.draw is not None or response.size > _PIECE_BYTES:
                    user = request.user
                    response = await self._make(request, response)
                    held = response.size
                else:
                    response = await _written(request, response)
            except ApiError as error:
                response = await _written(request, _failure(error))
            if request.warnings:
                headers = [*response.headers, *_warning_headers(request.warnings)]
                response = replace(response, headers=headers)
        except Exception as error:  # noqa: BLE001  one request must not end the server
            _log.exception("`%s %s` failed", scope["method"], scope["path"])
            response = _failure(internal_error(f"{type(error).__name__}: {error}"))
        try:
            await _send(send, response)
        finally:
            if held:
                self._answers.release(user, held)

    async def _make(self, request: Request, response: Response) -> Response:
        """A large answer, when the user has its turn; it is held until it is sent."""
        async with self._answers.turn(request.user):
            response = await _written(request, response.drawn())
            self._answers.hold(request.user, response.size)
        return response

    async def _serve(self, request: Request, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """The answer; None if it was streamed."""
        if request.path == "*" and request.method == "OPTIONS":
            return Response(200, b"", PLAIN)  # as Go's server does, without authentication
        if request.target is None and request.is_cut_off:
            where = request.path + ("?" + scope["query_string"].decode("latin-1") if scope["query_string"] else "")
            why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {where}"
            return Response(500, f"Internal Server Error: {quote(where)}: {why}\n".encode(), PLAIN)
        if "timeout" in request.parameters and not _is_long(request):
            timeout_seconds(request)
        self._authorize(request, scope)
        if request.method == "HEAD" and request.target is not None and request.target.subresource != "proxy":
            raise method_not_allowed()
        if request.is_watch:
            await self._watch(request, receive, send)
            return None
        target = request.target
        if target is not None and target.subresource:
            if target.subresource == "log" and request.verb == "get":
                return await self._log(request, target, receive, send)
            if target.subresource in STREAMS and request.verb in ("get", "create"):
                return await self._streams.serve(request, target, scope, receive, send)
            if target.subresource == "proxy":
                return await self._proxy(request, target, scope, receive, send)
        return await self._respond(request, scope, receive)

    async def _proxy(
        self, request: Request, target: Target, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        if request.method not in PROXY_METHODS:
            raise method_not_allowed()
        handler = self._streams if target.resource is NODES else self._proxies
        return await handler.serve(request, target, scope, receive, send)

    def identify(self, scope: Scope) -> User | None:
        """The user that sends the request; None when it carries a token that is unknown."""
        # Asked twice for each request: by its limits, and here.
        if _USER not in scope:
            token: str | None = None
            for name, value in scope["headers"]:
                if name == b"authorization":
                    token = value.decode("latin-1")
                    break
            scope[_USER] = self._authenticator.authenticate(token)
        user: User | None = scope[_USER]
        return user

    def _authorize(self, request: Request, scope: Scope) -> None:
        user = self.identify(scope)
        if user is None:
            raise ApiError("Unauthorized", code=401, reason="Unauthorized")
        if (wanted := impersonated(scope["headers"])) is not None:
            for each in impersonation(wanted):
                self._authorizer.check(user, each)
            user = self._authenticator.subject(with_own_groups(wanted))
        request.user = user
        access = request.access
        self._authorizer.check(user, access)
        request.resolve()
        most_bytes = self._authorizer.most_bytes(user, access)
        request.most_bytes = MOST_BODY_BYTES if most_bytes is None else most_bytes

    async def _respond(self, request: Request, scope: Scope, receive: Receive) -> Response:
        target = request.target
        if target is None:
            return self._respond_plain(request)
        handler = self._handler(target, request.verb)
        if request.verb == "patch":
            patch_type(request)
        check_route(request)
        if request.method != "GET":
            request.body = await read_body(scope, receive, request.most_bytes)
        await self._rounds.turn(request.user.name, len(request.body))
        await self._answers.room(request.user)
        request.warnings += filter(None, (target.resource.deprecation,))
        return await handler(request, target)

    def _respond_plain(self, request: Request) -> Response:
        path = request.path
        is_health = health.is_health(path)
        found = None if is_health else _find_document(path, request.accept)
        if found is None and not is_health:
            if path.startswith(_GROUP_PATHS):
                raise unknown_path()
            return Response(404, b"404 page not found\n", PLAIN)
        if request.method != "GET" and not is_health and not discovery.takes_any_method(path):
            raise method_not_allowed()
        if found is None:
            excluded = request.parameters.get("exclude", ())
            return health.answer(path, self._store, is_verbose="verbose" in request.parameters, excluded=excluded)
        tag = [(b"etag", found.etag.encode())]
        if request.known_tag == found.etag:
            return Response(304, b"", found.content_type, tag)
        return Response(200, found.body, found.content_type, tag)

    def _handler(self, target: Target, verb: str) -> Handler:
        resource = target.resource
        part = resource.subresource(target.subresource) if target.subresource else None
        if verb not in (resource.verbs if part is None else part.verbs):
            raise method_not_allowed(resource.absence)
        if verb == "create" and target.name and part is None:
            raise method_not_allowed()
        if verb in ("create", "deletecollection") and resource.is_namespaced and not target.namespace:
            raise method_not_allowed()
        if resource is BINDINGS:
            return self._bind
        if resource in (NODE_METRICS, POD_METRICS):
            return self._usage.read if verb == "get" else self._usage.list_all
        if not resource.is_stored:
            return self._review
        return self._handlers[verb, target.subresource]

    async def _review(self, request: Request, target: Target) -> Response:
        form_of(request, has_table=False)
        options = create_options(request)
        what = expected(target.resource)
        review = read_object(request, what, options.validation)
        metadata = dict(review.get("metadata") or {})
        check_namespace(metadata, target.namespace)
        metadata.pop("namespace", None)
        if target.namespace:
            metadata["namespace"] = target.namespace
        review = {**review, "metadata": metadata}
        writer = self._writer(request, target.resource, "", options)
        if managed := track(writer, (), blank(target.resource), review):
            metadata["managedFields"] = documents(managed)
        rights = (self._authenticator, self._authorizer)
        answer = answer_review(target.resource, review, request.user, *rights, writer.time)
        kind = {"kind": target.resource.kind, "apiVersion": target.resource.api_version}
        return show_document(request, target.resource.group, {**kind, **answer}, 201)

    async def _watch(self, request: Request, receive: Receive, send: Send) -> None:
        target = request.target
        if target is None or "watch" not in target.resource.verbs or request.method != "GET":
            raise method_not_allowed()
        check_route(request)
        request.warnings += filter(None, (target.resource.deprecation,))
        watcher, seconds = await open_watch(self._store, self._clock, request, target, self._watch_pace)
        request.parameters.clear()  # they would stay as long as the watch, 600 kB at most
        leaving = asyncio.create_task(_wait_for_end(receive, watcher.close))
        try:
            # An answer that has begun cannot become an error: the connection is closed, and the client asks again.
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds + _LAST_PIECE_SECONDS):
                    await _stream(watcher, seconds, send, _warning_headers(request.warnings))
        finally:
            leaving.cancel()
            watcher.close()

    async def _log(self, request: Request, target: Target, receive: Receive, send: Send) -> Response | None:
        check_route(request, has_text=True)
        form_of(request, has_table=False)
        pieces = self._logs.open(request, target)
        if pieces is None:
            return Response(204, b"", "")
        # A refusal is raised here, while no answer has begun.
        first = await anext(pieces, b"")
        request.parameters.clear()
        sending = asyncio.create_task(_send_pieces(first, pieces, send))
        leaving = asyncio.create_task(_wait_for_end(receive, partial(sending.cancel)))
        try:
            await asyncio.wait((sending,))
            if not sending.cancelled():
                sending.result()
        finally:
            sending.cancel()
            leaving.cancel()
        return None


def _is_long(request: Request) -> bool:
    """Whether it may take as long as it likes."""
    target = request.target
    return request.is_watch or (target is not None and target.subresource in (*STREAMS, "log", "proxy"))


async def _send_pieces(first: bytes, pieces: AsyncGenerator[bytes, None], send: Send) -> None:
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": first, "more_body": True})
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    except ApiError as error:
        # An answer that has begun can only be broken off, which uvicorn does when nothing follows.
        _log.warning("a log ends early: %s", error)
        return
    await send({"type": "http.response.body", "body": b""})


async def _stream(watcher: Watcher, seconds: float, send: Send, warnings: list[tuple[bytes, bytes]]) -> None:
    """The headers go first, and at once: clients take the watch as begun when they have them."""
    head: dict[str, Any] = {"type": "http.response.start", "status": 200}
    await send({**head, "headers": [*warnings, (b"content-type", b"application/json")]})
    async for chunk in watcher.chunks(seconds):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        # Sending to a client that has disconnected returns at once: without a turn of the loop its watch would not
        # notice until it has sent everything. 2,000 watches that ended together stopped the server for 18 s.
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


async def _wait_for_end(receive: Receive, close: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    close()


def _find_document(path: str, accept: str) -> discovery.Document | None:
    if path.rstrip("/") == "/version":
        return discovery.version_document()
    return discovery.document(path, accept)


def _failure(error: ApiError) -> Response:
    headers = []
    if error.retry_after_seconds > 0:
        headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
    return Response(error.code, encode(failure_status(error)), headers=headers)


def _warning_headers(warnings: list[str]) -> list[tuple[bytes, bytes]]:
    """A header for each warning. Where they are many, the beginning of each has to do, as upstream."""
    listed = list(dict.fromkeys(filter(None, warnings)))
    if sum(map(len, listed)) > _MOST_WARNING_CHARS:
        listed = [each[:_LONGEST_CUT_WARNING] for each in listed[: _MOST_WARNING_CHARS // _LONGEST_CUT_WARNING]]
    escaped = (each.replace("\\", "\\\\").replace('"', '\\"') for each in listed)
    return [(b"warning", f'299 - "{each}"'.encode("ascii", "backslashreplace")) for each in escaped]


async def _written(request: Request, response: Response) -> Response:
    """JSON as the client wants to read it."""
    if response.content_type != JSON or not response.body:
        return response
    if wants_yaml(request, is_refusal=response.code >= 400):
        # Thousands of objects take most of a second, in which other clients must be served.
        text = await asyncio.to_thread(yaml_of, response.whole())
        return replace(response, body=text, content_type=YAML, parts=())
    if request.wants_indentation:
        return replace(response, body=msgspec.json.format(response.whole(), indent=2), parts=())
    return response


async def _send(send: Send, response: Response) -> None:
    headers = [*response.headers]
    size = response.size
    # An answer without content says nothing about it.
    if response.code != 204:
        headers += [
            (b"content-type", response.content_type.encode("latin-1")),
            (b"content-length", b"%d" % size),
        ]
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    if size <= _PIECE_BYTES:
        await send({"type": "http.response.body", "body": response.whole()})
        return
    # Encrypted at once, a list would be in memory three times for as long as its client does not read.
    for piece in response.pieces(_PIECE_BYTES):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
