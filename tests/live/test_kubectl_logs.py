"""`kubectl logs`, from a server whose node keeps them and from one that has none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.cluster import Cluster
from jettison.apiserver.connections.endpoint import Endpoint
from jettison.apiserver.verbs.log_query import LogQuery
from jettison.errors import ApiError
from tests.live.kubectl import Kubectl
from tests.live.served import Served
from tests.live.workloads import make

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {nodeName: shelf, containers: [{name: main, image: i}, {name: side, image: i}]}
"""


class Shelf:
    """A node that has kept two lines of every container called main."""

    async def read_log(self, pod: dict[str, Any], query: LogQuery) -> AsyncGenerator[bytes, None]:
        if query.container != "main":
            raise ApiError(f"no node has heard of {pod['metadata']['name']}", code=400, reason="BadRequest")
        lines = [b"first\n", b"second\n"]
        for line in lines if query.tail_lines is None else lines[len(lines) - query.tail_lines :]:
            yield line


@contextmanager
def keeping_logs(state_dir: Path) -> Iterator[Cluster]:
    """A server in this process, with the shelf above."""
    cluster = Cluster(state_dir, Endpoint("127.0.0.1", 0), logs=Shelf())
    loop, stop, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(cluster.run(stop, lambda _: ready.set())))
    thread.start()
    try:
        assert ready.wait(60)
        yield cluster
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        loop.close()


@pytest.mark.timeout(300)
def test_logs_that_a_node_keeps(program: Path, tmp_path: Path) -> None:
    with keeping_logs(tmp_path / "state") as cluster:
        kubectl = Kubectl(program, cluster.kubeconfig("admin"), tmp_path)
        kubectl("apply", "-f", "-", stdin=POD)
        assert kubectl("logs", "web", "-c", "main") == "first\nsecond\n"
        assert kubectl("logs", "web", "-c", "main", "--tail=1") == "second\n"
        assert "no node has heard of web" in kubectl.fails("logs", "web", "-c", "side")
        assert "container other is not valid for pod web" in kubectl.fails("logs", "web", "-c", "other")
        assert 'pods "nobody" not found' in kubectl.fails("logs", "nobody")


def test_logs_that_are_not_kept(served: Served, kubectl: Kubectl) -> None:
    make(served, kubectl, "web")
    assert "no preferred addresses found; known addresses: []" in kubectl.fails("logs", "web")
