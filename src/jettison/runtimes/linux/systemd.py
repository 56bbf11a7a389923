"""What systemd has to be told of the slices that pods are in.

Where a container runtime leaves cgroups to systemd, the scope of a container makes systemd set up the slices above it,
and it sets every limit there to what it knows: a limit that was only written into the cgroup is gone from then on, and
`systemctl daemon-reload` takes away cgroups of controllers that no unit asks for. So each slice is a unit of its own,
with its limits, as a kubelet makes it, and is stopped when its pod has ended.

systemd is spoken to at its private socket, by D-Bus without a bus, so no daemon is needed for it. Each order has a
connection of its own, because systemd tells every connection of everything that it does, which had to be read.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

from jettison import events
from jettison.clock import Clock
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import WriteError
from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits, cpu_weight
from jettison.runtimes.linux.files import kernel_files
from jettison.values import frozen

_LARGEST: Final = 128 * 2**20

_CALL, _ERROR, _SIGNAL = 1, 3, 4
_PATH, _INTERFACE, _MEMBER, _ERROR_NAME, _REPLY_SERIAL, _SIGNATURE = 1, 2, 3, 4, 5, 8
_OBJECT, _MANAGER = "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
_EXISTS, _UNKNOWN = "org.freedesktop.systemd1.UnitExists", "org.freedesktop.systemd1.NoSuchUnit"
_NO_MESSAGE: Final = (OSError, IndexError, struct.error, UnicodeDecodeError)
_INFINITY: Final = 2**64 - 1
_SECOND_US: Final = 1_000_000


@frozen
class Systemd:
    """Where it is, and how long it may take. A reload takes a second or two on a large machine."""

    clock: Clock
    path: Path = Path("/run/systemd/private")
    patience: float = 10.0


Property = tuple[str, str, "int | bool | str"]


def slice_properties(limits: Limits, *, is_unified: bool) -> list[Property]:
    """The limits in systemd's words: name, type by D-Bus, value. Accounting gives a slice its controllers."""
    found: list[Property] = [(f"{name}Accounting", "b", True) for name in ("CPU", "Memory", "Tasks")]
    if limits.memory is not None:
        found.append(("MemoryMax", "t", _amount(limits.memory)))
    if limits.cpu_shares is not None:
        shares = limits.cpu_shares
        found.append(("CPUWeight", "t", cpu_weight(shares)) if is_unified else ("CPUShares", "t", shares))
    if limits.cpu_quota_us is not None:
        quota = limits.effective_quota_us
        a_second = quota if quota == UNLIMITED else quota * _SECOND_US // limits.cpu_period_us
        found.append(("CPUQuotaPerSecUSec", "t", _amount(a_second)))
    if limits.pids is not None:
        found.append(("TasksMax", "t", _amount(limits.pids)))
    return found


class SliceUnits:
    """Of one node. Orders are carried out one after the other in a thread: systemd may take long."""

    def __init__(self, emit: events.Emit, systemd: Systemd, *, is_unified: bool) -> None:
        self._emit = emit
        self._is_unified = is_unified
        self._systemd = systemd
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(1, "jettison-systemd")
        self._leaving: dict[str, Future[None]] = {}

    def hold(self, cgroup: str, limits: Limits) -> None:
        """Let systemd know this slice with these limits. Does not wait; what fails is told as a fact."""
        unit = _unit(cgroup)
        self._leaving.pop(unit, None)
        properties = slice_properties(limits, is_unified=self._is_unified)
        self._watch(unit, self._pool.submit(hold_slice, unit, properties, self._systemd))

    def drop(self, cgroup: str) -> bool:
        """Let systemd stop the slice, in which no process lives, and forget it. False until it has: ask again."""
        unit = _unit(cgroup)
        leaving = self._leaving.get(unit)
        if leaving is None:
            self._leaving[unit] = leaving = self._pool.submit(drop_slice, unit, self._systemd)
            self._watch(unit, leaving)
        if not leaving.done():
            return False
        del self._leaving[unit]
        return True

    def close(self) -> None:
        """Once all that was ordered is done."""
        self._pool.shutdown()

    def _watch(self, unit: str, work: Future[None]) -> None:
        def told(done: Future[None]) -> None:
            failure = done.exception()
            if failure is not None and not self._loop.is_closed():
                fact = events.ActionFailed(f"tell systemd of {unit}", str(failure))
                self._loop.call_soon_threadsafe(self._emit, fact)

        work.add_done_callback(told)


