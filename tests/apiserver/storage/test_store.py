"""One counter, no lost update, nothing shown before it is durable, and history as far as it is kept."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jettison.apiserver.http import health
from jettison.apiserver.objects.ownership.records import UPDATE, Entries, entry
from jettison.apiserver.objects.resources import LEASES, NODES, PODS
from jettison.apiserver.storage.flush import KernelFlush, Report
from jettison.apiserver.storage.log import Log
from jettison.apiserver.storage.store import HISTORY, Store
from jettison.apiserver.storage.stored import Change, Stored
from jettison.errors import ApiError, JettisonError, NotFound
from tests.apiserver.storage.writes import create, delete, update

Json = dict[str, Any]


def named(name: str, namespace: str = "x", **rest: Any) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, **rest}


def on_store(folder: Path, work: Callable[[Store], Awaitable[None]], history: int = HISTORY) -> None:
    async def run() -> None:
        store = Store(folder, history)
        await work(store)
        await store.close()

    asyncio.run(run())


def test_every_write_has_the_next_version_of_one_counter_across_kinds_and_restarts(tmp_path: Path) -> None:
    seen: list[int] = []

    async def write(store: Store) -> None:
        for resource in (LEASES, NODES, LEASES):
            stored = await create(store, resource, named(f"o{len(seen)}"))
            assert stored.metadata["resourceVersion"] == str(stored.version)
            seen.append(stored.version)

    on_store(tmp_path, write)
    on_store(tmp_path, write)
    assert seen == list(range(1, 7))


def test_a_write_that_changes_nothing_is_none(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        first = await create(store, LEASES, named("a", spec={"x": 1}))
        changes: list[Change] = []
        store.follow(LEASES, store.version, changes.append)
        again = await update(store, LEASES, "x", "a", lambda old: {**old, "spec": {"x": 1}})
        assert again is first
        assert store.version == first.version
        assert not changes

    on_store(tmp_path, work)


def test_concurrent_changes_of_one_object_are_all_there(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await create(store, LEASES, named("a", count=0))
        versions = await asyncio.gather(
            *(update(store, LEASES, "x", "a", lambda old: {**old, "count": old["count"] + 1}) for _ in range(200))
        )
        found = store.get(LEASES, "x", "a")
        assert found is not None
        assert found.object["count"] == 200
        assert [each.version for each in versions] == list(range(2, 202))

    on_store(tmp_path, work)


def test_a_name_is_given_once(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        outcomes = await asyncio.gather(
            *(create(store, LEASES, named("a", by=each)) for each in range(20)), return_exceptions=True
        )
        refused = [each for each in outcomes if isinstance(each, ApiError)]
        assert len(refused) == 19
        assert {each.reason for each in refused} == {"AlreadyExists"}

    on_store(tmp_path, work)


def test_no_reader_sees_what_is_not_durable(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        changes: list[Change] = []
        store.follow(LEASES, 0, changes.append)
        staged = store.put(LEASES, "x", "a", named("a"))
        assert store.head(LEASES, "x", "a") is staged
        assert store.get(LEASES, "x", "a") is None
        assert store.list(LEASES) == ([], 0)
        assert not changes
        await store.durable(staged)
        assert store.get(LEASES, "x", "a") is staged
        assert [change.stored for change in changes] == [staged]

    on_store(tmp_path, work)


def test_writes_of_one_turn_share_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []
    real = Log.commit

    def count(log: Log) -> None:
        commits.append(1)
        real(log)

    monkeypatch.setattr(Log, "commit", count)

    async def work(store: Store) -> None:
        await asyncio.gather(*(create(store, LEASES, named(f"o{each}")) for each in range(500)))

    on_store(tmp_path, work)
    assert len(commits) == 1


def amended(store: Store, previous: Stored, number: int, last: Stored | None) -> Stored:
    """Notes which number followed which."""

    def tracking(entries: Entries, old: Json, new: Json) -> Entries:
        return *entries, entry("test", UPDATE, "v1", f"{old['n']} {new['n']}", "", {})

    return store.amend(previous, named("a", n=number), tracking, last)


def test_a_write_over_an_own_one_that_waits_for_the_disk_takes_its_place(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        changes: list[Change] = []
        store.follow(LEASES, store.version, changes.append)
        made = store.put(LEASES, "x", "a", named("a", n=0))
        await store.durable(made)
        first = amended(store, made, 1, None)
        store.put(LEASES, "x", "b", named("b"))
        second = amended(store, first, 2, first)
        assert second.version == first.version
        # Another client has written it since, so its version may have been shown.
        other = store.put(LEASES, "x", "a", named("a", n=3))
        third = amended(store, other, 4, second)
        assert [other.version, third.version] == [first.version + 2, first.version + 3]
        await store.durable(first)
        fourth = amended(store, third, 5, third)
        assert fourth.version == third.version + 1
        await store.durable(fourth)
        told = [change.stored.object.get("n") for change in changes]
        assert told == [0, 2, None, 3, 4, 5]
        # Of a write that another one has replaced nothing is left.
        assert [entry.time for entry in fourth.managed] == ["0 2", "3 4", "4 5"]

    async def look(store: Store) -> None:
        past = [store.list_at(LEASES, "x", version)[0].object["n"] for version in range(1, 7)]
        assert past == [0, 2, 2, 3, 4, 5]

    on_store(tmp_path, work)
    on_store(tmp_path, look)


def test_a_write_over_one_that_is_on_its_way_to_the_disk_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Report] = []
    real = KernelFlush.begin
    monkeypatch.setattr(KernelFlush, "begin", lambda _flush, report: held.append(report))

    async def work(store: Store) -> None:
        first = store.put(LEASES, "x", "a", named("a", n=1))
        while not held:
            await asyncio.sleep(0.001)
        second = amended(store, first, 2, first)
        assert store.get(LEASES, "x", "a") is None
        monkeypatch.setattr(KernelFlush, "begin", real)
        held[0](None)
        await store.durable(second)
        assert second.version == first.version + 1

    on_store(tmp_path, work)


def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a sandbox that forbids its asynchronous I/O."""

    def refuse(_flush: KernelFlush, _descriptor: int) -> None:
        raise PermissionError

    monkeypatch.setattr(KernelFlush, "__init__", refuse)


