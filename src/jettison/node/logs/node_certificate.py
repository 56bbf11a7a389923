"""The certificate of a node's own server, made anew at each start and never on a disk.

`cryptography` is 12 MB of memory, so this module is also a program of its own, which makes one and prints it.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from jettison.errors import ServeError

_PROGRAM = "jettison.node.logs.node_certificate"
_SECONDS = 30.0
_BEGIN = "-----BEGIN CERTIFICATE-----"


class CertificateInTheMaking:
    """Begun when this is made; `wait` for it."""

    def __init__(self) -> None:
        if find_spec("cryptography") is None:
            raise ServeError("cryptography is not installed: pip install 'jettison[server]'")
        pipe = subprocess.PIPE
        # -P: nothing is loaded from the working directory, which another user may own.
        self._maker = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-P", "-m", _PROGRAM], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )

    def wait(self) -> bytes:
        """Key and certificate."""
        try:
            made, complaint = self._maker.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._maker.kill()
            self._maker.communicate()
            raise ServeError(f"no certificate was made within {_SECONDS:g} s") from None
        if self._maker.returncode:
            last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            raise ServeError(f"no certificate could be made: {last}")
        return made


def certificate_part(made: bytes) -> str:
    """What may be shown; the key is what comes before."""
    text = made.decode("ascii")
    return text[text.index(_BEGIN) :]


if __name__ == "__main__":
    from jettison.apiserver.access.certificates import self_signed

    sys.stdout.buffer.write(self_signed("jettison-node"))