def hold_slice(unit: str, properties: list[Property], systemd: Systemd) -> None:
    """Make the unit, or change it where it is there. Raises WriteError."""
    with _Connection(systemd) as connection:
        made = [("DefaultDependencies", "b", False), *properties]
        why = connection.call("StartTransientUnit", "ssa(sv)a(sa(sv))", [unit, "replace", made, []])[1]
        if why == _EXISTS:
            why = connection.call("SetUnitProperties", "sba(sv)", [unit, True, properties])[1]
        if why:
            raise WriteError(f"cannot limit `{unit}`: systemd answers {why}")


def drop_slice(unit: str, systemd: Systemd) -> None:
    """Returns when it is gone. Raises WriteError."""
    with _Connection(systemd) as connection:
        job, why = connection.call("StopUnit", "ss", [unit, "replace"])
        if why == _UNKNOWN:
            return
        if why:
            raise WriteError(f"cannot stop `{unit}`: systemd answers {why}")
        connection.wait_for(job)


def _unit(cgroup: str) -> str:
    return cgroup.rpartition("/")[2]


def _amount(value: int) -> int:
    return _INFINITY if value == UNLIMITED else value


class _Connection:
    """One to systemd's private socket. Everything raises WriteError."""

    def __init__(self, systemd: Systemd) -> None:
        self._path, self._patience, self._clock = systemd.path, systemd.patience, systemd.clock
        self._serial = 0
        self._deadline_ns = self._clock.monotonic_ns() + int(self._patience * SECOND_NS)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)

    def __enter__(self) -> Self:
        try:
            self._socket.settimeout(self._patience)
            self._socket.connect(str(self._path))
            uid = str(os.geteuid()).encode().hex().encode()
            self._socket.sendall(b"\0AUTH EXTERNAL " + uid + b"\r\nBEGIN\r\n")
            answer = b""
            while not answer.endswith(b"\r\n"):
                answer += self._receive(1)
            if not answer.startswith(b"OK "):
                raise WriteError(f"`{self._path}` refuses us: {answer[:80]!r}")
        except OSError as error:
            self._socket.close()
            raise self._failed(error) from error
        except WriteError:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, member: str, signature: str, values: list[object]) -> tuple[str, str]:
        """The first text of the answer, such as the path of a job, and the name of an error, or an empty text."""
        self._serial += 1
        try:
            self._socket.sendall(message(self._serial, member, signature, values))
            while True:
                kind, fields, body = self._next()
                if fields.get(_REPLY_SERIAL) == self._serial:
                    said = _text(body, 0)[0] if str(fields.get(_SIGNATURE, ""))[:1] in ("s", "o") else ""
                    return said, str(fields.get(_ERROR_NAME, "")) if kind == _ERROR else ""
        except _NO_MESSAGE as error:
            raise self._failed(error) from error

    def wait_for(self, job: str) -> None:
        """Until systemd says that the job is done."""
        try:
            while True:
                kind, fields, body = self._next()
                if kind == _SIGNAL and fields.get(_MEMBER) == "JobRemoved" and _text(body, 4)[0] == job:
                    return
        except _NO_MESSAGE as error:
            raise self._failed(error) from error

    def _next(self) -> tuple[int, dict[int, str | int], bytes]:
        """Kind, fields and body of the next message. systemd writes the low byte first, as x86_64 and aarch64 do."""
        head = self._receive(16)
        kind, (length, _, fields_length) = head[1], struct.unpack_from("<III", head, 4)
        if length + fields_length > _LARGEST:
            raise WriteError(f"`{self._path}` sends a message of {length + fields_length} bytes")
        fields = self._receive(_aligned(fields_length, 8))[:fields_length]
        return kind, _fields(fields), self._receive(length)

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            left_ns = self._deadline_ns - self._clock.monotonic_ns()
            if left_ns <= 0:
                raise TimeoutError
            self._socket.settimeout(left_ns / SECOND_NS)
            part = self._socket.recv(length - len(data))
            if not part:
                raise ConnectionResetError("it has closed the connection")
            data += part
        return bytes(data)

    def _failed(self, error: Exception) -> WriteError:
        if isinstance(error, TimeoutError):
            return WriteError(f"cannot speak to systemd at `{self._path}`: no answer within {self._patience:g} s")
        why = kernel_files.reason(error) if isinstance(error, OSError) else f"it sends no message of D-Bus: {error}"
        return WriteError(f"cannot speak to systemd at `{self._path}`: {why}")


