"""A store that something else than the server has written to: what is served is right, and what is not is named."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.objects.resources import BUDGETS, LEASES, PODS
from jettison.apiserver.storage.log import FILE
from jettison.apiserver.storage.store import HISTORY, Store
from jettison.errors import ApiError, JettisonError, NotFound
from tests.apiserver.served import BUDGETS as BUDGETS_PATH
from tests.apiserver.served import PODS as PODS_PATH
from tests.apiserver.served import Served
from tests.apiserver.storage.writes import create, delete, update

Json = dict[str, Any]
State = dict[tuple[str, str], Json]

FLIPS = 120


def lease(name: str, **rest: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "x", "uid": f"uid-of-{name}"}, **rest}


def on_store(folder: Path, work: Callable[[Store], Awaitable[None]], history: int = HISTORY) -> None:
    async def run() -> None:
        store = Store(folder, history)
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


async def write_some(store: Store) -> None:
    """Objects of every age: written once, often, and removed."""
    for number in range(40):
        await create(store, LEASES, lease(f"l{number:02}", text="y" * (number * 97)))
    for number in range(0, 40, 3):
        await update(store, LEASES, "x", f"l{number:02}", lambda old: {**old, "turn": 2})
    for number in range(0, 40, 5):
        await delete(store, LEASES, "x", f"l{number:02}")


def state_of(store: Store) -> State:
    return {item.key: json.loads(item.body) for item in store.list(LEASES)[0]}


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, State]:
    """A store with its WAL as a killed server leaves them, and what is in it."""
    folder, left = tmp_path / "whole", tmp_path / "left"
    found: list[State] = []

    async def work(store: Store) -> None:
        await write_some(store)
        found.append(state_of(store))
        left.mkdir(mode=0o700)
        for each in folder.iterdir():
            shutil.copy(each, left / each.name)

    on_store(folder, work)
    return left, found[0]


def test_a_flipped_bit_anywhere_is_noticed_or_does_no_harm(
    tmp_path: Path, written: tuple[Path, State], caplog: pytest.LogCaptureFixture
) -> None:
    """Half of them in the WAL as a killed server leaves it, half in the file that a stopped server leaves."""
    caplog.set_level(logging.CRITICAL)
    left, expected = written
    draw = random.Random(7)
    outcomes = {"right": 0, "set aside": 0, "refused": 0}
    for turn in range(FLIPS):
        folder = tmp_path / "flipped"
        shutil.copytree(left if turn % 2 else tmp_path / "whole", folder)
        files = [each for each in (folder / FILE, folder / f"{FILE}-wal") if each.exists() and each.stat().st_size]
        path = draw.choice(files)
        content = bytearray(path.read_bytes())
        place = draw.randrange(len(content) * 8)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        outcomes[judge(folder, expected, f"{path.name}, bit {place}")] += 1
        shutil.rmtree(folder)
    assert outcomes["right"] > 0, outcomes
    assert outcomes["set aside"] > 0, outcomes
    assert outcomes["refused"] > 0, outcomes


def judge(folder: Path, expected: State, what: str) -> str:
    """Fails if anything wrong is served, now or after another start."""
    outcome = ""
    for _ in range(2):
        store, refusal = opened(folder)
        if store is None:
            assert str(folder / FILE) in refusal, what
            assert "jettison store repair" in refusal, what
            return "refused"
        found = state_of(store)
        assert all(expected[key] == value for key, value in found.items()), what
        missing = expected.keys() - found.keys()
        assert len(missing) <= 1, what
        assert missing <= {key for storage, key in store.set_aside if storage == LEASES.storage}, what
        outcome = "set aside" if store.set_aside or outcome == "set aside" else "right"
        asyncio.run(store.close())
    return outcome


def opened(folder: Path) -> tuple[Store | None, str]:
    try:
        return Store(folder), ""
    except JettisonError as error:
        return None, str(error)


def damage_row(folder: Path, name: str, old: bytes, new: bytes) -> None:
    """In the newest row of the lease, as a disk would: the checksum is left as it was."""
    with sqlite3.connect(folder / FILE) as connection:
        (version, body) = connection.execute(
            "SELECT version, body FROM log WHERE name = ? ORDER BY version DESC", (name,)
        ).fetchone()
        assert old in body
        connection.execute("UPDATE log SET body = ? WHERE version = ?", (body.replace(old, new), version))
    connection.close()


def test_a_damaged_object_is_set_aside_and_said_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not the older state that the log still has, and no 404: an owner that is damaged is not gone."""

    async def write(store: Store) -> None:
        await create(store, LEASES, lease("a", turn=1))
        await update(store, LEASES, "x", "a", lambda old: {**old, "turn": 2})
        await create(store, LEASES, lease("b"))

    on_store(tmp_path, write)
    damage_row(tmp_path, "a", b'"turn":2', b'"turn":3')

    async def look(store: Store) -> None:
        assert [each.key[1] for each in store.list(LEASES)[0]] == ["b"]
        with pytest.raises(ApiError, match="is damaged and set aside") as refusal:
            await update(store, LEASES, "x", "a", lambda old: old)
        assert refusal.value.code == 500
        with pytest.raises(ApiError, match="too old"):
            store.follow(LEASES, 3, lambda _: None)

    on_store(tmp_path, look)
    assert "`leases.coordination.k8s.io x/a` is damaged and set aside" in caplog.text
    on_store(tmp_path, look)
    with sqlite3.connect(tmp_path / FILE) as connection:
        bodies = [body for (body,) in connection.execute("SELECT body FROM quarantine ORDER BY version")]
    connection.close()
    assert [json.loads(body)["turn"] for body in bodies] == [1, 3], "what was found is kept as it was found"


