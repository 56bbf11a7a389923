"""The side of a child that does work aside (`aside`), and the channel between the two.

Apart, because the child loads this before anything else, and each module costs it some milliseconds.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Final, NoReturn

CHANNEL: Final = 3
"""The child's only descriptor beside those of a null device."""

MEMORY: Final = 512 * 2**20
"""Past this the child meets a MemoryError, and says so."""

READY: Final = b"!"

LONGEST_COMPLAINT: Final = 2000

_HEADER: Final = 8
_CHUNK: Final = 65536


class MessageChannel:
    """Messages of any length over a socket. With `seconds` each wait has an end and raises TimeoutError."""

    def __init__(self, descriptor: int, seconds: float | None = None) -> None:
        self._descriptor = descriptor
        self._seconds = seconds
        os.set_blocking(descriptor, seconds is None)

    def close(self) -> None:
        """The other side is told so by an empty message."""
        os.close(self._descriptor)

    def send(self, message: bytes) -> None:
        """Raises ConnectionError when the other side is gone."""
        self._write(len(message).to_bytes(_HEADER, "big") + message)

    def send_file(self, descriptor: int, size: int) -> None:
        """A message with the first bytes of a file, which do not come into this process."""
        self._write(size.to_bytes(_HEADER, "big"))
        at = 0
        while at < size:
            try:
                at += os.sendfile(self._descriptor, descriptor, at, size - at)
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def receive(self, most_bytes: int | None = None) -> bytes:
        """Empty when the other side is gone. Raises ValueError when the message has more bytes."""
        header = self._exactly(_HEADER)
        size = int.from_bytes(header, "big")
        if most_bytes is not None and size > most_bytes:
            raise ValueError(f"more than {most_bytes} bytes")
        return self._exactly(size)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = os.read(self._descriptor, min(size - len(data), _CHUNK))
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            except ConnectionResetError:
                part = b""
            if not part:
                return b""
            data += part
        return bytes(data)

    def _wait(self, what: int) -> None:
        assert self._seconds is not None
        poll = select.poll()
        poll.register(self._descriptor, what)
        if not poll.poll(self._seconds * 1000):
            raise TimeoutError


def _close_inherited() -> None:
    """What the agent has opened does not come here, but what it was started with may."""
    for each in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208  pathlib takes 5 ms to load
        if each > CHANNEL:
            # One of them was the directory's own.
            with suppress(OSError):
                os.close(each)


def main(program: str) -> NoReturn:
    """All that the child does. It ends when the parent lets go of the channel, or dies."""
    code = 1
    try:
        _close_inherited()
        # msgspec does without, and it takes longer to load than msgspec.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        module, _, name = program.partition(":")
        serve: Callable[[MessageChannel], None] = getattr(import_module(module), name)
        channel = MessageChannel(CHANNEL)
        channel.send(READY)
        serve(channel)
        code = 0
    finally:
        os._exit(code)
