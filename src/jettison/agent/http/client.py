"""One question to a running agent, for commands. It blocks; no agent uses it."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path

from jettison.agent.http.unix_address import unix_address
from jettison.errors import ObservationError
from jettison.values import frozen


@frozen
class Response:
    """What the agent said."""

    status: int
    content_type: str
    body: bytes


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with unix_address(self._path) as address:
            self.sock.connect(address)


def fetch(socket_path: Path, path: str, *, timeout: float = 10.0, method: str = "GET") -> Response:
    """The answer to `path`, whatever its status. Raises ObservationError when there is none."""
    connection = _UnixConnection(socket_path, timeout)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return Response(answer.status, answer.headers.get("Content-Type", ""), answer.read())
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise ObservationError(f"no agent answers on `{socket_path}`: is it running?") from error
    except (OSError, http.client.HTTPException) as error:
        raise ObservationError(f"the agent on `{socket_path}` did not answer: {error}") from error
    finally:
        connection.close()
