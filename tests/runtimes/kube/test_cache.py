"""A cache keeps up with its server, through changes, broken watches and restarts."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.errors import ApiError, ManifestError, UnreachableError
from jettison.manifests.files.bounds import WEIGHT
from jettison.manifests.pod_view import node_name_of
from jettison.runtimes.kube.answers import AnswerReader
from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.cache import Cache, Caches, Change, View, key_of
from jettison.runtimes.kube.client import DeleteOptions, Document, KubeClient, Listing, PatchType, WatchEvent
from jettison.runtimes.kube.http import HttpResponse
from jettison.runtimes.kube.kinds import NAMESPACES, PODS, Kind
from jettison.runtimes.kube.kubeconfig import Access, Overrides, load_access
from tests.controllers.staging import until
from tests.live.served import serving
from tests.maintenance.playground import Playground, play

NOW = DeleteOptions(grace_seconds=0)


def _names(cache: Cache) -> set[str]:
    return {each["metadata"]["name"] for each in cache}


def _story(changes: list[Change]) -> list[tuple[str, str]]:
    """What happened to which object; resyncs apart."""
    words = {(False, True): "new", (True, True): "changed", (True, False): "gone"}
    return [
        (key_of(each.newest)[1], words[each.old is not None, each.new is not None])
        for each in changes
        if not each.is_resync
    ]


def test_listeners_hear_of_changes_in_order(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await ground.pod("a", phase="Pending")
        caches = Caches(client, SystemClock(), resync_seconds=0.4)
        cache = caches.of(PODS, space)
        assert caches.of(PODS, space) is cache
        changes: list[Change] = []
        cache.listen(changes.append)
        running = asyncio.create_task(caches.run())
        await caches.listed()
        assert _names(cache) == {"a"}
        await client.patch(PODS, "a", {"metadata": {"labels": {"x": "y"}}}, space, how=PatchType.MERGE)

        async def is_labelled() -> bool:
            return _story(changes) == [("a", "new"), ("a", "changed")]

        await until(is_labelled)
        await client.delete(PODS, "a", space, NOW)

        async def is_gone() -> bool:
            return _story(changes)[-1] == ("a", "gone")

        await until(is_gone)
        assert cache.get((space, "a")) is None
        await ground.pod("b", phase="Pending")

        async def is_resynced() -> bool:
            return any(each.is_resync and key_of(each.newest)[1] == "b" for each in changes)

        await until(is_resynced)
        running.cancel()

    play(kubeconfig, scene)


class _Told(KubeClient):
    """Tells of these changes, all at once."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines
        self.is_told = asyncio.Event()

    async def list(self, *_: object, **__: object) -> Listing:
        return Listing([], "1")

    async def watch(self, *_: object, **__: object) -> AsyncIterator[Sequence[WatchEvent]]:
        async def body() -> AsyncIterator[bytes]:
            yield b"".join(self._lines)

        async for told in AnswerReader().events(HttpResponse(200, {}, body())):
            yield [WatchEvent(*each) for each in told]
        self.is_told.set()
        await asyncio.Event().wait()


def _line(kind: str, name: str, version: int, **metadata: object) -> bytes:
    document = {"metadata": {"name": name, "resourceVersion": str(version), **metadata}}
    return json.dumps({"type": kind, "object": document}, separators=(",", ":")).encode() + b"\n"


def _heard(*lines: bytes) -> list[Change]:
    async def scene() -> list[Change]:
        client = _Told(*lines)
        cache = Cache(client, PODS, "", SystemClock(), 60)
        changes: list[Change] = []
        cache.listen(changes.append)
        running = asyncio.create_task(cache.run())
        await asyncio.wait_for(client.is_told.wait(), 60)
        running.cancel()
        return changes

    return asyncio.run(scene())


def test_of_changes_that_come_together_the_last_state_of_each_object_is_told() -> None:
    changes = _heard(
        _line("ADDED", "twice", 2),
        _line("ADDED", "brief", 3),
        _line("MODIFIED", "twice", 4),
        _line("MODIFIED", "twice", 5),
        _line("DELETED", "brief", 6),
        _line("ADDED", "brief", 7),
        _line("MODIFIED", "brief", 8),
        _line("BOOKMARK", "", 9),
    )
    assert _story(changes) == [("brief", "new"), ("twice", "new"), ("brief", "gone"), ("brief", "new")]
    assert [each.newest["metadata"]["resourceVersion"] for each in changes] == ["3", "5", "6", "8"]


