"""What may be asked of a log, how the rest is refused, and logs of nodes elsewhere."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.access.auth import User
from jettison.apiserver.access.certificates import ensure_identity, self_signed
from jettison.apiserver.http.requests import Request
from jettison.apiserver.verbs.container_logs import LOGS, ContainerLogs, NodeLogs, containers_of, only_container
from jettison.apiserver.verbs.log_query import CERTIFICATE_ANNOTATION, LogQuery
from jettison.apiserver.verbs.node_client import NodeClient
from jettison.errors import ApiError
from tests.apiserver.served import PODS, Served, SettableClock

NO_SOURCE = "no node of this server keeps logs"


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("sinceSeconds=5", 503, NO_SOURCE),
        ("sinceTime=2027-01-01T00:00:00Z", 503, NO_SOURCE),
        ("timestamps=true", 503, NO_SOURCE),
        ("timestamps=", 503, NO_SOURCE),
        ("timestamps=perhaps", 503, NO_SOURCE),
        (
            "sinceSeconds=5&sinceTime=2027-01-01T00:00:00Z",
            422,
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("sinceSeconds=soon", 400, 'strconv.ParseInt: parsing "soon": invalid syntax'),
        ("sinceTime=yesterday", 400, 'cannot parse "yesterday" as "2006"'),
        ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
        ("tailLines=-1&limitBytes=0&stream=", 422, "limitBytes: Invalid value: 0: must be greater than 0, stream: "),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        # Fine as far as that goes: but there is no node to ask.
        ("timestamps=false", 503, NO_SOURCE),
        ("timestamps=False", 503, NO_SOURCE),
        ("timestamps=0&tailLines=1", 503, NO_SOURCE),
    ],
)
def test_times(api: Served, query: str, code: int, text: str) -> None:
    api.pod("p")
    answer = api.get(f"{PODS}/p/log", query=query)
    assert answer.code == code
    assert text in answer.message


OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
POD = {"metadata": {"name": "web", "namespace": "default", "uid": "u1"}, "spec": {"nodeName": "n1"}}
WHOLE = LogQuery("main")


class Peer:
    """The server at the address that the node has: it gives every client the same answer, and records the requests."""

    def __init__(self, directory: Path, answer: bytes, *, stays: bool = False) -> None:
        self._chain = directory / "node.pem"
        self._chain.write_bytes(self_signed("node"))
        self._answer = answer
        self._stays = stays
        self.heard = b""
        self.port = 0

    @property
    def certificate(self) -> str:
        text = self._chain.read_text()
        return text[text.index("-----BEGIN CERT") :]

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard = await reader.readuntil(b"\r\n\r\n")
        writer.write(self._answer)
        if self._stays:
            await reader.read()
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._chain)
        server = await asyncio.start_server(self._meet, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()


async def know(api: Served, port: int, certificate: str, address: str = "127.0.0.1") -> None:
    """The node as it would make itself known."""
    metadata = {"name": "n1", "annotations": {CERTIFICATE_ANNOTATION: certificate}}
    endpoint = {"kubeletEndpoint": {"Port": port}}
    status = {"addresses": [{"type": "InternalIP", "address": address}], "daemonEndpoints": endpoint}
    created = await api.ask("POST", "/api/v1/nodes", {"metadata": metadata, "status": status})
    assert created.code == 201, created.content


async def read(api: Served, directory: Path, query: LogQuery = WHOLE, *, seconds: float = 15.0) -> bytes:
    """All of it; or the refusal, raised."""
    logs = NodeLogs(NodeClient(api.store, ensure_identity(directory / "pki").client, answer_seconds=seconds))
    return b"".join([piece async for piece in logs.read_log(POD, query)])


def ask(api: Served, directory: Path, peer: Peer, query: LogQuery = WHOLE, *, seconds: float = 15.0) -> bytes:
    async def scenario() -> bytes:
        async with peer.open():
            await know(api, peer.port, peer.certificate)
            return await read(api, directory, query, seconds=seconds)

    return api.run(scenario())


def refusal(api: Served, directory: Path, answer: bytes, *, stays: bool = False, seconds: float = 15.0) -> ApiError:
    with pytest.raises(ApiError) as caught:
        ask(api, directory, Peer(directory, answer, stays=stays), seconds=seconds)
    return caught.value


def test_what_the_node_says_is_passed_on(api: Served, tmp_path: Path) -> None:
    peer = Peer(tmp_path, OK + b"3\r\none\r\n4\r\n two\r\n0\r\n\r\n")
    assert (
        ask(
            api,
            tmp_path,
            peer,
            LogQuery("main", 5, 7, is_previous=True, is_followed=True, since_ns=10**18 + 5, has_times=True),
        )
        == b"one two"
    )
    line = peer.heard.partition(b"\r\n")[0]
    parameters = (
        b"uid=u1&sinceTime=2001-09-09T01%3A46%3A40.000000005Z&tailLines=5&limitBytes=7&follow=true&previous=true"
        b"&timestamps=true"
    )
    assert line == b"GET /containerLogs/default/web/main?" + parameters + b" HTTP/1.1"


def test_a_node_that_is_gone(api: Served, tmp_path: Path) -> None:
    async def scenario() -> None:
        peer = Peer(tmp_path, OK)
        async with peer.open():
            await know(api, peer.port, peer.certificate)
        with pytest.raises(ApiError, match=f'^node "n1" does not answer at 127.0.0.1:{peer.port}: ') as caught:
            await read(api, tmp_path)
        assert (caught.value.code, caught.value.reason) == (503, "ServiceUnavailable")

    api.run(scenario())


def test_another_process_in_its_place_is_not_believed(api: Served, tmp_path: Path) -> None:
    """Nor told anything: the request is not even sent."""

    async def scenario() -> None:
        peer = Peer(tmp_path, OK + b"3\r\nlie\r\n0\r\n\r\n")
        expected = peer.certificate
        impostor = Peer(tmp_path, OK + b"3\r\nlie\r\n0\r\n\r\n")
        assert impostor.certificate != expected
        async with impostor.open():
            await know(api, impostor.port, expected)
            with pytest.raises(ApiError, match="certificate verify failed") as caught:
                await read(api, tmp_path)
        assert caught.value.code == 503
        assert impostor.heard == b""

    api.run(scenario())


def test_an_unknown_node(api: Served, tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=r'^pods "n1" not found$') as caught:
        api.run(read(api, tmp_path))
    assert caught.value.code == 404


def test_a_pod_without_a_node_has_written_nothing(api: Served) -> None:
    api.pod("p", node="")
    answer = api.get(f"{PODS}/p/log")
    assert (answer.code, answer.content) == (204, b"")


@pytest.mark.parametrize(
    ("port", "certificate", "address", "code"),
    [
        (1, "nonsense", "127.0.0.1", 502),
        (0, "nonsense", "127.0.0.1", 503),
        (1, "é", "127.0.0.1", 502),
        (1, "", "127.0.0.1", 503),
        (1, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "127.0.0.1", 502),
        (1, "x", "localhost", 503),
        (1, "x", "127.0.0.1/x?", 503),
        (1, "x", "user@127.0.0.1", 503),
    ],
)
def test_a_node_that_tells_nonsense(
    api: Served, tmp_path: Path, port: int, certificate: str, address: str, code: int
) -> None:
    async def scenario() -> None:
        await know(api, port, certificate, address)
        with pytest.raises(ApiError) as caught:
            await read(api, tmp_path)
        assert caught.value.code == code

    api.run(scenario())


@pytest.mark.parametrize(
    ("port", "address", "text"),
    [
        (99999, "127.0.0.1", "has the port `99999`"),
        (-1, "127.0.0.1", "has the port `-1`"),
        (1, "::1%é", "means something only on itself"),
    ],
)
def test_a_place_that_cannot_be(api: Served, tmp_path: Path, port: int, address: str, text: str) -> None:
    async def scenario() -> None:
        await know(api, port, Peer(tmp_path, b"").certificate, address)
        with pytest.raises(ApiError, match=text) as caught:
            await read(api, tmp_path)
        assert caught.value.code == 503

    api.run(scenario())


def test_its_refusals_are_passed_on(api: Served, tmp_path: Path) -> None:
    told = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 11\r\n\r\nno \x1b[31m red"
    found = refusal(api, tmp_path, told)
    assert (found.code, found.reason, found.message) == (400, "BadRequest", "no \\x1b[31m re")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        # The last chunk is missing.
        OK + b"3\r\none\r\n",
    ],
)
def test_an_answer_that_is_none(api: Served, tmp_path: Path, answer: bytes) -> None:
    found = refusal(api, tmp_path, answer)
    assert (found.code, found.message.startswith('node "n1"')) == (502, True)


def test_a_refusal_without_end_is_cut(api: Served, tmp_path: Path) -> None:
    found = refusal(api, tmp_path, b"HTTP/1.1 500 Oh\r\nConnection: close\r\n\r\n" + b"x" * 1_000_000)
    assert (found.code, found.message) == (500, "x" * 2048)


def test_a_node_that_says_nothing(api: Served, tmp_path: Path) -> None:
    found = refusal(api, tmp_path, b"", stays=True, seconds=0.3)
    assert (found.code, "does not answer" in found.message) == (503, True)


class Endless:
    """A node whose logs have one line and no end."""

    async def read_log(self, _pod: dict[str, Any], _query: LogQuery) -> AsyncGenerator[bytes, None]:
        yield b"line"
        await asyncio.Event().wait()


def test_logs_leave_room_at_a_node_for_administrators(api: Served) -> None:
    """Of one user, and of all but administrators; at another node there is room, and where a log ends as well."""
    for name, node in (("p", "n1"), ("q", "n2")):
        api.pod(name, node=node)
    logs = ContainerLogs(api.store, SettableClock(), Endless())

    async def follow(user: str, pod: str = "p") -> AsyncGenerator[bytes, None]:
        request = Request("GET", f"{PODS}/{pod}/log", b"follow=true", ())
        request.user = User(user, (), "admin" if user == "admin" else "viewer")
        assert request.target is not None
        pieces = logs.open(request, request.target)
        assert pieces is not None
        assert await anext(pieces) == b"line"
        return pieces

    async def scenario() -> None:
        held = [await follow("one") for _ in range(LOGS.one_user)]
        with pytest.raises(ApiError, match='too many logs of node "n1"') as caught:
            await follow("one")
        assert (caught.value.code, caught.value.retry_after_seconds) == (429, 1)
        held.append(await follow("one", "q"))
        held += [await follow("two") for _ in range(LOGS.all - LOGS.reserve - LOGS.one_user)]
        with pytest.raises(ApiError, match="too many logs"):
            await follow("three")
        held += [await follow("admin") for _ in range(LOGS.all)]
        await held[0].aclose()
        held.append(await follow("three"))
        for each in held:
            await each.aclose()
        held = [await follow("four") for _ in range(LOGS.one_user)]
        for each in held:
            await each.aclose()

    api.run(scenario())


def test_containers_of_all_kinds_are_known() -> None:
    """An ephemeral one, too: whether it has run is for its node to say."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    pod = {"spec": {kind: [{"name": kind.lower()}] for kind in kinds}}
    assert containers_of(pod) == [kind.lower() for kind in kinds]
    assert only_container(pod) == "containers"


@pytest.mark.parametrize(
    ("accept", "message"),
    [
        (
            "text/plain",
            (
                "only the following media types are accepted: application/json, application/yaml, "
                "application/vnd.kubernetes.protobuf"
            ),
        ),
        (
            "text/html",
            (
                "406: Not Acceptable\n\nAvailable representations: text/plain, application/json, application/yaml, "
                "application/vnd.kubernetes.protobuf"
            ),
        ),
    ],
)
def test_a_client_must_take_json_although_it_gets_text(api: Served, accept: str, message: str) -> None:
    answer = api.get(f"{PODS}/p/log", accept=accept)
    assert (answer.code, answer.message) == (406, message)
