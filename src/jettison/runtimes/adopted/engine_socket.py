"""The API of Docker and of Podman on a socket: questions and orders over HTTP.

An engine may hang, die, or answer with anything: each question has a deadline and each answer a largest size. Answers
are small by nature; 100 containers with 30 labels each are 300 kB.
"""

from __future__ import annotations

import asyncio
import socket
import stat
import struct
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jettison.errors import ManifestError, ObservationError, UnreachableError
from jettison.manifests.files.decoding import bounded, decode, shortened
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.machine.node_disks import StorageDirs, told_path

USUAL_SOCKETS = (Path("/run/docker.sock"), Path("/var/run/docker.sock"), Path("/run/podman/podman.sock"))

DEADLINE = 5.0
"""Seconds for an answer. A healthy engine takes 30 ms for a list of 100 containers."""

LARGEST_ANSWER = 4 * 2**20
LARGEST_HEAD = 64 * 2**10
MOST_VALUES = 100_000
"""Of one answer: each may be an object. 100 containers with 30 labels each have 10,000."""

MOST_CHUNKS = 10_000
"""Of one answer. Engines write 2 to 32 KiB at a time."""

# What has arrived is read without a pause: after so many chunks others have their turn.
_CHUNKS_AT_ONCE = 50

_PEER = struct.Struct("iII")
T = TypeVar("T")


class _Component(msgspec.Struct, rename="pascal"):
    name: str = ""


class _Version(msgspec.Struct, rename="pascal"):
    components: list[_Component] | None = None


class _Info(msgspec.Struct, rename="pascal"):
    # Podman calls its own directory so, too.
    docker_root_dir: str


_INFO = msgspec.json.Decoder(_Info)
_VERSION = msgspec.json.Decoder(_Version)


class EngineSocket:
    """One engine. Only root and the users named may own its socket."""

    def __init__(self, path: Path, owners: frozenset[int], deadline: float = DEADLINE) -> None:
        self.path = path
        # The process that listens on the socket, once it has answered: it must outlive what it runs.
        self.pid: int | None = None
        self._owners = owners
        self._deadline = deadline
        self._kind = ""

    async def kind(self) -> str:
        """`docker` or `podman`. Raises UnreachableError, ObservationError."""
        if not self._kind:
            version = await self.ask(_VERSION, "/version")
            names = {each.name.lower() for each in version.components or ()}
            self._kind = "podman" if any("podman" in name for name in names) else "docker"
        return self._kind

    async def storage(self) -> StorageDirs:
        """Images and writable layers are below one directory. Raises UnreachableError, ObservationError."""
        top = told_path((await self.ask(_INFO, "/info")).docker_root_dir)
        if not top:
            raise ObservationError(f"{self.path}/info: its directory is no path")
        return StorageDirs(top, top)

    async def ask(self, decoder: msgspec.json.Decoder[T], path: str) -> T:
        """A question. Raises UnreachableError, and ObservationError for an answer that is none."""
        status, body = await self.exchange("GET", path)
        return self.decoded(decoder, path, status, body)

    def decoded(self, decoder: msgspec.json.Decoder[T], path: str, status: int, body: bytes) -> T:
        """An answer as a value. Raises ObservationError."""
        source = f"{self.path}{path}"
        if status != 200:
            raise ObservationError(f"{source}: {said(status, body)}")
        if body.count(b",") + body.count(b"{") + body.count(b"[") > MOST_VALUES:
            raise ObservationError(f"{source}: more than {MOST_VALUES} values")
        try:
            return decode(decoder, bounded(body, source), source)
        except ManifestError as error:
            raise ObservationError(f"{error}: not an answer of Docker or Podman") from error

    async def exchange(self, method: str, path: str, seconds: float = 0.0) -> tuple[int, bytes]:
        """Status and body of the answer; work takes the engine so many seconds beyond the deadline of an answer."""
        deadline = self._deadline + seconds
        try:
            async with asyncio.timeout(deadline):
                return await self._converse(method, path)
        except TimeoutError as error:
            raise UnreachableError(f"{self.path}: no answer within {deadline:g} s") from error
        except OSError as error:
            raise UnreachableError(f"{self.path}: {reason(error)}") from error
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise UnreachableError(f"{self.path}: the answer is cut off, too long or no HTTP") from error

    async def _converse(self, method: str, path: str) -> tuple[int, bytes]:
        """One connection for one question: engines close idle ones, and a question comes every few seconds."""
        self._check_owner()
        reader, writer = await asyncio.open_unix_connection(self.path, limit=LARGEST_HEAD)
        with closing(writer):
            peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            self.pid = _PEER.unpack(peer)[0] or None
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            writer.write(head.encode())
            status, headers = _parse_head(await reader.readuntil(b"\r\n\r\n"))
            if headers.get("transfer-encoding", "").lower() == "chunked":
                return status, await _read_chunks(reader)
            length = headers.get("content-length")
            size = LARGEST_ANSWER + 1 if length is None else int(length)
            if length is not None and not 0 <= size <= LARGEST_ANSWER:
                raise ValueError(f"{size} bytes")
            body = await _read_at_most(reader, size) if length is None else await reader.readexactly(size)
            return status, body

    def _check_owner(self) -> None:
        """A socket of another user could tell any tale about what runs here, and have it stopped."""
        found = self.path.stat()
        if not stat.S_ISSOCK(found.st_mode):
            raise UnreachableError(f"{self.path}: not a socket")
        if found.st_uid not in self._owners:
            raise UnreachableError(f"{self.path}: belongs to user {found.st_uid}, which is not trusted")


async def _read_at_most(reader: asyncio.StreamReader, size: int) -> bytes:
    parts, total = list[bytes](), 0
    while part := await reader.read(64 * 2**10):
        total += len(part)
        if total >= size:
            raise ValueError("too long")
        parts.append(part)
    return b"".join(parts)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    for count in range(MOST_CHUNKS):
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if size == 0:
            return bytes(found)
        if not 0 < size <= LARGEST_ANSWER - len(found):
            break
        found += (await reader.readexactly(size + 2))[:-2]
        if count % _CHUNKS_AT_ONCE == 0:
            await asyncio.sleep(0)
    raise ValueError("too long")


def _parse_head(data: bytes) -> tuple[int, Mapping[str, str]]:
    lines = data.decode("latin-1").split("\r\n")
    version, status, *_ = lines[0].split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("no HTTP")
    headers = (line.partition(":") for line in lines[1:] if line)
    return int(status), {name.strip().lower(): value.strip() for name, _, value in headers}


def said(status: int, body: bytes) -> str:
    """What the engine says about a failure: a JSON object with one message."""
    try:
        message = msgspec.json.decode(body, type=dict[str, Any]).get("message", "")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        message = body.decode(errors="replace")
    return f"status {status}: {shortened(str(message))}"