def test_the_owners_of_fields_are_not_kept() -> None:
    """They are half of an object; a text that looks like them stays what it is."""
    managed = [{"manager": "kubectl", "fieldsV1": {"f:metadata": {'k:{"a":"]"}': {}}}}]
    texts = {"annotations": {"a": json.dumps({"managedFields": managed}, separators=(",", ":"))}}
    spaced = _line("ADDED", "c", 4, managedFields=managed).replace(b'":[', b'" : [')
    changes = _heard(
        _line("ADDED", "a", 2, managedFields=managed, **texts),
        _line("ADDED", "b", 3, **texts, managedFields=managed),
        spaced,
    )
    expected = [{"name": "a", "resourceVersion": "2", **texts}, {"name": "b", "resourceVersion": "3", **texts}]
    assert [each.newest["metadata"] for each in changes] == [*expected, {"name": "c", "resourceVersion": "4"}]


class _SetUpAnew(KubeClient):
    """First it is at version 9; then its state is lost, and it is at version 2."""

    def __init__(self) -> None:
        self.lists = 0
        self.asked: list[str] = []

    async def list(self, *_: object, **__: object) -> Listing:
        self.lists += 1
        return Listing([], "9" if self.lists == 1 else "2")

    async def watch(self, kind: Kind, since: str = "", *_: object, **__: object) -> AsyncIterator[Sequence[WatchEvent]]:
        self.asked.append(since)
        if since == "9":
            yield [WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "2"}})]
        await asyncio.Event().wait()


def test_a_server_that_has_lost_its_state_is_listed_again() -> None:
    """It would tell nothing until it had come as far as before."""

    async def scene() -> list[str]:
        client = _SetUpAnew()
        running = asyncio.create_task(Cache(client, PODS, "", SystemClock(), 60).run())

        async def is_followed() -> bool:
            return client.asked == ["9", "2"]

        await until(is_followed)
        running.cancel()
        return client.asked

    assert asyncio.run(scene()) == ["9", "2"]


