"""Bytes of a body, requests at once, seconds of an answer: each limit with its refusal, and what it leaves alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest

from jettison.apiserver.access.auth import ANONYMOUS, User
from jettison.apiserver.connections.limits import (
    MOST_BODY_BYTES,
    Allowance,
    Answers,
    Limits,
    Message,
    Receive,
    Scope,
    Send,
    Share,
    is_long_running,
    read_body,
)
from jettison.errors import ApiError


def scope(path: str = "/api/v1/pods", query: str = "", method: str = "GET", **headers: str) -> Scope:
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "path": path, "query_string": query.encode(), "method": method, "headers": encoded}


def receiver(*parts: bytes) -> Receive:
    left = list(parts)

    async def receive() -> Message:
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


class Answer:
    """Collects what an application sends."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.messages[1]["body"])
        return found


async def ok(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def blocking(release: asyncio.Event) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await release.wait()
        await ok(scope, receive, send)

    return app


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.mark.parametrize("parts", [(b"",), (b"abc",), (b"a", b"b", b"", b"c"), (b"x" * MOST_BODY_BYTES,)])
def test_a_body_is_read_whole(parts: tuple[bytes, ...]) -> None:
    assert asyncio.run(read_body(scope(), receiver(*parts))) == b"".join(parts)


@pytest.mark.parametrize("announced", [str(MOST_BODY_BYTES + 1), "9" * 30, "9" * 10_000])
def test_a_body_that_is_announced_too_large_is_not_read(announced: str) -> None:
    async def never() -> Message:
        raise AssertionError("the body was read")

    with pytest.raises(ApiError, match="Request entity too large: limit is 3145728") as caught:
        asyncio.run(read_body(scope(content_length=announced), never))
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")


def test_a_body_without_an_announced_length_is_cut_off() -> None:
    with pytest.raises(ApiError, match="limit is 3145728"):
        asyncio.run(read_body(scope(), receiver(b"x" * MOST_BODY_BYTES, b"y", b"never looked at")))


def test_a_client_that_disconnects_is_no_crash() -> None:
    with pytest.raises(ApiError, match="disconnected before its request was complete"):
        asyncio.run(read_body(scope(), receiver()))


@pytest.mark.parametrize(
    ("request_scope", "expected"),
    [
        (scope(query="watch=true"), True),
        (scope(query="a=b&watch=1&c=d"), True),
        (scope(query="watch"), True),
        (scope(query="w%61tch=yes"), True),
        (scope(query="watch=0&watch=1"), False),
        (scope(query="watch=False"), False),
        (scope("/api/v1/watch/pods"), True),
        (scope("/apis/apps/v1/watch/namespaces/a/deployments/d"), True),
        (scope("/api/v1/watch"), False),
        (scope("/api/v1/namespaces/watch/pods"), False),
        (scope(query="watch=false"), False),
        (scope(query="rewatch=true"), False),
        (scope(query="watch=true", method="POST"), False),
        (scope("/api/v1/namespaces/a/pods/p/log", "follow=true"), True),
        (scope(), False),
    ],
)
def test_watches_and_logs_are_long(request_scope: Scope, expected: bool) -> None:
    assert is_long_running(request_scope) is expected


@pytest.mark.parametrize(
    ("query", "allowance"), [("", Allowance(requests=Share(2, 2, 0))), ("watch=1", Allowance(watches=Share(2, 2, 0)))]
)
def test_the_third_of_two_is_refused_and_the_next_one_after_that_is_not(query: str, allowance: Allowance) -> None:
    async def work() -> None:
        release = asyncio.Event()
        limits = Limits(blocking(release), asyncio.Event(), allowance)
        first = [asyncio.create_task(limits(scope(query=query), receiver(b""), Answer())) for _ in range(2)]
        await asyncio.sleep(0)
        third = Answer()
        await limits(scope(query=query), receiver(b""), third)
        assert third.status == 429
        assert (third.headers[b"retry-after"], third.headers[b"connection"]) == (b"1", b"close")
        assert third.body["reason"] == "TooManyRequests"
        health = asyncio.create_task(limits(scope("/healthz"), receiver(b""), Answer()))
        release.set()
        await asyncio.gather(*first, health)
        fourth = Answer()
        await limits(scope(query=query), receiver(b""), fourth)
        assert fourth.status == 200

    run(work())


@pytest.mark.parametrize(
    ("long", "status"),
    [
        (scope(query="watch=1&x=" + "y" * 8192), 431),
        (scope("/api/v1/namespaces/" + "y" * 8192 + "/pods", "watch=1"), 431),
        (scope(query="watch=1", accept="y" * 8192), 431),
        (scope("/api/v1/namespaces/a/pods/p/log", "follow=true&x=" + "y" * 8192), 431),
        (scope(query="watch=1&x=" + "y" * 8000), 200),
        (scope(query="labelSelector=" + "y" * 60000), 200),
        (scope("/api/v1/namespaces/a/pods/p/exec", "command=" + "y" * 60000), 200),
    ],
)
def test_what_lasts_begins_with_few_words(long: Scope, status: int) -> None:
    """2,000 watches of one user would keep 64 KiB each, and several times that once it is taken apart."""

    async def work() -> None:
        answer = Answer()
        await Limits(ok, asyncio.Event())(long, receiver(b""), answer)
        assert answer.status == status

    run(work())


def test_watches_do_not_take_the_place_of_requests() -> None:
    async def work() -> None:
        release = asyncio.Event()
        limits = Limits(blocking(release), asyncio.Event(), Allowance(requests=Share(1, 1, 0), watches=Share(1, 1, 0)))
        watch = asyncio.create_task(limits(scope(query="watch=1"), receiver(b""), Answer()))
        await asyncio.sleep(0)
        answer = Answer()
        request = asyncio.create_task(limits(scope(), receiver(b""), answer))
        release.set()
        await asyncio.gather(watch, request)
        assert answer.status == 200

    run(work())


def test_a_place_is_free_again_after_a_failure() -> None:
    async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError

    async def work() -> None:
        limits = Limits(fail, asyncio.Event(), Allowance(requests=Share(1, 1, 0), watches=Share(1, 1, 0)))
        for query in ("", "watch=1") * 3:
            with pytest.raises(RuntimeError):
                await limits(scope(query=query), receiver(b""), Answer())

    run(work())


def test_a_slow_answer_ends_in_504() -> None:
    async def work() -> None:
        answer = Answer()
        limits = Limits(blocking(asyncio.Event()), asyncio.Event(), Allowance(seconds=0.01))
        await limits(scope(), receiver(b""), answer)
        assert answer.status == 504
        assert answer.body["reason"] == "Timeout"

    run(work())


def test_of_requests_that_come_one_after_another_each_has_its_own_time() -> None:
    async def work() -> None:
        limits = Limits(blocking(asyncio.Event()), asyncio.Event(), Allowance(seconds=0.3))
        ended: dict[str, float] = {}

        async def ask(name: str) -> None:
            begun, answer = asyncio.get_running_loop().time(), Answer()
            await limits(scope(), receiver(b""), answer)
            assert answer.status == 504
            ended[name] = asyncio.get_running_loop().time() - begun

        async with asyncio.TaskGroup() as group:
            group.create_task(ask("first"))
            await asyncio.sleep(0.15)
            group.create_task(ask("second"))
        assert list(ended) == ["first", "second"]
        assert min(ended.values()) >= 0.29

    run(work())


def test_a_request_that_is_cancelled_is_not_late() -> None:
    async def work() -> None:
        answer = Answer()
        limits = Limits(blocking(asyncio.Event()), asyncio.Event(), Allowance(seconds=60))
        task = asyncio.create_task(limits(scope(), receiver(b""), answer))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert answer.messages == []

    run(work())


def test_an_answer_that_has_begun_is_broken_off() -> None:
    async def half(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(60)

    async def work() -> None:
        answer = Answer()
        await Limits(half, asyncio.Event(), Allowance(seconds=0.01))(scope(), receiver(b""), answer)
        assert len(answer.messages) == 1

    run(work())


def test_a_watch_may_take_its_time() -> None:
    async def work() -> None:
        release, answer = asyncio.Event(), Answer()
        watch = Limits(blocking(release), asyncio.Event(), Allowance(seconds=0.01))(
            scope(query="watch=1"), receiver(b""), answer
        )
        task = asyncio.create_task(watch)
        await asyncio.sleep(0.05)
        release.set()
        await task
        assert answer.status == 200

    run(work())


def test_a_stop_ends_watches_as_if_their_clients_had_left() -> None:
    async def until_left(_scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await ok(_scope, receive, send)

    async def silent() -> Message:
        await asyncio.sleep(60)
        raise AssertionError("no message was expected")

    async def work() -> None:
        stop, answer = asyncio.Event(), Answer()
        watch = asyncio.create_task(Limits(until_left, stop)(scope(query="watch=1"), silent, answer))
        await asyncio.sleep(0.02)
        assert not watch.done()
        stop.set()
        await asyncio.wait_for(watch, 60)
        assert answer.status == 200
        assert len(asyncio.all_tasks()) == 1

    run(work())


def user_of(scope: Scope) -> User | None:
    name = next((value.decode() for key, value in scope["headers"] if key == b"authorization"), "")
    return User(name, (), "admin" if name == "admin" else "viewer") if name else ANONYMOUS


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """As the application does: a refusal of the body is the answer."""
    try:
        body = await read_body(scope, receive)
    except ApiError as error:
        await send({"type": "http.response.start", "status": error.code, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps({"message": error.message}).encode()})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps({"size": len(body)}).encode()})


async def never() -> Message:
    await asyncio.sleep(3600)
    raise AssertionError("it comes too late")


def slowly(limits: Limits, user: str) -> tuple[asyncio.Task[None], Answer]:
    """A request whose body does not come."""
    answer = Answer()
    return asyncio.create_task(limits(scope(method="POST", authorization=user), never, answer)), answer


async def quickly(limits: Limits, user: str) -> Answer:
    answer = Answer()
    await limits(scope(method="POST", authorization=user), receiver(b"ab", b"c"), answer)
    return answer


@pytest.mark.parametrize("user", ["viewer", "admin"])
def test_slow_bodies_of_a_user_shut_out_no_request_not_even_its_own_quick_ones(user: str) -> None:
    async def work() -> None:
        limits = Limits(reading, asyncio.Event(), identify=user_of)
        slow = [slowly(limits, user) for _ in range(420)]
        await asyncio.sleep(0)
        for each in ("viewer", "evictor", "admin"):
            assert (await quickly(limits, each)).body == {"size": 3}
        await asyncio.wait([task for task, _ in slow[:320]], timeout=20)
        refused = [answer for _, answer in slow if answer.messages]
        assert len(refused) >= 320
        assert all(each.status == 429 and each.headers[b"connection"] == b"close" for each in refused)
        for task, _ in slow:
            task.cancel()
        await asyncio.gather(*(task for task, _ in slow), return_exceptions=True)

    run(work())


class Arrived:
    """A connection on which all of the request has come."""

    has_whole_body = True

    def assign(self, user: str, *, is_administrator: bool) -> bool:
        del user, is_administrator
        return True


def test_a_body_that_has_come_displaces_none_that_is_waited_for() -> None:
    async def work() -> None:
        limits = Limits(reading, asyncio.Event(), Allowance(bodies=Share(1, 1, 0)), user_of)
        task, answer = slowly(limits, "viewer")
        await asyncio.sleep(0)
        here, quick = {**scope(method="POST", authorization="viewer"), "connection": Arrived()}, Answer()
        await limits(here, receiver(b"abc"), quick)
        assert quick.body == {"size": 3}
        assert not answer.messages
        assert (await quickly(limits, "viewer")).body == {"size": 3}
        await task
        assert answer.status == 429

    run(work())


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def work() -> None:
        limits = Limits(reading, asyncio.Event(), Allowance(body_seconds=0.05), user_of)
        task, answer = slowly(limits, "viewer")
        await task
        assert (answer.status, answer.headers[b"connection"]) == (408, b"close")
        assert answer.body["message"] == "Timeout: the body of the request was not complete within 0.05 s"

    run(work())


def test_a_body_that_trickles_in_has_no_more_time_than_one_that_does_not_come() -> None:
    async def trickle() -> Message:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def work() -> None:
        limits = Limits(reading, asyncio.Event(), Allowance(body_seconds=0.2), user_of)
        answer = Answer()
        await asyncio.wait_for(limits(scope(method="POST", authorization="viewer"), trickle, answer), 60)
        assert answer.status == 408

    run(work())


def test_large_bodies_that_stay_incomplete_are_bounded_by_their_bytes() -> None:
    async def work() -> None:
        limits = Limits(reading, asyncio.Event(), Allowance(body_bytes=Share(9000, 3000, 0)), user_of)
        slow = []
        for _ in range(10):
            parts = iter([b"x" * 1000])

            async def some(parts: Iterator[bytes] = parts) -> Message:
                part = next(parts, None)
                return await never() if part is None else {"type": "http.request", "body": part, "more_body": True}

            answer = Answer()
            task = asyncio.create_task(limits(scope(method="POST", authorization="viewer"), some, answer))
            slow.append((task, answer))
            await asyncio.sleep(0.01)
        assert sum(bool(answer.messages) for _, answer in slow) >= 6
        assert (await quickly(limits, "viewer")).status == 200
        for task, _ in slow:
            task.cancel()
        await asyncio.gather(*(task for task, _ in slow), return_exceptions=True)

    run(work())


@pytest.mark.parametrize("query", ["", "watch=1"])
def test_one_user_leaves_room_for_another_and_all_of_them_for_an_administrator(query: str) -> None:
    async def work() -> None:
        release = asyncio.Event()
        share = Share(all=8, one_user=4, reserve=2)
        limits = Limits(blocking(release), asyncio.Event(), Allowance(requests=share, watches=share), user_of)
        answers: dict[str, list[Answer]] = {}
        tasks = []
        for user in ("viewer",) * 6 + ("evictor",) * 6 + ("admin",) * 3:
            answer = Answer()
            answers.setdefault(user, []).append(answer)
            tasks.append(asyncio.create_task(limits(scope(query=query, authorization=user), receiver(b""), answer)))
        await asyncio.sleep(0.01)
        release.set()
        await asyncio.gather(*tasks)
        served = {user: [each.status for each in found].count(200) for user, found in answers.items()}
        assert served == {"viewer": 4, "evictor": 2, "admin": 2}
        assert answers["viewer"][5].headers[b"retry-after"] == b"1"

    run(work())


def test_answers_that_are_not_read_hold_up_their_own_user_only() -> None:
    async def work() -> None:
        answers = Answers(Share(all=1000, one_user=300, reserve=200))
        viewer, evictor, admin = (User(name, (), name) for name in ("viewer", "evictor", "admin"))
        answers.hold(viewer, 400)
        waiting = asyncio.create_task(answers.room(viewer))
        for other in (evictor, admin):
            await asyncio.wait_for(answers.room(other), 60)
        assert not waiting.done()
        answers.release(viewer, 400)
        await asyncio.wait_for(waiting, 60)

    run(work())


def test_large_answers_of_a_user_are_made_one_after_the_other() -> None:
    async def work() -> None:
        answers = Answers()
        making: list[str] = []

        async def make(user: User, seen: list[list[str]]) -> None:
            async with answers.turn(user):
                making.append(user.name)
                await asyncio.sleep(0)
                seen.append(sorted(making))
                making.remove(user.name)

        viewer, evictor = (User(name, (), name) for name in ("viewer", "evictor"))
        seen: list[list[str]] = []
        await asyncio.gather(*(make(user, seen) for user in (viewer, viewer, evictor, viewer)))
        assert seen == [["evictor", "viewer"], ["evictor"], ["viewer"], ["viewer"]]

    run(work())
