"""Where an API server listens, as the operator writes it. Loads in a millisecond: a command line is read with it."""

from __future__ import annotations

import ipaddress
import socket

from jettison.apiserver.access.identity import LOOPBACK_NAMES
from jettison.errors import InputError
from jettison.values import frozen


@frozen
class Endpoint:
    """Where the server listens; port 0 means any that is free."""

    host: str
    port: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names in its certificate; for a wildcard that of the machine."""
        if self.is_wildcard:
            return (*LOOPBACK_NAMES, socket.gethostname())
        return tuple(dict.fromkeys((*LOOPBACK_NAMES, self.host)))

    @property
    def is_wildcard(self) -> bool:
        """All addresses of the machine."""
        return self.host in ("0.0.0.0", "::")  # noqa: S104  compared, not bound

    @property
    def url(self) -> str:
        """For a kubeconfig on this machine."""
        host = "127.0.0.1" if self.is_wildcard else self.host
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """`127.0.0.1:6443`, `[::1]:6443`, `localhost:0`."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not bare or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InputError(f"`{text}` is not a place to listen at, expected an address and a port: `127.0.0.1:6443`")
    if is_bracketed != (":" in bare):
        raise InputError(f"`{text}` is not a place to listen at, IPv6 addresses are written as `[::1]:6443`")
    return Endpoint(bare, int(port))


def is_loopback(endpoint: Endpoint) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(endpoint.host).is_loopback
    except ValueError:
        return endpoint.host == "localhost"