def message(serial: int, member: str, signature: str, values: list[object]) -> bytes:
    """A call of systemd's manager, in D-Bus' own form."""
    body = _Writer()
    for kind, value in zip(_types(signature), values, strict=True):
        body.put(kind, value)
    fields = _Writer(16)
    for code, kind, text in (
        (_PATH, "o", _OBJECT),
        (_INTERFACE, "s", _MANAGER),
        (_MEMBER, "s", member),
        (_SIGNATURE, "g", signature),
    ):
        fields.align(8)
        fields.data += bytes([code])
        fields.put("v", (kind, text))
    length = len(fields.data) - 16
    fields.align(8)
    head = struct.pack("<cBBBIII", b"l", _CALL, 0, 1, len(body.data), serial, length)
    return head + bytes(fields.data[16:]) + bytes(body.data)


class _Writer:
    """Values one after the other, each where its type wants to begin."""

    def __init__(self, begin: int = 0) -> None:
        self.data = bytearray(begin)

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def put(self, kind: str, value: object) -> None:
        if kind[0] == "a":
            assert isinstance(value, list)
            self.align(4)
            place = len(self.data)
            self.data += bytes(4)
            self.align(8 if kind[1] in "(t" else 4)
            begin = len(self.data)
            for each in value:
                self.put(kind[1:], each)
            struct.pack_into("<I", self.data, place, len(self.data) - begin)
        elif kind[0] == "(":
            assert isinstance(value, tuple)
            self.align(8)
            # A property is written as name, type and value: `sv` with the type of the variant in between.
            name, *rest = value
            self.put("s", name)
            self.put("v", tuple(rest))
        elif kind == "v":
            assert isinstance(value, tuple)
            self.put("g", value[0])
            self.put(value[0], value[1])
        else:
            self._put_basic(kind, value)

    def _put_basic(self, kind: str, value: object) -> None:
        if kind in ("s", "o", "g"):
            text = str(value).encode() + b"\0"
            if kind != "g":
                self.align(4)
            self.data += (len(text) - 1).to_bytes(1 if kind == "g" else 4, "little") + text
        elif kind == "b":
            self.align(4)
            self.data += struct.pack("<I", bool(value))
        else:
            assert isinstance(value, int)
            self.align(8)
            self.data += struct.pack("<Q", value)


def _types(signature: str) -> Iterator[str]:
    """The complete types of a signature, one by one."""
    place = 0
    while place < len(signature):
        end = place
        while signature[end] == "a":
            end += 1
        depth = 0
        while True:
            depth += {"(": 1, ")": -1}.get(signature[end], 0)
            end += 1
            if depth == 0:
                break
        yield signature[place:end]
        place = end


def _fields(data: bytes) -> dict[int, str | int]:
    """Those of a head whose values are texts or numbers."""
    found: dict[int, str | int] = {}
    place = 0
    while place < len(data):
        place = _aligned(place, 8)
        code, kind = data[place], chr(data[place + 2])
        place += 4
        if kind in ("s", "o"):
            found[code], place = _text(data, place)
        elif kind == "g":
            length = data[place]
            found[code], place = data[place + 1 : place + 1 + length].decode(), place + 2 + length
        else:
            place = _aligned(place, 4)
            (found[code],), place = struct.unpack_from("<I", data, place), place + 4
    return found


def _text(data: bytes, place: int) -> tuple[str, int]:
    place = _aligned(place, 4)
    (length,) = struct.unpack_from("<I", data, place)
    begin = place + 4
    return data[begin : begin + length].decode("utf-8", "replace"), begin + length + 1


def _aligned(place: int, size: int) -> int:
    return place + -place % size