def failing(_flush: KernelFlush, report: Report) -> None:
    asyncio.get_running_loop().call_soon(report, OSError(errno.EIO, "Input/output error"))


def test_without_the_kernels_flush_a_thread_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, real = [], os.fdatasync

    def count(descriptor: int) -> None:
        flushed.append(threading.current_thread() is not threading.main_thread())
        real(descriptor)

    async def write(store: Store) -> None:
        for number in range(5):
            await create(store, LEASES, named(f"o{number}"))

    async def look(store: Store) -> None:
        assert len(store.list(LEASES)[0]) == 5

    monkeypatch.setattr(os, "fdatasync", count)
    without_kernel(monkeypatch)
    on_store(tmp_path, write)
    assert flushed == [True] * 5
    on_store(tmp_path, look)


def test_what_the_kernel_could_not_flush_is_moved_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = tmp_path / "store.sqlite-wal"

    async def write(store: Store) -> None:
        await create(store, LEASES, named("a"))
        assert wal.stat().st_size
        with monkeypatch.context() as disk:
            disk.setattr(KernelFlush, "begin", failing)
            await create(store, LEASES, named("b"))
        assert not wal.stat().st_size
        await create(store, LEASES, named("c"))
        assert not store.failure

    async def look(store: Store) -> None:
        assert [each.key[1] for each in store.list(LEASES)[0]] == ["a", "b", "c"]

    on_store(tmp_path, write)
    on_store(tmp_path, look)


