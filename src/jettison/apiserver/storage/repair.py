"""Checking and repairing a store: for an operator, while no server runs.

A check reads a copy and changes nothing. A repair writes a new store from every intact row; the old file is kept.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jettison.apiserver.storage import mark
from jettison.apiserver.storage.log import (
    FILE,
    Content,
    Damaged,
    ObjectKey,
    Seal,
    connect,
    find_seal,
    new_tables,
    new_uid,
    quarantine,
    read_content,
    seal_all,
    shown_text,
    unsealed,
    write_rows,
)
from jettison.apiserver.storage.lost import lost_objects
from jettison.apiserver.storage.mark import Mark
from jettison.apiserver.storage.private_files import lock_folder, open_private, tighten
from jettison.apiserver.storage.salvage import Salvaged, salvage
from jettison.clock import SYSTEM_CLOCK, Clock
from jettison.errors import JettisonError


@dataclass(slots=True)
class Report:
    """What was found. `problems` are those for which a server does not start; damaged rows it sets aside itself."""

    path: Path
    problems: list[str] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)
    aside: list[ObjectKey] = field(default_factory=list)
    rows: int = 0
    seal: Seal | None = None
    acknowledged: int | None = None

    @property
    def is_sound(self) -> bool:
        """Whether everything is as it was written, and nothing was set aside."""
        return not (self.problems or self.damaged or self.aside)

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "store": str(self.path),
            "isSound": self.is_sound,
            "problems": self.problems,
            "damagedRows": [_shown_row(each) for each in self.damaged],
            "setAside": [dict(zip(("storage", "namespace", "name"), each, strict=True)) for each in self.aside],
            "rows": self.rows,
            "version": self.seal.version if self.seal else None,
            "acknowledgedVersion": self.acknowledged,
        }


def _shown_row(damaged: Damaged) -> dict[str, Any]:
    version, storage, namespace, name, *_ = damaged.columns
    key = {"storage": shown_text(storage), "namespace": shown_text(namespace), "name": shown_text(name)}
    return {"version": version, **key, "why": damaged.why}


@dataclass(slots=True)
class Repaired:
    """What the new store has, and what it does not."""

    path: Path
    kept_as: Path | None
    rows: int
    version: int
    damaged: list[Damaged]
    aside: list[ObjectKey]
    # Rows of which there is no trace; None where nothing tells how many there were.
    missing: int | None
    # The newest version that was found, and the newest that there ever was.
    newest: int
    acknowledged: int

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "store": str(self.path),
            "keptAs": str(self.kept_as) if self.kept_as else None,
            "rows": self.rows,
            "version": self.version,
            "damagedRows": [_shown_row(each) for each in self.damaged],
            "setAside": [dict(zip(("storage", "namespace", "name"), each, strict=True)) for each in self.aside],
            "missingRows": self.missing,
            "newestVersion": self.newest,
            "acknowledgedVersion": self.acknowledged,
        }


@contextmanager
def held(state_dir: Path) -> Iterator[Path]:
    """The store's path, while no server can start; raises if one runs."""
    folder = state_dir / "cluster"
    if not os.path.isdir(folder):  # noqa: PTH112  Path.is_dir raises for a name that is too long
        raise JettisonError(f"there is no store in `{state_dir}`: `{folder}` is not there")
    lock = lock_folder(folder)
    try:
        yield folder / FILE
    finally:
        os.close(lock)


def examine(path: Path) -> Report:
    """Everything that is wrong with it."""
    report = Report(path)
    record = Mark(path.with_name(mark.FILE))
    marked = record.read()
    if marked is not None:
        report.acknowledged = marked[1]
    if not path.exists() or not path.stat().st_size:
        report.problems.append("the file is empty" if path.exists() else "the file is missing")
        return report
    with tempfile.TemporaryDirectory(prefix="jettison-store-") as folder:
        copy = Path(folder) / FILE
        try:
            shutil.copyfile(path, copy)
            if _wal(path).exists():
                shutil.copyfile(_wal(path), _wal(copy))
        except OSError as error:
            raise JettisonError(f"cannot copy `{path}` to `{folder}`: {error.strerror}") from error
        try:
            with closing(connect(copy)) as connection:
                _examine(connection, report)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            report.problems.append(str(error))
    if report.seal is not None and (why := record.contradiction(report.seal.store, report.seal.version)):
        report.problems.append(why)
    return report


