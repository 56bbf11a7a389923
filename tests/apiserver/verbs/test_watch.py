"""Watches: everything that happened, once and in order; and a slow watcher harms no other."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.http.requests import Request, Target
from jettison.apiserver.objects.resources import NODES, PODS
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs import watch
from jettison.apiserver.verbs.watch import PACE, WatchPace
from tests.apiserver.served import PODS as POD_PATH
from tests.apiserver.served import Answer, Served, pod_document

Json = dict[str, Any]


def events(answer: Answer) -> list[Json]:
    assert answer.code == 200, answer.content
    return [json.loads(line) for line in answer.content.splitlines()]


def told(answer: Answer) -> list[tuple[str, str]]:
    return [(each["type"], each["object"]["metadata"].get("name", "")) for each in events(answer)]


AT_ONCE = WatchPace(seconds=0)


@pytest.fixture
def paced(tmp_path: Path) -> Iterator[Callable[[WatchPace], Served]]:
    """An API whose watches have a pace of their own."""
    made: list[Served] = []

    def make(pace: WatchPace) -> Served:
        made.append(Served(tmp_path / "paced", watch_pace=pace))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Served]:
    """An API that keeps a few changes only."""
    served = Served(tmp_path / "forgetful", open_store=partial(Store, history_bytes=4000, least_history=5))
    yield served
    served.close()


async def watch_while(api: Served, query: str, work: Awaitable[object], **options: Any) -> Answer:
    """Watch until the work is done and told."""
    leave = asyncio.Event()
    asking = api.ask("GET", POD_PATH, query=f"watch=true&{query}", leave=leave, **options)
    watching = asyncio.create_task(asking)
    await asyncio.sleep(0.02)
    await work
    await asyncio.sleep(0.05)
    leave.set()
    return await watching


def watched(api: Served, query: str, *steps: Any, **options: Any) -> Answer:
    async def work() -> None:
        for step in steps:
            assert (await api.ask(*step)).code in (200, 201)

    return api.run(watch_while(api, query, work(), **options))


async def patch(api: Served, name: str, labels: Json) -> Answer:
    body = {"metadata": {"labels": labels}}
    return await api.ask("PATCH", f"{POD_PATH}/{name}", body, content_type="application/merge-patch+json")


def test_without_a_version_all_objects_come_first(api: Served) -> None:
    api.pod("a")
    assert told(watched(api, "")) == [("ADDED", "a")]
    assert told(watched(api, "resourceVersion=0", ("POST", POD_PATH, pod_document("b")))) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
    ]


def test_from_a_version_only_what_came_after(api: Served) -> None:
    api.pod("a")
    since = api.store.version
    api.post(POD_PATH, pod_document("b"))
    answer = watched(api, f"resourceVersion={since}", ("DELETE", f"{POD_PATH}/b"))
    assert told(answer) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]
    versions = [int(each["object"]["metadata"]["resourceVersion"]) for each in events(answer)]
    assert versions == [since + 1, since + 2, since + 3]
    assert events(answer)[0]["object"]["kind"] == "Pod"


def test_a_selector_makes_arrivals_and_departures(api: Served) -> None:
    api.post(POD_PATH, pod_document("p", labels={"app": "db"}))
    since = api.store.version

    async def work() -> None:
        for labels in ({"app": "web"}, {"x": "y"}, {"app": "db"}, {"app": "db", "z": "z"}, {"app": "web"}):
            await patch(api, "p", labels)
        await api.ask("DELETE", f"{POD_PATH}/p")

    found = events(api.run(watch_while(api, f"resourceVersion={since}&labelSelector=app%3Dweb", work())))
    assert [each["type"] for each in found] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    # An object that no longer matches is shown as it last matched, at the version of the change.
    assert found[2]["object"]["metadata"]["labels"] == {"app": "web", "x": "y"}
    assert int(found[2]["object"]["metadata"]["resourceVersion"]) == since + 3


def test_a_version_that_is_too_old_ends_the_watch_with_an_event(api: Served) -> None:
    async def forget() -> None:
        for each in range(10_001):
            api.store.put(NODES, "", f"n{each}", {"metadata": {"name": f"n{each}", "uid": "u"}})
        await api.store.settled()

    api.run(forget())
    (event,) = events(watched(api, "resourceVersion=1"))
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 1 (")


def test_a_watch_resumes_after_a_restart(tmp_path: Path) -> None:
    first = Served(tmp_path / "cluster")
    first.pod("a")
    since = first.store.version
    first.post(POD_PATH, pod_document("b"))
    first.delete(f"{POD_PATH}/b")
    first.close()
    second = Served(tmp_path / "cluster")
    answer = watched(second, f"resourceVersion={since}")
    second.close()
    assert told(answer) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


def test_initial_events_end_with_a_bookmark(api: Served) -> None:
    api.pod("a")
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    found = events(watched(api, query, ("POST", POD_PATH, pod_document("b"))))
    assert [each["type"] for each in found[:3]] == ["ADDED", "BOOKMARK", "ADDED"]
    mark = found[1]["object"]
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert (mark["kind"], mark["metadata"]["resourceVersion"]) == ("Pod", str(api.store.version - 1))


def test_bookmarks_move_on_without_events(paced: Callable[[WatchPace], Served]) -> None:
    api = paced(WatchPace(bookmark_seconds=0.2))
    since = api.store.version

    async def work() -> None:
        await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
        await asyncio.sleep(0.5)

    found = events(api.run(watch_while(api, f"resourceVersion={since}&allowWatchBookmarks=true", work())))
    assert {each["type"] for each in found} == {"BOOKMARK"}
    assert found[-1]["object"]["metadata"]["resourceVersion"] == str(api.store.version)
    assert not events(watched(api, f"resourceVersion={since}"))


@pytest.mark.parametrize("query", ["", "resourceVersion=0"])
def test_a_watch_from_the_start_ends_its_beginning_with_a_bookmark(api: Served, query: str) -> None:
    """Also where the client has not asked for initial events: only a client that takes no bookmarks gets none."""
    api.pod("p")
    found = events(watched(api, f"allowWatchBookmarks=true&{query}"))
    assert [each["type"] for each in found] == ["ADDED", "BOOKMARK"]
    assert found[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    asked = f"{query}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    assert [told(watched(api, each)) for each in (query, asked)] == [[("ADDED", "p")]] * 2


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("continue=x", "resourceVersionMatch is forbidden when continue is provided"),
        ("continue=x&resourceVersion=0", "resourceVersionMatch is forbidden when continue is provided"),
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", "forbidden for watch unless sendInitialEvents"),
    ],
)
def test_options_that_do_not_go_together(api: Served, query: str, text: str) -> None:
    answer = api.get(POD_PATH, query=f"watch=1&{query}")
    assert (answer.code, text in answer.message) == (422, True)


@pytest.mark.parametrize("others", ["labelSelector=a+in+(", "resourceVersionMatch=X", "resourceVersion=x"])
@pytest.mark.parametrize("number", ["timeoutSeconds", "limit"])
def test_numbers_are_read_before_all_other_options(api: Served, number: str, others: str) -> None:
    """Also the limit, which means nothing to a watch."""
    answer = api.get(POD_PATH, query=f"watch=1&{others}&{number}=y")
    assert (answer.code, answer.message) == (400, 'strconv.ParseInt: parsing "y": invalid syntax')


def test_one_object_is_watched_by_its_name(api: Served) -> None:
    since = api.store.version
    query = f"resourceVersion={since}&fieldSelector=metadata.name%3Db"
    steps = [("POST", POD_PATH, pod_document(name)) for name in "abc"]
    assert told(watched(api, query, *steps)) == [("ADDED", "b")]


def test_a_table_has_its_columns_once(api: Served) -> None:
    api.pod("a")
    api.pod("b")
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    found = events(watched(api, "", accept=accept))
    assert [bool(each["object"]["columnDefinitions"]) for each in found] == [True, False]
    assert found[1]["object"]["rows"][0]["cells"][0] == "b"
    owners = api.get(f"{POD_PATH}/b").body["metadata"]["managedFields"]
    assert found[1]["object"]["rows"][0]["object"]["metadata"]["managedFields"] == owners


def test_metadata_alone(api: Served) -> None:
    api.pod("a")
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    found = events(watched(api, query, ("DELETE", f"{POD_PATH}/a"), accept=accept))
    assert [each["type"] for each in found] == ["ADDED", "BOOKMARK", "MODIFIED"]
    assert all(each["object"]["kind"] == "PartialObjectMetadata" for each in found)
    assert all(set(each["object"]) == {"kind", "apiVersion", "metadata"} for each in found)
    assert found[0]["object"]["metadata"]["managedFields"] == api.get(f"{POD_PATH}/a").body["metadata"]["managedFields"]
    assert found[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def open_watch(api: Served, query: bytes = b"watch=1", pace: WatchPace = PACE) -> watch.Watcher:
    request = Request("GET", POD_PATH, query, [])
    return (await watch.open_watch(api.store, api.clock, request, Target(PODS, "default"), pace))[0]


def lines(*chunks: bytes) -> list[tuple[str, str]]:
    found = [json.loads(line) for line in b"".join(chunks).splitlines()]
    return [(each["type"], each["object"]["metadata"].get("name", "")) for each in found]


def test_a_watcher_that_lags_too_far_is_told_410_and_holds_no_other_up(forgetful: Served) -> None:
    api = forgetful

    async def work() -> tuple[int, list[bytes]]:
        slow, quick = await open_watch(api, pace=AT_ONCE), await open_watch(api, pace=AT_ONCE)
        seen = 0

        async def read() -> None:
            nonlocal seen
            async for chunk in quick.chunks(20):
                seen += chunk.count(b"\n")
                if seen == 20:
                    quick.close()

        reading = asyncio.create_task(read())
        left = slow.chunks(20)
        told: list[bytes] = []
        for each in range(20):
            await api.ask("POST", POD_PATH, pod_document(f"p{each}"))
            if not told:
                told.append(await anext(left))
            await asyncio.sleep(0)
        await reading
        told += [chunk async for chunk in left]
        return seen, told

    seen, told = api.run(work())
    assert seen == 20
    first, last = (json.loads(line) for line in b"".join(told).splitlines())
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "p0")
    assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert last["object"]["message"] == f"too old resource version: {api.store.version - 19} ({api.store.oldest})"
    assert not api.store.feed(PODS)._waiting


def test_a_thousand_watchers_that_do_not_read_hold_nothing(api: Served) -> None:
    """What they lag behind is in the feed, once; a watcher that reads later finds all of it."""

    async def work() -> tuple[int, list[tuple[str, str]]]:
        api.store.put(PODS, "default", "p", {"metadata": {"name": "p", "namespace": "default", "uid": "u"}})
        await api.store.settled()
        silent = [await open_watch(api) for _ in range(1000)]
        streams = [each.chunks(60) for each in silent]
        for stream in streams:
            assert lines(await anext(stream)) == [("ADDED", "p")]
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for turn in range(100):
            metadata = {"name": "p", "namespace": "default", "uid": "u", "annotations": {"x": f"{turn:05d}" * 1000}}
            api.store.put(PODS, "default", "p", {"metadata": metadata})
            await api.store.settled()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        told = b""
        while told.count(b"\n") < 100:
            told += await anext(streams[0])
        for each in silent:
            each.close()
        return grown, lines(told)

    grown, told = api.run(work())
    assert told == [("MODIFIED", "p")] * 100
    assert grown < 3_000_000  # 100 versions of 5 kB, some of them also as values


def test_a_watch_keeps_nothing_of_a_long_query(api: Served) -> None:
    """6,000 parameters were 1.4 MB for as long as the watch lasted."""

    async def work() -> int:
        leave = asyncio.Event()
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        junk = "&".join(f"x{number}=" for number in range(2000))
        query = f"watch=1&resourceVersion={api.store.version}&{junk}"
        watches = [asyncio.create_task(api.ask("GET", POD_PATH, query=query, leave=leave)) for _ in range(20)]
        await asyncio.sleep(0.1)
        del junk, query
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        leave.set()
        await asyncio.gather(*watches)
        return grown

    assert api.run(work()) < 20 * 60_000


@pytest.mark.parametrize("name", ["labelSelector", "fieldSelector"])
def test_the_selectors_of_a_watch_are_short(api: Served, name: str) -> None:
    """They stay as long as it does. A list forgets them."""
    text = (
        ",".join(["metadata.name!=x"] * 200)
        if name == "fieldSelector"
        else ",".join(f"!k{each}" for each in range(500))
    )
    answer = api.get(POD_PATH, query=f"watch=1&{name}={text}")
    assert (answer.code, answer.message) == (
        400,
        f"the selectors of a watch have {len(text)} characters, at most 2000 are allowed",
    )
    assert api.get(POD_PATH, query=f"{name}={text}").code == 200


def test_what_two_watchers_are_told_is_encoded_once(api: Served) -> None:
    async def work() -> None:
        query = b"watch=1&resourceVersion=%d" % api.store.version
        first, second = await open_watch(api, query), await open_watch(api, query)
        await api.ask("POST", POD_PATH, pod_document("p"))
        one, other = next(first._lines()), next(second._lines())
        assert one is other

    api.run(work())


def test_objects_that_change_while_they_are_told_end_up_as_a_list_shows_them(api: Served) -> None:
    """A client that reads slowly: between any two pieces of its initial events others write."""
    for name in "bdfhj":
        api.pod(name)

    async def work() -> dict[str, str]:
        watcher = await open_watch(api, pace=WatchPace(piece_bytes=800, seconds=0))
        state: dict[str, str] = {}
        text = b""
        steps = iter(
            [("POST", "a"), ("DELETE", "b"), ("POST", "g"), ("PATCH", "d"), ("DELETE", "j"), ("PATCH", "a"), ("", "")]
        )
        async for chunk in watcher.chunks(20):
            *whole, text = (text + chunk).split(b"\n")
            for line in whole:
                event = json.loads(line)
                name = event["object"]["metadata"]["name"]
                assert (event["type"] == "ADDED") == (name not in state)
                state[name] = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "DELETED":
                    del state[name]
            method, name = next(steps, ("", ""))
            if method == "POST":
                await api.ask("POST", POD_PATH, pod_document(name))
            elif method == "DELETE":
                await api.ask("DELETE", f"{POD_PATH}/{name}", {"gracePeriodSeconds": 0})
            elif method == "PATCH":
                await patch(api, name, {"x": "y"})
            elif state == await shown():
                watcher.close()
        return state

    async def shown() -> dict[str, str]:
        items = (await api.ask("GET", POD_PATH)).body["items"]
        return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in items}

    assert set(api.run(work())) == {"a", "d", "f", "g", "h"}


def test_what_comes_in_quick_succession_is_told_together_and_the_first_at_once(api: Served) -> None:
    async def work() -> list[int]:
        watcher = await open_watch(api, pace=WatchPace(seconds=3.0))
        told = []
        for each in range(6):
            await api.ask("POST", POD_PATH, pod_document(f"p{each}"))
            if not each:
                chunks = watcher.chunks(30)
                told.append(await asyncio.wait_for(anext(chunks), 2.9))
        told.append(await anext(chunks))
        watcher.close()
        return [chunk.count(b"\n") for chunk in told]

    assert api.run(work()) == [1, 5]


def test_few_watchers_are_told_more_at_once(api: Served) -> None:
    for number in range(20):
        api.pod(f"p{number:02d}")

    async def work() -> list[int]:
        pace = WatchPace(piece_bytes=2000, seconds=0)
        watchers = [await open_watch(api, pace=pace) for _ in range(watch.FEW_WATCHERS)]
        streams = [watcher.chunks(20) for watcher in watchers]
        # Each counts from its first piece on.
        sizes = [len(await anext(stream)) for stream in streams]
        for watcher in watchers:
            watcher.close()
        return sizes

    alone, *_, last = api.run(work())
    assert alone > (watch.FEW_WATCHERS - 1) * 2000
    assert 2000 <= last <= 2000 * 4 // 3


def test_a_client_that_leaves_is_forgotten(api: Served) -> None:
    async def work() -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": POD_PATH,
            "query_string": b"watch=1",
            "headers": [(b"authorization", b"Bearer admin")],
        }
        gone = asyncio.Event()

        async def receive() -> Json:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            del message

        watching = asyncio.create_task(api.app(scope, receive, send))
        await asyncio.sleep(0.02)
        assert api.store.feed(PODS)._waiting
        gone.set()
        await asyncio.wait_for(watching, 60)

    api.run(work())
    assert not api.store.feed(PODS)._waiting


def test_a_client_that_has_left_is_not_told_the_rest(paced: Callable[[WatchPace], Served]) -> None:
    """uvicorn takes what is sent to it all the same, without waiting: thousands of watches would stop the server."""
    api = paced(WatchPace(piece_bytes=100))

    async def work() -> int:
        for each in range(1000):
            api.store.put(PODS, "default", f"p{each}", {"metadata": {"name": f"p{each}", "namespace": "default"}})
        await api.store.settled()
        headers = [(b"authorization", b"Bearer admin")]
        scope = {"type": "http", "method": "GET", "path": POD_PATH, "query_string": b"watch=1", "headers": headers}
        sent = 0

        async def receive() -> Json:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal sent
            sent += message["type"] == "http.response.body"

        await asyncio.wait_for(api.app(scope, receive, send), 60)
        return sent

    assert api.run(work()) < 20


def test_a_list_and_a_watch_rebuild_the_state(api: Served) -> None:
    """What an informer does: whatever happens in between, it ends up with what a list shows."""
    since = api.store.version

    async def work() -> None:
        for each in range(30):
            name = f"p{each % 7}"
            if (await api.ask("POST", POD_PATH, pod_document(name))).code == 409:
                await patch(api, name, {"turn": str(each)})
                if each % 3 == 0:
                    await api.ask("DELETE", f"{POD_PATH}/{name}")

    state: dict[str, Json] = {}
    for event in events(api.run(watch_while(api, f"resourceVersion={since}", work()))):
        item = {key: value for key, value in event["object"].items() if key not in ("kind", "apiVersion")}
        if event["type"] == "DELETED":
            del state[item["metadata"]["name"]]
        else:
            state[item["metadata"]["name"]] = item
    shown = {each["metadata"]["name"]: each for each in api.get(POD_PATH).body["items"]}
    assert shown == state


def test_a_watch_ends_when_its_time_is_over(api: Served) -> None:
    start = time.monotonic()
    assert api.get(POD_PATH, query="watch=1&timeoutSeconds=1").content == b""
    assert time.monotonic() - start > 0.9


def test_a_change_that_ends_an_object_is_shown_to_its_client_alone(api: Served) -> None:
    """A watch is told of the object as it was last stored, as upstream."""
    document = pod_document("p", metadata={"finalizers": ["example.com/hold"], "labels": {"a": "old"}})
    assert api.post(POD_PATH, document).code == 201
    version = api.delete(f"{POD_PATH}/p", query="gracePeriodSeconds=0").body["metadata"]["resourceVersion"]
    change = {"metadata": {"finalizers": None, "labels": {"a": "new"}}}
    assert api.patch(f"{POD_PATH}/p", change).body["metadata"]["labels"] == {"a": "new"}
    last = events(watched(api, f"resourceVersion={version}"))[-1]
    assert (last["type"], last["object"]["metadata"]["labels"]) == ("DELETED", {"a": "old"})
    assert last["object"]["metadata"]["finalizers"] == ["example.com/hold"]


OLD = "/api/v1/watch"


def old_watch(api: Served, path: str, query: str = "", **options: Any) -> Answer:
    """By an older path, which ends after a second or with its refusal."""
    return api.get(path, query=f"timeoutSeconds=1&{query}", **options)


@pytest.mark.parametrize(
    ("path", "query", "names"),
    [
        (f"{OLD}/pods", "", ["a", "b", "c"]),
        (f"{OLD}/namespaces/default/pods", "", ["a", "b"]),
        (f"{OLD}/namespaces/default/pods/", "labelSelector=app%3Ddb", ["b"]),
        (f"{OLD}/namespaces/default/pods/a", "", ["a"]),
        (f"{OLD}/namespaces/default/pods/a", "fieldSelector=metadata.name%3Da", ["a"]),
        (f"{OLD}/namespaces/default/pods/a,metadata.name=b", "", []),
        (f"{OLD}/namespaces/kube-system", "", ["kube-system"]),
        (f"{OLD}/namespaces/default/pods/a", "watch=false", ["a"]),
        ("/api/v1/pods", "watch", ["a", "b", "c"]),
        ("/api/v1/pods", "watch=yes", ["a", "b", "c"]),
    ],
)
def test_the_older_paths_and_spellings(api: Served, path: str, query: str, names: list[str]) -> None:
    api.pod("a")
    api.post(POD_PATH, pod_document("b", labels={"app": "db"}))
    api.post("/api/v1/namespaces/kube-system/pods", pod_document("c"))
    assert told(old_watch(api, path, query)) == [("ADDED", each) for each in names]


@pytest.mark.parametrize(
    ("path", "query", "code", "message"),
    [
        (
            f"{OLD}/namespaces/default/pods/a",
            "fieldSelector=metadata.name%3Db",
            400,
            "fieldSelector metadata.name doesn't match requested name",
        ),
        (f"{OLD}/namespaces/default/pods/a/status", "", 404, "the server could not find the requested resource"),
        (f"{OLD}/bindings", "", 404, "the server could not find the requested resource"),
        (f"{OLD}/watch/pods", "", 404, "the server could not find the requested resource"),
        (f"{OLD}/things", "", 404, "the server could not find the requested resource"),
    ],
)
def test_older_paths_that_are_none(api: Served, path: str, query: str, code: int, message: str) -> None:
    answer = old_watch(api, path, query)
    assert (answer.code, answer.message) == (code, message)


@pytest.mark.parametrize("path", [OLD, f"{OLD}/", "/apis/apps/v1/watch", "/api/v1/proxy"])
def test_a_path_that_ends_too_early(api: Served, path: str) -> None:
    """Before anything else, also for a client without a token: so does Kubernetes."""
    answer = api.get(path, query="a=b", token="")
    why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {path}?a=b"
    assert (answer.code, answer.content.decode()) == (500, f'Internal Server Error: "{path}?a=b": {why}\n')


def test_an_older_path_takes_the_same_rights(api: Served) -> None:
    """The verb is `watch` whatever the method; a selector opens nothing, as a name in the path does."""
    api.pod("mine", node="n1")
    api.pod("other", node="n2")
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert api(method, f"{OLD}/pods", {}).code == 405
        assert api(method, f"{OLD}/secrets", {}, token="viewer").code == 403
    assert old_watch(api, f"{OLD}/secrets", token="viewer").code == 403
    assert old_watch(api, f"{OLD}/pods", "fieldSelector=spec.nodeName%3Dn1", token="node").code == 403
    assert old_watch(api, f"{OLD}/namespaces/default/pods/other", token="node").code == 403
    assert told(old_watch(api, f"{OLD}/namespaces/default/pods/mine", token="node")) == [("ADDED", "mine")]
