"""What an API sends, for an agent that guards a node meanwhile: looked through in slices, decoded when it is small.

A pod of a real cluster may have 1.5 MB. To decode 1.35 MB of small maps takes 160 ms and 40 MB, and another thread does
not help: the decoder holds the interpreter. So the text of a list or a watch is first taken apart into its objects,
4 KiB or 250 brackets, commas and texts at a time (0.1 ms), with a pause for the event loop after each slice. Of an
object that is larger than `bounds` allows only the beginning is kept: its name, and why it was refused. Of the others
`managedFields` are dropped undecoded, and so are the longest annotations: a node uses neither, and the API has them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from jettison.errors import ApiError, ManifestError
from jettison.manifests.files import bounds
from jettison.manifests.files.decoding import Wire, decode
from jettison.runtimes.kube.answers import (
    BOOKMARK,
    ERROR,
    NUMBERS,
    AnswerReader,
    Document,
    Page,
    ToldEvents,
    checked,
    is_number,
    newest_states,
    refusal,
)

if TYPE_CHECKING:
    from jettison.runtimes.kube.http import HttpResponse

AT_ONCE: Final = 250
"""Tokens between two pauses."""

SLICE: Final = 4096
"""Bytes between two pauses: a text is one token, however many escape sequences it has."""

SMALL: Final = 8192
"""Bytes that are decoded without being looked through: 0.3 ms, whatever they are."""

LARGEST_NOTES: Final = 64 * 1024
"""Bytes of all annotations that are kept, the shortest first."""

_HEAVIEST_NOTES: Final = LARGEST_NOTES + 100 * bounds.MOST_VALUES
_HEAD: Final = 4096
_LARGEST_REST: Final = 65_536
_MOST_PARTS: Final = 64
_LONGEST_NAME: Final = 1024

_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?+)|[{}\[\],]', re.DOTALL)
_REST_OF_TEXT: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?+)', re.DOTALL)
_QUOTE, _COMMA, _OPENING = ord('"'), ord(","), b"{["

_IDENTITY: tuple[str, ...] = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_KIND_OF_EVENT: Final = re.compile(rb'\{\s*"type"\s*:\s*"(\w+)"')
# Go writes these first, before everything that can be long.
_METADATA: Final = re.compile(rb'"metadata"\s*:\s*\{\s*')
_SCALAR: Final = re.compile(rb'"(\w+)"\s*:\s*("[^"\\]{0,1000}"|-?\d{1,18}|true|false|null)\s*[,}]\s*')


class _Event(Wire):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _Name(Wire):
    name: str = ""


class _Containers(Wire):
    containers: list[_Name] | None = None


_EVENT: Final = msgspec.json.Decoder(_Event)
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANYTHING: Final = msgspec.json.Decoder()
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_CONTAINERS: Final = msgspec.json.Decoder(_Containers)


class TooLarge(ManifestError):  # noqa: N818  a refusal, as `PodGone` is
    """Larger than `bounds` allows."""


class Piece(NamedTuple):
    """The text of one object, or its beginning and why there is no more of it."""

    data: bytes
    why: str = ""


class _Mode(Enum):
    """Where in the text we are."""

    REST = auto()
    BETWEEN = auto()
    OBJECT = auto()


class Splitter:
    """Finds the objects in text that comes in chunks: one after another, or those in the array of a list. `has_lines`:
    each is a line, as in a watch. It never holds more than one object of the largest size.
    """

    def __init__(self, *, is_list: bool = False, has_lines: bool = False) -> None:
        self._is_list = is_list
        self._has_lines = has_lines
        self._mode = _Mode.REST if is_list else _Mode.BETWEEN
        # How deep the place of the objects is.
        self._base = 2 if is_list else 0
        self._depth = self.values = 0
        self._is_in_text = False
        # Half of an escape sequence.
        self._carried = b""
        self._held = bytearray()
        self._why = ""
        self.rest = bytearray()
        """The list without its objects."""

    def take(self, chunk: bytes) -> Iterator[Piece | None]:
        """The objects that end here; None where others should have their turn."""
        begin = 0
        if self._mode is _Mode.BETWEEN and self._has_lines:
            while (end := chunk.find(b"\n", begin, begin + SMALL)) >= 0:
                if line := chunk[begin:end].strip():
                    yield Piece(line)
                begin = end + 1
        for at in range(begin, len(chunk), SLICE):
            part = self._carried + chunk[at : at + SLICE]
            self._carried = b""
            rest = yield from self._look_through(part)
            self._put_away(part[rest : len(part) - len(self._carried)])
            yield None

    def _look_through(self, chunk: bytes) -> Generator[Piece | None, None, int]:
        """Returns where the part begins that has not been put away."""
        begin = position = 0
        if self._is_in_text:
            position = self._text_until(_REST_OF_TEXT.match(chunk), chunk)
        for count, found in enumerate(_TOKENS.finditer(chunk, position) if not self._is_in_text else (), 1):
            token = chunk[found.start()]
            if token == _QUOTE:
                self._text_until(found, chunk)
            elif token == _COMMA:
                self.values += 1
            elif token in _OPENING:
                begin = self._opened(chunk, begin, found)
            else:
                self._depth = max(0, self._depth - 1)
                if self._mode is _Mode.OBJECT and self._depth == self._base:
                    self._put_away(chunk[begin : found.end()])
                    yield self._finished()
                elif self._mode is _Mode.BETWEEN and self._is_list:
                    self._mode, begin = _Mode.REST, found.start()
            if count % AT_ONCE == 0:
                yield None
        return begin

    def _text_until(self, found: re.Match[bytes] | None, chunk: bytes) -> int:
        assert found is not None
        self._is_in_text = not found[1]
        if self._is_in_text:
            self._carried = chunk[found.end() :]
        return found.end()

    def _opened(self, chunk: bytes, begin: int, found: re.Match[bytes]) -> int:
        self._depth += 1
        self.values += 1
        if self._mode is _Mode.BETWEEN:
            self._mode, self.values = _Mode.OBJECT, 1
            return found.start()
        if self._mode is _Mode.REST and self._depth == self._base and found[0] == b"[":
            self._put_away(chunk[begin : found.end()])
            self._mode = _Mode.BETWEEN
        return begin

    def _put_away(self, part: bytes) -> None:
        if self._mode is _Mode.OBJECT:
            self._hold(part)
        elif self._mode is _Mode.REST:
            self.rest += part
            if len(self.rest) > _LARGEST_REST:
                raise TooLarge(f"a list without its objects has more than {_LARGEST_REST} bytes")

    def _hold(self, part: bytes) -> None:
        if len(self._held) + len(part) > bounds.LARGEST_OBJECT:
            self._why = self._why or f"more than {bounds.LARGEST_OBJECT} bytes"
        if self.values > bounds.MOST_OBJECT_VALUES:
            self._why = self._why or f"more than {bounds.MOST_OBJECT_VALUES} values"
        if self._why:
            del self._held[_HEAD:]
            part = part[: _HEAD - len(self._held)]
        self._held += part

    def _finished(self) -> Piece:
        piece = Piece(bytes(self._held), self._why)
        self._held, self._why, self._mode = bytearray(), "", _Mode.BETWEEN
        return piece


class BoundedAnswers(AnswerReader):
    """For a client whose event loop must not be held up. An object that is too large has its name, and why under
    `bounds.REFUSED`; one that does not even say its name is left out of lists and watches.
    """

    # A list shrinks to a hundredth, so that one compressed chunk would be megabytes.
    encoding = "identity"
    largest_object = bounds.LARGEST_OBJECT
    largest_page = 32 * 1024 * 1024
    largest_refusal = 16_384
    # The pods of one node: 110 of a usual one, and those that have ended. 100,000 took 400 MB.
    most_objects = 5000
    # 5,000 objects of 500 kB would be 2.5 GB. A pod of a real cluster takes 20 kB without its managedFields.
    most_weight = 128 * 2**20

    async def document(self, response: HttpResponse, source: str) -> Document:
        """The object that the server sent."""
        piece = await _whole(response)
        if piece is None:
            raise ManifestError(f"{source}: expected an object")
        if not piece.why and len(piece.data) <= SMALL:
            return decode(_OBJECT, piece.data, source)
        document = await _read(piece.data, piece.why, source, is_object=False)
        if document is None:
            raise TooLarge(f"{source}: {piece.why}")
        return document

    async def page(self, response: HttpResponse, source: str) -> Page:
        """A list, object by object."""
        splitter = Splitter(is_list=True)
        items: list[Document] = []
        size = 0
        async for piece in _pieces(response, splitter):
            size += len(piece.data)
            if size > self.largest_page or len(items) >= self.most_objects:
                most = f"{self.largest_page} bytes or {self.most_objects} objects"
                raise TooLarge(f"{source}: more than {most} in one list")
            item = await _read(piece.data, piece.why, source)
            if item is not None:
                items.append(item)
        return Page(items, decode(_OBJECT, bytes(splitter.rest), source).get("metadata") or {})

    async def events(self, response: HttpResponse) -> AsyncIterator[ToldEvents]:
        """What a watch tells, as it comes together."""
        splitter = Splitter(has_lines=True)
        async for chunk in response.chunks():
            told: ToldEvents = []
            async for piece in _slices(splitter, chunk):
                if (event := await _event(piece)) is not None:
                    told.append(event)
            if told:
                yield [(kind, told[place][1]) for place, kind in newest_states(map(_named, told))]

    async def refusal(self, response: HttpResponse) -> ApiError:
        """Why the server refused, as far as it takes no more than 16 KiB to say so."""
        data = bytearray()
        async for chunk in response.chunks():
            data += chunk[: self.largest_refusal - len(data)]
        return refusal(response.status, bytes(data))


async def _whole(response: HttpResponse) -> Piece | None:
    """The first object; what is short is not looked through."""
    splitter, found = Splitter(), None
    begun, is_short = b"", True
    async for chunk in response.chunks():
        begun += chunk
        if is_short and len(begun) <= SMALL:
            continue
        if found is None:
            async for piece in _slices(splitter, begun):
                found = found or piece
        begun, is_short = b"", False
    return Piece(begun) if is_short else found


async def _pieces(response: HttpResponse, splitter: Splitter) -> AsyncIterator[Piece]:
    async for chunk in response.chunks():
        async for piece in _slices(splitter, chunk):
            yield piece


async def _slices(splitter: Splitter, chunk: bytes) -> AsyncIterator[Piece]:
    for piece in splitter.take(chunk):
        await asyncio.sleep(0)
        if piece is not None:
            yield piece


def _named(event: tuple[str, Document]) -> tuple[str, str, str]:
    kind, document = event
    metadata = document.get("metadata") or {}
    return kind, metadata.get("namespace") or "", metadata.get("name") or ""


async def _event(piece: Piece) -> tuple[str, Document] | None:
    kind, data, why = "", piece.data, piece.why
    if not why:
        try:
            event = decode(_EVENT, data, "watch")
            kind, data = event.type, bytes(event.object)
            await _pause(data)
        except ManifestError as error:
            why = str(error)
    if why and (found := _KIND_OF_EVENT.match(data)) is not None:
        kind = found[1].decode()
    document = await _read(data, why, "watch", is_object=kind not in (BOOKMARK, ERROR))
    return None if document is None else (kind, document)


async def _read(data: bytes, why: str, source: str, *, is_object: bool = True) -> Document | None:
    """One object without what no node needs; None where it cannot be read and does not even say its name.

    Others have no name and no version: an answer to something that was done, or a bookmark.
    """
    if not why:
        try:
            found = await _trimmed(data, source)
            if found is None or is_object:
                return found if found is None else _identified(found, source)
            del found[bounds.WEIGHT]
            return found
        except ManifestError as error:
            why = str(error)
    return _refused(_identity_at_the_beginning(data), why)


def _identified(found: Document, source: str) -> Document:
    metadata = checked(found, source)["metadata"]
    if not metadata.get("uid") or not metadata.get("resourceVersion"):
        raise ManifestError(f"{source}: the server sends an object without a uid or a version")
    return found


async def _trimmed(data: bytes, source: str) -> Document | None:
    parts = decode(_PARTS, data, source)
    await _pause(data)
    metadata = decode(_PARTS, parts.pop("metadata", b"{}"), source)
    await _pause(data)
    metadata.pop("managedFields", None)
    notes = metadata.pop("annotations", None)
    try:
        if len(parts) > _MOST_PARTS or len(metadata) > _MOST_PARTS:
            raise TooLarge(f"more than {_MOST_PARTS} fields")
        read = {key: await _value(part, f"metadata.{key}") for key, part in metadata.items()}
        if notes is not None:
            read["annotations"] = await _notes(notes)
        found = {"metadata": read} | {key: await _value(part, key) for key, part in parts.items()}
    except TooLarge as error:
        identity = {key: metadata[key] for key in _IDENTITY if key in metadata and len(metadata[key]) <= _LONGEST_NAME}
        known = {key: decode(_ANYTHING, part, source) for key, part in identity.items()}
        status = parts.get("status", b"{}")
        is_short = len(status) <= SMALL
        refused = _refused(known, str(error), parts.get("spec"), decode(_ANYTHING, status, source) if is_short else {})
        return None if refused is None else {**refused, bounds.WEIGHT: _weight(status) if is_short else 0}
    found.pop(bounds.REFUSED, None)
    kept = sum(map(_weight, (*parts.values(), *metadata.values())))
    found[bounds.WEIGHT] = kept + min(_weight(notes or b""), _HEAVIEST_NOTES)
    return found


def _weight(data: bytes | msgspec.Raw) -> int:
    """What it takes once it is decoded, about: a map of one key 184 bytes, a key with its text 100."""
    text = bytes(data)
    return len(text) + 200 * text.count(b"{") + 80 * text.count(b"[") + 100 * text.count(b",")


async def _value(data: msgspec.Raw, where: str) -> Any:
    if len(data) > SMALL:
        if len(data) > bounds.LARGEST_DOCUMENT:
            raise TooLarge(f"{where}: more than {bounds.LARGEST_DOCUMENT} bytes")
        await _check_values(bytes(data), where)
        await _pause(data)
    value = decode(_ANYTHING, data, where)
    if len(data) > SMALL:
        try:
            await asyncio.to_thread(bounds.check_memory, value, where)
        except ManifestError as error:
            raise TooLarge(str(error)) from error
    return value


async def _pause(data: bytes | msgspec.Raw) -> None:
    """To step over the parts of a large object takes 0.3 ms each time."""
    if len(data) > SMALL:
        await asyncio.sleep(0)


async def _check_values(data: bytes, where: str) -> None:
    """Most are few by what counting bytes tells; texts may hold brackets and commas."""
    most = bounds.MOST_VALUES
    if data.count(b",") + data.count(b"{") + data.count(b"[") < most:
        return
    splitter = Splitter()
    for _ in splitter.take(data):
        if splitter.values > most:
            raise TooLarge(f"{where}: more than {most} values")
        await asyncio.sleep(0)


async def _notes(data: msgspec.Raw) -> Document | None:
    """Annotations: the shortest, as many as fit. What the agent itself looks for in them is short."""
    if len(data) <= LARGEST_NOTES:
        notes: Document | None = await _value(data, "metadata.annotations")
        return notes
    await _check_values(bytes(data), "metadata.annotations")
    await _pause(data)
    kept: Document = {}
    size = 0
    for count, (key, part) in enumerate(sorted(decode(_PARTS, data, "annotations").items(), key=_size), 1):
        size += len(key) + len(part)
        if size > LARGEST_NOTES:
            break
        kept[key] = decode(_ANYTHING, part, "annotations")
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)
    return kept


def _size(item: tuple[str, msgspec.Raw]) -> int:
    return len(item[0]) + len(item[1])


def _refused(
    identity: Mapping[str, Any], why: str, spec: msgspec.Raw | None = None, status: object = None
) -> Document | None:
    known = {key: value for key, value in identity.items() if key not in NUMBERS or is_number(value)}
    if not all(isinstance(known.get(key), str) for key in ("name", "uid", "resourceVersion")):
        return None
    names: list[_Name] = []
    if spec is not None:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            names = _CONTAINERS.decode(spec).containers or []
    return {
        "metadata": known,
        "spec": {"containers": [{"name": each.name} for each in names[:_MOST_PARTS]]},
        "status": status if isinstance(status, dict) else {},
        bounds.REFUSED: why,
    }


def _identity_at_the_beginning(data: bytes) -> Document:
    """As far as there are plain values in front."""
    known: Document = {}
    begin = _METADATA.search(data)
    position = len(data) if begin is None else begin.end()
    while (found := _SCALAR.match(data, position)) is not None:
        position = found.end()
        if (name := found[1].decode()) in _IDENTITY:
            known[name] = decode(_ANYTHING, found[2], "metadata")
    return known
