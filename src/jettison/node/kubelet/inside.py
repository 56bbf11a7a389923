"""What a client talks to: a command that was started in a container of processes, one that a container runtime runs,
the terminal of a process, or the output of a container that is running.

Output comes in pieces, and the next piece is read when the one before has been sent. Whatever runs on behalf of a
client ends with its connection.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self
from urllib.parse import urlsplit

import msgspec

from jettison.errors import StartError, StreamError
from jettison.node.kubelet import spdy
from jettison.node.kubelet.channels import ERROR, RESIZE, STDERR, STDIN, STDOUT, VERSIONS, Wishes
from jettison.node.kubelet.stream_connection import PIECE_BYTES, StreamConnection
from jettison.runtimes.containers import BoxAddress
from jettison.runtimes.host.processes.processes import Entrance, Process, enter
from jettison.runtimes.host.processes.terminals import HeldTerminal, read_terminal, take_terminal, write_terminal

if TYPE_CHECKING:
    from jettison.runtimes.cri.client import CriClient

# For the last output of a command that has ended. A process that it left behind may keep its end open.
_LAST_WORDS_SECONDS: Final = 2.0
_CONNECT_SECONDS: Final = 10.0
_LONGEST_STATUS: Final = 64 * 1024
_LONGEST_HEAD: Final = 16 * 1024
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class CommandEnd(NamedTuple):
    """How it ended. Without an exit code, `why` says what went wrong."""

    exit_code: int | None
    why: str = ""


class Inside(Protocol):
    """Belongs to one client, and is closed when that has gone."""

    def output(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """Pieces with their channels, until there are no more."""

    async def write(self, data: bytes) -> None:
        """To its input; returns when that was taken. What nothing reads any more is dropped."""

    async def end_input(self) -> None:
        """There is no more."""

    async def resize(self, columns: int, rows: int) -> None:
        """Of its terminal."""

    async def outcome(self) -> CommandEnd:
        """Once there is no more output."""

    async def close(self) -> None:
        """End it, if it has not ended."""


class CommandInside:
    """A command in a container of processes, with pipes or with a terminal of its own."""

    def __init__(self, process: Process, given: int, sources: dict[str, int]) -> None:
        self._process = process
        # Where its input goes; -1 where it has none.
        self._given = given
        self._sources = sources

    @classmethod
    async def start(cls, entrance: Entrance, words: Sequence[str], wishes: Wishes) -> Self:
        """Returns when it runs. Raises StartError."""
        if wishes.has_terminal:
            return await cls._start_in_terminal(entrance, words, wishes)
        theirs, sources, given = _Descriptors(), _Descriptors(), -1
        try:
            nothing = theirs.keep(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
            ends = [nothing, nothing, nothing]
            if wishes.has_input:
                ends[0], given = (each for each in os.pipe())
                theirs.keep(ends[0])
                sources.keep(given)
            for number, is_wanted in ((1, wishes.has_output), (2, wishes.has_errors)):
                if is_wanted:
                    ours, ends[number] = os.pipe()
                    sources.keep(ours)
                    theirs.keep(ends[number])
            process = await enter(entrance, words, (ends[0], ends[1], ends[2]), has_terminal=False)
        except BaseException:
            sources.close()
            raise
        finally:
            theirs.close()
        for each in sources.held:
            os.set_blocking(each, False)
        names = [name for name, is_wanted in ((STDOUT, wishes.has_output), (STDERR, wishes.has_errors)) if is_wanted]
        return cls(process, given, dict(zip(names, [each for each in sources.held if each != given], strict=True)))

    @classmethod
    async def _start_in_terminal(cls, entrance: Entrance, words: Sequence[str], wishes: Wishes) -> Self:
        ours, theirs = os.openpty()
        try:
            user = entrance.launch.security.user
            if user is not None:
                # Or it could not open its own /dev/pts/N.
                os.fchown(theirs, user, -1)
            process = await enter(entrance, words, (theirs, theirs, theirs), has_terminal=True)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        return cls(process, os.dup(ours) if wishes.has_input else -1, {STDOUT: ours})

    async def output(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """Both channels as they come."""
        pieces: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(1)
        pumps = [asyncio.create_task(self._pump(name, each, pieces)) for name, each in self._sources.items()]
        left = len(pumps)
        try:
            while left:
                name, data = await pieces.get()
                if data:
                    yield name, data
                else:
                    left -= 1
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, name: str, source: int, pieces: asyncio.Queue[tuple[str, bytes]]) -> None:
        while data := await self._next(source):
            await pieces.put((name, data))
        await pieces.put((name, b""))

    async def _next(self, source: int) -> bytes:
        """Empty when there will be no more: the other end is closed, or the command has ended and is silent."""
        reading = asyncio.ensure_future(read_piece(source))
        ended = self._process.exited
        try:
            if not ended.done():
                await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((reading,), timeout=_LAST_WORDS_SECONDS)
            return reading.result() if reading.done() else b""
        finally:
            # Awaited, so that nothing watches the descriptor when it is closed.
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def write(self, data: bytes) -> None:
        """To its standard input."""
        if self._given >= 0:
            try:
                await write_all(self._given, data)
            except OSError:
                await self.end_input()

    async def end_input(self) -> None:
        """A terminal has no end of its own: it is closed with the command."""
        if self._given >= 0:
            os.close(self._given)
            self._given = -1

    async def resize(self, columns: int, rows: int) -> None:
        """Its whole process group hears of it."""
        if STDOUT in self._sources:
            with suppress(OSError):
                fcntl.ioctl(self._sources[STDOUT], termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def outcome(self) -> CommandEnd:
        """Its exit code, 128 and the signal for one that was killed."""
        await asyncio.wait((self._process.exited,))
        code = self._process.exited.result()
        return CommandEnd(code, "" if code is not None else "its exit code was lost")

    async def close(self) -> None:
        """With all of its process group: a shell alone would leave its children."""
        await self.end_input()
        for each in self._sources.values():
            os.close(each)
        self._sources = {}
        if not self._process.exited.done():
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await asyncio.wait((self._process.exited,))


class _Descriptors:
    def __init__(self) -> None:
        self.held: list[int] = []

    def keep(self, descriptor: int) -> int:
        self.held.append(descriptor)
        return descriptor

    def close(self) -> None:
        while self.held:
            os.close(self.held.pop())


class RuntimeInside:
    """A command or an attachment that a container runtime streams, at an address that it has given for this once."""

    def __init__(self, reader: StreamReader, writer: StreamWriter, wishes: Wishes) -> None:
        self._socket = writer
        self._connection = StreamConnection(reader, writer)
        self._reader, self._writer = spdy.SpdyReader(), spdy.SpdyWriter()
        # A client's streams have odd numbers.
        names = [name for name in (ERROR, STDIN, STDOUT, STDERR, RESIZE) if name in wishes.channels]
        self._streams = {2 * place + 1: name for place, name in enumerate(names)}
        self._numbers = {name: stream for stream, name in self._streams.items()}
        self._status = b""

    @classmethod
    async def run(cls, box: BoxAddress, words: Sequence[str], wishes: Wishes) -> Self:
        """A command in a container. Raises RuntimeFailure."""
        client = _runtime_client(box)
        try:
            return await cls._connect(await client.exec_url(box.id, words, *_flags(wishes)), wishes)
        finally:
            client.close()

    @classmethod
    async def attach(cls, box: BoxAddress, wishes: Wishes) -> Self:
        """The container's own main process. Raises RuntimeFailure."""
        client = _runtime_client(box)
        try:
            return await cls._connect(await client.attach_url(box.id, *_flags(wishes)), wishes)
        finally:
            client.close()

    @classmethod
    async def _connect(cls, url: str, wishes: Wishes) -> Self:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname not in _LOOPBACK or parts.port is None:
            raise StreamError("the container runtime streams elsewhere than on the loopback, which is not followed")
        head = (
            f"POST {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: Upgrade\r\n"
            f"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {VERSIONS[1]}\r\nContent-Length: 0\r\n\r\n"
        )
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=_LONGEST_HEAD)
                writer.write(head.encode("ascii", "replace"))
                answer = await reader.readuntil(b"\r\n\r\n")
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise StreamError(f"the container runtime does not stream: {str(error) or 'not in time'}") from error
        status = answer.partition(b"\r\n")[0].decode("latin-1")
        if status.split()[1:2] != ["101"]:
            writer.close()
            raise StreamError(f"the container runtime does not stream: {status[:200]}")
        found = cls(reader, writer, wishes)
        await found._begin()
        return found

    async def _begin(self) -> None:
        for stream, name in self._streams.items():
            await self._send(self._writer.open(stream, {"streamtype": name}))

    async def output(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """What comes on the streams for it."""
        open_streams = {self._numbers[name] for name in (STDOUT, STDERR, ERROR) if name in self._numbers}
        while open_streams and (data := await self._connection.read()):
            for event in self._reader.read(data):
                match event:
                    case spdy.Data(stream, piece, is_last):
                        name = self._streams.get(stream, "")
                        if name == ERROR:
                            self._status = (self._status + piece)[:_LONGEST_STATUS]
                        elif piece and name in (STDOUT, STDERR):
                            yield name, piece
                        if is_last:
                            open_streams.discard(stream)
                    case spdy.Reset(stream):
                        open_streams.discard(stream)
                    case spdy.SpdyPing(number):
                        await self._send(spdy.ping_frame(number))
                    case _:
                        continue

    async def write(self, data: bytes) -> None:
        """On the stream for input."""
        if STDIN in self._numbers:
            await self._send(spdy.data_frame(self._numbers[STDIN], data))

    async def end_input(self) -> None:
        """The runtime closes the input of the command."""
        if STDIN in self._numbers:
            await self._send(spdy.data_frame(self._numbers[STDIN], b"", is_last=True))

    async def resize(self, columns: int, rows: int) -> None:
        """As its clients tell it."""
        if RESIZE in self._numbers:
            size = msgspec.json.encode({"Width": columns, "Height": rows})
            await self._send(spdy.data_frame(self._numbers[RESIZE], size))

    async def _send(self, frame: bytes) -> None:
        with suppress(OSError):  # the end of the connection is noticed by its reader
            await self._connection.write(frame)

    async def outcome(self) -> CommandEnd:
        """As the runtime tells it."""
        return read_status(self._status)

    async def close(self) -> None:
        """The runtime ends what it has started for us."""
        self._socket.transport.abort()
        with suppress(OSError):
            await self._socket.wait_closed()


class TerminalInside:
    """The terminal of a container of processes. What comes from it goes to one client, and into the log."""

    def __init__(self, master: int, log: int, *, has_input: bool) -> None:
        self._master = master
        self._log = log
        self._has_input = has_input

    @classmethod
    def attach(cls, held: HeldTerminal, wishes: Wishes) -> Self:
        """Raises StartError."""
        return cls(*take_terminal(held), has_input=wishes.has_input)

    async def output(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """What waits there comes first. It ends when no process has the terminal any more."""
        while True:
            await _until(self._master, is_reading=True)
            try:
                piece = await read_terminal(self._master, self._log)
            except BlockingIOError:
                continue  # the process has taken it itself
            if not piece:
                return
            yield STDOUT, piece

    async def write(self, data: bytes) -> None:
        """As if it were typed."""
        if self._has_input:
            with suppress(OSError):
                await write_terminal(self._master, data)

    async def end_input(self) -> None:
        """Nothing: the next client may type on."""

    async def resize(self, columns: int, rows: int) -> None:
        """What runs in it hears of it."""
        with suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def outcome(self) -> CommandEnd:
        """The container has ended; how, its status tells."""
        return CommandEnd(0)

    async def close(self) -> None:
        """The container runs on."""
        for each in (self._master, self._log):
            os.close(each)


class LogInside:
    """What a container of processes writes from now on, and its input where it has one."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], given: Path | None) -> None:
        self._pieces = pieces
        self._given = -1
        if given is not None:
            try:
                # Without a reader the kernel refuses to open it for writing alone.
                self._given = os.open(given, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError as error:
                why = "it does not run, or has not asked for `stdin`"
                raise StartError(f"the container takes no input: {why}") from error

    async def output(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """Both of its channels as one: they share a log."""
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                if piece:
                    yield STDOUT, piece

    async def write(self, data: bytes) -> None:
        """Which every client of the container shares."""
        if self._given >= 0:
            with suppress(OSError):
                await write_all(self._given, data)

    async def end_input(self) -> None:
        """Only this client's: another one may come."""
        if self._given >= 0:
            os.close(self._given)
            self._given = -1

    async def resize(self, columns: int, rows: int) -> None:
        """It has no terminal."""

    async def outcome(self) -> CommandEnd:
        """The container has ended; how, its status tells."""
        return CommandEnd(0)

    async def close(self) -> None:
        """The container runs on."""
        await self.end_input()
        await self._pieces.aclose()


async def read_piece(descriptor: int) -> bytes:
    """What is there next, of a descriptor that does not block; empty at its end, also where a terminal was hung up."""
    while True:
        try:
            return os.read(descriptor, PIECE_BYTES)
        except BlockingIOError:
            await _until(descriptor, is_reading=True)
        except OSError:
            return b""


async def write_all(descriptor: int, data: bytes) -> None:
    """All of it, to a descriptor that does not block."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await _until(descriptor, is_reading=False)


async def _until(descriptor: int, *, is_reading: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    add, remove = (loop.add_reader, loop.remove_reader) if is_reading else (loop.add_writer, loop.remove_writer)
    add(descriptor, wake)
    try:
        await ready
    finally:
        remove(descriptor)


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


EXEC_FAILED: Final = "error executing command in container: "
"""What a kubelet, and a container runtime, say before the reason why a command could not be run."""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    status: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def read_status(data: bytes) -> CommandEnd:
    """How a command ended, from the Status that came on the channel for errors."""
    try:
        found = msgspec.json.decode(data, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return CommandEnd(None, "the connection ended before the command did" if not data else "its end cannot be read")
    if found.status == "Success":
        return CommandEnd(0)
    causes = (found.details or _Details()).causes or ()
    code = next((each.message for each in causes if each.reason == "ExitCode"), "")
    if code.isascii() and code.isdigit() and len(code) < 5:
        return CommandEnd(int(code))
    # An internal error has its own words, without those that every such error begins with, as its cause.
    why = next((each.message for each in causes if not each.reason), "") or found.message or found.reason
    return CommandEnd(None, why.removeprefix(EXEC_FAILED) or "it failed")


def _flags(wishes: Wishes) -> tuple[bool, bool, bool, bool]:
    """The interface takes no errors beside a terminal."""
    has_errors = wishes.has_errors and not wishes.has_terminal
    return wishes.has_terminal, wishes.has_input, wishes.has_output, has_errors


def _runtime_client(box: BoxAddress) -> CriClient:
    # Loaded only where it is needed: it costs 2 MB.
    from jettison.runtimes.cri.client import CriClient  # noqa: PLC0415

    return CriClient(Path(box.endpoint))
