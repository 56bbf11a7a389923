"""Logs of nodes in other processes, and on other machines.

A node serves them over HTTPS at the address and the port in its status, which only the node itself and administrators
can write. Its certificate is in an annotation, and no other is trusted; the API server in turn shows one that the
cluster's authority has signed. So a node can make this server connect to any address, but another server that listens
there is neither trusted nor sent anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jettison.agent.safe_text import printable
from jettison.apiserver.objects.resources import NODES
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.log_query import CERTIFICATE_ANNOTATION, LogQuery
from jettison.errors import ApiError
from jettison.manifests.times import exact_time_text

if TYPE_CHECKING:
    import httpx2

Json = dict[str, Any]

_CONNECT_SECONDS: Final = 5.0
# Until the answer begins, and between two pieces of a log that is not followed.
_ANSWER_SECONDS: Final = 15.0
_LONGEST_REFUSAL: Final = 2048
_REASONS: Final = {400: "BadRequest", 404: "NotFound", 500: "InternalError", 503: "ServiceUnavailable"}
# A node that lost its power does not close its connections; a client that follows a silent log is told after a minute.
_KEEP_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


@dataclass(frozen=True, slots=True)
class _Place:
    node: str
    # As in a URL.
    authority: str
    certificate: str


class RemoteLogs:
    """`chain` is what the API server shows to nodes: key and certificate in one file."""

    def __init__(self, store: Store, chain: Path) -> None:
        self._store = store
        self._chain = chain

    async def read_log(self, pod: Json, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """In pieces; the first is empty, and says that the node has accepted the request."""
        import httpx2  # noqa: PLC0415  in an extra

        place = self._place(pod["spec"]["nodeName"])
        transport = httpx2.AsyncHTTPTransport(
            verify=_trust(place, self._chain), trust_env=False, socket_options=_KEEP_ALIVE
        )
        pause = None if query.is_followed else _ANSWER_SECONDS
        timeout = httpx2.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS, read=pause)
        with _translated(place):
            async with httpx2.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client:
                request = client.build_request("GET", _url(place, pod, query), params=_parameters(pod, query))
                async with asyncio.timeout(_ANSWER_SECONDS):
                    response = await client.send(request, stream=True)
                async with aclosing(response):
                    if response.status_code != 200:
                        raise await _refusal(place, response)
                    yield b""
                    async for piece in response.aiter_raw():
                        yield piece

    def _place(self, node: str) -> _Place:
        found = self._store.get(NODES, "", node)
        if found is None:
            raise _unavailable(f'there is no node "{node}" whose logs could be asked for')
        status = found.object.get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        certificate = (found.metadata.get("annotations") or {}).get(CERTIFICATE_ANNOTATION)
        addresses = [each.get("address") for each in status.get("addresses") or () if each.get("type") == "InternalIP"]
        if not (isinstance(port, int) and certificate and addresses):
            raise _unavailable(f'node "{node}" does not say where its logs can be asked for')
        if not 1 <= port <= 65535:
            raise _unavailable(f'node "{node}" has the port `{port}` for its logs, which is none of 1 to 65535')
        try:
            address = ipaddress.ip_address(addresses[0])
        except ValueError:
            raise _unavailable(f'node "{node}" has the address `{addresses[0]}`, which is not an IP address') from None
        if "%" in str(address):
            # The name of an interface of the node's, and any text at all.
            raise _unavailable(f'node "{node}" has the address `{address}`, which means something only on itself')
        host = f"[{address}]" if address.version == 6 else str(address)
        return _Place(node, f"{host}:{port}", certificate)


def _trust(place: _Place, chain: Path) -> ssl.SSLContext:
    """The node's own certificate and nothing else; the name on it does not matter then."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        # As text it is PEM, and TypeError is what Python calls it when it is not ASCII.
        context.load_verify_locations(cadata=place.certificate)
    except (ssl.SSLError, ValueError, TypeError) as error:
        message = f'node "{place.node}" shows a certificate that cannot be used: {error}'
        raise ApiError(message, code=502, details={}) from error
    context.load_cert_chain(chain)
    return context


def _url(place: _Place, pod: Json, query: LogQuery) -> str:
    metadata = pod["metadata"]
    names = "/".join(quote(each, safe="") for each in (metadata["namespace"], metadata["name"], query.container))
    return f"https://{place.authority}/containerLogs/{names}"


def _parameters(pod: Json, query: LogQuery) -> dict[str, str]:
    """As a kubelet has them; `uid`, which it does not know, keeps apart what has the same name."""
    amounts = {"tailLines": query.tail_lines, "limitBytes": query.most_bytes}
    wishes = {"follow": query.is_followed, "previous": query.is_previous, "timestamps": query.has_times}
    since = {} if query.since_ns is None else {"sinceTime": exact_time_text(query.since_ns)}
    return {
        "uid": pod["metadata"]["uid"],
        **since,
        **{name: str(amount) for name, amount in amounts.items() if amount is not None},
        **{name: "true" for name, is_wished in wishes.items() if is_wished},
    }


async def _refusal(place: _Place, response: httpx2.Response) -> ApiError:
    said = b""
    async for piece in response.aiter_raw():
        said += piece
        if len(said) > _LONGEST_REFUSAL:
            break
    message = printable(said[:_LONGEST_REFUSAL].decode(errors="replace").strip())
    reason = _REASONS.get(response.status_code)
    if reason is None:
        message = f'node "{place.node}" answers {response.status_code}: {message}'
        return ApiError(message, code=502, details={})
    return ApiError(message, code=response.status_code, reason=reason, details={})


@contextmanager
def _translated(place: _Place) -> Iterator[None]:
    import httpx2  # noqa: PLC0415  in an extra

    try:
        yield
    except (httpx2.ConnectError, httpx2.TimeoutException, TimeoutError) as error:
        why = printable(str(error)) or f"not within {_ANSWER_SECONDS:g} s"
        raise _unavailable(f'node "{place.node}" does not answer at {place.authority}: {why}') from error
    except httpx2.HTTPError as error:
        message = f'node "{place.node}" at {place.authority} broke off: {printable(str(error)) or "it hung up"}'
        raise ApiError(message, code=502, details={}) from error


def _unavailable(message: str) -> ApiError:
    return ApiError(message, code=503, reason="ServiceUnavailable", details={})
