"""Recordings of nodes as files: written frame by frame, read again as values. `agent/journal/tape.py` has the format.

A file is read from its beginning to its end, one frame at a time, so a recording may be larger than memory. What is
torn at its end (a recorder was killed, a disk was full) is left out and told; damage in the middle is an error, because
what follows could not be decided from what is left.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Self

import msgspec

from jettison.agent.agent import TapedLook
from jettison.agent.journal.files import LARGEST_PAYLOAD
from jettison.agent.journal.policy_records import policy_from
from jettison.agent.journal.tape import MAGIC, VERSION, Line, joined_lines
from jettison.clock import Stamp
from jettison.engine.config.policy import Policy
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Layout, NodeStats, PodUsage, Reading, Snapshot
from jettison.engine.node.survival import Trend, Trends
from jettison.engine.pods.pod import Pod
from jettison.errors import ManifestError, WriteError
from jettison.manifests.files.decoding import bounded, decode, shortened
from jettison.manifests.files.plain_files import unreadable
from jettison.manifests.history import parse_history
from jettison.manifests.pods import pod_from
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.protocol import Alarm, EndingPod
from jettison.values import frozen

LARGEST_FRAME = 64 * 2**20
"""Bytes of lines in one frame; a recorder writes a few hundred thousand at most."""

_HEADER = struct.Struct("<II")

Ns = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@frozen
class Beginning:
    """What was in force when it began."""

    node: str
    # `agent`, or `kubelet`: then nothing is known of what the node was told.
    source: str
    program: str
    acts: bool
    at: Stamp
    policy: Policy
    history: History
    trends: Trends = field(default_factory=dict)


@frozen
class FailedLook:
    """The node could not be measured."""

    why: str


@frozen
class InterruptedReclaim:
    """It was not waited for: the next look is of a new step."""


@frozen
class WrittenStep:
    """A step went to the journal; sum and length of its JSON."""

    crc: int
    size: int


@frozen
class WrittenFact:
    """Another record of the journal, as JSON."""

    data: bytes


Entry = Beginning | TapedLook | FailedLook | InterruptedReclaim | Policy | WrittenStep | WrittenFact


class _Line(msgspec.Struct, tag_field="k", forbid_unknown_fields=True):
    """A key that is not read would be something that the node saw and the replay does not."""


class _Begin(_Line, tag="begin"):
    version: int
    program: str
    node: str
    source: str
    acts: bool
    at: tuple[Ns, Ns, Ns]
    policy: Any
    history: msgspec.Raw
    trends: list[tuple[str, Reading, int]]


class _Pod(_Line, tag="pod"):
    i: int
    pod: Any


_Ending = tuple[Ns, Ns, Ns | None, str, int | None, str, str, bool]


class _Look(_Line, tag="look"):
    at: tuple[Ns, Ns, Ns]
    alarm: tuple[str, Ns] | None
    now: Ns
    node: NodeStats
    pods: list[int]
    usages: list[tuple[int | str, PodUsage]]
    layout: tuple[bool, bool]
    endings: list[_Ending]
    told: tuple[str, ...]


class _Failed(_Line, tag="failed"):
    why: str


class _Interrupted(_Line, tag="interrupted"):
    pass


class _Policy(_Line, tag="policy"):
    policy: Any


class _Step(_Line, tag="step"):
    crc: int
    bytes: int


class _Fact(_Line, tag="fact"):
    record: msgspec.Raw


class _Kind(msgspec.Struct):
    k: str


_KIND = msgspec.json.Decoder(_Kind)
_SHAPES: dict[str, msgspec.json.Decoder[Any]] = {
    "begin": msgspec.json.Decoder(_Begin),
    "pod": msgspec.json.Decoder(_Pod),
    "look": msgspec.json.Decoder(_Look),
    "failed": msgspec.json.Decoder(_Failed),
    "interrupted": msgspec.json.Decoder(_Interrupted),
    "policy": msgspec.json.Decoder(_Policy),
    "step": msgspec.json.Decoder(_Step),
    "fact": msgspec.json.Decoder(_Fact),
}


def unpacked(data: bytes) -> Iterator[bytes]:
    """The lines of frames as an agent hands them over, each packed by itself."""
    place = 0
    while place + _HEADER.size <= len(data):
        length, _ = _HEADER.unpack_from(data, place)
        place += _HEADER.size
        yield zlib.decompress(data[place : place + length])
        place += length


class RecordingWriter:
    """Appends frames to a new file; each is on the disk's way when `add` returns.

    All of them are one stream of zlib, flushed at the end of each frame: a look resembles the one before it, and takes
    a fourth of what it would take by itself.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = len(MAGIC)
        self._packer = zlib.compressobj(6)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise WriteError(f"`{path}` exists already: a recording is never overwritten") from error
        except OSError as error:
            raise WriteError(f"cannot write `{path}`: {reason(error)}") from error
        self._file: BinaryIO = os.fdopen(descriptor, "wb", buffering=0)
        self._write(MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.size == len(MAGIC):
            # It never began, and would only be in the way of the next.
            self._path.unlink(missing_ok=True)
        with suppress(OSError):  # a pipe, or a filesystem that cannot
            os.fsync(self._file.fileno())
        self._file.close()

    def add(self, lines: Iterable[Line]) -> None:
        """As one frame."""
        payload = self._packer.compress(joined_lines(lines)) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        self._write(_HEADER.pack(len(payload), zlib.crc32(payload)) + payload)
        self.size += _HEADER.size + len(payload)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise WriteError(f"cannot write `{self._path}`: {reason(error)}") from error


class RecordingReader:
    """Entries of a file, in order. `torn` says afterwards what was left out at its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = ""
        self._line = 0
        self._pods: dict[int, Pod] = {}
        self._by_uid: dict[str, Pod] = {}
        self._unpacker = zlib.decompressobj()

    def entries(self) -> Iterator[Entry]:
        """The first is always a `Beginning`. Raises ManifestError with the place where the file cannot be used."""
        is_begun = False
        for line in self.lines():
            entry = self._entry(line)
            if is_begun == isinstance(entry, Beginning):
                raise self._wrong("it begins twice" if is_begun else "the first line is not its beginning")
            is_begun = True
            if entry is not None:
                yield entry
        if not is_begun:
            raise ManifestError(f"`{self.path}`: the recording holds nothing: it was ended before its first look")

    def lines(self) -> Iterator[bytes]:
        """Each as it was written."""
        try:
            # A pipe that never gets a writer fails instead of waiting for one.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:  # noqa: PTH123  a descriptor is no path
                for payload in self._payloads(file):
                    for line in payload.splitlines():
                        self._line += 1
                        yield line
        except OSError as error:
            raise unreadable(str(self.path), error) from error
        except ValueError as error:  # a NUL in a name that some scenario has
            raise ManifestError(f"{str(self.path)!r} is not the name of a file") from error

    def _payloads(self, file: BinaryIO) -> Iterator[bytes]:
        magic = file.read(len(MAGIC))
        if magic != MAGIC:
            if magic[:-1] == MAGIC[:-1]:
                raise self._version(shortened(magic[-1:].decode(errors="backslashreplace")))
            raise ManifestError(f"`{self.path}`: this is no recording: it does not begin with `{MAGIC.decode()}`")
        place = len(MAGIC)
        while header := file.read(_HEADER.size):
            if len(header) < _HEADER.size:
                self.torn = f"the last {len(header)} bytes are torn"
                return
            length, checksum = _HEADER.unpack(header)
            if not 0 < length <= LARGEST_PAYLOAD:
                raise self._damaged(place, f"a frame has 1 to {LARGEST_PAYLOAD} bytes, not {length}")
            payload = file.read(length)
            if len(payload) < length:
                self.torn = f"the last {len(payload) + _HEADER.size} bytes are torn"
                return
            if zlib.crc32(payload) != checksum:
                raise self._damaged(place, "its sum does not match")
            yield self._unpacked(payload, place)
            place += _HEADER.size + length

    def _unpacked(self, payload: bytes, place: int) -> bytes:
        try:
            lines = self._unpacker.decompress(payload, LARGEST_FRAME)
        except zlib.error as error:
            raise self._damaged(place, "it cannot be unpacked") from error
        if self._unpacker.unconsumed_tail:
            raise self._damaged(place, f"it holds more than {LARGEST_FRAME} bytes")
        return lines

    def _damaged(self, place: int, why: str) -> ManifestError:
        return ManifestError(f"`{self.path}`: damaged at byte {place}, after line {self._line}: {why}")

    def _version(self, found: object) -> ManifestError:
        return ManifestError(f"`{self.path}`: version is `{found}`, this program reads version {VERSION}")

    def _wrong(self, why: str) -> ManifestError:
        return ManifestError(f"`{self.path}`: line {self._line}: {why}")

    def _entry(self, line: bytes) -> Entry | None:
        source = f"`{self.path}`: line {self._line}"
        kind = decode(_KIND, bounded(line, source), source).k
        shape = _SHAPES.get(kind)
        if shape is None:
            raise self._wrong(f"kind is `{shortened(kind)}`, expected one of {', '.join(_SHAPES)}")
        try:
            found = decode(shape, line, source)
        except ManifestError:
            self._check_keys(line, shape.type.__struct_fields__)
            raise
        match found:
            case _Begin():
                return self._beginning(found, source)
            case _Pod(i, document):
                pod = pod_from(document, source)
                self._pods[i] = self._by_uid[pod.uid] = pod
                return None
            case _Look():
                return self._look(found)
            case _Failed(why):
                return FailedLook(why)
            case _Interrupted():
                return InterruptedReclaim()
            case _Policy(document):
                return policy_from(document, source)
            case _Step(crc, size):
                return WrittenStep(crc, size)
            case _:
                return WrittenFact(bytes(found.record))

    def _check_keys(self, line: bytes, known: Sequence[str]) -> None:
        for key in msgspec.json.decode(line):
            if key not in ("k", *known):
                allowed = f"expected one of {', '.join(known)}" if known else "expected none"
                raise self._wrong(f"unknown key `{shortened(key)}`, {allowed}")

    def _beginning(self, found: _Begin, source: str) -> Beginning:
        if found.version != VERSION:
            raise self._version(found.version)
        try:
            trends = {Signal(name): Trend(Signal(name), reading, fall) for name, reading, fall in found.trends}
        except ValueError as error:
            raise self._wrong(str(error)) from error
        return Beginning(
            found.node,
            found.source,
            found.program,
            found.acts,
            Stamp(*found.at),
            policy_from(found.policy, source),
            parse_history(bytes(found.history), source).history,
            trends,
        )

    def _look(self, found: _Look) -> TapedLook:
        pods = [self._pod(number) for number in found.pods]
        usages = {key if isinstance(key, str) else self._pod(key).uid: usage for key, usage in found.usages}
        snapshot = Snapshot(found.now, found.node, pods, usages, Layout(*found.layout))
        alarm = None if found.alarm is None else Alarm(*found.alarm)
        return TapedLook(Stamp(*found.at), alarm, snapshot, tuple(map(self._ending, found.endings)), found.told)

    def _pod(self, number: int) -> Pod:
        pod = self._pods.get(number)
        if pod is None:
            raise self._wrong(f"pod {number} was not described before")
        return pod

    def _ending(self, found: _Ending) -> EndingPod:
        ordered_ns, began_ns, stopped_ns, uid, grace, signal, why, is_at_once = found
        pod = self._by_uid.get(uid)
        if pod is None:
            raise self._wrong(f"pod `{shortened(uid)}` is ending and was not described before")
        order = Eviction(pod, "", grace, signal, reason=why, is_at_once=is_at_once)
        return EndingPod(order, ordered_ns, began_ns, stopped_ns)
