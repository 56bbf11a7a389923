"""What pods serve, asked through the API server: which address is asked, what is passed on, and which users may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jettison.apiserver.access.certificates import ensure_identity
from jettison.apiserver.verbs.node_client import NodeClient
from tests.apiserver.kubelet import Kubelet, listening, make_node
from tests.apiserver.served import PODS, Answer, Served, pod_document

SERVICES = "/api/v1/namespaces/default/services"
SAYS = b"HTTP/1.1 200 OK\r\nContent-Type: text/odd\r\nX-Own: yes\r\nSet-Cookie: a=b\r\nContent-Length: 4\r\n\r\nfine"


class Scene(NamedTuple):
    """An API with a node of this machine, whose pod `web` listens on a port that it declares."""

    api: Served
    port: int
    heard: list[str]

    async def ask(self, path: str, method: str = "GET", body: Any = None, **options: Any) -> Answer:
        return await self.api.ask(method, path.replace("PORT", str(self.port)), body, **options)


async def a_pod(api: Served, address: str, *ports: int, name: str = "web", node: str = "n1") -> None:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": each} for each in ports]}
    made = await api.ask("POST", PODS, pod_document(name, nodeName=node, containers=[container]))
    assert made.code == 201, made.content
    status = {"status": {"phase": "Running", "podIP": address}}
    written = await api.ask("PATCH", f"{PODS}/{name}/status", status, content_type="application/merge-patch+json")
    assert written.code == 200, written.content


def play(api: Served, folder: Path, act: Callable[[Scene], Awaitable[Any]], says: bytes = SAYS) -> Any:
    """Real sockets on the loopback: the node's port, and what the pod serves."""
    identity = ensure_identity(folder / "pki")
    api.app._proxies._nodes = NodeClient(api.store, identity.client, identity.authority_pem)
    kubelet, heard = Kubelet(identity), []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            # The greeting of TLS, which is not spoken here.
            heard.append(repr(error.partial))
            return
        length = [
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        ]
        heard.append((head + await reader.readexactly(sum(length))).decode())
        writer.write(says)

    async def scene() -> Any:
        async with kubelet.open(), listening(meet) as port:
            await make_node(api, kubelet.port)
            await a_pod(api, "127.0.0.1", port)
            return await act(Scene(api, port, heard))

    return api.run(scene())


def test_a_request_is_passed_on_and_its_answer_back(api: Served, tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        headers = {"x-mine": "1", "cookie": "a=b", "impersonate-user": "admin", "accept-encoding": "gzip"}
        answer = await scene.ask(f"{PODS}/web/proxy/a b/c", query="x=1&y=%20", headers=headers)
        assert (answer.code, answer.content) == (200, b"fine")
        assert (answer.headers["content-type"], answer.headers["x-own"]) == ("text/odd", "yes")
        assert "set-cookie" not in answer.headers
        (head,) = scene.heard
        assert head.startswith("GET /a%20b/c?x=1&y=%20 HTTP/1.1\r\n")
        assert f"Host: 127.0.0.1:{scene.port}" in head
        assert "x-mine: 1" in head
        for secret in ("authorization", "cookie", "impersonate", "accept-encoding"):
            assert secret not in head.lower()
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert (await scene.ask(f"{PODS}/http:web:PORT/proxy/", method, b"body", content_type="text/x")).code == 200
            assert scene.heard[-1].startswith(f"{method} / HTTP/1.1")
            assert scene.heard[-1].endswith("\r\n\r\nbody")
        assert (await scene.ask(f"{PODS}/web/proxy/", "OPTIONS")).code == 200
        head_only = await scene.ask(f"{PODS}/web/proxy/", "HEAD")
        assert (head_only.code, head_only.content) == (200, b"")
        assert (await scene.ask(f"{PODS}/web/proxy/", "TRACE")).code == 405

    play(api, tmp_path, act)


def test_the_root_of_a_pod_has_a_slash(api: Served, tmp_path: Path) -> None:
    """Relative links of its pages would otherwise lead beside the proxy."""

    async def act(scene: Scene) -> None:
        answer = await scene.ask(f"{PODS}/web/proxy", query="a=1")
        assert (answer.code, answer.headers["location"]) == (301, f"{PODS}/web/proxy/?a=1")
        assert scene.heard == []

    play(api, tmp_path, act)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/next?a=1#b", f"{PODS}/web/proxy/next?a=1#b"),
        ("next", "next"),
        ("https://elsewhere.example/x", "https://elsewhere.example/x"),
    ],
)
def test_a_redirection_leads_to_the_pod_again(api: Served, tmp_path: Path, location: str, expected: str) -> None:
    async def act(scene: Scene) -> None:
        answer = await scene.ask(f"{PODS}/web/proxy/")
        assert (answer.code, answer.headers["location"]) == (302, expected)

    says = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    play(api, tmp_path, act, says.encode())


