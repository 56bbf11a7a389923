"""The log on disk: SQLite in WAL mode, one row per write, in the order of their versions.

Appending to a table by its growing key is the cheapest write that SQLite has: no index, always the last page. A row
that is superseded and too old to be watched is deleted in the transaction of some later write.

SQLite trusts what it reads, so damage has to be noticed here. Every row carries a checksum. The *seal*, one row of
another table that is written in every transaction, holds the number of rows and the XOR of their checksums: it
shows when a damaged page hides a row, or brings one back. A file beside the store holds the newest version that was
acknowledged (`mark`): it shows when a write-ahead log was removed, or an older copy put in place of the store.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from jettison.apiserver.storage import mark
from jettison.apiserver.storage.flush import KernelFlush, Report
from jettison.apiserver.storage.mark import Mark
from jettison.apiserver.storage.private_files import open_private, tighten
from jettison.errors import JettisonError

FILE: Final = "store.sqlite"
WITNESSES: Final = ("tokens.json", "pki/ca.pem", mark.FILE, f"{FILE}-wal")
"""Files that exist only beside a store that was used."""

_FORM: Final = 2
"""The version of the tables, in SQLite's `user_version`; the first had no checksums, and no number."""

_DELETE: Final = "DELETE FROM log WHERE version IN (SELECT value FROM json_each(?))"
_PAGE_BYTES: Final = 4096
_MOST_PAGES: Final = 1000
"""Of the write-ahead log, about, before its content is moved into the file: as many as SQLite takes by default."""
_COLUMNS: Final = "version, storage, namespace, name, is_removal, body, checksum"
_SCHEMA: Final = """
CREATE TABLE log (
    version INTEGER PRIMARY KEY, storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    is_removal INTEGER NOT NULL, body BLOB NOT NULL, checksum INTEGER NOT NULL DEFAULT 0
) STRICT;
"""
_SCHEMA_BESIDE: Final = f"""
CREATE TABLE seal (
    id INTEGER PRIMARY KEY, store TEXT NOT NULL, version INTEGER NOT NULL, oldest INTEGER NOT NULL,
    rows INTEGER NOT NULL, digest INTEGER NOT NULL, checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY, why TEXT NOT NULL, version, storage, namespace, name, is_removal, body, checksum
);
CREATE TABLE aside (
    storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (storage, namespace, name)
) STRICT;
PRAGMA user_version = {_FORM};
"""
_MIGRATION: Final = """
ALTER TABLE log ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE log SET checksum = checksum_of(
    version, CAST(storage AS BLOB), CAST(namespace AS BLOB), CAST(name AS BLOB), is_removal, body);
"""


ObjectKey = tuple[str, str, str]
"""Storage, namespace and name."""


class Row(NamedTuple):
    """One write. A removal carries the object as it was last, because watchers are told."""

    version: int
    storage: str
    namespace: str
    name: str
    is_removal: bool
    body: bytes

    @property
    def checksum(self) -> int:
        """Over everything in it: a flipped bit changes it, and so does every burst of up to 32 bits."""
        head = f"{self.version}\0{self.storage}\0{self.namespace}\0{self.name}\0{self.is_removal:d}\0"
        return crc32(self.body, crc32(head.encode()))


class Seal(NamedTuple):
    """What the file as a whole must be: which store, up to which version, and all of its rows."""

    store: str
    version: int
    oldest: int
    rows: int
    digest: int

    @property
    def checksum(self) -> int:
        """Over everything in it, as for a row."""
        return crc32(repr(tuple(self)).encode())

    def after(self, added: Sequence[int], removed: Sequence[int], version: int, oldest: int) -> Seal:
        """The seal after rows with these checksums were added and removed."""
        digest = self.digest
        for each in (*added, *removed):
            digest ^= each
        return Seal(self.store, version, oldest, self.rows + len(added) - len(removed), digest)