def test_what_was_set_aside_can_be_written_anew_or_deleted(tmp_path: Path) -> None:
    async def write(store: Store) -> None:
        for name in "abc":
            await create(store, LEASES, lease(name, turn=1))

    on_store(tmp_path, write)
    for name in "ab":
        damage_row(tmp_path, name, b'"turn":1', b'"turn":0')

    async def mend(store: Store) -> None:
        await create(store, LEASES, lease("a", turn=5))
        await delete(store, LEASES, "x", "b")
        assert isinstance(store.missing(LEASES, "x", "b"), NotFound)

    on_store(tmp_path, mend)

    async def look(store: Store) -> None:
        assert not store.set_aside
        assert [each.object.get("turn") for each in store.list(LEASES)[0]] == [5, 1]

    on_store(tmp_path, look)


def test_a_damaged_history_is_no_damaged_object(tmp_path: Path) -> None:
    async def write(store: Store) -> None:
        await create(store, LEASES, lease("a", turn=1))
        await update(store, LEASES, "x", "a", lambda old: {**old, "turn": 2})

    on_store(tmp_path, write)
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE log SET body = X'00ff' WHERE version = 1")
    connection.close()

    async def look(store: Store) -> None:
        assert not store.set_aside
        assert [each.object["turn"] for each in store.list(LEASES)[0]] == [2]
        with pytest.raises(ApiError, match="too old"):
            store.list_at(LEASES, None, 1)

    on_store(tmp_path, look)


def test_a_key_that_was_damaged_into_that_of_another_object_harms_neither(tmp_path: Path) -> None:
    """`l1` and `l3` are one bit apart."""

    async def write(store: Store) -> None:
        await create(store, LEASES, lease("l1", turn=1))
        await create(store, LEASES, lease("l3", turn=1))
        await update(store, LEASES, "x", "l1", lambda old: {**old, "turn": 2})

    on_store(tmp_path, write)
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE log SET name = 'l3' WHERE version = 3")
    connection.close()

    async def look(store: Store) -> None:
        assert [each.key[1] for each in store.list(LEASES)[0]] == ["l3"]
        assert store.set_aside == {(LEASES.storage, ("x", "l1"))}

    on_store(tmp_path, look)


@pytest.mark.parametrize("how", ["removed", "cut", "zeroed"])
def test_a_wal_that_is_not_what_it_was_is_missed(written: tuple[Path, State], how: str) -> None:
    folder, _ = written
    wal = folder / f"{FILE}-wal"
    size = wal.stat().st_size
    if how == "removed":
        wal.unlink()
    elif how == "cut":
        os.truncate(wal, size - 5000)
    else:
        wal.write_bytes(bytes(size))
    with pytest.raises(JettisonError, match=r"was acknowledged: its write-ahead log was\s+removed"):
        Store(folder)


def test_an_older_copy_and_another_store_are_refused(tmp_path: Path) -> None:
    async def one(store: Store) -> None:
        await create(store, LEASES, lease(f"l{store.version}"))

    on_store(tmp_path / "a", one)
    shutil.copy(tmp_path / "a" / FILE, tmp_path / "copy")
    on_store(tmp_path / "a", one)
    on_store(tmp_path / "b", one)
    shutil.copy(tmp_path / "copy", tmp_path / "a" / FILE)
    with pytest.raises(JettisonError, match="an older copy is in its place"):
        Store(tmp_path / "a")
    shutil.copy(tmp_path / "b" / FILE, tmp_path / "a" / FILE)
    with pytest.raises(JettisonError, match="is another store than the one that was here"):
        Store(tmp_path / "a")


@pytest.mark.parametrize("how", ["missing", "empty"])
@pytest.mark.parametrize("witness", ["tokens.json", "pki/ca.pem", "store.mark"])
def test_an_empty_store_beside_what_a_cluster_has_left_is_refused(tmp_path: Path, how: str, witness: str) -> None:
    path = tmp_path / witness
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"{}")
    if how == "empty":
        (tmp_path / FILE).touch()
    with pytest.raises(JettisonError, match=f"is {how}, but a cluster lived here.*--begin-anew"):
        Store(tmp_path)
    if how == "missing":
        assert not (tmp_path / FILE).exists()


def test_a_hidden_row_is_missed(tmp_path: Path) -> None:
    async def write(store: Store) -> None:
        for name in "abc":
            await create(store, LEASES, lease(name))

    on_store(tmp_path, write)
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("DELETE FROM log WHERE version = 2")
    connection.close()
    with pytest.raises(JettisonError, match="it has 2 rows, and 3 were written"):
        Store(tmp_path)


