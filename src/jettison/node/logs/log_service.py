"""The node's answer to `kubectl logs`: prepared before the agent is ready, opened when there is a node.

Whatever is in the way is one line, and the node goes on without.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from jettison.errors import RuntimeFailure, ServeError
from jettison.node.logs.host_logs import HostLogs
from jettison.node.logs.log_server import LogServer
from jettison.node.logs.node_certificate import CertificateInTheMaking, certificate_part
from jettison.node.node import Node
from jettison.runtimes.kube.credentials import memory_file


@dataclass(frozen=True, slots=True)
class LogOffer:
    """Where the API can ask this node for logs, and the certificate by which it knows that it is us."""

    port: int
    certificate_pem: str


class LogService:
    """Of one node. `authority_pem` signs the certificates of clients; without it no client could be authenticated."""

    def __init__(self, authority_pem: bytes | None) -> None:
        self._authority_pem = authority_pem
        self._context: ssl.SSLContext | None = None
        self._certificate = ""
        self._lack: str | None = None
        self._server: LogServer | None = None

    def prepare(self) -> None:
        """To be done before the agent is ready."""
        try:
            if not self._authority_pem:
                raise ServeError("the kubeconfig has no certificate authority")
            made = CertificateInTheMaking().wait()
            self._certificate = certificate_part(made)
            self._context = server_context(made, self._authority_pem)
        except RuntimeFailure as error:
            self._lack = _lack(error)

    def open(self, node: Node, host: str, port: int) -> LogOffer | None:
        """What the cluster is to be told; None where there is nothing to tell."""
        offer = None
        if self._context is not None:
            settings = node.settings
            logs = HostLogs(settings.node_name, settings.logs_dir, node.runtime.statuses)
            server = LogServer(logs, self._context)
            try:
                offer = LogOffer(server.listen(host, port), self._certificate)
                self._server = server
            except ServeError as error:
                self._lack = _lack(error)
        if self._lack is not None:
            node.lacks += (self._lack,)
        return offer

    async def close(self) -> None:
        """Hang up."""
        if self._server is not None:
            await self._server.close()


def server_context(chain_pem: bytes, authority_pem: bytes) -> ssl.SSLContext:
    """For servers whose clients must show a certificate of the authority, and of no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Tickets would let a client come back without showing it again.
    context.num_tickets = 0
    try:
        with memory_file(chain_pem) as chain:
            context.load_cert_chain(chain)
        context.load_verify_locations(cadata=authority_pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ServeError(f"a certificate cannot be used: {error}") from error
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _lack(error: RuntimeFailure) -> str:
    return f"the API cannot ask for logs: {error}"
