"""A cluster in the event loop of a program: served, joined by a node of its own, and gone with the block."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from jettison.engine import Policy
from jettison.errors import JettisonError
from jettison.node import ClusterSettings, LocalCluster, NodeSettings
from tests.controllers.staging import until
from tests.membership.joined import play

PODS = "/api/v1/namespaces/default/pods"
POD = {
    "metadata": {"name": "web"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "none", "command": ["sleep", "600"]}],
    },
}


def test_a_pod_is_scheduled_and_runs_on_a_node_of_the_same_process(tmp_path: Path) -> None:
    node = NodeSettings(
        "inside",
        tmp_path,
        node_memory=512 * 2**20,
        uses_cgroups=False,
        policy=Policy.of({"evictionHard": {"memory.available": "1Mi"}}),
    )

    async def scenario() -> None:
        async with LocalCluster(ClusterSettings(tmp_path, nodes=(node,))) as cluster, cluster.client() as client:
            await client.request("POST", PODS, body=POD)

            async def phase() -> Any:
                found = await client.request("GET", f"{PODS}/web")
                return found if found["status"].get("phase") == "Running" else None

            found = await until(phase, seconds=60)
            assert found is not None
            assert found["spec"]["nodeName"] == "inside"
            await client.request("DELETE", f"{PODS}/web")

            async def gone() -> Any:
                return not cluster.nodes[0].statuses()

            assert await until(gone, seconds=60)

    play(scenario())


def test_what_cannot_be_served_is_told_and_leaves_nothing_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ClusterSettings(tmp_path, ("127.0.0.1", taken.getsockname()[1]))

        async def scenario() -> None:
            cluster = LocalCluster(settings)
            with pytest.raises(JettisonError, match="cannot listen at"):
                await cluster.__aenter__()
            assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
            with pytest.raises(JettisonError, match="not served yet"):
                _ = cluster.url

        play(scenario())