class _ForListsOnly(KubeClient):
    """Lists are answered; watches fail, or end at once, until it is mended."""

    def __init__(self, failure: Exception | None) -> None:
        self.lists = 0
        self.failure = failure
        self.is_mended = False

    async def list(self, *_: object, **__: object) -> Listing:
        self.lists += 1
        return Listing([], "1")

    async def watch(self, *_: object, **__: object) -> AsyncIterator[Sequence[WatchEvent]]:
        if self.is_mended:
            yield [WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "2"}})]
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (ApiError("pods is forbidden", code=403, reason="Forbidden"), "pods is forbidden"),
        (UnreachableError("it did not answer"), "it did not answer"),
        (None, "the server ended the watch at once"),
    ],
)
def test_a_server_that_answers_only_lists_is_asked_less_and_less(
    failure: Exception | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was asked for everything ten times a second. What is wrong is said once, and that it is over."""
    caplog.set_level(logging.INFO, "jettison")

    async def scene() -> int:
        client = _ForListsOnly(failure)
        running = asyncio.create_task(Cache(client, PODS, "", SystemClock(), 60, pauses=(0.05, 5)).run())
        await asyncio.sleep(1.2)
        lists = client.lists
        client.is_mended = True

        async def is_over() -> bool:
            return "the server tells of them again" in caplog.text

        await until(is_over)
        running.cancel()
        return lists

    assert 2 <= asyncio.run(scene()) <= 7
    assert [each.getMessage() for each in caplog.records] == [
        f"pods: {why}; trying again",
        "pods: the server tells of them again",
    ]


def test_what_happened_while_the_server_was_away_is_found(tmp_path: Path) -> None:
    """Killed, changed by another client, started again: the cache lists anew and tells what is different."""

    async def scene() -> None:
        folder = tmp_path / "state"
        changes: list[Change] = []
        with serving(folder, "--controllers=-") as first:
            access = load_access(Overrides(kubeconfig=str(first.kubeconfig())))
        async with KubeClient(access) as client:
            cache = Caches(client, SystemClock()).of(NAMESPACES)
            cache.listen(changes.append)
            running = asyncio.create_task(cache.run())
            listen = ("--listen", f"127.0.0.1:{first.port}", "--controllers=-")
            with serving(folder, *listen) as second:
                await cache.listed()
                assert second.call("POST", "/api/v1/namespaces", {"metadata": {"name": "one"}})[0] == 201
                await until(lambda: _has(cache, "one"))
                second.process.send_signal(signal.SIGTERM)
                second.process.wait(60)
            with serving(folder, *listen) as third:
                assert third.call("POST", "/api/v1/namespaces", {"metadata": {"name": "two"}})[0] == 201
                await until(lambda: _has(cache, "two"))
                assert {"default", "one", "two"} <= _names(cache)
            running.cancel()
        assert _story(changes).count(("one", "new")) == 1

    async def _has(cache: Cache, name: str) -> bool:
        return name in _names(cache)

    asyncio.run(scene())


def test_a_view_groups_values_and_leaves_out_what_cannot_be_read() -> None:
    """No server is needed to tell it of a pod that moves, cannot be read any more, and goes."""

    def value_of(document: Document) -> str:
        if "bad" in document["metadata"]:
            raise ManifestError("no")
        return str(document["metadata"]["name"])

    def pod(node: str, **metadata: object) -> Document:
        return {"metadata": {"name": "p", "namespace": "s", **metadata}, "spec": {"nodeName": node}}

    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    view = View(cache, value_of, node_name_of)
    here, there, broken = pod("here"), pod("there"), pod("there", bad=True)
    cache._store(("s", "p"), Change(None, here))
    assert view.values("here") == ("p",)
    cache._store(("s", "p"), Change(here, there))
    assert (view.values("here"), dict(view.group("there"))) == ((), {("s", "p"): "p"})
    cache._store(("s", "p"), Change(there, broken))
    assert view.values("there") == ()
    cache._store(("s", "p"), Change(broken, there))
    cache._store(("s", "p"), Change(there, None))
    assert view.values("there") == ()


def test_what_many_listeners_ask_of_a_change_is_found_out_once() -> None:
    asked = []

    def find(change: Change) -> str:
        asked.append(change.key)
        return str(change.key)

    change = Change(None, {"metadata": {"name": "a", "namespace": "x"}})
    assert (change.once(find), change.once(find)) == (str(change.key), str(change.key))
    assert asked == [change.key]
    with pytest.raises(ValueError, match="without an object"):
        Change(None, None)


HOSTILE: Sequence[object] = [
    {"type": "BOOKMARK", "object": {"metadata": {}}},
    {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": 7}}},
    {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "²"}}},
    {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9" * 5000}}},
    {"type": "BOOKMARK", "object": {"metadata": ["resourceVersion"]}},
    {"type": "ERROR", "object": ["x"]},
    {"type": "SHOUTED", "object": {"metadata": {"name": "x", "uid": "u", "resourceVersion": "7"}}},
    {"type": "ADDED", "object": {"metadata": {"name": {}, "uid": "u", "resourceVersion": "7"}}},
    {"type": "ADDED", "object": {"metadata": {"name": "x", "uid": "u", "resourceVersion": "7", "namespace": {"a": 1}}}},
    {"type": "ADDED", "object": {"metadata": {"name": "x", "uid": ["u"], "resourceVersion": "7"}}},
    {"type": "ADDED", "object": {"metadata": {"name": "x", "uid": "u", "resourceVersion": 7}}},
    {"type": "MODIFIED", "object": {"metadata": {"name": "x"}, "spec": [], "status": 5}},
    {"type": "ADDED", "object": 5},
    {"type": 5},
    5,
]


async def _hostile_server(events: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One pod in each list; each watch has one of the events."""
    good = {"metadata": {"name": "good", "namespace": "n", "uid": "u", "resourceVersion": "5"}}
    listed = json.dumps({"items": [good], "metadata": {"resourceVersion": 5}}).encode()
    with closing(writer), suppress(ConnectionError):
        while head := await reader.readline():
            while (await reader.readline()).strip():
                continue
            body = listed
            if b"watch=true" in head:
                last = json.dumps({"type": "ADDED", "object": _renamed(good)}).encode() + b"\n"
                body = events.pop() if events else last
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    with suppress(ConnectionError):
        await writer.wait_closed()


def _renamed(pod: Document) -> Document:
    return {"metadata": {**pod["metadata"], "name": "last", "resourceVersion": "9"}}


@pytest.mark.parametrize("answers", [BoundedAnswers(), AnswerReader()], ids=["agent", "controller"])
def test_no_event_of_a_watch_ends_a_cache(answers: AnswerReader) -> None:
    """One without a version ended the node that follows its pods, with all that it guards."""
    events = [json.dumps(each).encode() + b"\n" for each in HOSTILE]

    async def scene() -> set[str]:
        served: list[asyncio.Task[None]] = []

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            served.append(asyncio.create_task(_hostile_server(events, reader, writer)))

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            access = Access(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            async with KubeClient(access, answers=answers) as client:
                cache = Cache(client, PODS, "", SystemClock(), 3600, pauses=(0.1, 0.1))
                running = asyncio.create_task(cache.run())

                async def is_done() -> bool:
                    assert not running.done()
                    return "last" in _names(cache)

                await until(is_done)
                running.cancel()
                names = _names(cache)
            await asyncio.gather(*served)
            return names

    found = asyncio.run(scene())
    assert events == []
    assert found <= {"good", "last"}


def test_a_listener_that_fails_keeps_the_others_informed(caplog: pytest.LogCaptureFixture) -> None:
    """And is complained about once."""
    cache = Cache(KubeClient(Access("http://127.0.0.1:1")), PODS, "", SystemClock(), 3600)
    heard: list[str] = []

    def fail(_change: Change) -> None:
        raise TypeError("no such thing")

    cache.listen(fail)
    cache.listen(lambda change: heard.append(change.key[1]))
    for name in ("a", "b"):
        document = {"metadata": {"name": name, "namespace": "n"}}
        cache._store(key_of(document), Change(None, document))
    assert heard == ["a", "b"]
    assert [each.getMessage() for each in caplog.records] == ["pods n/a makes no sense: TypeError: no such thing"]


def test_a_server_that_tells_of_ever_more_objects_takes_no_memory() -> None:
    """Neither by its watch nor by a list without end, each part of which names another one that follows."""
    client = KubeClient(Access("http://127.0.0.1:1"))
    client.most_objects = 2
    cache = Cache(client, PODS, "", SystemClock(), 3600)
    documents = [{"metadata": {"name": name, "namespace": "n"}} for name in ("a", "b", "b", "c")]
    for document in documents[:3]:
        cache._store(key_of(document), Change(cache.get(key_of(document)), document))
    with pytest.raises(ManifestError, match="more than 2"):
        cache._store(key_of(documents[3]), Change(None, documents[3]))
    assert _names(cache) == {"a", "b"}

    client.most_objects, client.most_weight = 10, 1000
    heavy = {"metadata": {"name": "c", "namespace": "n"}, WEIGHT: 800}
    cache._store(key_of(heavy), Change(None, heavy))
    for more in ({**heavy, WEIGHT: 1001}, {"metadata": {"name": "d"}, WEIGHT: 201}):
        with pytest.raises(ManifestError, match="takes more than 1000 bytes"):
            cache._store(key_of(more), Change(cache.get(key_of(more)), more))
    light = {**heavy, WEIGHT: 0}
    cache._store(key_of(light), Change(heavy, light))
    full = {"metadata": {"name": "d"}, WEIGHT: 1000}
    cache._store(key_of(full), Change(None, full))
    cache._store(key_of(full), Change(full, None))
    cache._store(key_of(heavy), Change(light, heavy))
    assert _names(cache) == {"a", "b", "c"}

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError):
            while await reader.readline():
                while (await reader.readline()).strip():
                    continue
                body = json.dumps({"items": documents[:1], "metadata": {"continue": os.urandom(8).hex()}}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def scene() -> None:
        served: list[asyncio.Task[None]] = []
        serve = lambda *both: served.append(asyncio.create_task(endless(*both)))  # noqa: E731
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            access = Access(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            async with KubeClient(access) as lister:
                lister.most_objects = 50
                with pytest.raises(ManifestError, match="more than 50 objects"):
                    await lister.list(PODS)
            await asyncio.gather(*served)

    asyncio.run(scene())
