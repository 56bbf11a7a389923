"""The second start of a process that stays: it loads what it runs, and nothing that its command line took to read.

`handover` has executed the words of the command line once more, with the settings in a file in memory. This module is
called first, by `jettison.cli.main`. It imports next to nothing, because what an agent keeps for months is decided
here.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FROM = "JETTISON_SETTINGS_FROM"
"""Settings to be carried out: their type, a colon, and the descriptor of a file that holds them."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Blocked from before the execution until there are handlers for them."""

# OpenSSL, and what a base installation has not got; each of these is optional for the modules below.
_LEFT_OUT = ("ssl", "_ssl", "_hashlib", "typing_extensions")
_LOADED_WITHOUT = ("asyncio", "hashlib", "msgspec")
_RUNS = {
    "NodeSettings": "node",
    "GuardSettings": "guard",
    "ReliefSettings": "relief",
    "MemberSettings": "member",
    "ClusterSettings": "cluster.processes",
}


def main() -> NoReturn:
    """Carry out the settings that were handed over, and end the process."""
    kind, _, descriptor = os.environ.pop(FROM).partition(":")
    if kind in ("NodeSettings", "GuardSettings"):
        load_lean()
    errors = import_module("jettison.errors")
    with os.fdopen(int(descriptor), "rb") as file:
        settings = import_module("jettison.node.process.handover").decode_settings(file.read())
    try:
        import_module(f"jettison.node.{_RUNS[kind]}").carry_out(settings)
    except errors.JettisonError as error:
        printable = import_module("jettison.agent.safe_text").printable
        print(printable(f"error: {error}"), file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit()


def load_lean() -> None:
    """Load asyncio and hashlib as where Python was built without OpenSSL, which both support: 4.5 MB less.

    Such an agent speaks no TLS, and Python has a SHA-256 of its own. A probe over HTTPS loads OpenSSL by itself.
    msgspec does without typing_extensions in the same way, 0.4 MB.
    """
    refusal = _WithoutOpenSSL()
    sys.meta_path.insert(0, refusal)
    try:
        for name in _LOADED_WITHOUT:
            import_module(name)
    finally:
        sys.meta_path.remove(refusal)


class _WithoutOpenSSL:
    """Python asks it first for every module that is not loaded yet."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  the import system's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """None: another finder may know."""
        if fullname in _LEFT_OUT:
            raise ModuleNotFoundError(f"`{fullname}` is not loaded by an agent that speaks no TLS", name=fullname)
        return None
