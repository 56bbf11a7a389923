"""`jettison` as a process of its own that starts in a tenth of the processor time: from a process that has loaded it.

Two starts of an interpreter and 570 modules take a second of processor time, and the suite starts some hundreds of
servers. Here one process per worker loads them and forks. A child reads its command line and its settings as ever; what
is left out is `execv`, and the process that makes the certificates. Tests of the start itself use `subprocess`.

Run as a program, this file is that process: it gets requests over the socket that is its standard input.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

import httptools
import uvicorn

from jettison import cli
from jettison.apiserver import cluster
from jettison.apiserver.access import certificates
from jettison.apiserver.access.identity import ServerIdentity
from jettison.cli import program
from jettison.cli.cluster import serve
from jettison.cli.host import up
from jettison.node import guarding
from jettison.node.cluster import local_cluster, nodes, processes
from jettison.node.kubelet import port
from jettison.node.process import entry, handover

_LONGEST_REQUEST = 1 << 20
_END_SECONDS = 30
_NUMBER = struct.Struct("i")
# Imported for the process that forks, which is this module as a program.
_LOADED = (
    certificates,
    nodes,
    processes,
    local_cluster,
    guarding,
    handover,
    httptools,
    program,
    serve,
    up,
    uvicorn,
)


class Process(Protocol):
    """What tests use of `subprocess.Popen`."""

    pid: int
    stdout: IO[Any] | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...
    def terminate(self) -> None: ...


class Forked:
    """A process that was started quickly. Its parent tells how it ended."""

    def __init__(self, pid: int, stdout: IO[str] | None, keeper: socket.socket) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._keeper = keeper

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("jettison", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """As Popen has it: nothing, where the process has ended. Its parent may reap it at any moment."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._keeper], [], [], seconds)[0]:
            self.returncode = _number(self._keeper)
            self._keeper.close()
        return self.returncode


def jettison(arguments: Iterable[str], stderr: IO[Any], *, is_heard: bool = True, fault: str = "") -> Forked:
    """Start `jettison` with these words, in the environment of the caller, with a fault of `faulty_agent` if told so.

    Its standard output is a pipe where it is heard, and otherwise where its standard error is.
    """
    ours, keeper = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    readable, writable = os.pipe() if is_heard else (None, os.dup(stderr.fileno()))
    request = json.dumps(
        {"words": list(arguments), "environment": dict(os.environ), "folder": str(Path.cwd()), "fault": fault}
    )
    with keeper, os.fdopen(writable, "wb") as stdout:
        descriptors = [stdout.fileno(), stderr.fileno(), keeper.fileno()]
        socket.send_fds(_loaded(os.getpid())[0], [request.encode()], descriptors)
    pid = _number(ours)
    return Forked(pid, None if readable is None else os.fdopen(readable), ours)


def finished(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What came of a command that ends by itself."""
    with tempfile.TemporaryFile("w+") as complaint:
        process = jettison(arguments, complaint)
        assert process.stdout is not None
        with process.stdout as stdout:
            said = stdout.read()
        code = process.wait(_END_SECONDS)
        complaint.seek(0)
        return subprocess.CompletedProcess(arguments, code, said, complaint.read())


def _number(channel: socket.socket) -> int:
    data = channel.recv(_NUMBER.size)
    assert data, "the process that starts `jettison` has ended; its standard error may say why"
    number: int = _NUMBER.unpack(data)[0]
    return number


@cache
def _loaded(owner: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process that forks for `owner`, which a fork of it does not share. It ends when the owner ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST_REQUEST)
    with theirs:
        forking = subprocess.Popen([sys.executable, "-P", __file__], stdin=theirs.fileno())
    atexit.register(leave)
    return ours, forking


def leave() -> None:
    """End the process that forks, before its absence is asked for."""
    if _loaded.cache_info().currsize:
        ours, forking = _loaded(os.getpid())
        ours.close()
        forking.wait()
        _loaded.cache_clear()


def _fork_on_request(requests: socket.socket) -> None:
    """Until no process can ask any more."""
    gc.freeze()
    # Ctrl-C reaches all processes; this one ends with the one that asks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 3)
        with suppress(ChildProcessError):  # none is left
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not request:
            return
        if os.fork() == 0:
            _keep(json.loads(request), *descriptors)
        for each in descriptors:
            os.close(each)


def _keep(request: dict[str, Any], stdout: int, stderr: int, report: int) -> NoReturn:
    """Start it, tell its number, wait for its end, and tell how it ended."""
    pid = os.fork()
    if pid == 0:
        _become(request, stdout, stderr)
    os.close(stdout)
    os.close(stderr)
    os.write(report, _NUMBER.pack(pid))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):  # the test has ended
        os.write(report, _NUMBER.pack(code))
    os._exit(0)


def _become(request: dict[str, Any], stdout: int, stderr: int) -> NoReturn:
    """As an interpreter begins: with three open files, default signals, and words."""
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), stdout, stderr)):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        setattr(sys, name, os.fdopen(number, mode, closefd=False))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["jettison", *request["words"]]
    # What a reload executes.
    sys.orig_argv = [sys.executable, "-m", *sys.argv]
    os.execv = lambda *_: entry.main()
    # mypy: names that these modules have imported themselves.
    setattr(cluster, "IdentityMaker", _HereMade)  # noqa: B010
    setattr(port, "CertificateInTheMaking", _NodeCertificate)  # noqa: B010
    if request["fault"]:
        runpy.run_path(str(Path(__file__).with_name("faulty_agent.py")))["break_it"](request["fault"])
    try:
        cli.main()
    except SystemExit as ending:
        sys.stdout.flush()
        sys.stderr.flush()
        # Without the 30 ms in which an interpreter forgets its modules.
        os._exit(ending.code if isinstance(ending.code, int) else int(ending.code is not None))
    raise AssertionError("`jettison` has returned")


class _HereMade:
    """The certificates, without a process of their own."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._arguments = folder, tuple(names)

    def wait(self) -> ServerIdentity:
        return certificates.ensure_identity(*self._arguments)


class _NodeCertificate:
    """The same for the port of nodes."""

    def wait(self) -> bytes:
        return certificates.self_signed("jettison-node")


if __name__ == "__main__":
    _fork_on_request(socket.socket(fileno=0))
