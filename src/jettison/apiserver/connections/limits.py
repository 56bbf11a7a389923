"""What a request may cost: bytes and seconds of its body, seconds and bytes of its answer, and how many at once.

All of it is counted by user, and for unauthenticated clients by address, so that one cannot shut out another;
administrators have a reserve. A request that still waits for its body does not count as running: it costs nothing but
a place among the bodies, where the oldest gives way to the newest. Watches last long and cost little, so they are
counted apart and have no time limit here. Health is always answered: a busy server is not a dead one.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

import msgspec

from jettison.apiserver.access.auth import ANONYMOUS, User
from jettison.apiserver.http.statuses import failure_status, too_large
from jettison.errors import ApiError
from jettison.values import frozen

# ASGI, as far as it is used here: a framework's types would be all that is used of the framework.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES = 3 * 1024 * 1024
"""As in Kubernetes, where it keeps an object below etcd's limit. No object becomes larger by what clients add to it."""

_LONGEST_LASTING_HEAD = 8 * 1024
"""Path, query and headers of a watch or a followed log, which stay as long as it does. Tokens of service accounts have
1 kB. A stream may have a long command, and there are few.
"""


@frozen
class ConnectionPatience:
    """How long a client is waited for, and how much is read of it in vain."""

    # From the first byte of a request (or from the handshake) to the end of its headers.
    head_seconds: float = 15.0
    # Between two requests. client-go keeps idle connections for 90 s; the server must not close them first, or a
    # request meets a closing connection now and then.
    idle_seconds: int = 100
    # A client that has read nothing of its answer for so long is disconnected.
    stall_seconds: float = 20.0
    # Of a body that was refused unread. Reading on lets a client see the refusal: most send all before they look.
    ignored_bytes: int = 64 * 1024 * 1024
    ignoring_seconds: float = 20.0


_HEALTH = frozenset({"healthz", "livez", "readyz"})
# The older paths of watches, which have them in front of what is watched.
_WATCH_PATH = re.compile(r"/(?:api/[^/]+|apis/[^/]+/[^/]+)/watch/.", re.DOTALL)
_NO = ("0", "false")

_TUNNEL = re.compile(
    r"/api/v1/(?:namespaces/[^/]+/pods/[^/]+/(?:exec|attach|portforward)/?"
    r"|(?:nodes|namespaces/[^/]+/(?:pods|services))/[^/]+/proxy(?:/.*)?)",
    re.DOTALL,
)


@frozen
class Share:
    """How many of a kind at once: in all, for one user, and how many of all only administrators may have."""

    all: int
    one_user: int
    reserve: int


@frozen
class Allowance:
    """How many at once, and how long one may take. Kubernetes has 400 + 200 requests and 60 s."""

    requests: Share = Share(all=400, one_user=100, reserve=100)
    watches: Share = Share(all=3000, one_user=2000, reserve=500)
    tunnels: Share = Share(all=256, one_user=64, reserve=64)
    bodies: Share = Share(all=400, one_user=100, reserve=100)
    body_bytes: Share = Share(all=64 * 1024 * 1024, one_user=16 * 1024 * 1024, reserve=16 * 1024 * 1024)
    seconds: float = 60.0
    body_seconds: float = 20.0


ANSWERS = Share(all=128 * 1024 * 1024, one_user=32 * 1024 * 1024, reserve=32 * 1024 * 1024)
"""Bytes of answers that clients have asked for and not yet read."""

Identify = Callable[[Any], User | None]
"""From the scope of a request to the user behind it; None for a token that is unknown."""


class Count:
    """How many there are of one kind, by user."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._by_user: dict[str, int] = {}
        self._all = 0

    def has_room(self, user: str, *, is_administrator: bool) -> bool:
        """For one more; administrators are limited by the number of all only."""
        if is_administrator:
            return self._all < self._share.all
        return self._by_user.get(user, 0) < self._share.one_user and self._all < self._share.all - self._share.reserve

    def is_too_much(self, user: str) -> bool:
        """For this user, administrator or not."""
        return self._by_user.get(user, 0) >= self._share.one_user

    @property
    def is_empty(self) -> bool:
        """Whether no user has any."""
        return not self._all

    def add(self, user: str, amount: int = 1) -> None:
        """Count more of it, or less."""
        self._all += amount
        if count := self._by_user.get(user, 0) + amount:
            self._by_user[user] = count
        else:
            self._by_user.pop(user, None)


class Caller(NamedTuple):
    """Whose share a request counts against: a user's, or that of the unauthenticated clients at an address."""

    name: str
    is_administrator: bool = False