class Damaged(NamedTuple):
    """A row that is not what was written: its columns as they are found, which may be of any type."""

    why: str
    columns: tuple[Any, ...]

    @property
    def version(self) -> int:
        """SQLite's own key of the row, always a number."""
        version: int = self.columns[0]
        return version


class Content(NamedTuple):
    """Everything that is in the file. `digest` is the XOR of the checksums of its rows, and `aside` are the objects
    that were set aside earlier.
    """

    seal: Seal
    rows: list[Row]
    damaged: list[Damaged]
    aside: list[ObjectKey]
    digest: int


def read_row(columns: tuple[Any, ...]) -> Row | Damaged:
    """The row, if it is the one that was written."""
    version, storage, namespace, name, is_removal, body, checksum = columns
    are_bytes = type(storage) is type(namespace) is type(name) is type(body) is bytes
    if not are_bytes or is_removal not in (0, 1):
        return Damaged("its columns have other types", columns)
    try:
        row = Row(version, storage.decode(), namespace.decode(), name.decode(), bool(is_removal), body)
    except UnicodeDecodeError:
        return Damaged("its key is no text", columns)
    if row.checksum != checksum:
        return Damaged("its checksum does not match", columns)
    return row


class Log:
    """The file. `append` and `commit` may run in the event loop; `persist` and `rescue` wait for the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pending: Seal | None = None
        # Versions that the transaction under way is to delete.
        self._doomed: list[int] = []
        # Of the write-ahead log, since it was last moved into the file; about, because SQLite does not tell.
        self._pages = 0
        # Why nothing can be written any more; empty if it can.
        self.failure = ""
        may_begin = _may_begin(path)
        # SQLite gives the files that it makes beside the store the mode that the store has.
        os.close(open_private(path))
        for suffix in ("-wal", "-shm"):
            tighten(path.with_name(f"{path.name}{suffix}"))
        try:
            self._connection = connect(path)
            try:
                _prepare(self._connection, path, may_begin=may_begin)
                self.seal = _read_seal(self._connection, path)
                self._wal = os.open(path.with_name(f"{path.name}-wal"), os.O_RDWR | os.O_CLOEXEC)
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        except OSError as error:
            raise JettisonError(f"cannot open the write-ahead log of `{path}`: {error.strerror}") from error
        self._mark = Mark(path.with_name(mark.FILE))
        self._kernel = _kernel_flush(self._wal)

    def read(self) -> Content:
        """All of it, checked as a whole; raises if anything but single rows is wrong."""
        try:
            problems = [each for (each,) in self._connection.execute("PRAGMA quick_check(5)")]
            if problems != [b"ok"]:
                raise damaged_store(self.path, b"; ".join(problems).decode("utf-8", "replace"))
            content = read_content(self._connection, self.seal)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _unreadable(self.path, error) from error
        if why := unsealed(content):
            raise damaged_store(self.path, why)
        if why := self._mark.contradiction(self.seal.store, self.seal.version):
            raise damaged_store(self.path, why)
        self._mark.open(self.seal.store, self.seal.version)
        return content

    def set_aside(self, lost: Sequence[ObjectKey], damaged: Sequence[Damaged], older: Sequence[Row]) -> None:
        """Move rows into the quarantine, for good: the damaged ones, and what is older of the objects that are lost.

        From then on the history begins with the next version: no watch can be told what became of those objects.
        """
        version = self.seal.version + 1
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            gone = [(version,) for version in [*(each.version for each in damaged), *(each.version for each in older)]]
            self._connection.executemany("DELETE FROM log WHERE version = ?", gone)
            quarantine(self._connection, lost, damaged, older)
            seal = seal_all(self._connection, self.seal.store, version)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise JettisonError(f"cannot set damaged rows of `{self.path}` aside: {error}") from error
        self.seal = seal
        self._mark.write(seal.store, seal.version)

    def append(
        self,
        rows: Sequence[Row],
        superseded: Sequence[tuple[int, int]],
        oldest: int,
        written: Sequence[ObjectKey] = (),
    ) -> list[int]:
        """Begin a transaction and put everything into it. The answer is the checksums of the rows. `superseded` are
        versions with theirs, which `commit` deletes; an object of `written` is set aside no longer.
        """
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        added = [each.checksum for each in rows]
        connection.executemany(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*row, each) for row, each in zip(rows, added, strict=True)],
        )
        self._doomed = [version for version, _ in superseded]
        if written:
            connection.executemany("DELETE FROM aside WHERE storage = ? AND namespace = ? AND name = ?", written)
        gone = [checksum for _, checksum in superseded]
        self._pending = self.seal.after(added, gone, max(rows[-1].version, self.seal.version), oldest)
        # Besides the rows: the seal, and pages above those that change. Of rows that go, two share a page.
        self._pages += 4 + sum(len(row.body) for row in rows) // _PAGE_BYTES + len(superseded) // 2
        changed = (*self._pending[1:], self._pending.checksum)
        connection.execute("UPDATE seal SET version = ?, oldest = ?, rows = ?, digest = ?, checksum = ?", changed)
        return added

    @property
    def is_long(self) -> bool:
        """Whether the write-ahead log should be moved into the file, which only `persist` does: it takes some 10 ms."""
        return self._pages >= _MOST_PAGES

    def commit(self) -> None:
        """Give the transaction to the kernel, in 60 µs. It is on disk after the next flush."""
        if self._doomed:
            self._connection.execute(_DELETE, (msgspec.json.encode(self._doomed).decode(),))
            self._doomed = []
        self._connection.execute("COMMIT")
        if self._pending is not None:
            self.seal, self._pending = self._pending, None

    def begin_flush(self, report: Report) -> bool:
        """Have the kernel flush what is committed, and call `report` then; False where it does not do that."""
        if self._kernel is None:
            return False
        try:
            self._kernel.begin(report)
        except OSError:
            return False
        return True

    def acknowledge(self) -> None:
        """Everything that is committed is on disk."""
        self._mark.write(self.seal.store, self.seal.version)

    def persist(self) -> None:
        """Commit what is not committed yet, flush it, and tidy up if it is time. May take long: it is for a thread."""
        if self._connection.in_transaction:
            self.commit()
        try:
            os.fdatasync(self._wal)
        except OSError:
            self.rescue()
            return
        if self.is_long:
            # Where that fails it is tried again: the content is safe where it is.
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                self._pages = 0
        self.acknowledge()

    def rescue(self) -> None:
        """After a flush that failed. The kernel forgets such an error, and what it could not write, so the same flush
        would succeed next. All that is committed is moved into the file instead; if that fails as well, nothing more
        may be written on top of it.
        """
        try:
            is_busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if is_busy:
                raise sqlite3.OperationalError("the write-ahead log is in use")
        except sqlite3.Error as error:
            self.failure = f"the disk did not take what was written: {error}; see to it, then restart the server"
            raise
        self._pages = 0
        self.acknowledge()

    def tidy(self) -> bool:
        """Move what is in the WAL into the file, so that it begins again; False if there is no room for that."""
        try:
            is_busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.Error:
            return False
        return not is_busy

    def rollback(self) -> None:
        """Forget the transaction, if one is open: SQLite itself ends it after some errors."""
        # Where even that fails, the next BEGIN does, and every write is refused until it succeeds.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Nothing is lost without this; it only removes the WAL."""
        if self._kernel is not None:
            self._kernel.close()
        os.close(self._wal)
        self._connection.close()
        self._mark.close()


