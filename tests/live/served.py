"""`jettison serve` as a process of its own, on a free port of the loopback interface and in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

from tests.live.quick_start import Process, jettison

_START_SECONDS = 60
_STOP_SECONDS = 60
# By process, folder and port. With a connection of its own a request takes both ends 8 ms of processor time, on an open
# one 1 ms; and tests ask until something is true.
_OPEN: dict[tuple[int, Path, int], HTTPSConnection] = {}


@dataclass(frozen=True, slots=True)
class Served:
    """A running server, and what its clients need."""

    folder: Path
    process: Process
    port: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def pids(self) -> list[int]:
        """The server itself, and the process of its controllers."""
        pid = self.process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.folder / f"{user}.kubeconfig"

    def token(self, user: str = "admin") -> str:
        entries = json.loads((self.folder / "cluster" / "tokens.json").read_text())["tokens"]
        found: str = next(entry["token"] for entry in entries if entry["user"] == user)
        return found

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "cluster" / "pki" / "ca.crt"))

    def connect(self) -> HTTPSConnection:
        return HTTPSConnection("127.0.0.1", self.port, context=self.trust(), timeout=30)

    def call(
        self, method: str, path: str, body: object = None, user: str = "admin", token: str = ""
    ) -> tuple[int, Any]:
        """One request with JSON in both directions; the code and the answer."""
        code, answer = self.ask(method, path, body, token or self.token(user))
        return code, json.loads(answer or b"null")

    def ask(self, method: str, path: str, body: object, token: str) -> tuple[int, bytes]:
        """The same with whatever the answer is."""
        # A thread that ends would leave its own one open.
        is_kept = threading.current_thread() is threading.main_thread()
        connection = self._open() if is_kept else self.connect()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        is_whole = False
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.status, response.read()
            is_whole = True
            return answer
        finally:
            if not (is_whole and is_kept):
                connection.close()

    def _open(self) -> HTTPSConnection:
        """The one of the last request, unless the server has closed it."""
        connection = _OPEN.get(self._key)
        if connection is None or connection.sock is None or _is_readable(connection.sock):
            self.close()
            connection = _OPEN[self._key] = self.connect()
        return connection

    @property
    def _key(self) -> tuple[int, Path, int]:
        return os.getpid(), self.folder, self.port

    def close(self) -> None:
        """Let go of the connection."""
        if (connection := _OPEN.pop(self._key, None)) is not None:
            connection.close()


def _is_readable(connection: socket.socket) -> bool:
    """Not by `select`, which knows a thousand descriptors: a flood has more."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))


def start(folder: Path, *arguments: str, listen: str = "127.0.0.1:0", quickly: bool = True) -> Served:
    """A server that is ready; the caller ends it. One that is to be measured does not start quickly."""
    log = folder.parent / f"{folder.name}.log"
    words = ["serve", "--state-dir", str(folder), "--listen", listen, *arguments]
    whole = [sys.executable, "-m", "jettison", *words]
    with log.open("w") as errors:
        process: Process = (
            jettison(words, errors)
            if quickly
            else subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=errors, text=True)
        )
    try:
        return Served(folder, process, announced_port(process, log))
    except BaseException:
        end(process, signal.SIGKILL)
        raise


def end(process: Process, how: signal.Signals) -> int:
    """The exit code; a server that does not end in time is killed, and a failure."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        return process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def serving(folder: Path, *arguments: str, listen: str = "127.0.0.1:0", quickly: bool = True) -> Iterator[Served]:
    """Start, wait until it is ready, and stop it afterwards, which it must do in time and without complaint."""
    served = start(folder, *arguments, listen=listen, quickly=quickly)
    try:
        yield served
    finally:
        served.close()
        code = end(served.process, signal.SIGTERM)
    log = folder.parent / f"{folder.name}.log"
    assert code == 0, f"the server ended with {code}: {log.read_text()[-2000:]}"


def announced_port(process: Process, log: Path) -> int:
    """From the line that it prints when it is ready."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], _START_SECONDS)
    line = process.stdout.readline() if readable else ""
    found = re.match(r"serving https://127\.0\.0\.1:(\d+),", line)
    assert found is not None, f"the server did not start (exit code {process.poll()}): {log.read_text()[-2000:]}"
    return int(found[1])
