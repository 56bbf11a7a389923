"""The listening socket, TLS and uvicorn: from an ASGI application to something that kubectl can talk to.

Signals are not handled here: the process may run other things beside the server, and stops them all together.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from jettison.apiserver.access.auth import ANONYMOUS
from jettison.apiserver.access.identity import ServerIdentity
from jettison.apiserver.connections.endpoint import Endpoint
from jettison.apiserver.connections.limits import Allowance, ASGIApp, ConnectionPatience, Identify, Limits
from jettison.apiserver.connections.quotas import ConnectionQuotas, shares_within
from jettison.errors import InputError, JettisonError

if TYPE_CHECKING:
    import uvicorn


_TLS_BUFFER = 16 * 1024
# The kernel doubles it. What a client does not read may fill it: by default it would grow to 4 MB for each.
_SEND_BUFFER = 64 * 1024
_SWITCH_SECONDS = 0.0005
_GRACE_SECONDS = 5
# Where it is full, the kernel of a new client waits a second and tries again.
_BACKLOG = 4096
_MOST_FILES = 65_536


def listen(endpoint: Endpoint) -> tuple[socket.socket, Endpoint]:
    """The socket, and the endpoint with the port that it got."""
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"cannot listen at `{endpoint.host}:{endpoint.port}`: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        advice = "; --listen names another, with port 0 a free one" if error.errno == errno.EADDRINUSE else ""
        raise JettisonError(f"cannot listen at `{endpoint.host}:{endpoint.port}`: {error.strerror}{advice}") from error
    return listener, Endpoint(endpoint.host, listener.getsockname()[1])


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    identity: ServerIdentity,
    stop: asyncio.Event,
    *,
    on_ready: Callable[[], None] = lambda: None,
    allowance: Allowance | None = None,
    identify: Identify = lambda _: ANONYMOUS,
    tidy: Callable[[], None] = lambda: None,
    patience: ConnectionPatience | None = None,
) -> None:
    """Serve until `stop` is set; then answer what has been asked, for a few seconds, and return.

    `tidy` is called when many connections have gone, before their memory is given back.
    """
    # Imported here because they are in an extra, and `serve --help` works without.
    import uvicorn  # noqa: PLC0415

    from jettison.apiserver.connections.connection import GuardedProtocol  # noqa: PLC0415
    from jettison.apiserver.connections.listener import Server  # noqa: PLC0415

    patience = patience or ConnectionPatience()
    quotas = ConnectionQuotas(shares_within(_allow_many_files()))
    # asyncio keeps 256 KiB for every TLS connection, as to nodes, zeroed and so resident, and this is the only place to
    # say how much.
    SSLProtocol.max_size = _TLS_BUFFER
    # A writer thread that returns from fsync would wait up to 5 ms for the interpreter, and so would every request in
    # its batch: with 8 clients that costs a fifth of the evictions.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # Every malformed request would be a line; errors of the application still are.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        Limits(app, stop, allowance, identify),
        http=partial(GuardedProtocol, quotas, patience),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        proxy_headers=False,
        ssl_certfile=identity.chain,
        log_config=None,
        access_log=False,
        server_header=False,
        # No proxy may keep an answer, for another user or for a moment later.
        headers=[("cache-control", "no-cache, private")],
        timeout_keep_alive=patience.idle_seconds,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = Server(config, quotas, on_ready, tidy)
    waiting = asyncio.create_task(_stop(server, stop))
    try:
        await server.serve([listener])
    finally:
        waiting.cancel()


async def _stop(server: uvicorn.Server, stop: asyncio.Event) -> None:
    await stop.wait()
    server.should_exit = True


def _allow_many_files() -> int:
    """Every connection is a file; the usual soft limit of 1024 is for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
