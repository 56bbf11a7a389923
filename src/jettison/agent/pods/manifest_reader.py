"""Manifests are read by a child that is gone afterwards.

The agent stays for months, with its memory locked. A YAML parser takes 1 MB of that, of 28; a file of 1 MB takes
hundreds for a moment, which Python does not give back; and the parser is C code that is given whatever a file holds.
The child opens the file itself and has limits of its own on memory and processor time. What it hands over is measured
(`manifests.bounds`) and comes one document at a time, because decoding holds the interpreter: 0.4 ms for the largest
one. A child takes 50 ms to be there, so one child reads all that changed. The caller waits for it, in a thread.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

import msgspec

from jettison.agent.self_protection import LateImports
from jettison.errors import ManifestError, ObservationError
from jettison.manifests.files import bounds
from jettison.manifests.files.plain_files import plain_text, read_plain
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.processes import fork_quietly, set_oom_score_adj

_LENGTH = struct.Struct("=Q")
_CHUNK = 65536
# On a node that is starving it may take its time; the next look tries again.
_SECONDS = 30.0
# The kernel's OOM killer takes it before any other process.
_FIRST_TO_GO = 1000

Documents = list[dict[str, Any]]

_GONE = -1
# How many documents follow, and what is wrong.
_ANSWER = msgspec.json.Decoder(tuple[int, str])
_DOCUMENT = msgspec.json.Decoder(dict[str, Any])

_PROCESSOR_SECONDS = 10
_MEMORY = 512 * 2**20
_LONGEST_COMPLAINT = 2000
# Longer ones are no words that come again.
_LONGEST_SHARED = 100


class Reading(NamedTuple):
    """The documents of a file, and how many bytes of JSON they are."""

    documents: Documents
    size: int


class ManifestReader:
    """For one look: the child begins with the first text and ends with the `with`."""

    def __init__(self) -> None:
        self._pid = 0
        self._channel: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, path: str, source: str) -> Reading | None:
        """What a file holds, None when it is gone. Raises ManifestError, and ObservationError where another try may
        succeed. `source` is the file's name as it can be shown.
        """
        found: list[dict[str, Any]] = []
        size = 0
        try:
            channel = self._begun()
            _send(channel, os.fsencode(path))
            _send(channel, source.encode())
            answer = _receive(channel)
            count, complaint = _ANSWER.decode(answer) if answer else (0, "")
            if count == _GONE:
                return None
            for _ in range(count):
                answer = _receive(channel)
                if not answer:
                    break
                size += len(answer)
                found.append(_shared(_DOCUMENT.decode(answer)))
        except ConnectionError:
            answer = b""
        except TimeoutError as error:
            os.kill(self._pid, signal.SIGKILL)
            self._end()
            raise ObservationError(f"{source}: not read within {_SECONDS:g} s") from error
        except OSError as error:
            raise ObservationError(f"{source}: no process to read it: {reason(error)}") from error
        if not answer:
            status = self._end()
            if status == -signal.SIGKILL:
                raise ObservationError(f"{source}: the process that read it was killed")
            if status == -signal.SIGXCPU:
                raise ManifestError(f"{source}: reading it takes more than {_PROCESSOR_SECONDS} s of processor time")
            raise ManifestError(f"{source}: the process that reads it crashes, exit code {status}")
        if complaint:
            raise ManifestError(complaint)
        return Reading(found, size)

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
        return sys.intern(value) if len(value) <= _LONGEST_SHARED else value
    if isinstance(value, dict):
        return {sys.intern(key): _shared(each) for key, each in value.items()}
    return [_shared(each) for each in value] if isinstance(value, list) else value


def _serve(channel: socket.socket) -> NoReturn:
    """The child. Ends when the parent lets go of the channel, or dies."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        set_oom_score_adj(os.getpid(), _FIRST_TO_GO)
        _limit()
        # What is loaded here is gone with us.
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, LateImports)]
        parse_documents = import_module("jettison.manifests.files.document_files").parse_documents
        while path := _receive(channel):
            for answer in _answers(parse_documents, os.fsdecode(path), _receive(channel).decode()):
                _send(channel, answer)
        code = 0
    finally:
        os._exit(code)


def _limit() -> None:
    """Past its processor time the child dies of SIGXCPU, past its memory it meets a MemoryError."""
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGXCPU})
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_SECONDS, _PROCESSOR_SECONDS + 1))
    pages = int((kernel_files.read("/proc/self/statm") or b"0").split()[0])
    # It begins with all that the agent has mapped.
    most = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _answers(parse_documents: Callable[[str, str], Documents], path: str, source: str) -> list[bytes]:
    """How many documents follow and what is wrong, then each document."""
    try:
        text = plain_text(read_plain(Path(path), bounds.LARGEST_FILE), source)
        found = [msgspec.json.encode(each) for each in parse_documents(text, source)]
        for each in found:
            if len(each) > bounds.LARGEST_DOCUMENT:
                most = bounds.LARGEST_DOCUMENT
                raise ManifestError(f"{source}: a document has {len(each)} bytes as JSON, at most {most} are allowed")
        return [msgspec.json.encode((len(found), "")), *found]
    except FileNotFoundError:
        return [msgspec.json.encode((_GONE, ""))]
    except ManifestError as error:
        complaint = str(error)
    except OSError as error:
        complaint = f"{source}: {reason(error)}"
    except MemoryError:
        complaint = f"{source}: reading it takes more than {_MEMORY} bytes of memory"
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        complaint = f"{source}: cannot be written as JSON: {error}"
    # A name that is not UTF-8 may be in it.
    said = complaint[:_LONGEST_COMPLAINT].encode(errors="backslashreplace").decode()
    return [msgspec.json.encode((0, said))]


def _send(channel: socket.socket, data: bytes) -> None:
    channel.sendall(_LENGTH.pack(len(data)) + data)


def _receive(channel: socket.socket) -> bytes:
    """Empty when the other side is gone."""
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
