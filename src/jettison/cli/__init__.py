"""The command line starts things. Here lives what a person types and reads, one file per command.

A command reads files and flags, calls one or two functions of the layers below, and prints. Rules of eviction live in
the engine, formats of Kubernetes in `manifests`, waiting and acting in the agent; a command that is hard to write
without one of those is missing a function there.

`jettison --help` must answer at once, so `program.py` imports click and nothing else: a command's module is loaded when
the command is run, and the list of commands stands there as text. This module itself imports nothing, for the sake of
the processes that stay (`resident.py`). Answers go to standard output, everything said about them to standard
error; a mistake ends in `error: …` and the exit code of its class.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module


def main() -> None:
    """Run the command in `sys.argv` and end the process."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        import_module("jettison.cli.closed_streams").replace_them()
    for stream in (sys.stdout, sys.stderr):
        # A name may hold bytes that are no text, and a terminal may lack characters of a message.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if sys.argv[1:2] == ["serve"] and "PYTHONMALLOC" not in os.environ and sys.executable:
        # Python's own allocator keeps a megabyte for each object that was allocated between thousands of connections.
        # It can be replaced only before the start; docs/decisions.md has the measured cost and gain.
        os.environ["PYTHONMALLOC"] = "malloc"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  ourselves, with the same words
    if sys.argv[1:2] in (["up"], ["node"]):
        import_module("jettison.cli.resident").main()
    import_module("jettison.cli.program").program.main()