def _kernel_flush(descriptor: int) -> KernelFlush | None:
    """None where the kernel has none, or a sandbox forbids it: then a thread waits for the disk."""
    try:
        return KernelFlush(descriptor)
    except OSError:
        return None


def connect(path: Path) -> sqlite3.Connection:
    """Open the file for one process. Texts come as bytes: what is damaged may not be text."""
    # Two threads use the connection, never both at once: the store waits for `persist` before it appends again.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.text_factory = bytes
    # No other process may look in, so none needs the 32 KiB of shared memory beside the WAL, which a full disk
    # would refuse at a start.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def damaged_store(path: Path, why: str) -> JettisonError:
    """The error for a file that is damaged as a whole, with what to do about it."""
    folder = path.parent.parent
    return JettisonError(
        f"the store `{path}` is damaged: {why}; `jettison store check --state-dir {folder}` tells what is left,"
        f" `jettison store repair --state-dir {folder}` goes on with that"
    )


def _unreadable(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> JettisonError:
    """The file may be intact, and the disk full, the file locked or its mode wrong. SQLite's message about a damaged
    schema quotes from it, and may not be UTF-8.
    """
    # The lower byte is the kind. An error without a code is ours; SQLITE_ERROR means unexpected tables.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return damaged_store(path, str(error))
    return JettisonError(f"cannot open the store `{path}`: {error}")


def _may_begin(path: Path) -> bool:
    """Whether there may have been no store before; raises where there was one, and it is gone."""
    witness = next((path.parent / each for each in WITNESSES if (path.parent / each).exists()), None)
    try:
        if path.stat().st_size:
            return witness is None
        state = "empty"
    except FileNotFoundError:
        state = "missing"
    except OSError as error:
        raise JettisonError(f"cannot open the store `{path}`: {error.strerror}") from error
    if witness is not None:
        raise JettisonError(
            f"the store `{path}` is {state}, but a cluster lived here: `{witness}` is there; put the store back, or"
            f" begin anew on purpose with `jettison store repair --begin-anew --state-dir {path.parent.parent}`"
        )
    return True


def _prepare(connection: sqlite3.Connection, path: Path, *, may_begin: bool) -> None:
    """The tables, in their present form."""
    (form,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if form > _FORM:
        said = f"the store `{path}` has form {form}, and this version of jettison knows {_FORM} at most"
        raise JettisonError(f"{said}: use the newer version that wrote it")
    connection.execute("PRAGMA journal_mode = WAL")
    # A commit would wait for the disk with FULL, and for the move into the file now and then. Both are for others to
    # do: what is committed is acknowledged after a flush of the write-ahead log, which is all that FULL adds.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    if form == _FORM:
        return
    if form == 0 and not tables and may_begin:
        new_tables(connection, Seal(new_uid(), 0, 0, 0, 0))
    elif form == 0 and b"log" in tables:
        _migrate(connection)
    else:
        raise sqlite3.DatabaseError("it has no table of objects")


def new_uid() -> str:
    """The id of a new store."""
    return str(uuid.uuid4())


def new_tables(connection: sqlite3.Connection, seal: Seal) -> None:
    """An empty store, all at once: a start that is cut short leaves nothing of it."""
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {_SCHEMA_BESIDE}")
    write_seal(connection, seal)
    connection.execute("COMMIT")
    # From here on there is something in the file itself, whatever becomes of its WAL.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _migrate(connection: sqlite3.Connection) -> None:
    """From the version without checksums. Rows are trusted as far as they are JSON."""

    def checksum(version: int, storage: bytes, namespace: bytes, name: bytes, is_removal: int, body: bytes) -> int:
        try:
            msgspec.json.decode(body)
            row = Row(version, storage.decode(), namespace.decode(), name.decode(), bool(is_removal), body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return -1
        return row.checksum

    connection.create_function("checksum_of", 6, checksum, deterministic=True)
    connection.executescript(f"BEGIN IMMEDIATE; {_MIGRATION} {_SCHEMA_BESIDE}")
    (oldest,) = connection.execute("SELECT oldest FROM compaction").fetchone()
    found = list(connection.execute("SELECT version, checksum FROM log"))
    seal = Seal(new_uid(), 0, 0, 0, 0).after(
        [checksum for _, checksum in found], (), max((version for version, _ in found), default=oldest), oldest
    )
    write_seal(connection, seal)
    connection.execute("DROP TABLE compaction")
    connection.execute("COMMIT")


def write_rows(connection: sqlite3.Connection, rows: Iterable[Row], checksums: Iterable[int]) -> None:
    """In the transaction that is open; the seal is left as it is."""
    columns = [(*row, each) for row, each in zip(rows, checksums, strict=True)]
    connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)", columns)


def quarantine(
    connection: sqlite3.Connection, lost: Iterable[ObjectKey], damaged: Iterable[Damaged], older: Iterable[Row]
) -> None:
    """Keep what is left of objects that are lost, as it is found; in the transaction that is open."""
    moved = [(each.why, *each.columns) for each in damaged]
    moved += [("a newer state of it is damaged", *each, each.checksum) for each in older]
    connection.executemany("INSERT INTO quarantine VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", moved)
    connection.executemany("INSERT OR IGNORE INTO aside VALUES (?, ?, ?)", lost)


def seal_all(connection: sqlite3.Connection, store: str, version: int) -> Seal:
    """Seal what the log has now. Its history begins with this version: no watch can resume from an earlier one."""
    checksums = [checksum for (checksum,) in connection.execute("SELECT checksum FROM log")]
    seal = Seal(store, 0, 0, 0, 0).after(checksums, (), version, version)
    write_seal(connection, seal)
    return seal


def write_seal(connection: sqlite3.Connection, seal: Seal) -> None:
    """In the transaction that is open."""
    connection.execute("INSERT OR REPLACE INTO seal VALUES (1, ?, ?, ?, ?, ?, ?)", (*seal, seal.checksum))


def _read_seal(connection: sqlite3.Connection, path: Path) -> Seal:
    found = find_seal(connection)
    if found is None:
        raise damaged_store(path, "the seal, which tells how many rows there are, is not what was written")
    return found


def find_seal(connection: sqlite3.Connection) -> Seal | None:
    """The seal, if it is the one that was written."""
    columns = connection.execute("SELECT store, version, oldest, rows, digest, checksum FROM seal").fetchone()
    if columns is None or not isinstance(columns[0], bytes):
        return None
    seal = Seal(columns[0].decode("utf-8", "replace"), *columns[1:5])
    return seal if seal.checksum == columns[5] else None


def read_content(connection: sqlite3.Connection, seal: Seal) -> Content:
    """All rows, and which of them are damaged."""
    rows: list[Row] = []
    damaged: list[Damaged] = []
    digest = 0
    for columns in connection.execute(f"SELECT {_COLUMNS} FROM log ORDER BY version"):  # noqa: S608  our own words
        row = read_row(columns)
        if isinstance(row, Row):
            rows.append(row)
            digest ^= columns[-1]
        else:
            damaged.append(row)
    aside = [
        (shown_text(storage), shown_text(namespace), shown_text(name))
        for storage, namespace, name in connection.execute("SELECT storage, namespace, name FROM aside")
    ]
    return Content(seal, rows, damaged, aside, digest)


def unsealed(content: Content) -> str:
    """Why these cannot be all the rows that were written, or not only those; empty if they can."""
    count = len(content.rows) + len(content.damaged)
    if count != content.seal.rows:
        return f"it has {count} rows, and {content.seal.rows} were written"
    if len(content.damaged) > max(_MOST_DAMAGED, count // 10):
        return f"{len(content.damaged)} of its {count} rows are not what was written"
    is_other = content.digest != content.seal.digest
    return "its rows are not those that were written" if is_other and not content.damaged else ""


_MOST_DAMAGED: Final = 8
"""If more rows, and more than a tenth, are damaged, the file itself is taken as damaged, and nothing is moved."""


def shown_text(value: object) -> str:
    """A column that should be text, whatever it is."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
