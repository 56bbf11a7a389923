"""The process from which containers are forked: an interpreter with what a start takes, and nothing else.

For each byte on its channel comes a socket, and it forks a process that becomes what is said there (`becoming`). It
reads no order itself, keeps nothing and answers nothing, so that it can be killed at any moment: the processes that it
has forked are the agent's children. It ends when the agent lets go of the channel, or dies.

It has 4 MB, where an agent has 30 and locks them, and no thread: its fork takes 0.3 ms instead of 2, and what the fork
waits for, the agent does not wait for. While a process moves into a cgroup the kernel lets no other process fork, for
up to 70 ms.
"""

from __future__ import annotations

import gc
import os
import struct
import sys
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC
from _socket import socket as Socket  # noqa: N812

from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.processes.becoming import COMPLAINT, become
from jettison.runtimes.linux.files.kernel_texts import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_NAME = b"jettison-start"


def main(channel: int) -> NoReturn:
    """Until the other side lets go of the channel."""
    code = 1
    try:
        os.set_inheritable(channel, False)
        # What a collection would free are copies of what every child has to copy again.
        gc.freeze()
        gc.disable()
        # For `ps`.
        with open("/proc/self/comm", "wb") as file:
            file.write(_NAME)
        _serve(Socket(fileno=channel))
        code = 0
    finally:
        # Of whatever went wrong the agent notices that this process has ended.
        sys.stderr.flush()
        os._exit(code)


def _serve(channel: Socket) -> None:
    while True:
        data, carried, _, _ = channel.recvmsg(1, CMSG_SPACE(4), MSG_CMSG_CLOEXEC)
        if not data:
            return
        for _, _, packed in carried:
            (told,) = struct.unpack_from("=i", packed)
            _fork(told, channel.fileno())
            os.close(told)


def _fork(told: int, channel: int) -> None:
    try:
        pid = system_calls.fork_sibling()
    except OSError as error:
        try:
            os.write(told, COMPLAINT + reason(error).encode("utf-8", "replace"))
        except BrokenPipeError:
            return  # the caller has changed its mind
    else:
        if pid == 0:
            try:
                # With a copy of it in a child that waits, orders to a dead starter would not come back.
                os.close(channel)
            finally:
                become(told)
