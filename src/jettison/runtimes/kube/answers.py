"""What came back, as values and errors of ours: Status documents, and what httpx raises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, Conflict, InputError, ManifestError, NotFound, UnreachableError
from jettison.manifests.files.decoding import decode

if TYPE_CHECKING:
    import httpx2

Document = dict[str, Any]
ToldEvents = list[tuple[str, Document]]
"""ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object."""

_DOCUMENT: Final = msgspec.json.Decoder(dict[str, Any])
_MOST_SHOWN: Final = 200
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


class Page(NamedTuple):
    """Some objects of a list, and the list's own metadata."""

    items: list[Document]
    metadata: Document


class AnswerReader:
    """How what the server sends becomes objects: at once and whole. `bounded_answers` has another way."""

    # What the server may do to shorten it; None: whatever the client understands.
    encoding: str | None = None

    async def document(self, response: httpx2.Response, source: str) -> Document:
        """The object that the server sent."""
        return decode(_DOCUMENT, await response.aread(), source)

    async def page(self, response: httpx2.Response, source: str) -> Page:
        """A list, or a part of one."""
        found = await self.document(response, source)
        return Page(found.get("items") or [], found.get("metadata") or {})

    async def events(self, response: httpx2.Response) -> AsyncIterator[ToldEvents]:
        """What a watch tells, as it comes together."""
        async for lines in _lines(response):
            found = [decode(_DOCUMENT, line, "watch") for line in lines]
            yield [(each.get("type") or "", each.get("object") or {}) for each in found]

    async def refusal(self, response: httpx2.Response) -> ApiError:
        """Why the server refused."""
        return refusal(response.status_code, await response.aread())


async def _lines(response: httpx2.Response) -> AsyncIterator[list[bytes]]:
    """Whole ones, as they come together."""
    pieces: list[bytes] = []
    async for chunk in response.aiter_bytes():
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        if others:
            whole = [line for line in (b"".join(pieces), *others[:-1]) if line]
            pieces = [others[-1]]
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


@contextmanager
def translated(server: str) -> Iterator[None]:
    """Whatever httpx raises becomes ours, with kubectl's words for the commonest."""
    import httpx2  # noqa: PLC0415  in an extra

    try:
        yield
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        raise InputError(f"`{server}` is not the address of a server: {error}") from error
    except httpx2.ConnectError as error:
        raise UnreachableError(_unreachable(server, error)) from error
    except httpx2.TimeoutException as error:
        raise UnreachableError(f"the server {_host(server)} did not answer in time") from error
    except httpx2.TransportError as error:
        raise UnreachableError(f"the connection to the server {_host(server)} broke: {_said(error)}") from error


def _unreachable(server: str, error: httpx2.ConnectError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            break
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        return f"The connection to the server {_host(server)} was refused - did you specify the right host or port?"
    return f"Unable to connect to the server: {_said(error)}"


def _host(server: str) -> str:
    return server.partition("://")[2] or server


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
