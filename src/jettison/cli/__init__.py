"""The command line: its commands, by room, what they read from the user, and what they print.

A command reads files and flags, calls one or two functions of the layers below, and prints. Rules of eviction live in
the engine, formats of Kubernetes in `manifests`, waiting and acting in the agent, the assembly of a node in `node`.
None of that belongs here: a command that is hard to write without it is missing a function there.

`jettison --help` must answer at once, so `program.py` imports click and nothing else: a command's module is loaded when
the command is run, and the list of commands stands there as text. This module itself imports next to nothing, for the
sake of the processes that stay (`node/process/entry.py`). Answers go to standard output, everything said about them to
standard error; a mistake ends in `error: …` and the exit code of its class.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from jettison.node.process import entry

if TYPE_CHECKING:
    from jettison.node.cluster_settings import Settings


_STAYING = (["up"], ["guard"], ["node"], ["relieve"], ["serve"])


def main() -> None:
    """Run the command in `sys.argv` and end the process."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        import_module("jettison.cli.closed_streams").replace_them()
    for stream in (sys.stdout, sys.stderr):
        # A name may hold bytes that are no text, and a terminal may lack characters of a message.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if entry.FROM in os.environ:
        entry.main()
    if sys.argv[1:2] in _STAYING:
        # A terminal that is closed ends none of them, not even before there is a handler for that.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    import_module("jettison.cli.program").program.main(obj=_hand_over)


def _hand_over(settings: Settings) -> None:
    import_module("jettison.node.process.handover").hand_over(settings)