def test_a_store_of_the_first_form_is_taken_over(tmp_path: Path) -> None:
    """It had no checksums: what is no JSON is set aside, the rest is believed."""
    bodies = [json.dumps(lease(name, turn=turn)).encode() for name, turn in (("a", 1), ("b", 1), ("a", 2))]
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.executescript(
            """CREATE TABLE log (
                version INTEGER PRIMARY KEY, storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
                is_removal INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
            CREATE TABLE compaction (oldest INTEGER NOT NULL) STRICT;
            INSERT INTO compaction VALUES (4);"""
        )
        for version, (name, body) in enumerate(zip("aba", bodies, strict=True), 5):
            row = (version, LEASES.storage, "x", name, 0, body if name == "a" else body[:-1])
            connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()
    (tmp_path / FILE).chmod(0o644)

    async def look(store: Store) -> None:
        assert [each.object["turn"] for each in store.list(LEASES)[0]] == [2]
        assert store.set_aside == {(LEASES.storage, ("x", "b"))}
        stored = await create(store, LEASES, lease("c"))
        assert stored.version > 7

    on_store(tmp_path, look)
    on_store(tmp_path, look_again := _count_is(2))
    assert look_again is not None
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def _count_is(number: int) -> Callable[[Store], Awaitable[None]]:
    async def look(store: Store) -> None:
        assert len(store.list(LEASES)[0]) == number

    return look


def test_a_store_of_a_later_form_is_refused(tmp_path: Path) -> None:
    on_store(tmp_path, _count_is(0))
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(JettisonError, match="has form 99, and this version of jettison knows 2 at most"):
        Store(tmp_path)


def test_no_other_user_can_read_any_of_it(tmp_path: Path) -> None:
    """Not for a moment, whatever the umask."""
    before = os.umask(0)
    try:

        async def look(store: Store) -> None:
            await create(store, LEASES, lease("a"))
            assert {each.name for each in folder.iterdir()} >= {FILE, f"{FILE}-wal", "store.mark", "lock"}
            for each in folder.iterdir():
                assert stat.S_IMODE(each.stat().st_mode) == 0o600, each
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700

        folder = tmp_path / "cluster"
        on_store(folder, look)
        for each in (folder, *folder.iterdir()):
            each.chmod(0o755 if each.is_dir() else 0o644)
        on_store(folder, _reread(look))
    finally:
        os.umask(before)


def _reread(look: Callable[[Store], Awaitable[None]]) -> Callable[[Store], Awaitable[None]]:
    async def again(store: Store) -> None:
        await delete(store, LEASES, "x", "a")
        await look(store)

    return again


def test_a_damaged_budget_lets_no_pod_go(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    first = Served(folder)
    first.pod("p")
    first.budget(minAvailable=1)
    first.close()
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute(
            "UPDATE log SET body = CAST(replace(body, 'minAvailable', 'minAvailabel') AS BLOB) WHERE storage = ?",
            (BUDGETS.storage,),
        )
    connection.close()
    second = Served(folder)
    assert second.get(BUDGETS_PATH).body["items"] == []
    assert second.get(f"{BUDGETS_PATH}/pdb").code == 500
    refused = second.evict("p")
    assert (refused.code, "is damaged and set aside" in refused.message) == (500, True)
    assert second.delete(f"{BUDGETS_PATH}/pdb").code == 200
    assert second.evict("p").code == 201
    assert second.get(f"{PODS_PATH}/p").body["metadata"]["deletionTimestamp"]
    assert (PODS.storage, ("default", "p")) not in second.store.set_aside
    second.close()


def test_a_node_hears_that_its_pod_is_damaged_and_not_that_it_is_gone(tmp_path: Path) -> None:
    """It would end it; nor can it delete what may be another's."""
    folder = tmp_path / "cluster"
    first = Served(folder)
    first.pod("p")
    first.close()
    damage_row(folder, "p", b'"app":"web"', b'"app":"wdb"')
    second = Served(folder)
    assert second.get(PODS_PATH).body["items"] == []
    answers = [second.get(f"{PODS_PATH}/p", token="node"), second.delete(f"{PODS_PATH}/p", token="node")]
    assert [each.code for each in answers] == [500, 403]
    assert second.get(f"{PODS_PATH}/other", token="node").code == 403
    checks = [second.get(path) for path in ("/readyz", "/readyz/store-rows", "/readyz/store-space", "/livez")]
    assert [each.code for each in checks] == [200, 500, 200, 200]
    assert b"[-]store-rows failed: 1 objects are damaged" in checks[0].content
    metrics = second.get("/metrics", token="viewer")
    assert (metrics.code, b"\njettison_store_objects_set_aside 1\n" in metrics.content) == (200, True)
    assert b'\napiserver_storage_objects{resource="namespaces"} 4\n' in metrics.content
    assert [second.get("/metrics", token=each).code for each in ("node", "evictor")] == [403, 403]
    second.close()
