"""GET of what a container has printed: an answer in pieces, which has no end while a log is followed.

The node that runs the pod is asked; here is what the request means, how it is refused, and how a node in another
process or on another machine is asked. Such a node serves logs over HTTPS at the address and the port in its status,
which only the node itself and administrators can write. Its certificate is in an annotation, and no other is trusted;
the API server in turn shows one that the cluster's authority has signed. So a node can make this server connect to any
address, but another server that listens there is neither trusted nor sent anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jettison.agent.safe_text import printable
from jettison.apiserver.http.requests import Request, Target, integer
from jettison.apiserver.http.statuses import bad_request, not_found
from jettison.apiserver.objects.resources import NODES, PODS
from jettison.apiserver.objects.validation.mistakes import forbidden, invalid, refusal
from jettison.apiserver.storage.store import Store
from jettison.apiserver.verbs.log_query import CERTIFICATE_ANNOTATION, LogQuery, LogSource
from jettison.clock import Clock
from jettison.errors import ApiError, ManifestError
from jettison.manifests.times import exact_time_text, parse_time

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


class ContainerLogs:
    """The handler. `local` are the nodes of this process, by name, and may change; `remote` asks all others."""

    def __init__(self, store: Store, clock: Clock, local: Mapping[str, LogSource], remote: LogSource | None) -> None:
        self._store = store
        self._clock = clock
        self._local = local
        self._remote = remote

    def open(self, request: Request, target: Target) -> AsyncGenerator[bytes, None]:
        """What is to be sent; raises ApiError, too."""
        found = self._store.get(PODS, target.namespace, target.name)
        if found is None:
            raise not_found(PODS, target.name)
        query = LogQuery(
            request.parameter("container") or _only_container(found.object),
            _amount(request, "tailLines", 0),
            _amount(request, "limitBytes", 1),
            request.is_set("previous"),
            request.is_set("follow"),
            _since_ns(request, self._clock),
            # Everything but a clear no is a yes here, as upstream reads it.
            request.parameters.get("timestamps", ["false"])[0].lower() not in ("false", "0"),
        )
        return self._source(found.object, query).read_log(found.object, query)

    def _source(self, pod: Json, query: LogQuery) -> LogSource:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if query.container not in _containers(pod):
            raise bad_request(f"container {query.container} is not valid for pod {name}")
        if not node:
            raise bad_request(f"pod {name} does not have a host assigned")
        source = self._local.get(node, self._remote)
        if source is None:
            message = "no node of this server keeps logs"
            raise ApiError(message, code=503, reason="ServiceUnavailable", details={})
        return source


def _amount(request: Request, name: str, least: int) -> int | None:
    number = integer(request, name)
    if number is not None and number < least:
        why = f"must be greater than or equal to {least}"
        raise refusal("", "PodLogOptions", "", [invalid(name, number, why)])
    return number


def _since_ns(request: Request, clock: Clock) -> int | None:
    seconds, moment = _amount(request, "sinceSeconds", 1), request.parameter("sinceTime")
    if seconds is not None and moment:
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        raise refusal("", "PodLogOptions", "", [forbidden("", why)])
    if seconds is not None:
        return clock.now_ns() - seconds * 10**9
    try:
        return parse_time(moment) if moment else None
    except ManifestError as error:
        raise bad_request(f"`sinceTime` is `{moment}`: {error}") from error


def _containers(pod: Json) -> list[str]:
    spec = pod["spec"]
    return [each["name"] for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))]


def _only_container(pod: Json) -> str:
    names = [each["name"] for each in pod["spec"].get("containers") or ()]
    if len(names) == 1:
        return str(names[0])
    listed = " ".join(names)
    raise bad_request(
        f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{listed}]"
    )


@dataclass(frozen=True, slots=True)
class _Place:
    node: str
    # As in a URL.
    authority: str
    certificate: str


class RemoteLogs:
    """Logs of nodes elsewhere. `chain` is what the API server shows to nodes: key and certificate in one file."""

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
