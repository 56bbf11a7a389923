"""What came back, as values and errors of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, Conflict, JettisonError, ManifestError, NotFound
from jettison.manifests.files.bounds import WEIGHT
from jettison.manifests.files.decoding import Wire, decode

if TYPE_CHECKING:
    from jettison.runtimes.kube.http import HttpResponse

Document = dict[str, Any]
ToldEvents = list[tuple[str, Document]]
"""ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object."""

BOOKMARK: Final = "BOOKMARK"
DELETED: Final = "DELETED"
ERROR: Final = "ERROR"
_MODIFIED: Final = "MODIFIED"
_KINDS: Final = frozenset({"ADDED", _MODIFIED, DELETED, BOOKMARK})
_MANAGED: Final = b'"managedFields":'
_DOCUMENT: Final = msgspec.json.Decoder(dict[str, Any])
_MOST_SHOWN: Final = 200
_PARTS: Final = ("spec", "status")
_MAPS: Final = ("labels", "annotations")
_TEXTS: Final = ("namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
NUMBERS: Final = ("generation", "deletionGracePeriodSeconds")
# Lists of objects that nodes and controllers look into.
_LISTS: Final = {
    "metadata": ("ownerReferences",),
    "spec": ("taints",),
    "status": ("conditions", "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"),
}
_CONDITIONS: Final = "status.conditions"
_PLAIN: Final = frozenset((str, int, type(None)))
_TEXT_OR_NONE: Final = frozenset((str, type(None)))
_OBJECT_OR_NONE: Final = frozenset((dict, type(None)))
# What a proxy in between answers has no Status; then the code must say it.
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class _Metadata(Wire):
    name: str | None = None
    namespace: str | None = None
    managed_fields: msgspec.Raw = msgspec.Raw(b"")


class _Object(Wire):
    metadata: _Metadata | None = None


class _Event(Wire):
    """An event as far as it has to be known before its object is decoded."""

    type: str | None = None
    object: _Object | None = None

    @property
    def told(self) -> tuple[str, str, str]:
        metadata = _NO_METADATA if self.object is None else self.object.metadata or _NO_METADATA
        return self.type or "", metadata.namespace or "", metadata.name or ""


class _List(Wire):
    items: list[Document] | None = None
    metadata: Document | None = None


_LIST: Final = msgspec.json.Decoder(_List)
_NO_METADATA: Final = _Metadata()
_EVENT: Final = msgspec.json.Decoder(_Event)


class Page(NamedTuple):
    """Some objects of a list, and the list's own metadata."""

    items: list[Document]
    metadata: Document


class AnswerReader:
    """How what the server sends becomes objects: at once and whole. `bounded_answers` has another way."""

    # What the server may do to shorten it.
    encoding: str = "gzip"
    # What is longer comes from no API: an object has 3 MB at most, and a page of a list 500 objects. Without a bound, a
    # server that never stops sending would take all memory.
    largest_object: int = 64 * 1024 * 1024
    largest_page: int = 512 * 1024 * 1024
    largest_refusal: int = 1024 * 1024
    # Of one kind, however many parts their list has.
    most_objects: int = 10_000_000
    # Bytes of memory that all of them may take, as far as objects say it under `bounds.WEIGHT`.
    most_weight: int = 2**62

    async def document(self, response: HttpResponse, source: str) -> Document:
        """The object that the server sent."""
        return decode(_DOCUMENT, await _whole(response, self.largest_object, source), source)

    async def page(self, response: HttpResponse, source: str) -> Page:
        """A list, or a part of one."""
        found = decode(_LIST, await _whole(response, self.largest_page, source), source)
        return Page(found.items or [], found.metadata or {})

    async def events(self, response: HttpResponse) -> AsyncIterator[ToldEvents]:
        """What a watch tells, as it comes together."""
        async for lines in _lines(response, self.largest_object):
            events = [decode(_EVENT, line, "watch") for line in lines]
            yield [
                (kind, _object(lines[place], events[place]))
                for place, kind in newest_states(each.told for each in events)
            ]

    async def refusal(self, response: HttpResponse) -> ApiError:
        """Why the server refused."""
        return refusal(response.status, await _whole(response, self.largest_refusal, "an error"))


def newest_states(told: Iterable[tuple[str, str, str]]) -> list[tuple[int, str]]:
    """Which events, given by kind, namespace and name, are to be told, and as what: of several states of one object
    that came together only the last one matters, and an eviction makes two of them. That it came, and that it went, is
    told in any case.
    """
    kept: dict[int, str] = {}
    places: dict[tuple[str, str], int] = {}
    for place, (kind, namespace, name) in enumerate(told):
        if kind in (BOOKMARK, ERROR):
            kept[place] = kind
            continue
        before = places.pop((namespace, name), None)
        kept[place] = kept.pop(before) if kind == _MODIFIED and before is not None else kind
        if kind != DELETED:
            places[namespace, name] = place
    return list(kept.items())


def _object(line: bytes, event: _Event) -> Document:
    """Without its managedFields: they are half of an object, and what follows the objects of a cluster uses none."""
    metadata = None if event.object is None else event.object.metadata
    if metadata is not None and (managed := bytes(metadata.managed_fields)):
        # No text within the line has these bytes, because its quotes are escaped. Where others come first, as in a
        # template, all of it is decoded.
        before, _, after = line.partition(_MANAGED)
        if after.startswith(managed):
            line = b"%s%snull%s" % (before, _MANAGED, after[len(managed) :])
    document: Document = decode(_DOCUMENT, line, "watch").get("object") or {}
    if metadata is not None:
        document["metadata"].pop("managedFields", None)
    return document


