"""Streams and `proxy` as far as the API server answers them itself: which requests are passed on, and to which node."""

from __future__ import annotations

from pathlib import Path

import pytest

from jettison.apiserver.access.certificates import ensure_identity
from jettison.apiserver.connections.limits import is_tunnel
from jettison.apiserver.verbs.node_client import NodeClient
from tests.apiserver.kubelet import Kubelet, make_node
from tests.apiserver.served import PODS, Answer, Served

UPGRADE = {"connection": "keep-alive, Upgrade", "upgrade": "SPDY/3.1", "x-stream-protocol-version": "v4.channel.k8s.io"}
NODE = "/api/v1/nodes/n1/proxy"


def asked(api: Served, folder: Path, method: str, path: str, address: str = "127.0.0.1") -> tuple[Answer, list[str]]:
    """The answer of an API with one node, and what the node has heard."""
    identity = ensure_identity(folder / "pki")
    api.app._streams._nodes = NodeClient(api.store, identity.client, identity.authority_pem)
    kubelet = Kubelet(identity)

    async def scenario() -> Answer:
        async with kubelet.open():
            await make_node(api, kubelet.port, address)
            path_and_query = path.replace("PORT", str(kubelet.port)).partition("?")
            return await api.ask(method, path_and_query[0], query=path_and_query[2])

    return api.run(scenario()), kubelet.heard


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (f"{NODE}/stats/summary?only_cpu_and_memory=true", "/stats/summary?only_cpu_and_memory=true"),
        (NODE, "/"),
        (f"{NODE}/", "/"),
        ("/api/v1/nodes/n1:PORT/proxy/pods", "/pods"),
        ("/api/v1/nodes/https:n1:PORT/proxy/pods", "/pods"),
        ("/api/v1/nodes/https:n1:/proxy/pods", "/pods"),
        # What is behind `proxy` is one path of the node's, and never another request.
        (f"{NODE}/a b\r\nX: y/c", "/a%20b%0D%0AX%3A%20y/c"),
    ],
)
def test_a_question_to_a_node_is_passed_on(api: Served, tmp_path: Path, path: str, target: str) -> None:
    """Certified by the authority for its address, it needs no annotation."""
    answer, heard = asked(api, tmp_path, "GET", path)
    assert (answer.code, answer.content, answer.headers["content-type"]) == (200, b"fine", "text/odd")
    assert [each.partition("\r\n")[0] for each in heard] == [f"GET {target} HTTP/1.1"]
    assert "admin" not in heard[0]


def test_a_certificate_for_another_address_is_not_believed(api: Served, tmp_path: Path) -> None:
    answer, heard = asked(api, tmp_path, "GET", NODE, address="127.0.0.3")
    assert (answer.code, heard) == (503, [])


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/nodes/n2/proxy/pods", 404),
        ("/api/v1/nodes/n1:1/proxy/pods", 400),
        ("/api/v1/nodes/http:n1:PORT/proxy/pods", 400),
        ("/api/v1/nodes/a:b:c:d/proxy/pods", 400),
    ],
)
def test_another_node_or_port_is_refused(api: Served, tmp_path: Path, path: str, code: int) -> None:
    answer, heard = asked(api, tmp_path, "GET", path)
    assert (answer.code, heard) == (code, [])


@pytest.mark.parametrize(
    ("path", "headers", "code", "text"),
    [
        (f"{PODS}/w/exec", {}, 400, "Upgrade request required"),
        (f"{PODS}/w/exec/", {"connection": "Upgrade"}, 400, "Upgrade request required"),
        (f"{PODS}/elsewhere/exec", {}, 404, 'pods "n9" not found'),
        (f"{PODS}/bare/attach", {}, 500, "no preferred addresses found; known addresses: []"),
        (f"{PODS}/p/exec?container=x", UPGRADE, 400, "container x is not valid for pod p"),
        (f"{PODS}/p/attach", UPGRADE, 400, "pod p does not have a host assigned"),
        (f"{PODS}/p/portforward", UPGRADE, 400, "pod p does not have a host assigned"),
        (
            f"{PODS}/p/portforward?ports=80,x",
            UPGRADE,
            400,
            'cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax',
        ),
        (
            f"{PODS}/p/portforward?ports=65536",
            UPGRADE,
            400,
            'cannot convert to []int32: strconv.ParseUint: parsing "65536": value out of range',
        ),
        (f"{PODS}/q/exec", UPGRADE, 404, 'pods "q" not found'),
    ],
)
def test_what_cannot_be_streamed(
    api: Served, tmp_path: Path, path: str, headers: dict[str, str], code: int, text: str
) -> None:
    identity = ensure_identity(tmp_path / "pki")
    api.app._streams._nodes = NodeClient(api.store, identity.client)
    api.pod("p", node="")
    api.pod("w")
    api.pod("elsewhere", node="n9")
    api.pod("bare", node="n2")
    api.run(make_node(api, 10250))
    assert api.post("/api/v1/nodes", {"metadata": {"name": "n2"}}).code == 201
    for method in ("GET", "POST"):
        target = path.partition("?")
        answer = api.run(api.ask(method, target[0], query=target[2], headers=headers))
        assert (answer.code, answer.message) == (code, text)


@pytest.mark.parametrize("user", ["viewer", "evictor", "node"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", [f"{PODS}/p/exec", f"{PODS}/p/attach", f"{PODS}/p/portforward", f"{NODE}/pods"])
def test_only_administrators_stream(api: Served, user: str, method: str, path: str) -> None:
    api.pod("p")
    assert api.run(api.ask(method, path, headers=UPGRADE, token=user)).code == 403


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{PODS}/p/exec", True),
        (f"{PODS}/exec/log", False),
        (f"{PODS}/p/exec/", True),
        (f"{PODS}/p/exec/x", False),
        ("/api/v1/namespaces/exec", False),
        (NODE, True),
        (f"{NODE}/a/b\n", True),
        ("/api/v1/nodes/proxy", False),
        (f"{PODS}/p/proxy", True),
        (f"{PODS}/p:80/proxy/a/b", True),
        ("/api/v1/namespaces/default/services/s/proxy/", True),
        ("/api/v1/namespaces/default/secrets/s/proxy/", False),
    ],
)
def test_streams_are_counted_apart(path: str, expected: bool) -> None:
    assert is_tunnel(path) is expected
