"""Manifests are read by a child that is gone afterwards.

The agent stays for months, with its memory locked. A YAML parser takes 1 MB of that, of 28; a file of 8 MB takes
hundreds for a moment, which Python does not give back; and the parser is C code that is given whatever anybody wrote.
A child takes 50 ms to be there, so one child reads all that changed. Whoever asks it waits, and so does it in a
thread.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn, Self

import msgspec

from jettison.agent.late_imports import LateImports
from jettison.errors import ManifestError, ObservationFailed
from jettison.runtimes.linux.forks import fork_quietly
from jettison.runtimes.linux.kernel_files import reason
from jettison.runtimes.linux.processes import set_oom_score_adj

_LENGTH = struct.Struct("=Q")
_CHUNK = 65536
# On a node that is starving it may take its time; the next look tries again.
_SECONDS = 30.0
# The kernel takes it before anybody else.
_FIRST_TO_GO = 1000

Documents = list[dict[str, Any]]

_QUESTION = msgspec.json.Decoder(tuple[str, str])
_ANSWER = msgspec.json.Decoder(tuple[Documents, str])


class ManifestReader:
    """For one look: the child begins with the first text and ends with the `with`."""

    def __init__(self) -> None:
        self._pid = 0
        self._channel: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def parse(self, text: str, source: str) -> Documents:
        """The documents of a file. Raises ManifestError, and ObservationFailed where another try may succeed."""
        try:
            channel = self._begun()
            _send(channel, msgspec.json.encode((text, source)))
            answer = _receive(channel)
        except ConnectionError:
            answer = b""
        except TimeoutError as error:
            os.kill(self._pid, signal.SIGKILL)
            self._end()
            raise ObservationFailed(f"{source}: not read within {_SECONDS:g} s") from error
        except OSError as error:
            raise ObservationFailed(f"{source}: no process to read it: {reason(error)}") from error
        if not answer:
            status = self._end()
            if status == -signal.SIGKILL:
                raise ObservationFailed(f"{source}: whoever read it was killed")
            raise ManifestError(f"{source}: whoever reads it dies of it, exit code {status}")
        documents, complaint = _ANSWER.decode(answer)
        if complaint:
            raise ManifestError(complaint)
        return [_shared(document) for document in documents]

    def _begun(self) -> socket.socket:
        if self._channel is None:
            ours, theirs = socket.socketpair()
            ours.settimeout(_SECONDS)
            with theirs:
                try:
                    self._pid = fork_quietly()
                except OSError:
                    ours.close()
                    raise
                if self._pid == 0:
                    ours.close()
                    _serve(theirs)
            self._channel = ours
        return self._channel

    def _end(self) -> int:
        if self._channel is None:
            return 0
        self._channel.close()
        self._channel = None
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _shared(value: Any) -> Any:
    """One copy of each text: the documents stay, and a hundred of them are made of the same thirty words."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, dict):
        return {sys.intern(key): _shared(each) for key, each in value.items()}
    return [_shared(each) for each in value] if isinstance(value, list) else value


def _serve(channel: socket.socket) -> NoReturn:
    """The child. Ends when the parent lets go of the channel, or dies."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        set_oom_score_adj(os.getpid(), _FIRST_TO_GO)
        # What is loaded here is gone with us.
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, LateImports)]
        parse_documents = import_module("jettison.manifests.document_files").parse_documents
        while question := _receive(channel):
            _send(channel, _answer(parse_documents, *_QUESTION.decode(question)))
        code = 0
    finally:
        os._exit(code)


def _answer(parse_documents: Callable[[str, str], Documents], text: str, source: str) -> bytes:
    try:
        return msgspec.json.encode((parse_documents(text, source), ""))
    except ManifestError as error:
        complaint = str(error)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        complaint = f"{source}: cannot be written as JSON: {error}"
    return msgspec.json.encode(([], complaint))


def _send(channel: socket.socket, data: bytes) -> None:
    channel.sendall(_LENGTH.pack(len(data)) + data)


def _receive(channel: socket.socket) -> bytes:
    """Empty when nobody is there any more."""
    header = _exactly(channel, _LENGTH.size)
    return _exactly(channel, _LENGTH.unpack(header)[0]) if header else b""


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = channel.recv(min(size - len(data), _CHUNK))
        if not part:
            return b""
        data += part
    return bytes(data)
