"""The newest version that was acknowledged, in a file beside the store.

A store whose write-ahead log was removed or cut short, or that is an older copy, is consistent in itself: SQLite
goes on from the last transaction that it finds. This file shows that there were others. It is written after each commit
without a wait for the disk, which costs 5 µs: it survives every end of the process, and after a power cut it may be
behind, never ahead.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from jettison.apiserver.storage.private_files import open_private
from jettison.errors import JettisonError
from jettison.manifests.files.plain_files import LARGEST_STATE, read_plain

FILE: Final = "store.mark"
_SLOT: Final = 512
"""A sector: a disk writes it as a whole or not at all."""


class Mark:
    """Two slots, written by turns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._turn = 0

    def read(self) -> tuple[str, int] | None:
        """Which store, and up to which version; None if there is none, or none that can be read."""
        try:
            content = read_plain(self.path, LARGEST_STATE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JettisonError(f"cannot read `{self.path}`: {error.strerror}") from error
        found = [_read_slot(content[at : at + _SLOT]) for at in (0, _SLOT)]
        return max((each for each in found if each is not None), key=lambda each: each[1], default=None)

    def contradiction(self, store: str, version: int) -> str:
        """Why a store that ends with this version cannot be the one that was here last; empty if it can."""
        found = self.read()
        if found is None:
            return ""
        expected, acknowledged = found
        if store != expected:
            return f"it is another store than the one that was here: `{store}`, expected `{expected}`"
        if version < acknowledged:
            return (
                f"it ends with version {version}, and version {acknowledged} was acknowledged: its write-ahead log was"
                " removed or damaged, or an older copy is in its place"
            )
        return ""

    def open(self, store: str, version: int) -> None:
        """Begin to write it. The file gets its final length at once."""
        self._descriptor = open_private(self.path)
        self.write(store, version)
        self.write(store, version)
        # On a full disk the store works without it.
        with suppress(OSError):
            os.fsync(self._descriptor)

    def write(self, store: str, version: int) -> None:
        """In place, so that it needs no room on a full disk. What cannot be written makes the check at the next start
        weaker, and is no reason to refuse a write that is durable.
        """
        text = f"{store} {version}"
        line = f"{text} {crc32(text.encode()):08x}\n".encode()
        with suppress(OSError):
            os.pwrite(self._descriptor, line.ljust(_SLOT), self._turn * _SLOT)
        self._turn = 1 - self._turn

    def close(self) -> None:
        """Close the file; it stays for the next server."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _read_slot(content: bytes) -> tuple[str, int] | None:
    text, _, checksum = content.rstrip().rpartition(b" ")
    store, _, version = text.partition(b" ")
    if checksum != b"%08x" % crc32(text) or not version.isdigit():
        return None
    return store.decode(), int(version)
