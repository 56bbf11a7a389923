"""Check tells everything that is wrong and changes nothing; repair saves every row that can be read."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.objects.resources import LEASES
from jettison.apiserver.storage.log import FILE
from jettison.apiserver.storage.repair import examine, held, repair
from jettison.apiserver.storage.salvage import salvage
from jettison.apiserver.storage.store import Store
from jettison.errors import JettisonError
from tests.apiserver.storage.test_store_damage import State, damage_row, lease, on_store, state_of, write_some
from tests.apiserver.storage.test_store_damage import written as written  # noqa: PLC0414  a fixture
from tests.apiserver.storage.writes import create, delete
from tests.cli.running import process

Json = dict[str, Any]


def reopened(folder: Path) -> State:
    store = Store(folder)
    found = state_of(store)
    asyncio.run(store.close())
    return found


@pytest.mark.parametrize("seed", range(6))
def test_whatever_page_is_overwritten_the_rows_of_the_others_are_saved(
    tmp_path: Path, written: tuple[Path, State], seed: int
) -> None:
    """The header, the tree, leaves, overflow: each page in turn becomes noise, in the file and in the WAL."""
    left, expected = written
    folder = left if seed % 2 else tmp_path / "whole"
    draw = random.Random(seed)
    path = folder / f"{FILE}-wal" if seed % 2 else folder / FILE
    content = bytearray(path.read_bytes())
    at = 0 if seed == 0 else draw.randrange(len(content) // 4096) * 4096
    content[at : at + 4096] = draw.randbytes(4096)
    path.write_bytes(content)
    report = examine(folder / FILE)
    assert not report.is_sound or reopened(folder) == expected
    if report.is_sound:
        return
    if not report.problems and not report.damaged:
        return
    before = (folder / FILE).read_bytes()
    done = repair(folder / FILE, report.aside)
    assert done.kept_as is not None
    assert done.kept_as.read_bytes() == before
    assert examine(folder / FILE).problems == []
    found = reopened(folder)
    lost = {(namespace, name) for _, namespace, name in done.aside}
    wrong = {key for key, value in found.items() if expected.get(key) != value}
    # What was newest on that page may be older now, or gone: no more objects than the report has lost rows.
    assert len(wrong | (expected.keys() - found.keys())) <= (done.missing or 0) + len(lost) + len(done.damaged)


def test_every_row_of_a_sound_store_is_found_without_sqlite(written: tuple[Path, State]) -> None:
    left, _ = written
    found = salvage(left / FILE, left / f"{FILE}-wal")
    assert found.damaged == []
    assert found.seal is not None
    assert len(found.rows) == found.seal.rows
    digest = found.seal.digest
    for row in found.rows:
        digest ^= row.checksum
    assert digest == 0


def test_what_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    """Free pages, and pages of the WAL as they were, still have rows that were superseded long ago."""

    async def write(store: Store) -> None:
        for number in range(60):
            await create(store, LEASES, lease(f"l{number}", text="y" * 3000))
            if number > 2:
                await delete(store, LEASES, "x", f"l{number - 3}")
        shutil.copytree(tmp_path / "a", tmp_path / "b")

    on_store(tmp_path / "a", write, history=5)
    for folder in (tmp_path / "a", tmp_path / "b"):
        repair(folder / FILE)
        assert sorted(name for _, name in reopened(folder)) == ["l57", "l58", "l59"]


def test_repair_goes_on_with_an_older_copy_and_above_all_versions(tmp_path: Path) -> None:
    on_store(tmp_path, write_some)
    shutil.copy(tmp_path / FILE, tmp_path / "copy")

    async def more(store: Store) -> None:
        await create(store, LEASES, lease("later"))

    on_store(tmp_path, more)
    expected = reopened(tmp_path)
    shutil.copy(tmp_path / "copy", tmp_path / FILE)
    report = examine(tmp_path / FILE)
    assert [each for each in report.problems if "an older copy is in its place" in each]
    done = repair(tmp_path / FILE)
    del expected["x", "later"]
    assert reopened(tmp_path) == expected
    assert done.version > done.acknowledged > done.newest


def store_command(state_dir: Path, *arguments: str) -> tuple[int, str, str]:
    done = process("store", *arguments, "--state-dir", str(state_dir))
    return done.returncode, done.stdout, done.stderr


def test_check_names_the_row_and_repair_is_not_needed_for_it(tmp_path: Path) -> None:
    on_store(tmp_path / "cluster", write_some)
    assert store_command(tmp_path, "check")[0] == 0
    damage_row(tmp_path / "cluster", "l01", b'"text":"y', b'"text":"z')
    before = (tmp_path / "cluster" / FILE).read_bytes()
    code, said, _ = store_command(tmp_path, "check")
    assert code == 3
    assert "`leases.coordination.k8s.io x/l01`: its checksum does not match" in said
    code, said, _ = store_command(tmp_path, "check", "-o", "json")
    document = json.loads(said)
    assert (code, document["isSound"], document["problems"]) == (3, False, [])
    assert [each["name"] for each in document["damagedRows"]] == ["l01"]
    assert (tmp_path / "cluster" / FILE).read_bytes() == before


def test_repair_names_what_a_server_has_set_aside(tmp_path: Path) -> None:
    """As `check` does, which answers 3: the store has no damaged row any more, but is not whole."""
    folder = tmp_path / "cluster"
    on_store(folder, write_some)
    damage_row(folder, "l01", b'"text":"y', b'"text":"z')
    on_store(folder, lambda _: asyncio.sleep(0))
    assert store_command(tmp_path, "check")[0] == 3
    code, said, complaint = store_command(tmp_path, "repair")
    assert code == 0, complaint
    assert "is sound" not in said
    assert "set aside: `leases.coordination.k8s.io x/l01`; write it again or delete it" in said


def test_repair_says_what_it_did_and_leaves_a_sound_store_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    on_store(folder, write_some)
    code, said, _ = store_command(tmp_path, "repair")
    assert (code, "is sound, nothing was done" in said) == (0, True)
    content = bytearray((folder / FILE).read_bytes())
    content[0:16] = bytes(16)
    (folder / FILE).write_bytes(content)
    code, said, complaint = store_command(tmp_path, "repair")
    assert code == 0, complaint
    assert "the old store is kept as" in said
    assert store_command(tmp_path, "check")[0] == 0
    with sqlite3.connect(folder / FILE) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (62,)
    connection.close()


def test_to_begin_anew_is_an_order_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    on_store(folder, write_some)
    (folder / FILE).unlink()
    code, _, complaint = store_command(tmp_path, "repair")
    assert (code, "begin anew with --begin-anew" in complaint) == (1, True)
    assert store_command(tmp_path, "check")[0] == 3
    assert store_command(tmp_path, "repair", "--begin-anew")[0] == 0
    assert reopened(folder) == {}


def test_neither_touches_the_store_of_a_server(tmp_path: Path) -> None:
    async def look(store: Store) -> None:
        for command in ("check", "repair"):
            code, said, complaint = await asyncio.to_thread(store_command, tmp_path, command)
            assert said == ""
            assert (code, "is in use by process" in complaint) == (1, True)

    on_store(tmp_path / "cluster", look)
    code, _, complaint = store_command(tmp_path / "nowhere", "check")
    assert (code, "there is no store in" in complaint) == (1, True)


def test_a_name_that_no_directory_can_have_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(JettisonError, match="there is no store in"), held(tmp_path / ("9" * 300)):
        pass


def test_the_repair_that_is_proposed_is_one_of_this_store(tmp_path: Path) -> None:
    """Without its directory the command would be about another one."""
    state = tmp_path / "of a cluster"
    (state / "cluster").mkdir(parents=True)
    (state / "cluster" / "store.sqlite").write_bytes(b"no database")
    code, said, _ = store_command(state, "check")
    assert code == 3
    assert said.splitlines()[-1] == f"a server does not start on it; try: jettison store repair --state-dir '{state}'"
