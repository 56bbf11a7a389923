"""From a request to a connection on which another protocol is spoken: SPDY/3.1, or WebSocket.

Before the answer every refusal is an answer of HTTP; after it there is none but what the new protocol has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from jettison.agent.http.server import Request
from jettison.errors import ApiError
from jettison.node.kubelet.channels import Wishes
from jettison.node.kubelet.websocket import accept_key
from jettison.values import frozen

SPDY, WEBSOCKET = "spdy/3.1", "websocket"

MOST_PARAMETERS: Final = 4096
"""A word of a command is a parameter."""

_NAMES: Final = {SPDY: "SPDY/3.1", WEBSOCKET: "websocket"}


@frozen
class StreamRequest:
    """What a client wants to stream. `offered` are the protocols that it can speak on top of `upgrade`."""

    parameters: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str]
    upgrade: str
    offered: tuple[str, ...]

    def is_set(self, *names: str) -> bool:
        """Whether one of them says yes; kubelets and API servers have different names for the same thing."""
        return any(self.parameters.get(name, ("",))[0] in ("1", "true") for name in names)

    @property
    def wishes(self) -> Wishes:
        """Which channels are wanted. Raises ApiError with the kubelet's words."""
        has_terminal = self.is_set("tty")
        wishes = Wishes(
            self.is_set("input", "stdin"),
            self.is_set("output", "stdout"),
            self.is_set("error", "stderr") and not has_terminal,
            has_terminal,
        )
        if not (wishes.has_input or wishes.has_output or wishes.has_errors):
            raise ApiError("you must specify at least 1 of stdin, stdout, stderr", code=400)
        return wishes

    def answer(self, protocol: str) -> bytes:
        """The head that ends HTTP on this connection."""
        lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {_NAMES[self.upgrade]}"]
        if self.upgrade == SPDY:
            lines.append(f"X-Stream-Protocol-Version: {protocol}")
        else:
            lines.append(f"Sec-WebSocket-Accept: {accept_key(self.headers.get('sec-websocket-key', ''))}")
            lines.append(f"Sec-WebSocket-Protocol: {protocol}")
        return "\r\n".join((*lines, "", "")).encode("ascii", "replace")


def read_stream_request(request: Request) -> StreamRequest:
    """Raises ApiError for one that does not ask for another protocol, or for one that is not spoken here."""
    headers = request.headers
    wanted = {each.strip().lower() for each in headers.get("connection", "").split(",")}
    upgrade = headers.get("upgrade", "").strip().lower()
    if "upgrade" not in wanted or not upgrade:
        raise ApiError("Upgrade request required", code=400)
    if upgrade not in _NAMES:
        raise ApiError(f"cannot upgrade to `{upgrade[:60]}`: there are SPDY/3.1 and websocket", code=400)
    if upgrade == WEBSOCKET:
        _check_web_socket(request)
    offers = headers.get("x-stream-protocol-version" if upgrade == SPDY else "sec-websocket-protocol", "")
    try:
        pairs = parse_qsl(request.query, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise ApiError("the query is not UTF-8 or has too many parameters", code=400) from None
    parameters: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        parameters[name] = (*parameters.get(name, ()), value)
    return StreamRequest(parameters, headers, upgrade, tuple(each.strip() for each in offers.split(",") if each))


def _check_web_socket(request: Request) -> None:
    if request.method != "GET" or request.headers.get("sec-websocket-version", "") != "13":
        raise ApiError("a WebSocket is asked for by GET, with version 13", code=400)
    if not request.headers.get("sec-websocket-key", ""):
        raise ApiError("the header Sec-WebSocket-Key is missing", code=400)
