"""The certificates of a node's own server: one that is made anew at each start and never on a disk, and one that a
cluster's authority has issued, which is kept beside the node's state.

`cryptography` is 12 MB of memory, so a program of its own (`certificate_program`) does what needs it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from os.path import lexists
from pathlib import Path

from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import ServeError
from jettison.membership.serving_certificate import IssuedCertificate, KeyAndRequest

_PROGRAM = "jettison.node.kubelet.certificate_program"
_SECONDS = 30.0
_BEGIN = "-----BEGIN CERTIFICATE-----"
_BEGIN_REQUEST = b"-----BEGIN CERTIFICATE REQUEST-----"


def require_cryptography() -> None:
    """Raises ServeError where it is missing. Ask before the agent is ready: to look for a module may load one."""
    if find_spec("cryptography") is None:
        raise ServeError("cryptography is not installed: pip install 'jettison[server]'")


class CertificateInTheMaking:
    """Begun when this is made; `wait` for it. With other words than none, the program does something else."""

    def __init__(self, *words: str, told: bytes = b"") -> None:
        self._told = told
        pipe = subprocess.PIPE
        # -P: nothing is loaded from the working directory, which another user may own.
        self._maker = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-P", "-m", _PROGRAM, *words], stdin=pipe, stdout=pipe, stderr=pipe
        )

    def wait(self) -> bytes:
        """Key and certificate."""
        try:
            made, complaint = self._maker.communicate(self._told, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._maker.kill()
            self._maker.communicate()
            raise ServeError(f"no certificate was made within {_SECONDS:g} s") from None
        if self._maker.returncode:
            last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            raise ServeError(f"no certificate could be made: {last}")
        return made


class IssuedCertificates:
    """Those of one node, which has these names and addresses. The last one is kept in `file` for the next start."""

    def __init__(self, file: Path, names: Sequence[str]) -> None:
        self._file = file
        self._names = tuple(names)

    async def request(self, user: str) -> KeyAndRequest:
        """A new key, and the request for it. Raises ServeError, as the others do."""
        made = await self._done("request", user, *self._names)
        return KeyAndRequest(made[: made.index(_BEGIN_REQUEST)], made[made.index(_BEGIN_REQUEST) :])

    async def keep(self, chain_pem: bytes) -> IssuedCertificate:
        """Key and certificate, checked and kept."""
        return _issued(await self._done("keep", str(self._file), *self._names, told=chain_pem))

    async def kept(self) -> IssuedCertificate:
        """What an earlier start has kept, where it still serves."""
        # A node that is new has none, and the program takes a tenth of a second to say so.
        if not await asyncio.to_thread(lexists, self._file):
            raise ServeError(f"no certificate is kept in `{self._file}`")
        return _issued(await self._done("kept", str(self._file), *self._names))

    async def _done(self, *words: str, told: bytes = b"") -> bytes:
        return await asyncio.to_thread(CertificateInTheMaking(*words, told=told).wait)


def _issued(said: bytes) -> IssuedCertificate:
    first, _, chain_pem = said.partition(b"\n")
    begins, ends = map(int, first.split())
    return IssuedCertificate(chain_pem, begins * SECOND_NS, ends * SECOND_NS)


def certificate_part(made: bytes) -> str:
    """What may be shown; the key is what comes before."""
    text = made.decode("ascii")
    return text[text.index(_BEGIN) :]