class Body:
    """A body that is being received. Once it is given up its rest may still come, so the connection must be closed."""

    __slots__ = ("counted", "deadline", "is_displaced", "is_given_up", "is_waiting", "size", "timer")

    def __init__(self) -> None:
        self.size = self.counted = 0
        self.deadline = 0.0
        self.is_waiting = self.is_displaced = self.is_given_up = False
        self.timer: asyncio.Timeout | None = None

    def displace(self) -> None:
        self.is_displaced = True
        if self.timer is not None:
            self.timer.reschedule(asyncio.get_running_loop().time())


class Bodies:
    """Requests whose bodies are being received, oldest first. Where a user has too many, its oldest is given up: most
    bodies take milliseconds, and a client that sends slowly loses its own requests.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._seconds = allowance.body_seconds
        self._count = Count(allowance.bodies)
        self._bytes = Count(allowance.body_bytes)
        self._waiting: dict[str, dict[Body, None]] = {}

    def receiving(self, caller: Caller, body: Body, receive: Receive, *, running: Count) -> Receive:
        """As `receive`, for as long as a body may take. While it waits, the request is not `running`."""

        async def receive_in_time() -> Message:
            running.add(caller.name, -1)
            self._make_room(caller, body)
            self._enter(caller.name, body)
            deadline = body.deadline or asyncio.get_running_loop().time() + self._seconds
            body.deadline = deadline
            try:
                async with asyncio.timeout_at(deadline) as body.timer:
                    message = await receive()
            except TimeoutError:
                body.is_given_up = True
                raise _too_many() if body.is_displaced else _body_too_slow(self._seconds) from None
            finally:
                self._leave(caller.name, body)
                if not body.is_given_up:
                    running.add(caller.name, 1)
            body.size += len(message.get("body", b""))
            return message

        return receive_in_time

    def _make_room(self, caller: Caller, body: Body) -> None:
        for count in (self._count, self._bytes):
            # Slow bodies of an administrator are given up, too: its other requests are quick.
            while count.is_too_much(caller.name) or not count.has_room(
                caller.name, is_administrator=caller.is_administrator
            ):
                if not self._displace(caller.name):
                    body.is_given_up = True
                    raise _too_many()

    def _displace(self, user: str) -> bool:
        oldest = next(iter(self._waiting.get(user, ())), None)
        if oldest is not None:
            self._leave(user, oldest)
            oldest.displace()
        return oldest is not None

    def _enter(self, user: str, body: Body) -> None:
        body.is_waiting = True
        body.counted = body.size
        self._waiting.setdefault(user, {})[body] = None
        self._count.add(user)
        self._bytes.add(user, body.counted)

    def _leave(self, user: str, body: Body) -> None:
        if not body.is_waiting:
            return
        body.is_waiting = False
        self._count.add(user, -1)
        self._bytes.add(user, -body.counted)
        del self._waiting[user][body]
        if not self._waiting[user]:
            del self._waiting[user]


class Answers:
    """The bytes of answers that clients still have to read. A user with too many waits for its own next answers, in the
    order of its requests; a client that reads nothing at all is disconnected (`connection`), so the wait ends.

    Large answers of one user are made one after the other. To draw a list of a thousand pods takes 10 to 300 ms of the
    processor, and requests that wait for a version go on at the same moment: 90 of one user took the server 27 s, in
    which no other user was answered.
    """

    def __init__(self, share: Share = ANSWERS) -> None:
        self._bytes = Count(share)
        self._waiting: deque[asyncio.Future[None]] = deque()
        # By user, for as long as a request has or awaits a turn.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, user: User) -> AsyncIterator[None]:
        """Of this user, no other large answer is made meanwhile; and there is room for this one."""
        lock = self._turns.get(user.name)
        if lock is None:
            lock = self._turns[user.name] = asyncio.Lock()
        async with lock:
            await self.room(user)
            yield

    async def room(self, user: User) -> None:
        """Wait until another answer may be made."""
        while not self._bytes.has_room(user.name, is_administrator=user.role == "admin"):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def hold(self, user: User, size: int) -> None:
        """An answer has been made, and is about to be sent."""
        self._bytes.add(user.name, size)

    def release(self, user: User, size: int) -> None:
        """It is sent, or its client has gone."""
        self._bytes.add(user.name, -size)
        waiting, self._waiting = self._waiting, deque()
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)


class _Deadlines:
    """A task has so many seconds between `begin` and `end`, and is cancelled then.

    All have the same time, so the task that came first is the first whose time is up, and one timer serves all. A timer
    for each request would be armed and cancelled a thousand times a second, and never rings.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # When each must be done, the earliest first, and how often its task was cancelled before.
        self._tasks: dict[asyncio.Task[Any], tuple[float, int]] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> asyncio.Task[Any]:
        """For the task that calls, which is the answer."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        deadline = loop.time() + self._seconds
        self._tasks[task] = deadline, task.cancelling()
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._ring)
        return task

    def are_why(self, task: asyncio.Task[Any]) -> bool:
        """Whether the task was cancelled because its time was up, and by nothing else; it may go on then."""
        if task not in self._late:
            return False
        self._late.discard(task)
        return task.uncancel() <= self._tasks[task][1]

    def end(self, task: asyncio.Task[Any]) -> None:
        """The work is done, or has failed."""
        del self._tasks[task]
        if task in self._late:
            self._late.discard(task)
            task.uncancel()

    def _ring(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for task, (deadline, _) in self._tasks.items():
            if deadline > now:
                self._timer = loop.call_at(deadline, self._ring)
                return
            if task not in self._late:
                self._late.add(task)
                task.cancel()


class Limits:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: ASGIApp,
        stop: asyncio.Event,
        allowance: Allowance | None = None,
        identify: Identify = lambda _: ANONYMOUS,
    ) -> None:
        self._app = app
        self._stop = stop
        self._allowance = allowance or Allowance()
        self._identify = identify
        self._requests = Count(self._allowance.requests)
        self._watches = Count(self._allowance.watches)
        self._tunnels = Count(self._allowance.tunnels)
        self._bodies = Bodies(self._allowance)
        self._deadlines = _Deadlines(self._allowance.seconds)
        self._receiving: set[asyncio.Timeout] = set()
        self._ending: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse at once: a queue would only make all clients wait."""
        path = scope["path"]
        if scope["type"] != "http" or path.strip("/").partition("/")[0] in _HEALTH:
            await self._app(scope, receive, send)
            return
        is_stream = is_tunnel(path)
        is_watch = is_stream or is_long_running(scope)
        if is_watch and not is_stream and _head_bytes(scope) > _LONGEST_LASTING_HEAD:
            await _refuse(send, _head_too_large())
            return
        caller = self._caller(scope)
        count = self._tunnels if is_stream else self._watches if is_watch else self._requests
        if caller is None or not count.has_room(caller.name, is_administrator=caller.is_administrator):
            await _refuse(send, _too_many())
            return
        count.add(caller.name)
        # Most bodies come together with their head: a timer and a place among those that wait would be for nothing.
        body = None if is_watch or _has_whole_body(scope.get("connection")) else Body()
        try:
            if is_watch:
                await self._app(scope, self._until_stop(receive), send)
            elif body is None:
                await self._request(scope, receive, send, None)
            else:
                in_time = self._bodies.receiving(caller, body, receive, running=count)
                await self._request(scope, in_time, send, body)
        finally:
            if body is None or not body.is_given_up:  # then it was not running any more
                count.add(caller.name, -1)

    def _caller(self, scope: Scope) -> Caller | None:
        """None for a user that has too many connections."""
        user = self._identify(scope)
        if user is None or not user.role:
            return Caller(f"at {(scope.get('client') or ('',))[0]}")
        is_administrator = user.role == "admin"
        connection = scope.get("connection")
        if connection is not None and not connection.assign(user.name, is_administrator=is_administrator):
            return None
        return Caller(user.name, is_administrator)

    def _until_stop(self, receive: Receive) -> Receive:
        """A watch would outlive the server: it takes a stop for a disconnect of its client, and ends as it should.

        A task for each to wait for the stop would cost 2,000 watches some megabytes.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_watches())

        async def receive_or_stop() -> Message:
            if self._stop.is_set():
                return {"type": "http.disconnect"}
            timer = asyncio.timeout(None)
            self._receiving.add(timer)
            try:
                async with timer:
                    return await receive()
            except TimeoutError:
                return {"type": "http.disconnect"}
            finally:
                self._receiving.discard(timer)

        return receive_or_stop

    async def _end_watches(self) -> None:
        await self._stop.wait()
        for timer in tuple(self._receiving):
            timer.reschedule(asyncio.get_running_loop().time())

    async def _request(self, scope: Scope, receive: Receive, send: Send, body: Body | None) -> None:
        is_started = False

        async def noting_send(message: Message) -> None:
            nonlocal is_started
            is_started = True
            if body is not None and body.is_given_up and message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        task = self._deadlines.begin()
        try:
            await self._app(scope, receive, noting_send)
        except asyncio.CancelledError:
            if not self._deadlines.are_why(task):
                raise
            # An answer that has begun can only be broken off, which uvicorn does when nothing follows.
            if not is_started:
                await _refuse(send, _timed_out())
        finally:
            self._deadlines.end(task)


def _head_bytes(scope: Scope) -> int:
    headers = sum(len(name) + len(value) for name, value in scope["headers"])
    return headers + len(scope["path"]) + len(scope["query_string"])


def _has_whole_body(connection: Any) -> bool:
    return connection is not None and connection.has_whole_body


def is_tunnel(path: str) -> bool:
    """Whether what it asks for is streamed between the client and a node, both ways."""
    return _TUNNEL.fullmatch(path) is not None


def is_long_running(scope: Scope) -> bool:
    """A watch, or a log that may be followed."""
    if scope["method"] != "GET":
        return False
    path: str = scope["path"]
    is_watch = _WATCH_PATH.match(path) is not None or _asks_to_watch(scope["query_string"])
    return is_watch or path.endswith(("/log", "/log/"))


def _asks_to_watch(query: bytes) -> bool:
    """The first value counts."""
    if b"watch" not in query and b"%" not in query:
        return False
    found = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return is_yes(next((value for name, value in found if name == "watch"), "0"))


def is_yes(value: str) -> bool:
    """What a parameter of a query says: as in Go everything is a yes that is not clearly a no, also an empty text."""
    return value.lower() not in _NO


async def read_body(scope: Scope, receive: Receive, most_bytes: int = MOST_BODY_BYTES) -> bytes:
    """The whole body, or 413; a body that is announced too large is not read at all.

    The rest of a body that is refused is not waited for, so the connection is closed with the answer.
    """
    announced = b"0"
    for name, value in scope["headers"]:
        if name == b"content-length":
            announced = value
            break
    if len(announced) > 18 or (announced.isdigit() and int(announced) > most_bytes):
        raise too_large(most_bytes)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError("the client disconnected before its request was complete", code=400, reason="BadRequest")
        part = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            raise too_large(most_bytes)
        if not message.get("more_body", False):
            return b"".join((*parts, part)) if parts else part
        parts.append(part)


def _head_too_large() -> ApiError:
    message = f"path, query and headers of a watch or log are too large: limit is {_LONGEST_LASTING_HEAD}"
    return ApiError(message, code=431, reason="RequestHeaderFieldsTooLarge", details={})


def _too_many() -> ApiError:
    message = "too many requests, please try again later"
    return ApiError(message, code=429, reason="TooManyRequests", details={"retryAfterSeconds": 1})


def _body_too_slow(seconds: float) -> ApiError:
    message = f"Timeout: the body of the request was not complete within {seconds:g} s"
    return ApiError(message, code=408, reason="Timeout", details={})


def _timed_out() -> ApiError:
    message = "Timeout: request did not complete within the allotted timeout"
    return ApiError(message, code=504, reason="Timeout", details={})


async def _refuse(send: Send, error: ApiError) -> None:
    """The body may not have been read, so the connection cannot be used again."""
    body = msgspec.json.encode(failure_status(error)) + b"\n"
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if error.retry_after_seconds:
        headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
    await send({"type": "http.response.start", "status": error.code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
