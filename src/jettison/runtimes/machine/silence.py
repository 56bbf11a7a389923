"""Connections that may be silent for long: watches, followed logs, streams.

A machine that lost its power, or its network, does not close them. Without these options nothing tells: a watch would
wait for its own end, six minutes. Apart, because the process that serves a node's port loads no client.
"""

from __future__ import annotations

import socket
from typing import Final

_OPTIONS: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


def keep_alive(connection: socket.socket) -> None:
    """Notice within a minute when the other side is no more."""
    for level, name, value in _OPTIONS:
        connection.setsockopt(level, name, value)
