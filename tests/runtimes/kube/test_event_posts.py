"""Events reach the server, also those of an outage; those behind one that never arrives are sent, too."""

from __future__ import annotations

import asyncio

import pytest

from jettison.errors import ApiError, ConnectionBroken, JettisonError, UnreachableError
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.event_posts import EventPosts
from jettison.runtimes.kube.kinds import Kind
from tests.controllers.staging import until


class _Failing(KubeClient):
    """Fails for the events of that name, and so often; then it takes them."""

    def __init__(self, name: str, failure: JettisonError, times: int) -> None:
        self.name = name
        self.failure = failure
        self.left = times
        self.taken: list[str] = []

    async def create(self, kind: Kind, body: Document, namespace: str = "", subresource: str = "") -> Document:
        name = body["metadata"]["name"]
        if name == self.name and self.left:
            self.left -= 1
            raise self.failure
        self.taken.append(name)
        return body


@pytest.mark.parametrize(
    ("failure", "times", "taken"),
    [
        pytest.param(UnreachableError("refused"), 11, ["a", "b"], id="an outage"),
        pytest.param(ConnectionBroken("hung up"), 99, ["b"], id="one that no server answers"),
        pytest.param(ApiError("no", code=403, reason="Forbidden"), 1, ["b"], id="refused"),
    ],
)
def test_an_event_waits_for_a_server_that_does_not_answer(failure: JettisonError, times: int, taken: list[str]) -> None:
    """The events of an eviction during an outage were lost, and `kubectl describe` did not say why the pod ended."""

    async def scene() -> list[str]:
        client = _Failing("a", failure, times)
        posts = EventPosts(client, pause_seconds=0.001)
        for name in ("a", "b"):
            posts.post({"metadata": {"name": name, "namespace": "default"}, "count": 1})
        running = asyncio.create_task(posts.run())

        async def is_sent() -> bool:
            return "b" in client.taken

        await until(is_sent)
        running.cancel()
        return client.taken

    assert asyncio.run(scene()) == taken
