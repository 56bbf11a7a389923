"""The server's certificates, made by another process.

Making and checking them takes `cryptography`, which is 12 MB of memory for what is done once per start. So a process of
its own does it, while this one opens the store.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from jettison.errors import InputError
from jettison.values import frozen

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
"""A server certificate always holds these; kubectl's port forwards and tunnels end at one of them."""

AUTHORITY = "ca.crt"
CHAIN = "server.pem"
CLIENT_NAME = "kube-apiserver-kubelet-client"
"""The name under which nodes let the API server read logs: the one that API servers have at kubelets."""

_CLIENT = "kubelet-client.pem"
_MAKER = "jettison.apiserver.access.certificates"


@frozen
class ServerIdentity:
    """What the server shows to clients (`chain`: key and certificate in one file), and the authority that signed it."""

    authority_pem: bytes
    chain: Path

    @property
    def client(self) -> Path:
        """What it shows to nodes, in the same form."""
        return self.chain.with_name(_CLIENT)


class IdentityMaker:
    """Starts the process; `wait` returns its result."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        # -P: nothing is imported from the working directory, in which any user may have written.
        command = [sys.executable, "-P", "-m", _MAKER, str(folder), *names]
        # Not to be stopped by a Ctrl-C that is meant for the server: it is done in a moment.
        self._maker = subprocess.Popen(  # noqa: S603  our own interpreter and module
            command, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def wait(self) -> ServerIdentity:
        """The files are there, and have been checked."""
        _, complaint = self._maker.communicate()
        if self._maker.returncode:
            raise InputError(complaint.strip().rpartition("\n")[2] or "the certificates could not be made")
        return ServerIdentity((self._folder / AUTHORITY).read_bytes(), self._folder / CHAIN)