@pytest.mark.parametrize("has_kernel", [True, False])
def test_a_disk_that_loses_writes_gets_no_more_before_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_kernel: bool
) -> None:
    """What comes after a lost write would be lost with it, although it was acknowledged."""

    class Lost:
        in_transaction = False

        def execute(self, *_: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

    def lose(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    if not has_kernel:
        without_kernel(monkeypatch)

    async def write(store: Store) -> None:
        await create(store, LEASES, named("a"))
        log, commit = store._log, Log.commit
        connection = log._connection

        def commit_and_break(log: Log) -> None:
            commit(log)
            log._connection = Lost()  # type: ignore[assignment]

        with monkeypatch.context() as disk:
            disk.setattr(KernelFlush, "begin", failing)
            disk.setattr(os, "fdatasync", lose)
            disk.setattr(Log, "commit", commit_and_break)
            with pytest.raises(ApiError, match="disk I/O error"):
                await create(store, LEASES, named("b"))
        log._connection = connection
        assert [each.key[1] for each in store.list(LEASES)[0]] == ["a"]
        for refused in (create(store, LEASES, named("c")), delete(store, LEASES, "x", "a")):
            with pytest.raises(ApiError, match="restart the server"):
                await refused
        assert health.answer("/readyz", store, is_verbose=False).code == 500

    async def look(store: Store) -> None:
        # Refused, but it may be there: its client was told of an error of the server.
        assert [each.key[1] for each in store.list(LEASES)[0]] == ["a", "b"]
        await create(store, LEASES, named("d"))

    on_store(tmp_path, write)
    on_store(tmp_path, look)


def test_the_write_ahead_log_is_moved_into_the_file_before_it_is_long(tmp_path: Path) -> None:
    async def write(store: Store) -> None:
        for number in range(60):
            await create(store, LEASES, named(f"o{number}", text="x" * 500_000))
        assert (tmp_path / "store.sqlite-wal").stat().st_size < 10_000_000
        assert (tmp_path / "store.sqlite").stat().st_size > 20_000_000

    on_store(tmp_path, write)


def test_a_restart_reads_equal_entries_once_and_confuses_none(tmp_path: Path) -> None:
    def owned(*keys: str) -> Entries:
        return tuple(entry("m", UPDATE, "v1", "2026-01-01T00:00:00Z", "", {f"f:{key}": {}}) for key in keys)

    written = {"a": owned("x"), "b": owned("x"), "c": owned("x", "y"), "d": owned("x"), "e": (), "f": owned("y")}

    async def write(store: Store) -> None:
        for name, managed in written.items():
            store.put(LEASES, "x", name, named(name), managed=managed)
        await store.settled()

    async def look(store: Store) -> None:
        found = {stored.key[1]: stored for stored in store.list(LEASES)[0]}
        assert {name: stored.managed for name, stored in found.items()} == written
        assert found["a"].managed is found["b"].managed is found["d"].managed
        assert {name: stored.metadata["name"] for name, stored in found.items()} == {name: name for name in written}
        assert all(stored.body.count(b"managedFields") == bool(stored.managed) for stored in found.values())

    on_store(tmp_path, write)
    on_store(tmp_path, look)


def test_rows_that_are_forgotten_keep_the_seal_right_also_after_compacting(tmp_path: Path) -> None:
    """The seal is the sum of all checksums: a wrong one for a row that goes would make the store look damaged."""

    async def work(store: Store) -> None:
        for turn in range(30):
            await create(store, LEASES, named(f"gone{turn}"))
            await delete(store, LEASES, "x", f"gone{turn}")
            if turn == 15:
                store.compact()
        assert store.list(LEASES)[0] == []

    for _ in range(3):
        on_store(tmp_path, work, history=10)


def test_a_disk_that_refuses_fails_the_writes_and_leaves_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(store: Store) -> None:
        await create(store, LEASES, named("a", n=1))
        real = Log.commit

        def refuse(log: Log) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(Log, "commit", refuse)
        failing = store.put(LEASES, "x", "a", {**named("a"), "n": 2})
        later = store.put(LEASES, "x", "b", named("b"))
        with pytest.raises(ApiError, match="disk is full"):
            await store.durable(failing)
        with pytest.raises(ApiError):
            await store.durable(later)
        monkeypatch.setattr(Log, "commit", real)
        found = store.head(LEASES, "x", "a")
        assert found is not None
        assert found.object["n"] == 1
        stored = await create(store, LEASES, named("c"))
        assert stored.version > later.version

    on_store(tmp_path, work)


def test_lists_are_in_order_of_namespace_and_name(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        for namespace, name in (("b", "a"), ("a", "b"), ("a", "a"), ("a-b", "c"), ("a", "ä")):
            await create(store, LEASES, named(name, namespace))
        keys = [each.key for each in store.list(LEASES)[0]]
        assert keys == sorted(keys, key="/".join)
        assert [each.key[1] for each in store.list(LEASES, "a")[0]] == ["a", "b", "ä"]

    on_store(tmp_path, work)


def test_the_past_can_be_listed_as_far_as_it_is_kept(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await create(store, LEASES, named("a", n=1))
        await create(store, LEASES, named("b"))
        then = store.version
        await update(store, LEASES, "x", "a", lambda old: {**old, "n": 2})
        await delete(store, LEASES, "x", "b")
        await create(store, LEASES, named("c"))
        shown = {each.key[1]: each.object.get("n") for each in store.list_at(LEASES, "x", then)}
        assert shown == {"a": 1, "b": None}
        for each in range(20):
            await create(store, LEASES, named(f"later{each}"))
        with pytest.raises(ApiError) as refused:
            store.list_at(LEASES, "x", then)
        assert (refused.value.code, refused.value.reason) == (410, "Expired")

    on_store(tmp_path, work, history=20)


def test_what_is_superseded_and_forgotten_leaves_the_disk(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        await create(store, LEASES, named("a", n=0))
        for _ in range(100):
            await update(store, LEASES, "x", "a", lambda old: {**old, "n": old["n"] + 1})
        for each in range(30):
            await create(store, LEASES, named(f"gone{each}"))
            await delete(store, LEASES, "x", f"gone{each}")

    on_store(tmp_path, work, history=10)
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        (rows,) = connection.execute("SELECT count(*) FROM log").fetchone()
    assert rows < 30


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "remove"]), st.integers(0, 3)), max_size=40),
    st.integers(1, 12),
)
def test_a_restart_finds_the_same_state_and_the_same_history(
    operations: list[tuple[str, str, int]], history: int
) -> None:
    seen: dict[str, Any] = {}

    def snapshot(store: Store) -> Json:
        oldest = store._oldest
        changes = store.follow(LEASES, oldest, lambda change: None)
        told = [(change.type, change.stored.body, change.previous and change.previous.body) for change in changes]
        return {"items": [each.body for each in store.list(LEASES)[0]], "version": store.version, "told": told}

    async def write(store: Store) -> None:
        for name, operation, number in operations:
            if operation == "put":
                found = store.head(LEASES, "x", name)
                store.put(LEASES, "x", name, {**(found.object if found else named(name)), "n": number})
            elif store.head(LEASES, "x", name) is not None:
                store.remove(LEASES, "x", name)
            if number == 0:
                await store.settled()
        await store.settled()
        seen["before"] = snapshot(store)

    async def read(store: Store) -> None:
        seen["after"] = snapshot(store)

    with tempfile.TemporaryDirectory() as folder:
        on_store(Path(folder), write, history=history)
        on_store(Path(folder), read, history=history)
    assert seen["before"]["items"] == seen["after"]["items"]
    assert seen["before"]["version"] == seen["after"]["version"]
    # What was about to be forgotten may be told once more, never less.
    assert seen["after"]["told"][-len(seen["before"]["told"]) :] == seen["before"]["told"] or not seen["before"]["told"]


