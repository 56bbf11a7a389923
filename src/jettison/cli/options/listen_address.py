"""Where else than on its socket an agent may listen."""

from __future__ import annotations

import click

from jettison.agent.http.server import LOOPBACK


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8080` or `[::1]:8080`; only the loopback, because requests are not authenticated."""
    host, separator, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_port = port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 2**16
    if not separator or host not in LOOPBACK or not is_port:
        raise click.BadParameter(f"`{text}`: expected a host of {', '.join(LOOPBACK)}, a colon and a port")
    return host, int(port)
