"""Reads rows from a file that SQLite no longer opens: page by page, without the structures that lead to the pages.

A row is verified by its checksum, so nothing else in the file has to be trusted: not the tree above the leaves, not
the table of contents, not the checksums of the write-ahead log. What must not come back is a row that was deleted. Only
superseded rows are, all of them of versions up to the seal's `oldest`; so those count only where the newest state of
the file has them, in a page that is not free.

The format is SQLite's (https://www.sqlite.org/fileformat2.html): big-endian, pages counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from struct import unpack_from
from typing import Any, Final, NamedTuple

from jettison.apiserver.storage.log import Damaged, Row, Seal, read_row

_PAGE: Final = 4096
"""SQLite's default, which our stores have; the header that holds it may be damaged."""
_LEAF: Final = 0x0D
_HEADER: Final = 100
_WAL_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_COLUMNS: Final = 7
_INTEGER_BYTES: Final = (0, 1, 2, 3, 4, 6, 8)
_LONGEST_VARINT: Final = 9
_MOST_PAYLOAD: Final = 64 * 2**20

Pages = dict[int, bytes]


class Salvaged(NamedTuple):
    """What is left. `damaged` are rows that existed and whose content is lost."""

    seal: Seal | None
    rows: list[Row]
    damaged: list[Damaged]


def salvage(store: Path, wal: Path) -> Salvaged:
    """Read every intact row."""
    content = store.read_bytes() if store.exists() else b""
    pages = {at // _PAGE + 1: content[at : at + _PAGE] for at in range(0, len(content) - _PAGE + 1, _PAGE)}
    past: dict[int, Row] = {}
    seals: list[Seal] = []
    for changed in _transactions(wal.read_bytes() if wal.exists() else b""):
        before = _read(pages, changed.keys() & pages.keys())
        past.update(before.rows)
        pages.update(changed)
        after = _read(pages, changed.keys())
        past.update(after.rows)
        seals += before.seals + after.seals
    last = _read(pages, pages.keys() - _free(pages))
    seals += last.seals
    seal = max(seals, key=lambda each: each.version, default=None)
    oldest = 0 if seal is None else seal.oldest
    rows = {version: row for version, row in past.items() if version > oldest} | last.rows
    damaged = [each for version, each in last.damaged.items() if version not in rows]
    return Salvaged(seal, [rows[version] for version in sorted(rows)], damaged)


class _Found(NamedTuple):
    rows: dict[int, Row]
    damaged: dict[int, Damaged]
    seals: list[Seal]


def _read(pages: Mapping[int, bytes], numbers: Iterable[int]) -> _Found:
    found = _Found({}, {}, [])
    for number in sorted(numbers):
        for rowid, columns in _records(pages, number):
            if isinstance(columns[1], str):
                continue
            if columns[0] is None and isinstance(columns[2], int):
                seal = Seal(columns[1].decode("utf-8", "replace"), *columns[2:6])
                if seal.checksum == columns[6]:
                    found.seals.append(seal)
                continue
            row = read_row((rowid, *columns[1:]))
            if isinstance(row, Row):
                found.rows[rowid] = row
            elif isinstance(columns[5], bytes):
                found.damaged[rowid] = row
    return found


def _transactions(wal: bytes) -> Iterator[Pages]:
    """The pages that each transaction wrote, in order. The frames of an earlier round of the file have other salts."""
    salts = wal[16:24]
    changed: Pages = {}
    for at in range(_WAL_HEADER, len(wal) - _FRAME_HEADER - _PAGE + 1, _FRAME_HEADER + _PAGE):
        number, size = unpack_from(">II", wal, at)
        if wal[at + 8 : at + 16] != salts:
            continue
        changed[number] = wal[at + _FRAME_HEADER : at + _FRAME_HEADER + _PAGE]
        # The last frame of a transaction tells how many pages the file has.
        if size:
            yield changed
            changed = {}


def _free(pages: Mapping[int, bytes]) -> set[int]:
    """Pages that are in use no longer, as far as they can be found; their content is still there."""
    free: set[int] = set()
    (trunk,) = unpack_from(">I", pages[1], 32) if 1 in pages else (0,)
    while trunk in pages and trunk not in free:
        free.add(trunk)
        following, count = unpack_from(">II", pages[trunk])
        free.update(unpack_from(f">{min(count, _PAGE // 4 - 2)}I", pages[trunk], 8))
        trunk = following
    return free


def _records(pages: Mapping[int, bytes], number: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The rows of a leaf: their keys, and columns of which texts are bytes."""
    page = pages[number]
    start = _HEADER if number == 1 else 0
    if page[start] != _LEAF:
        return
    (count,) = unpack_from(">H", page, start + 3)
    for index in range(min(count, (_PAGE - start - 8) // 2)):
        (at,) = unpack_from(">H", page, start + 8 + 2 * index)
        try:
            length, at = _varint(page, at)
            rowid, at = _varint(page, at)
            columns = _columns(_payload(pages, page, at, length))
        except (IndexError, ValueError):
            continue
        if len(columns) == _COLUMNS:
            yield rowid, columns


def _payload(pages: Mapping[int, bytes], page: bytes, at: int, length: int) -> bytes:
    """Of a cell, with what is on further pages."""
    most, least = _PAGE - 35, (_PAGE - 12) * 32 // 255 - 23
    if length <= most:
        return page[at : at + length]
    if length > min(_MOST_PAYLOAD, len(pages) * _PAGE):
        raise ValueError(length)
    local = least + (length - least) % (_PAGE - 4)
    if local > most:
        local = least
    parts = [page[at : at + local]]
    left = length - local
    following = int.from_bytes(page[at + local : at + local + 4], "big")
    while left > 0 and following in pages:
        page = pages[following]
        parts.append(page[4 : 4 + left])
        left -= _PAGE - 4
        following = int.from_bytes(page[:4], "big")
    return b"".join(parts)


def _columns(payload: bytes) -> tuple[Any, ...]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    columns: list[Any] = []
    at = end
    for kind in kinds:
        value, size = _column(payload, at, kind)
        columns.append(value)
        at += size
    return tuple(columns)


def _column(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, 0
    if kind in (8, 9):
        return kind - 8, 0
    if kind < len(_INTEGER_BYTES):
        size = _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at : at + size], "big", signed=True), size
    if kind < 12:
        raise ValueError(kind)
    size = (kind - 12) // 2
    value = payload[at : at + size]
    if len(value) != size:
        raise ValueError(kind)
    return value, size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT - 1):
        byte = content[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    # The last byte gives all of its bits: 64 in all, of which the first is the sign.
    value = value << 8 | content[at + _LONGEST_VARINT - 1]
    return value - (1 << 64 if value >= 1 << 63 else 0), at + _LONGEST_VARINT