def test_a_follower_misses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        told: list[int] = []
        await create(store, PODS, named("a"))
        since = store.version
        await create(store, PODS, named("b"))
        missed = store.follow(PODS, since, lambda change: told.append(change.stored.version))
        await asyncio.gather(*(create(store, PODS, named(f"o{each}")) for each in range(10)))
        versions = [change.stored.version for change in missed] + told
        assert versions == list(range(since + 1, store.version + 1))

    on_store(tmp_path, work)


def test_a_removed_object_is_told_as_it_was_last_at_the_version_of_its_removal(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        changes: list[Change] = []
        store.follow(LEASES, 0, changes.append)
        await create(store, LEASES, named("a", n=1))
        gone = await delete(store, LEASES, "x", "a")
        assert (gone.object["n"], gone.metadata["resourceVersion"]) == (1, str(store.version))
        assert changes[-1].stored is gone
        with pytest.raises(NotFound):
            await delete(store, LEASES, "x", "a")

    on_store(tmp_path, work)


def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        with pytest.raises(JettisonError, match="is in use by process"):
            Store(tmp_path)

    on_store(tmp_path, work)
    on_store(tmp_path, work)


def test_what_was_given_up_stays_so_whatever_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version is below that of the store by then, and it is not durable for that."""

    async def work(store: Store) -> None:
        real = Log.append

        def refuse(*given: object) -> None:
            raise OverflowError("whatever it is")

        monkeypatch.setattr(Log, "append", refuse)
        lost = store.put(LEASES, "x", "a", named("a"))
        with pytest.raises(ApiError):
            await store.settled()
        monkeypatch.setattr(Log, "append", real)
        later = await create(store, LEASES, named("b"))
        assert later.version > lost.version
        with pytest.raises(ApiError, match="given up"):
            await store.durable(lost)
        assert store.head(LEASES, "x", "a") is None

    on_store(tmp_path, work)


def test_a_listener_that_fails_keeps_nothing_from_the_others(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        heard: list[Change] = []

        def fail(change: Change) -> None:
            raise ValueError(change)

        store.follow(LEASES, 0, fail)
        store.follow(LEASES, 0, heard.append)
        await asyncio.gather(*(create(store, LEASES, named(name)) for name in "abc"))
        assert len(heard) == len(store.list(LEASES)[0]) == 3

    on_store(tmp_path, work)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(JettisonError, match="is damaged: file is not a database"):
        Store(tmp_path)


def test_compacting_changes_nothing_that_can_be_seen(tmp_path: Path) -> None:
    """Objects, lists at any version and the feed are as before, and go on from there."""

    def seen(store: Store) -> Json:
        feed = store.feed(LEASES)
        changes = [feed[place] for place in range(feed.first, feed.end)]
        return {
            "objects": [(each.key, each.version, each.object) for each in store.list(LEASES)[0]],
            "past": [[each.body for each in store.list_at(LEASES, None, version)] for version in range(2, 9)],
            "feed": (feed.first, [(each.type, each.stored.body, each.previous is None) for each in changes]),
            "places": [store.place_after(LEASES, version) for version in range(2, 9)],
        }

    async def work() -> None:
        store = Store(tmp_path, history=8)
        for turn in range(3):
            for name in "cab":
                store.put(LEASES, "ns", name, {"metadata": {"name": name, "namespace": "ns"}, "turn": turn})
            store.compact()  # while something is on its way to the disk
        store.remove(LEASES, "ns", "b")
        await asyncio.sleep(0)
        store.compact()
        await store.settled()
        before = seen(store)
        store.compact()
        assert seen(store) == before
        changed = await update(store, LEASES, "ns", "a", lambda value: {**value, "turn": 9})
        assert store.feed(LEASES)[store.feed(LEASES).end - 1].stored is changed
        await store.close()
        again = Store(tmp_path)
        assert [each.object["turn"] for each in again.list(LEASES)[0]] == [9, 2]
        await again.close()

    asyncio.run(work())


def test_superseded_rows_are_deleted_together_and_none_is_forgotten(tmp_path: Path) -> None:
    history, lot = 1024, 64

    def rows() -> int:
        with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection:
            (count,) = connection.execute("SELECT count(*) FROM log").fetchone()
            return int(count)

    async def write(store: Store) -> None:
        for number in range(history + lot + 9):
            last = store.put(LEASES, "x", "a", named("a", number=number))
            if number % 5 == 0:
                await store.durable(last)
        await store.settled()

    async def look(store: Store) -> None:
        assert [each.object["number"] for each in store.list(LEASES)[0]] == [history + lot + 8]
        assert len(store.follow(LEASES, store.oldest, lambda _: None)) == history

    on_store(tmp_path, write, history)
    # One lot is gone, and the next is not complete.
    assert history < rows() <= history + lot
    for _ in range(2):
        on_store(tmp_path, look, history)
    on_store(tmp_path, write, history)
    assert history < rows() <= history + lot
