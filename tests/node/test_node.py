"""A node in the process of a program: ready when the block begins, told to stop, its pods taken over by the next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jettison.agent.http.client import fetch
from jettison.engine import Policy
from jettison.errors import JettisonError
from jettison.node import Node, NodeSettings

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "command": ["sleep", "600"]}]},
}


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 100))


def settings_in(directory: Path) -> NodeSettings:
    manifests = directory / "pods"
    manifests.mkdir()
    (manifests / "web.json").write_text(json.dumps(POD))
    policy = Policy.of({"evictionHard": {"memory.available": "1Mi"}})
    return NodeSettings("lab", directory, policy=policy, manifests=(manifests,), uses_cgroups=False)


async def _running(node: Node) -> str:
    """The uid of its pod, once that runs."""
    async with asyncio.timeout(60):
        while not (found := [each for each in node.statuses() if each.phase == "Running"]):
            await asyncio.sleep(0.05)
    return found[0].pod.uid


def test_pods_outlive_the_block_and_are_taken_over(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)

    async def scenario() -> None:
        async with Node(settings) as node:
            first = await _running(node)
        async with Node(settings) as node:
            assert await _running(node) == first
            await node.stop_pods()
            assert not node.statuses()

    play(scenario())


def test_it_is_ready_when_the_block_begins_and_hears_every_fact(tmp_path: Path) -> None:
    facts: list[str] = []

    class Heard:
        def take(self, fact: Any, time_ns: int) -> None:
            facts.append(type(fact).__name__)

    async def scenario() -> None:
        async with Node(settings_in(tmp_path), Heard()) as node:
            assert node.greeting().startswith("node lab is ready")
            assert node.agent.snapshot is not None
            await node.stop_pods()
        assert {"AgentStarted", "AgentStopped"} <= set(facts)

    play(scenario())


def test_down_ends_the_guard_and_not_the_program(tmp_path: Path) -> None:
    """A command about this node must not end the process that happens to hold it."""
    settings = settings_in(tmp_path)

    async def scenario() -> None:
        async with Node(settings) as node:
            order = partial(fetch, settings.node_state / "agent.sock", "/orders/down?pods=end", method="POST")
            assert (await asyncio.to_thread(order)).status == 200
            async with asyncio.timeout(60):
                await node.wait()
            assert not node.statuses()

    play(scenario())


def test_a_second_node_of_that_name_is_refused(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)

    async def scenario() -> None:
        async with Node(settings) as node:
            with pytest.raises(JettisonError, match="in use by another agent"):
                await Node(settings).open()
            await node.stop_pods()

    play(scenario())
