"""`proxy` of pods and of services: requests of administrators, passed on to what a pod serves.

Kubernetes connects to the address in the pod's status, and so does this server. A node writes that status: a node that
lies can send an administrator's request to another address, and learns nothing from it, because no token, cookie or
name of a user is passed on and the answer goes to the administrator. As in Kubernetes an address that means something
else here than there (loopback, link-local, multicast) is refused. One exception: nodes of this very machine have a
loopback address, and their pods share it. Such a node proves with its certificate that it is here, and then the ports
that the pod declares can be asked.

Nothing routes to the pods of a service here, so a service never has endpoints.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from jettison.agent.safe_text import printable
from jettison.apiserver.connections.limits import Receive, Scope, Send
from jettison.apiserver.http.presenting import Response
from jettison.apiserver.http.requests import Request, Target
from jettison.apiserver.http.statuses import bad_request, not_found
from jettison.apiserver.objects.resources import NODES, PODS, SERVICES
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.node_client import NodeClient, NodeQuestion, Parameters, node_path, unavailable
from jettison.apiserver.verbs.tunnels import STALL_SECONDS, pass_on, read_passed, split_name, tunnel, upgrade_headers
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, JettisonError
from jettison.values import frozen

if TYPE_CHECKING:
    from jettison.runtimes.kube.http import HttpResponse

Json = dict[str, Any]

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 60.0
_MOST_HEALTH_BYTES: Final = 1024
_HIGHEST_PORT: Final = 65_535
_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")
# Of one connection, or between a client and this server; the rest is for the pod.
_HOP: Final = (
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length",
)  # fmt: skip
_OURS: Final = frozenset((*_HOP, "host", "authorization", "cookie", "accept-encoding", "expect"))
_OUR_PREFIXES: Final = ("impersonate-", "x-remote-", "proxy-", "sec-websocket-")
# A body comes decompressed, and a cookie would be one of this server's.
_THEIRS: Final = frozenset((*_HOP, "content-encoding", "set-cookie", "date", "server"))


@frozen
class _Place:
    """Where a pod is asked, and what clients call that place."""

    scheme: str
    authority: str
    # The path of the proxy in this API, before what is asked of the pod.
    prefix: str


class Proxies:
    """The handler. Without `nodes` no pod at a loopback address can be asked."""

    def __init__(self, store: Store, nodes: NodeClient | None) -> None:
        self._store = store
        self._nodes = nodes

    async def serve(
        self, request: Request, target: Target, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """None if the answer was streamed. Raises ApiError before it begins."""
        if target.resource is SERVICES:
            raise self._unserved(target)
        place = await self._place(target)
        wanted = upgrade_headers(scope)
        if not wanted and not target.rest and request.method in ("GET", "HEAD"):
            # So that relative links lead to the pod, and not beside its proxy.
            query = scope["query_string"]
            where = f"{place.prefix}/".encode() + (b"?" + query if query else b"")
            return Response(301, b"", "text/plain", [(b"location", where)])
        body = b"" if wanted else await read_passed(request, scope, receive)
        async with _asked(place, request, target, scope, wanted, body) as answer:
            if answer.status == 101:
                await tunnel(answer, scope, receive)
            else:
                await pass_on(answer, request.method, receive, send, _told(answer, place))
        return None

    def _unserved(self, target: Target) -> ApiError:
        """What Kubernetes says of a service without endpoints, or of none at all."""
        _, name, port = split_name(target.name, "service")
        found = self._store.get(SERVICES, target.namespace, name)
        is_number = port.isascii() and port.isdigit()
        if found is None:
            return not_found(SERVICES, name)
        ports = [each["port"] for each in found.object["spec"].get("ports") or ()]
        if is_number and int(port[:10]) not in ports:
            return unavailable(f"no service port {port[:10]} found for service {quote(name)}")
        return unavailable(f"no endpoints available for service {quote(name)}")

    async def _place(self, target: Target) -> _Place:
        scheme, name, port = split_name(target.name, "pod")
        found = self._store.get(PODS, target.namespace, name)
        if found is None:
            raise not_found(PODS, name)
        pod = found.object
        declared = _declared_ports(pod)
        port = port or (str(declared[0]) if declared else "")
        if port and not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) <= _HIGHEST_PORT):
            raise bad_request(f"the port of a pod must be a number from 1 to {_HIGHEST_PORT}: {quote(port)}")
        address = _address(pod)
        if address is None or not (_is_global(address) or await self._is_here(pod, address, port)):
            raise bad_request("address not allowed")
        host = f"[{address}]" if address.version == 6 else str(address)
        prefix = node_path("api", "v1", "namespaces", target.namespace, "pods", target.name, "proxy")
        return _Place(scheme or "http", f"{host}:{port}" if port else host, prefix)

    async def _is_here(self, pod: Json, address: _Address, port: str) -> bool:
        """Whether the pod shares the loopback address of a node that is on this machine, and declares that port."""
        node = self._store.get(NODES, "", pod["spec"].get("nodeName", ""))
        if self._nodes is None or node is None or not address.is_loopback:
            return False
        addresses = node.object["status"].get("addresses") or ()
        own = [each.get("address") for each in addresses if each.get("type") == "InternalIP"]
        if str(address) not in own[:1] or port not in map(str, _declared_ports(pod)):
            return False
        try:
            await self._nodes.read(NodeQuestion(node.key[1], "/healthz"), _MOST_HEALTH_BYTES)
        except ApiError:
            return False
        return True


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(pod: Json) -> _Address | None:
    try:
        address = ipaddress.ip_address(pod["status"].get("podIP", ""))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        # An interface is one of the node's, and its name any text at all.
        return None if address.scope_id is not None else address.ipv4_mapped or address
    return address


def _is_global(address: _Address) -> bool:
    """As Go has it: an address that means the same everywhere, private ones among them."""
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def _declared_ports(pod: Json) -> list[int]:
    return [port["containerPort"] for each in pod["spec"]["containers"] for port in each.get("ports") or ()]


@asynccontextmanager
async def _asked(
    place: _Place, request: Request, target: Target, scope: Scope, wanted: Parameters, body: bytes
) -> AsyncIterator[HttpResponse]:
    # In an extra.
    from jettison.runtimes.kube.http import HttpClient, HttpRequest  # noqa: PLC0415

    query = scope["query_string"].decode("latin-1")
    path = node_path(*target.rest.split("/")[1:]) or "/"
    headers = {**_passed(scope), **dict(wanted)}
    try:
        client = HttpClient(
            f"{place.scheme}://{place.authority}",
            _any_certificate(),
            asks_environment=False,
            connect_seconds=_CONNECT_SECONDS,
        )
        asked = HttpRequest(
            request.method, f"{path}?{query}" if query else path, headers, body, _ANSWER_SECONDS, STALL_SECONDS
        )
        response = await client.send(asked)
    except (JettisonError, TimeoutError) as error:
        why = printable(str(error.__cause__ or error)) or f"no answer within {_ANSWER_SECONDS:g} s"
        raise unavailable(f"error trying to reach service: {place.authority}: {why}") from error
    try:
        yield response
    finally:
        response.close()
        await client.close()


def _any_certificate() -> ssl.SSLContext:
    """Pods have certificates of their own making, if any: as in Kubernetes theirs are not checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _passed(scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in _OURS and not name.startswith(_OUR_PREFIXES):
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _told(answer: HttpResponse, place: _Place) -> Parameters:
    """The pod's headers; a redirection leads to the pod again."""
    headers = {name: value for name, value in answer.headers.items() if name not in _THEIRS}
    if location := headers.get("location"):
        headers["location"] = _redirection(location, place)
    return list(headers.items())


def _redirection(location: str, place: _Place) -> str:
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    if parts.netloc not in ("", place.authority) or not parts.path.startswith("/"):
        return location
    query = f"?{parts.query}" if parts.query else ""
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return f"{place.prefix}{parts.path}{query}{fragment}"
