"""The kubelet's port of a node, asked by the API server.

A node serves it over HTTPS at the address and the port in its status, which only the node itself and administrators can
write. Its certificate is in an annotation, and then no other is trusted; without one it has to be signed by the
cluster's authority, for that address. The API server in turn shows one that the authority has signed. So a node can
make this server connect to any address, but another server that listens there is neither trusted nor sent anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from jettison.agent.safe_text import printable
from jettison.apiserver.http.statuses import not_found
from jettison.apiserver.objects.resources import NODES, Resource
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Stored
from jettison.apiserver.verbs.log_query import CERTIFICATE_ANNOTATION
from jettison.errors import ApiError, ConnectionBroken, UnreachableError
from jettison.values import frozen

if TYPE_CHECKING:
    from jettison.runtimes.kube.http import HttpResponse

_CONNECT_SECONDS: Final = 5.0
# Until the answer begins, and between two pieces of one that has an end.
_ANSWER_SECONDS: Final = 15.0
_LONGEST_REFUSAL: Final = 2048
_REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    500: "InternalError",
    503: "ServiceUnavailable",
}

Parameters = Sequence[tuple[str, str]]


@frozen
class NodeQuestion:
    """A request to a node. The path is as in a URL; one that `lasts` may be silent for as long as it likes."""

    node: str
    path: str
    parameters: Parameters = ()
    method: str = "GET"
    headers: Parameters = ()
    lasts: bool = False
    body: bytes = b""
    # Kubernetes takes a missing node for what the request is about.
    about: Resource = NODES


@frozen
class _Place:
    node: str
    host: str
    port: int
    # Empty: the authority has to vouch for it.
    certificate: str

    @property
    def authority(self) -> str:
        """As in a URL."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class NodeClient:
    """`chain` is what the API server shows to nodes: key and certificate in one file."""

    def __init__(
        self, store: Store, chain: Path, authority_pem: bytes = b"", *, answer_seconds: float = _ANSWER_SECONDS
    ) -> None:
        self._store = store
        self._answer_seconds = answer_seconds
        self._chain = chain
        self._authority_pem = authority_pem

    @asynccontextmanager
    async def ask(self, question: NodeQuestion) -> AsyncIterator[HttpResponse]:
        """The answer, whose body has not been read, whatever its status. Raises ApiError, also for what breaks off."""
        # In an extra.
        from jettison.runtimes.kube.http import HttpClient, HttpRequest  # noqa: PLC0415

        place = self._place(question.node, question.about)
        with _translated(place, self._answer_seconds):
            client = HttpClient(
                f"https://{place.authority}",
                self._trust(place),
                asks_environment=False,
                connect_seconds=_CONNECT_SECONDS,
            )
            query = urlencode(question.parameters)
            target = f"{question.path}?{query}" if query else question.path
            pause = None if question.lasts else self._answer_seconds
            request = HttpRequest(
                question.method, target, dict(question.headers), question.body, self._answer_seconds, pause
            )
            async with asyncio.timeout(self._answer_seconds):
                response = await client.send(request)
            try:
                yield response
            finally:
                response.close()
                await client.close()

    async def read(self, question: NodeQuestion, most_bytes: int) -> bytes:
        """The whole body of an answer. Raises ApiError, also where it is a refusal or larger than this."""
        found = bytearray()
        async with self.ask(question) as response:
            if response.status != 200:
                raise await refusal_of(question.node, response)
            async for piece in response.chunks():
                found += piece
                if len(found) > most_bytes:
                    message = f'node "{question.node}" answers with more than {most_bytes} bytes'
                    raise ApiError(message, code=502, details={})
        return bytes(found)

    def kubelet_port(self, node: str) -> int:
        """Raises ApiError."""
        return self._place(node).port

    def check_address(self, node: str, about: Resource = NODES) -> Stored:
        """The node, which exists and has an address. Raises ApiError."""
        found = self._store.get(NODES, "", node)
        if found is None:
            raise not_found(about, node)
        if not (found.object.get("status") or {}).get("addresses"):
            raise ApiError("no preferred addresses found; known addresses: []")
        return found

    def _place(self, node: str, about: Resource = NODES) -> _Place:
        found = self.check_address(node, about)
        status = found.object["status"]
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        certificate = (found.metadata.get("annotations") or {}).get(CERTIFICATE_ANNOTATION)
        addresses = [each.get("address") for each in status.get("addresses") or () if each.get("type") == "InternalIP"]
        if not (isinstance(port, int) and addresses and (certificate or self._authority_pem)):
            raise unavailable(f'node "{node}" does not say where it can be asked')
        if not 1 <= port <= 65535:
            raise unavailable(f'node "{node}" has the port `{port}`, which is none of 1 to 65535')
        try:
            address = ipaddress.ip_address(addresses[0])
        except ValueError:
            raise unavailable(f'node "{node}" has the address `{addresses[0]}`, which is not an IP address') from None
        if "%" in str(address):
            # The name of an interface of the node's, and any text at all.
            raise unavailable(f'node "{node}" has the address `{address}`, which means something only on itself')
        return _Place(node, str(address), port, certificate or "")

    def _trust(self, place: _Place) -> ssl.SSLContext:
        """The node's own certificate and nothing else, whatever the name on it; or the authority's for its address."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = not place.certificate
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            # As text it is PEM, and TypeError is what Python calls it when it is not ASCII.
            context.load_verify_locations(cadata=place.certificate or self._authority_pem.decode("ascii"))
        except (ssl.SSLError, ValueError, TypeError) as error:
            message = f'node "{place.node}" shows a certificate that cannot be used: {error}'
            raise ApiError(message, code=502, details={}) from error
        context.load_cert_chain(self._chain)
        return context


async def refusal_of(node: str, response: HttpResponse) -> ApiError:
    """What the node says instead of an answer."""
    said = b""
    async for piece in response.chunks():
        said += piece
        if len(said) > _LONGEST_REFUSAL:
            break
    message = printable(said[:_LONGEST_REFUSAL].decode(errors="replace").strip())
    reason = _REASONS.get(response.status)
    if reason is None:
        message = f'node "{node}" answers {response.status}: {message}'
        return ApiError(message, code=502, details={})
    return ApiError(message, code=response.status, reason=reason, details={})


@contextmanager
def _translated(place: _Place, seconds: float) -> Iterator[None]:
    try:
        yield
    except ConnectionBroken as error:
        message = f'node "{place.node}" at {place.authority} broke off: {printable(str(error.__cause__ or error))}'
        raise ApiError(message, code=502, details={}) from error
    except (UnreachableError, TimeoutError) as error:
        why = printable(str(error.__cause__ or "")) or f"not within {seconds:g} s"
        raise unavailable(f'node "{place.node}" does not answer at {place.authority}: {why}') from error


def node_path(*names: str) -> str:
    """Whatever is in the names, each is one step of the path."""
    return "".join(f"/{quote(name, safe='')}" for name in names)


def unavailable(message: str) -> ApiError:
    """503."""
    return ApiError(message, code=503, reason="ServiceUnavailable")
