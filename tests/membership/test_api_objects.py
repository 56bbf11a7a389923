"""ConfigMaps, Secrets and tokens from a real API, as the node that runs the pods."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jettison.clock import SystemClock
from jettison.errors import ContentError
from jettison.membership.api_objects import ApiObjects
from jettison.runtimes.configuration import ObjectKind, TokenOrder
from jettison.runtimes.kept_text import MOST_BYTES, KeptObject
from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access
from tests.live.served import Served
from tests.membership.joined import NODES

NAMESPACE = "/api/v1/namespaces/default"
NODE = NODES[-1]


def make(served: Served, path: str, document: dict[str, Any]) -> Any:
    code, found = served.call("POST", f"{NAMESPACE}/{path}", document)
    assert code == 201, found
    return found


def asked(served: Served, ask: Callable[[ApiObjects], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        access = load_access(Overrides(kubeconfig=str(served.kubeconfig(NODE))))
        async with KubeClient(access, answers=BoundedAnswers()) as client:
            return await ask(ApiObjects(client, SystemClock()))

    return asyncio.run(run())


def read(served: Served, kind: ObjectKind, name: str) -> KeptObject:
    found = asked(served, lambda objects: objects.read(kind, "default", name))
    try:
        taken: KeptObject = found.take_apart()
        return taken
    finally:
        found.close()


@pytest.fixture(scope="module")
def pod(served: Served) -> Any:
    """Bound to the node, with references to all that a test asks for."""
    whole = {"a": "x" * MOST_BYTES}
    make(served, "secrets", {"metadata": {"name": "whole"}, "stringData": whole})
    make(served, "configmaps", {"metadata": {"name": "mixed"}, "data": {"t": "é"}, "binaryData": {"b": "AAE="}})
    make(served, "configmaps", {"metadata": {"name": "many"}, "data": {f"k{number}": "" for number in range(9000)}})
    make(served, "secrets", {"metadata": {"name": "foreign"}})
    make(served, "serviceaccounts", {"metadata": {"name": "robot"}})
    sources = [
        {"secret": {"name": "whole"}},
        {"secret": {"name": "gone"}},
        {"configMap": {"name": "mixed"}},
        {"configMap": {"name": "many"}},
        {"serviceAccountToken": {"path": "t"}},
    ]
    spec = {
        "nodeName": NODE,
        "serviceAccountName": "robot",
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "projected": {"sources": sources}}],
    }
    return make(served, "pods", {"metadata": {"name": "referring"}, "spec": spec})


def test_the_largest_secret_comes_whole(served: Served, pod: Any) -> None:
    del pod
    assert read(served, ObjectKind.SECRET, "whole").data == {"a": b"x" * MOST_BYTES}
    assert read(served, ObjectKind.CONFIG_MAP, "mixed") == KeptObject({"t": "é".encode()}, {"b": b"\0\1"})


def test_what_is_not_there_is_none_and_what_is_not_ours_an_error(served: Served, pod: Any) -> None:
    del pod
    assert asked(served, lambda objects: objects.read(ObjectKind.SECRET, "default", "gone")) is None
    with pytest.raises(ContentError, match="no relationship found between node"):
        asked(served, lambda objects: objects.read(ObjectKind.SECRET, "default", "foreign"))
    with pytest.raises(ContentError, match="more than 8000 fields"):
        read(served, ObjectKind.CONFIG_MAP, "many")


def test_a_token_is_for_the_pod(served: Served, pod: Any) -> None:
    uid = pod["metadata"]["uid"]
    token = asked(served, lambda objects: objects.token(TokenOrder("default", "robot", "referring", uid, "", 700)))
    assert 600 * 10**9 < token.expires_ns - token.issued_ns <= 701 * 10**9
    assert base64.urlsafe_b64decode(token.text.split(".")[1] + "==")
    assert token.text not in repr(token)
    with pytest.raises(ContentError, match="failed to fetch token: "):
        asked(served, lambda objects: objects.token(TokenOrder("default", "robot", "referring", "other", "", 700)))
