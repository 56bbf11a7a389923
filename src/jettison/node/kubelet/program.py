"""The process that serves the kubelet's port: begun by the agent with the first client, ended when none has come for a
while. Never longer than the agent: its standard input is a pipe from there, and the end of that is the end.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from ssl import SSLContext
from typing import Final

import msgspec

from jettison.errors import JettisonError, RuntimeFailure
from jettison.node.kubelet.agent_questions import AgentQuestions
from jettison.node.kubelet.server import KubeletServer, server_context
from jettison.node.logs.host_logs import HostLogs
from jettison.runtimes.linux.processes import set_oom_score_adj

IDLE_SECONDS: Final = 300.0

# Under pressure it is the first to go: the next client gets another one.
_FIRST_TO_GO: Final = 1000
_NICER: Final = 5
_LONGEST_LINE: Final = 1024 * 1024


class Task(msgspec.Struct, frozen=True):
    """What the agent tells, as one line of JSON. Another line brings another certificate."""

    listener: int
    agent: str
    logs_dir: str
    chain_pem: str
    authority_pem: str
    idle_seconds: float = IDLE_SECONDS


def main() -> None:
    """Until the agent hangs up, or no client came for a while."""
    with suppress(RuntimeFailure, OSError):
        set_oom_score_adj(os.getpid(), _FIRST_TO_GO)
        os.nice(_NICER)
    try:
        asyncio.run(_serve())
    except JettisonError as error:
        sys.exit(f"the kubelet's port: {error}")


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.StreamReader(_LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    line = await told.readline()
    if not line:
        return
    task = msgspec.json.decode(line, type=Task)
    listener = socket.socket(fileno=task.listener)
    listener.setblocking(False)
    questions = AgentQuestions(Path(task.agent))
    server = KubeletServer(questions, HostLogs(Path(task.logs_dir), questions), _context(task))
    server.accept_from(listener)
    waiting = asyncio.create_task(_until_idle(server, task.idle_seconds))
    listening = asyncio.create_task(_follow(told, server))
    try:
        await asyncio.wait((waiting, listening), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        listening.cancel()
        await server.close()


def _context(task: Task) -> SSLContext:
    return server_context(task.chain_pem.encode(), task.authority_pem.encode())


async def _follow(told: asyncio.StreamReader, server: KubeletServer) -> None:
    while line := await told.readline():
        server.context = _context(msgspec.json.decode(line, type=Task))


async def _until_idle(server: KubeletServer, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    since = loop.time()
    while loop.time() - since < seconds:
        await asyncio.sleep(min(seconds / 10, 5.0))
        if not server.is_idle:
            since = loop.time()


if __name__ == "__main__":
    main()
