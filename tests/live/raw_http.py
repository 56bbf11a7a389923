"""HTTP as hostile clients speak it: bytes go out as they are, and what comes back is read as far as it makes sense."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.live.served import Served

_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; of a stream, only its beginning."""

    code: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def status(self) -> dict[str, Any]:
        """The Status document that every refusal must be."""
        found = json.loads(self.body)
        assert found["kind"] == "Status", self
        assert found["code"] == self.code, self
        assert found["message"], self
        assert isinstance(found, dict)
        return found


class RawClient:
    """One connection, used for as long as the server keeps it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._trust = served.trust()
        self._socket: socket.socket | None = None
        self.requests = 0

    def request(
        self, method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]] = (), body: bytes = b""
    ) -> Answer:
        """Once more on a new connection where the old one turns out to be closed."""
        lines = [b"%s %s HTTP/1.1" % (method, target), b"host: x", *(b"%s: %s" % pair for pair in headers)]
        lines.append(b"content-length: %d" % len(body))
        data = b"\r\n".join((*lines, b"", b"")) + body
        self.requests += 1
        if self._socket is not None:
            try:
                return self._exchange(self._socket, data)
            except OSError:
                self.close()
        self._socket = self._connect()
        return self._exchange(self._socket, data)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self._served.port), _SECONDS)
        return self._trust.wrap_socket(plain, server_hostname="127.0.0.1")

    def _exchange(self, connection: socket.socket, data: bytes) -> Answer:
        connection.sendall(data)
        received = b""
        while b"\r\n\r\n" not in received:
            received += _more(connection)
        head, _, body = received.partition(b"\r\n\r\n")
        status, *lines = head.split(b"\r\n")
        pairs = (line.partition(b":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = headers.get(b"content-length")
        while length is not None and len(body) < int(length) and not data.startswith(b"HEAD"):
            body += _more(connection)
        if length is None or headers.get(b"connection") == b"close":
            self.close()
        return Answer(int(status.split()[1]), headers, body)


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the server hung up")
    return data
