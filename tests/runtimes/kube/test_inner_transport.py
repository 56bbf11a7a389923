"""A server in the same process: asked like any other, and left like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import msgspec
import pytest

from jettison.errors import NotFound, RuntimeFailure
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.inner_transport import AsgiApp, InnerTransport
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.kube.kubeconfig import Access, Credentials
from tests.watching import one_by_one

Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def answer(send: Send, code: int, document: object) -> None:
    body = msgspec.json.encode(document)
    await send({"type": "http.response.start", "status": code, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


def ask(app: AsgiApp, work: Callable[[KubeClient], Awaitable[None]]) -> None:
    async def run() -> None:
        access = Access("https://127.0.0.1:1", credentials=Credentials(token="secret"))
        async with KubeClient(access, transport=InnerTransport(app)) as client:
            await asyncio.wait_for(work(client), 10)

    asyncio.run(run())


def test_a_request_arrives_as_over_a_connection() -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        assert headers[b"authorization"] == b"Bearer secret"
        assert headers[b"content-type"] == b"application/json"
        body = await receive()
        assert (scope["method"], scope["path"], scope["query_string"]) == ("POST", "/api/v1/namespaces/a b/pods", b"")
        await answer(send, 201, {"got": msgspec.json.decode(body["body"])})

    async def work(client: KubeClient) -> None:
        assert await client.create(PODS, {"metadata": {"name": "p"}}, "a b") == {"got": {"metadata": {"name": "p"}}}

    ask(app, work)


def test_a_refusal_is_one() -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await answer(send, 404, {"kind": "Status", "reason": "NotFound", "message": "no", "code": 404})

    async def work(client: KubeClient) -> None:
        with pytest.raises(NotFound, match="no"):
            await client.get(PODS, "p", "a")

    ask(app, work)


def test_a_server_that_fails_is_a_broken_connection() -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        raise ValueError("oh")

    async def work(client: KubeClient) -> None:
        with pytest.raises(RuntimeFailure, match="the server gave no answer: oh"):
            await client.create(PODS, {"metadata": {"name": "p"}}, "a")

    ask(app, work)


def test_a_watch_comes_bit_by_bit_and_ends_when_it_is_left() -> None:
    """Nor does a reader who stops in the middle keep the server waiting for him."""
    ended = asyncio.Event()
    sent = 0

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal sent
        await receive()
        leaving: asyncio.Future[Message] = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not leaving.done():
            line = b'{"type":"ADDED","object":{"number":%d}}\n' % sent
            await send({"type": "http.response.body", "body": line, "more_body": True})
            sent += 1
            await asyncio.sleep(0)
        assert (await leaving)["type"] == "http.disconnect"
        ended.set()

    async def work(client: KubeClient) -> None:
        async with aclosing(one_by_one(client.watch(PODS))) as events:  # type: ignore[type-var]
            seen = [(await anext(events)).object["number"] for _ in range(20)]
            assert seen == list(range(20))
            await asyncio.sleep(0.05)
            assert sent < 40, "the server runs ahead without end"
        await ended.wait()

    ask(app, work)


@pytest.mark.parametrize("said", [1, 4, 6])
def test_an_answer_that_is_broken_off_is_a_broken_connection(said: int) -> None:
    """Whether or not somebody waits for more; what was said before counts."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(said):
            line = b'{"type":"ADDED","object":{"number":%d}}\n' % number
            await send({"type": "http.response.body", "body": line, "more_body": True})

    async def work(client: KubeClient) -> None:
        seen = []

        async def look() -> None:
            async for event in one_by_one(client.watch(PODS)):
                seen.append(event.object["number"])
                await asyncio.sleep(0.01)

        with pytest.raises(RuntimeFailure, match="broke"):
            await look()
        assert seen == list(range(said))

    ask(app, work)


def test_who_stops_waiting_does_not_stop_the_server() -> None:
    finished = asyncio.Event()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.05)
        finished.set()
        await answer(send, 200, {})

    async def work(client: KubeClient) -> None:
        asking = asyncio.create_task(client.get(PODS, "p", "a"))
        await asyncio.sleep(0.01)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await finished.wait()

    ask(app, work)
