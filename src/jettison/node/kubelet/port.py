"""The agent's part of the kubelet's port: it holds the listening socket, and starts the process that serves it when a
client comes.

The agent accepts nothing and reads nothing, so what clients do costs it one start in five minutes. The certificate is
prepared before the agent is ready; whatever is in the way is one line, and the node goes on without.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from jettison import events
from jettison.errors import RuntimeFailure, ServeError
from jettison.node.kubelet.certificate import CertificateInTheMaking, certificate_part, require_cryptography
from jettison.node.node import Node
from jettison.node.watch import SOCKET_NAME
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.values import frozen

_PROGRAM: Final = "jettison.node.kubelet.program"
# Connections that wait to be accepted; where there are more, a client tries again after a second.
_BACKLOG: Final = 128
# After a process that has ended at once.
_RETRY_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 5.0


@frozen
class KubeletOffer:
    """Where the API can ask this node, the certificate by which it knows that it is us, and how it gets another."""

    port: int
    certificate_pem: str
    take: Callable[[bytes], None]


class KubeletPort:
    """Of the nodes of one process. `authority_pem` signs the certificates of clients; without it no client could be
    authenticated.
    """

    def __init__(self, authority_pem: bytes | None) -> None:
        self._authority_pem = authority_pem
        self._chain_pem = b""
        self._lack: str | None = None
        self._served: list[_Served] = []

    def prepare(self) -> None:
        """To be done before the agent is ready."""
        try:
            if not self._authority_pem:
                raise ServeError("the kubeconfig has no certificate authority")
            require_cryptography()
            self._chain_pem = CertificateInTheMaking().wait()
        except RuntimeFailure as error:
            self._lack = _lack(error)

    def open(self, node: Node, host: str, port: int) -> KubeletOffer | None:
        """From now on for this node. What the cluster is to be told; None where there is nothing to tell."""
        offer, lack = None, self._lack
        if self._chain_pem and self._authority_pem:
            try:
                listener = listening(host, port)
                served = _Served(node, listener, self._chain_pem, self._authority_pem)
                self._served.append(served)
                offer = KubeletOffer(listener.getsockname()[1], certificate_part(self._chain_pem), served.take)
            except ServeError as error:
                lack = _lack(error)
        if lack is not None:
            node.lacks += (lack,)
        return offer

    async def close(self) -> None:
        """Hang up."""
        while self._served:
            await self._served.pop().close()


class _Served:
    """The socket, and the process that serves it while there is one."""

    def __init__(self, node: Node, listener: socket.socket, chain_pem: bytes, authority_pem: bytes) -> None:
        settings = node.settings
        self._emit = node.emit
        self._listener = listener
        self._task = {
            "listener": listener.fileno(),
            "agent": str(settings.node_state / SOCKET_NAME),
            "logs_dir": str(settings.logs_dir),
            "chain_pem": chain_pem.decode(),
            "authority_pem": authority_pem.decode(),
        }
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._held = -1
        self._retry: asyncio.TimerHandle | None = None
        self._wait()

    def _wait(self) -> None:
        """For a client. It stays in the kernel's queue until the process accepts it."""
        self._retry = None
        self._loop.add_reader(self._listener, self._start)

    def _start(self) -> None:
        self._loop.remove_reader(self._listener)
        command = [sys.executable, "-P", "-m", _PROGRAM]
        try:
            process = subprocess.Popen(  # noqa: S603  our own interpreter and module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(self._listener.fileno(),),
                # A Ctrl-C is meant for the agent, which ends the process itself.
                start_new_session=True,
            )
            self._process, self._held = process, os.pidfd_open(process.pid)
        except OSError as error:
            self._emit(events.ActionFailed("serve the kubelet's port", reason(error)))
            self._retry = self._loop.call_later(_RETRY_SECONDS, self._wait)
            return
        self._loop.add_reader(self._held, self._ended)
        self._tell()

    def take(self, chain_pem: bytes) -> None:
        """Another key and certificate: for the process that serves now, and for those to come."""
        self._task["chain_pem"] = chain_pem.decode("ascii")
        if self._process is not None:
            self._tell()

    def _tell(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, which is noticed
            # A few kilobytes, which the pipe holds.
            os.write(self._process.stdin.fileno(), msgspec.json.encode(self._task) + b"\n")

    def _ended(self) -> None:
        code = self._reap()
        if code:
            self._emit(events.ActionFailed("serve the kubelet's port", f"its process has ended with {code}"))
            self._retry = self._loop.call_later(_RETRY_SECONDS, self._wait)
        else:
            self._wait()

    def _reap(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        self._loop.remove_reader(self._held)
        os.close(self._held)
        process.stdin.close()
        return process.wait()

    async def close(self) -> None:
        """The process ends with its input; one that does not is killed."""
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        process = self._process
        if process is not None and process.stdin is not None:
            self._loop.remove_reader(self._held)
            gone = asyncio.Event()
            self._loop.add_reader(self._held, gone.set)
            process.stdin.close()
            try:
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await gone.wait()
            except TimeoutError:
                process.kill()
            self._reap()
        self._listener.close()


def listening(host: str, port: int) -> socket.socket:
    """The port 0 is any that is free. Raises ServeError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ServeError(f"cannot listen on `{host}:{port}`: {reason(error)}") from error
    listener.setblocking(False)
    return listener


def _lack(error: RuntimeFailure) -> str:
    return f"the API cannot ask for logs, commands and readings: {error}"