def _examine(connection: sqlite3.Connection, report: Report) -> None:
    for (problem,) in connection.execute("PRAGMA quick_check(20)"):
        if problem != b"ok":
            report.problems.append(problem.decode("utf-8", "replace"))
    report.seal = find_seal(connection)
    if report.seal is None:
        report.problems.append("the seal, which tells how many rows there are, is not what was written")
        return
    content = read_content(connection, report.seal)
    report.rows = len(content.rows)
    report.damaged = content.damaged
    report.aside = content.aside
    if why := unsealed(content):
        report.problems.append(why)


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def repair(
    path: Path, aside: Sequence[ObjectKey] = (), *, begins_anew: bool = False, clock: Clock = SYSTEM_CLOCK
) -> Repaired:
    """Replace the store with a new one of every intact row. The old files are kept, and objects that are set aside stay
    so.

    Its version is above all that were ever acknowledged, so that no watch resumes from a state that is lost.
    """
    found = Salvaged(None, [], []) if begins_anew else salvage(path, _wal(path))
    record = Mark(path.with_name(mark.FILE))
    marked = record.read()
    if not found.rows and not begins_anew:
        raise JettisonError(
            f"there is nothing to be saved in `{path}`: put a copy in its place, or begin anew with --begin-anew"
        )
    store = found.seal.store if found.seal else marked[0] if marked and not begins_anew else new_uid()
    newest = max([found.seal.version if found.seal else 0, *(row.version for row in found.rows)])
    acknowledged = max([newest, marked[1] if marked else 0, *(each.version for each in found.damaged)])
    lost = sorted((storage, *key) for storage, key in lost_objects(Content(_NONE, found.rows, found.damaged, [], 0)))
    gone = set(lost)
    rows = [row for row in found.rows if (row.storage, row.namespace, row.name) not in gone]
    older = [row for row in found.rows if (row.storage, row.namespace, row.name) in gone]
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    os.close(open_private(fresh))
    with closing(connect(fresh)) as connection:
        new_tables(connection, Seal(store, 0, 0, 0, 0))
        connection.execute("BEGIN")
        write_rows(connection, rows, [row.checksum for row in rows])
        quarantine(connection, [*lost, *aside], found.damaged, older)
        seal = seal_all(connection, store, acknowledged + 1)
        connection.execute("COMMIT")
    kept = _keep(path, clock.now_ns())
    fresh.replace(path)
    record.path.unlink(missing_ok=True)
    record.open(seal.store, seal.version)
    record.close()
    counted = len(found.rows) + len(found.damaged)
    missing = max(found.seal.rows - counted, 0) if found.seal else None
    return Repaired(path, kept, len(rows), seal.version, found.damaged, [*lost, *aside], missing, newest, acknowledged)


_NONE: Final = Seal("", 0, 0, 0, 0)


def _keep(path: Path, now_ns: int) -> Path | None:
    """The old store under another name, its WAL beside it: the new one must not find that."""
    if not path.exists():
        _wal(path).unlink(missing_ok=True)
        return None
    now = datetime.fromtimestamp(now_ns // 10**9, UTC).strftime("%Y%m%dT%H%M%S")
    names = (path.with_name(f"{path.name}.damaged-{now}{suffix}") for suffix in ("", *(f".{n}" for n in range(1, 100))))
    kept = next(each for each in names if not each.exists())
    os.link(path, kept)
    tighten(kept)
    if _wal(path).exists():
        _wal(path).replace(_wal(kept))
    return kept