def checked(document: Document, source: str) -> Document:
    """The object, if it is one: with a name, and with objects where every kind has them. Raises ManifestError."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ManifestError(f"{source}: the server sends no object with a name")
    for holder, keys in ((document, _PARTS), (metadata, _MAPS)):
        for key in keys:
            if type(holder.get(key)) not in _OBJECT_OR_NONE:
                raise ManifestError(f"{source}: the server sends something else than an object as `{key}`")
    for key in _TEXTS:
        if type(metadata.get(key)) not in _TEXT_OR_NONE:
            raise ManifestError(f"{source}: the server sends something else than a text as `{key}`")
    for key in NUMBERS:
        if metadata.get(key) is not None and not is_number(metadata[key]):
            raise ManifestError(f"{source}: the server sends something else than a number as `{key}`")
    for part, names in _LISTS.items():
        holder = document.get(part) or {}
        for key in names:
            if holder.get(key) is not None:
                _check_list(holder[key], f"{part}.{key}", source)
    return document


def _check_list(found: object, where: str, source: str) -> None:
    if not isinstance(found, list) or not all(type(each) is dict for each in found):
        raise ManifestError(f"{source}: the server sends something else than a list of objects as `{where}`")
    for each in found:
        if (wrong := _wrong_field(each, where)) is not None:
            shown = f"{where}[].{wrong[0][:_MOST_SHOWN]}"
            raise ManifestError(f"{source}: the server sends something else than {wrong[1]} as `{shown}`")


def _wrong_field(entry: Document, where: str) -> tuple[str, str] | None:
    """Its name, and what it should be. Conditions of all kinds have a type, and nothing but texts and numbers.

    By types alone, because each event of a watch is looked at.
    """
    if where != _CONDITIONS:
        return None if type(entry.get("state")) in _OBJECT_OR_NONE else ("state", "an object")
    if type(entry.get("type")) is not str:
        return "type", "a text"
    if _PLAIN.issuperset(map(type, entry.values())):
        return None
    return next(key for key, value in entry.items() if type(value) not in _PLAIN), "a text or a number"


def is_number(found: object) -> bool:
    """Whether Kubernetes' counts and seconds may be so: whole, of 64 bits, not negative."""
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**63


def checked_event(kind: str, document: Document) -> Document:
    """The object of an event, if it is one. A bookmark has nothing but a version. Raises ManifestError."""
    if kind not in _KINDS:
        raise ManifestError(f"watch: the server tells of `{kind[:_MOST_SHOWN]}`")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
        raise ManifestError("watch: the server sends an event without a version")
    return document if kind == BOOKMARK else checked(document, "watch")


def weight_of(document: Document | None) -> int:
    """Bytes that it takes, where that was found out."""
    weight = None if document is None else document.get(WEIGHT)
    return weight if isinstance(weight, int) else 0


async def _whole(response: HttpResponse, most_bytes: int, source: str) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.chunks():
        size += len(chunk)
        if size > most_bytes:
            raise ManifestError(f"{source}: the server sends more than {most_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _lines(response: HttpResponse, most_bytes: int) -> AsyncIterator[list[bytes]]:
    """Whole ones, as they come together."""
    pieces: list[bytes] = []
    size = 0
    async for chunk in response.chunks():
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        size += len(first)
        if size > most_bytes:
            raise ManifestError(f"watch: the server sends an event of more than {most_bytes} bytes")
        if others:
            whole = [line for line in (b"".join(pieces), *others[:-1]) if line]
            pieces = [others[-1]]
            size = len(others[-1])
            if whole:
                yield whole


def refusal(code: int, data: bytes) -> ApiError:
    """The error that a failed request stands for."""
    try:
        status = decode(_DOCUMENT, data, "status")
    except ManifestError:
        status = {}
    if status.get("kind") == "Status":
        return status_error(status, code)
    said = data[:_MOST_SHOWN].decode("utf-8", "replace").strip()
    message = f"an error on the server ({quote(said or str(code))}) has prevented the request from succeeding"
    return _error(message, code, _REASONS.get(code, ""), None)


def status_error(status: dict[str, Any], code: int = 500) -> ApiError:
    """A Status document as an error; a watch delivers one as an event."""
    found, reason, details = status.get("code"), status.get("reason"), status.get("details")
    return _error(
        str(status.get("message") or "the server gave no reason"),
        found if isinstance(found, int) else code,
        reason if isinstance(reason, str) else "",
        details if isinstance(details, dict) else None,
    )


def _error(message: str, code: int, reason: str, details: dict[str, Any] | None) -> ApiError:
    """AlreadyExists shares its code with Conflict and is none: nothing was changed meanwhile."""
    if reason == NotFound.reason:
        return NotFound(message, details=details)
    if reason == Conflict.reason:
        return Conflict(message, details=details)
    return ApiError(message, code=code, reason=reason, details=details)


def server_text(error: JettisonError) -> str:
    """As the last line of a failed command. Errors that are not the server's speak for themselves."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.reason == "Unauthorized":
        return f"error: You must be logged in to the server ({error.message})"
    return f"Error from server ({error.reason}): {error.message}" if error.reason else f"Error from server: {error}"


def causes(error: ApiError) -> str:
    """What kubectl hides: which budget refuses, and why. The message alone where there is nothing more."""
    listed = (error.details or {}).get("causes")
    texts = [
        each["message"]
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("message"), str)
    ]
    return "; ".join(texts) or error.message


def has_cause(error: ApiError, reason: str) -> bool:
    """Does the error give this reason among its causes?"""
    listed = (error.details or {}).get("causes")
    return isinstance(listed, list) and any(isinstance(each, dict) and each.get("reason") == reason for each in listed)
