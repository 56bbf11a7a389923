"""The process of `jettison up` or `node`, which stays for months and does not keep what it needed for a moment.

A child reads the command line and the configuration, says what is wrong with them, and hands over what is left to be
done. So click, the flags and their help are gone with it: 2 MB, of 30. And where an agent is on its own, what is loaded
here is loaded without OpenSSL and typing_extensions, another 5 MB: asyncio, hashlib and msgspec take them where they
are there and do without where they are not. Such an agent speaks no TLS, Python has a SHA-256 of its own, and HTTPS
probes load OpenSSL by themselves. Who talks to an API needs them, and is told so by the first line of its orders.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from jettison.node.orders import AnyOrders

_LEFT_OUT = ("ssl", "_hashlib", "typing_extensions")
_MODULES = ("asyncio", "hashlib", "msgspec")
_LEAN = ("guard",)
_FIRST_TO_GO = 1000

Deliver = Callable[["AnyOrders"], None]
"""Given by the child to the command that it runs."""


def main() -> NoReturn:
    """Do what the command says and end the process."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        # Until it is known what to reload; a child that is another program does not inherit it.
        signal.signal(signal.SIGHUP, lambda *_: None)
    try:
        data = _read_orders()
        doer = data.partition(b"\n")[0].decode()
        if doer in _LEAN:
            load_lean()
        orders = import_module("jettison.node.orders").decode_orders(data)
        carry_out = import_module(f"jettison.node.{doer}").carry_out
        if doer in _LEAN:
            forget_annotations()
        # From here on it is for the doer to say what a signal means.
        code = carry_out(orders)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    sys.exit(code)


def load_lean() -> None:
    """For the whole process and for good, so only for one that is a node's agent and nothing else."""
    hidden = [name for name in _LEFT_OUT if name not in sys.modules]
    for name in hidden:
        # How Python spells "there is no such module".
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        for name in _MODULES:
            import_module(name)
    finally:
        for name in hidden:
            del sys.modules[name]


def forget_annotations() -> None:
    """Of functions. Their types are for those who read and check the program; here they are the room of ten pods."""
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and (each.__module__ or "").startswith("jettison."):
            del each.__annotations__


def _read_orders() -> bytes:
    """Ends the process when there are none: after --help, or a mistake."""
    readable, writable = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        sys.exit(f"error: cannot start a process to read the command line: {os.strerror(error.errno or 0).lower()}")
    if child == 0:
        os.close(readable)
        import_module("jettison.cli.program").program.main(obj=partial(_deliver, writable))
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        data = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code or not data:
        sys.exit(code if code >= 0 else 128 - code)
    return data


def deliver_again() -> None:
    """In a process that a running agent has started to learn what its command line says now; to standard output."""
    # The agent is dear to the kernel, and whoever reads a file that somebody wrote is not.
    import_module("jettison.runtimes.linux.processes").set_oom_score_adj(os.getpid(), _FIRST_TO_GO)
    writable = os.dup(1)
    # What a command has to say goes to whoever reads the other stream.
    os.dup2(2, 1)
    import_module("jettison.cli.program").program.main(obj=partial(_deliver, writable), prog_name="jettison")


def _deliver(writable: int, orders: AnyOrders) -> None:
    data = import_module("jettison.node.orders").encode_orders(orders)
    with os.fdopen(writable, "wb") as pipe:
        pipe.write(data)
