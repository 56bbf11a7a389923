"""The head of an HTTP request, taken apart strictly: what two readers could read differently is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from jettison.errors import ApiError

MOST_HEADERS = 64

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105  a name, not a secret
_REQUEST_LINE = re.compile(rf"({_TOKEN}) ([!-~]+) HTTP/([0-9])\.([0-9])")
_HEADER = re.compile(rf"({_TOKEN}):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for. Header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


def parse_head(head: bytes) -> Request:
    """The request that begins with these bytes, which end in an empty line."""
    first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise ApiError("the request line is malformed", code=400)
    method, target, major, minor = match.groups()
    if major != "1":
        raise ApiError("only HTTP/1.0 and HTTP/1.1 are spoken here", code=505)
    headers = _headers(rest)
    if minor != "0" and "host" not in headers:
        raise ApiError("the header Host is missing", code=400)
    _check_body(headers)
    absolute = _ABSOLUTE.match(target)
    if absolute is not None:
        target = "/" + target[absolute.end() :].removeprefix("/")
    if not target.startswith("/"):
        raise ApiError("the request's target is not a path", code=400)
    path, _, query = target.partition("?")
    try:
        return Request(method, unquote(path, errors="strict"), query, headers)
    except UnicodeDecodeError:
        raise ApiError("the path is not UTF-8", code=400) from None


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > MOST_HEADERS:
        raise ApiError(f"at most {MOST_HEADERS} headers are read", code=431)
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise ApiError("a header is malformed", code=400)
        name = match[1].lower()
        if name in headers and name in ("host", "content-length", "transfer-encoding"):
            raise ApiError(f"the header {name} is given twice", code=400)
        headers[name] = match[2]
    return headers


def _check_body(headers: Mapping[str, str]) -> None:
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise ApiError("the header Content-Length is not a number", code=400)
    if "transfer-encoding" in headers or length.strip("0"):
        raise ApiError("requests have no body here", code=413)
