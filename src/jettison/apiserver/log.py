"""The log on disk: SQLite in WAL mode, one row per write, in the order of their versions.

Appending to a table by its growing key is the cheapest write that SQLite has: no index, always the last page. A row
that is superseded and too old to be watched is deleted in the transaction of some later write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from jettison.errors import JettisonError

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS log (
    version INTEGER PRIMARY KEY, storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    is_removal INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS compaction (oldest INTEGER NOT NULL) STRICT;
INSERT INTO compaction SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM compaction);
"""


class Row(NamedTuple):
    """One write. A removal carries the object as it was last, because watchers are told."""

    version: int
    storage: str
    namespace: str
    name: str
    is_removal: bool
    body: bytes


class Log:
    """The file. `append` may run in the event loop; `commit` waits for the disk and belongs into a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Two threads use the connection, never both at once: the store waits for `commit` before it appends again.
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            # FULL waits for the disk at every commit; NORMAL would survive kill -9 but not a power cut.
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise JettisonError(f"cannot open the store `{path}`: {error}") from error

    def read(self) -> tuple[int, Iterator[Row]]:
        """The version up to which superseded rows are gone, and all rows that are left."""
        (oldest,) = self._connection.execute("SELECT oldest FROM compaction").fetchone()
        return oldest, map(Row._make, self._connection.execute("SELECT * FROM log ORDER BY version"))

    def append(self, rows: Sequence[Row], superseded: Sequence[int], oldest: int) -> None:
        """Begin a transaction and put everything into it."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
        if superseded:
            connection.executemany("DELETE FROM log WHERE version = ?", [(each,) for each in superseded])
            connection.execute("UPDATE compaction SET oldest = ?", (oldest,))

    def commit(self) -> None:
        """Return when the transaction is on disk."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Forget the transaction, if one is open: SQLite itself ends it after some errors."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Nothing is lost without this; it only tidies the WAL away."""
        self._connection.close()