def test_an_answer_that_breaks_off(api: Served, tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        answer = await scene.ask(f"{PODS}/web/proxy/")
        assert (answer.code, answer.content) == (200, b"fi")

    play(api, tmp_path, act, SAYS[:-2])


SWITCHES = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\n"


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nhi", "the server answers with the status 999, which is none"),
        (SWITCHES + b"HTTP/1.1 200 OK\r\n\r\n", "the server switches to another protocol unasked"),
    ],
)
def test_a_pod_that_answers_what_no_server_may(api: Served, tmp_path: Path, says: bytes, why: str) -> None:
    """The first was a traceback for each, the second an answer of the pod's in the place of this server's."""
    answer = play(api, tmp_path, lambda scene: scene.ask(f"{PODS}/web/proxy/"), says)
    assert answer.code == 503
    assert why in answer.message


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (f"{PODS}/none/proxy/", 404, 'pods "none" not found'),
        (f"{PODS}/a:b:c:d/proxy/", 400, 'invalid pod request "a:b:c:d"'),
        (f"{PODS}/ftp:web:1/proxy/", 400, 'invalid pod request "ftp:web:1"'),
        (f"{PODS}/web:http/proxy/", 400, 'the port of a pod must be a number from 1 to 65535: "http"'),
        (f"{PODS}/web:65536/proxy/", 400, 'the port of a pod must be a number from 1 to 65535: "65536"'),
        # A loopback address is that of a node here; a port that the pod does not declare is another program's.
        (f"{PODS}/web:22/proxy/", 400, "address not allowed"),
    ],
)
def test_what_is_refused(api: Served, tmp_path: Path, path: str, code: int, message: str) -> None:
    async def act(scene: Scene) -> None:
        answer = await scene.ask(path)
        assert (answer.code, answer.message, scene.heard) == (code, message, [])

    play(api, tmp_path, act)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.2", "::1", "0.0.0.0", "169.254.169.254", "fe80::1", "224.0.0.1", "255.255.255.255"],
)
def test_addresses_that_no_pod_has(api: Served, tmp_path: Path, address: str) -> None:
    """A node writes the status of its pods, and could name the loopback of this server or its provider's metadata."""

    async def act(scene: Scene) -> None:
        await a_pod(api, address, scene.port, name="odd")
        answer = await scene.ask(f"{PODS}/odd/proxy/")
        assert (answer.code, answer.message, scene.heard) == (400, "address not allowed", [])

    play(api, tmp_path, act)


def test_a_node_that_is_not_here_cannot_lend_its_loopback(api: Served, tmp_path: Path) -> None:
    """It claims the loopback address, and nothing there has its certificate."""

    async def act(scene: Scene) -> None:
        endpoint = {"kubeletEndpoint": {"Port": scene.port}}
        status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": endpoint}
        assert (await scene.ask("/api/v1/nodes", "POST", {"metadata": {"name": "far"}, "status": status})).code == 201
        await a_pod(api, "127.0.0.1", scene.port, name="guest", node="far")
        answer = await scene.ask(f"{PODS}/guest/proxy/")
        assert (answer.code, answer.message) == (400, "address not allowed")
        assert not any("GET" in each for each in scene.heard)

    play(api, tmp_path, act)


def test_a_pod_that_does_not_listen(api: Served, tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        listener.close()
        await listener.wait_closed()
        await a_pod(api, "127.0.0.1", port, name="idle")
        answer = await scene.ask(f"{PODS}/idle/proxy/")
        assert (answer.code, answer.body["reason"]) == (503, "ServiceUnavailable")
        assert answer.message.startswith(f"error trying to reach service: 127.0.0.1:{port}: ")

    play(api, tmp_path, act)


@pytest.mark.parametrize("user", ["viewer", "evictor", "node", ""])
@pytest.mark.parametrize("path", [f"{PODS}/p/proxy/", f"{SERVICES}/s/proxy/"])
def test_only_administrators_ask_pods(api: Served, user: str, path: str) -> None:
    api.pod("p")
    for method in ("GET", "POST", "OPTIONS"):
        assert api(method, path, token=user).code == 403


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("db", 503, 'no endpoints available for service "db"'),
        ("db:5432", 503, 'no endpoints available for service "db"'),
        ("https:db:pg", 503, 'no endpoints available for service "db"'),
        ("db:1", 503, 'no service port 1 found for service "db"'),
        ("none", 404, 'services "none" not found'),
        ("none:1", 404, 'services "none" not found'),
        ("a:b:c:d", 400, 'invalid service request "a:b:c:d"'),
    ],
)
def test_a_service_has_no_endpoints(api: Served, name: str, code: int, message: str) -> None:
    api.post(SERVICES, {"metadata": {"name": "db"}, "spec": {"ports": [{"port": 5432}], "selector": {"a": "b"}}})
    answer = api.get(f"{SERVICES}/{name}/proxy/x")
    assert (answer.code, answer.message) == (code, message)
