"""Containers of Docker and of Podman, by the API that both serve on a socket.

An engine may hang, die, or answer with anything: each question has a deadline and each answer a largest size. Answers
are small by nature; 100 containers with 30 labels each are 300 kB.
"""

from __future__ import annotations

import asyncio
import socket
import stat
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from jettison.errors import ManifestError, ObservationError, PodGone, StillRunning, UnreachableError
from jettison.manifests.files.decoding import bounded, decode, shortened
from jettison.manifests.times import time_or_none
from jettison.runtimes.adopted.workloads import AdoptedWorkload
from jettison.runtimes.linux.cgroups.mounts import Hierarchy, cgroup_of
from jettison.runtimes.linux.files.kernel_files import reason

USUAL_SOCKETS = (Path("/run/docker.sock"), Path("/var/run/docker.sock"), Path("/run/podman/podman.sock"))

DEADLINE = 5.0
"""Seconds for an answer. A healthy engine takes 30 ms for a list of 100 containers."""

LARGEST_ANSWER = 4 * 2**20
LARGEST_HEAD = 64 * 2**10

_PEER = struct.Struct("iII")
T = TypeVar("T")


class _Listed(msgspec.Struct, rename="pascal"):
    id: str


class _State(msgspec.Struct, rename="pascal"):
    pid: int = 0
    running: bool = False
    started_at: str = ""


class _HostConfig(msgspec.Struct, rename="pascal"):
    memory: int = 0
    memory_reservation: int = 0
    nano_cpus: int = 0


class _Config(msgspec.Struct, rename="pascal"):
    image: str = ""
    labels: dict[str, str] | None = None
    stop_timeout: int | None = None


class _Driver(msgspec.Struct, rename="pascal"):
    data: dict[str, Any] | None = None


class _Inspected(msgspec.Struct, rename="pascal"):
    id: str
    name: str = ""
    state: _State = msgspec.field(default_factory=_State)
    host_config: _HostConfig = msgspec.field(default_factory=_HostConfig)
    config: _Config = msgspec.field(default_factory=_Config)
    graph_driver: _Driver | None = None
    log_path: str = ""


class _Component(msgspec.Struct, rename="pascal"):
    name: str = ""


class _Version(msgspec.Struct, rename="pascal"):
    components: list[_Component] | None = None


_LIST = msgspec.json.Decoder(list[_Listed])
_INSPECT = msgspec.json.Decoder(_Inspected)
_VERSION = msgspec.json.Decoder(_Version)


class ContainerEngine:
    """One engine. A container is inspected when it is new or was started again, and remembered as long as it runs."""

    def __init__(self, path: Path, memory: Hierarchy, owners: frozenset[int], deadline: float = DEADLINE) -> None:
        self.path = path
        # The process that listens on the socket, once it has answered: it must outlive what it runs.
        self.pid: int | None = None
        self._memory = memory
        self._owners = owners
        self._deadline = deadline
        self._kind = ""
        self._known: dict[str, AdoptedWorkload] = {}

    @property
    def name(self) -> str:
        """The socket."""
        return str(self.path)

    async def running(self) -> Sequence[AdoptedWorkload]:
        """All that run. One that vanishes meanwhile is left out."""
        if not self._kind:
            version = await self._asked(_VERSION, "/version")
            names = {each.name.lower() for each in version.components or ()}
            self._kind = "podman" if any("podman" in name for name in names) else "docker"
        found = {}
        for each in await self._asked(_LIST, "/containers/json"):
            known = self._known.get(each.id)
            if known is None or not self._is_there(known.cgroup):
                known = await self._inspected(each.id)
            if known is not None:
                found[each.id] = known
        self._known = found
        return list(found.values())

    async def stop(self, workload: AdoptedWorkload, grace_seconds: int) -> None:
        """By the engine, so that its restart policy knows that this was meant. Waits until it has ended."""
        path = f"/containers/{quote(workload.id, safe='')}/stop?t={grace_seconds}"
        status, body = await self._exchange("POST", path, self._deadline + grace_seconds)
        if status == 404:
            raise PodGone(f"container `{workload.name}` is gone")
        # 304 means that it had stopped already.
        if status not in (204, 304):
            raise StillRunning(f"{self.path}: cannot stop container `{workload.name}`: {_said(status, body)}")

    async def _inspected(self, container: str) -> AdoptedWorkload | None:
        path = f"/containers/{quote(container, safe='')}/json"
        status, body = await self._exchange("GET", path, self._deadline)
        if status == 404:
            return None
        found = self._decoded(_INSPECT, path, status, body)
        if not found.state.running or found.state.pid <= 0:
            return None
        cgroup = cgroup_of(found.state.pid, self._memory)
        if not cgroup:
            # In the root of the hierarchy there is no way to tell it from the machine.
            return None
        limits, config = found.host_config, found.config
        driver = (found.graph_driver.data if found.graph_driver is not None else None) or {}
        upper = driver.get("UpperDir", "")
        return AdoptedWorkload(
            self._kind,
            found.id,
            found.name.removeprefix("/") or found.id[:12],
            cgroup,
            config.labels or {},
            config.image,
            limits.memory or None,
            limits.memory_reservation or None,
            limits.nano_cpus // 10**6 or None,
            config.stop_timeout,
            time_or_none(found.state.started_at),
            upper if isinstance(upper, str) else "",
            str(Path(found.log_path).parent) if found.log_path else "",
        )

    def _is_there(self, cgroup: str) -> bool:
        return (self._memory.mount_point / cgroup).is_dir()

    async def _asked(self, decoder: msgspec.json.Decoder[T], path: str) -> T:
        status, body = await self._exchange("GET", path, self._deadline)
        return self._decoded(decoder, path, status, body)

    def _decoded(self, decoder: msgspec.json.Decoder[T], path: str, status: int, body: bytes) -> T:
        source = f"{self.path}{path}"
        if status != 200:
            raise ObservationError(f"{source}: {_said(status, body)}")
        try:
            return decode(decoder, bounded(body, source), source)
        except ManifestError as error:
            raise ObservationError(f"{error}: not an answer of Docker or Podman") from error

    async def _exchange(self, method: str, path: str, deadline: float) -> tuple[int, bytes]:
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
    parts, total = list[bytes](), 0
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        total += size
        if not 0 < size <= LARGEST_ANSWER or total > LARGEST_ANSWER:
            raise ValueError("too long")
        parts.append((await reader.readexactly(size + 2))[:-2])
    return b"".join(parts)


def _parse_head(data: bytes) -> tuple[int, Mapping[str, str]]:
    lines = data.decode("latin-1").split("\r\n")
    version, status, *_ = lines[0].split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("no HTTP")
    headers = (line.partition(":") for line in lines[1:] if line)
    return int(status), {name.strip().lower(): value.strip() for name, _, value in headers}


def _said(status: int, body: bytes) -> str:
    """What the engine says about a failure: a JSON object with one message."""
    try:
        message = msgspec.json.decode(body, type=dict[str, Any]).get("message", "")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        message = body.decode(errors="replace")
    return f"status {status}: {shortened(str(message))}"
