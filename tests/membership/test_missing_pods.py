"""A pod that the API lists no longer runs on until it is clear that this is meant."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.clock import SystemClock
from jettison.errors import ApiError, JettisonError, NotFound
from jettison.manifests.pods import pod_from
from jettison.membership.missing_pods import FILE, MissingPods
from jettison.runtimes.kube.cache import Cache, Change
from jettison.runtimes.kube.client import Listing
from jettison.runtimes.kube.kinds import NODES, PODS, Kind
from jettison.runtimes.protocol import PodStatus
from tests.controllers.staging import until
from tests.live.served import end, start
from tests.membership.joined import PATIENCE, joined, play

Json = dict[str, Any]

pytestmark = pytest.mark.timeout(300)


def document(name: str, uid: str = "", **annotations: str) -> Json:
    metadata = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "annotations": annotations}
    metadata["resourceVersion"] = "1"
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "none"}]}}


@dataclass
class Api:
    """As much of a client as is asked."""

    most_objects: int = 100
    most_weight: int = 10**6
    pods: dict[str, Json] = field(default_factory=dict)
    cluster: str = "first"
    trouble: ApiError | None = None

    async def list(self, kind: Kind, namespace: str = "", *, fields: str = "") -> Listing:
        return Listing(list(self.pods.values()), "7")

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Json:
        if kind is NODES:
            return {"metadata": {"uid": self.cluster}}
        if self.trouble is not None:
            raise self.trouble
        if name not in self.pods:
            raise NotFound(name)
        return self.pods[name]


class Node:
    """Three pods of an API, and one of a manifest, all of them running."""

    def __init__(self, folder: Path, api: Api) -> None:
        self.api = api
        documents = [document(name) for name in "abc"]
        api.pods = {each["metadata"]["name"]: each for each in documents}
        documents.append(document("own", **{"jettison.dev/manifest": "/pods/own.yaml"}))
        self.statuses = [PodStatus(pod_from(each, "test"), "Running", document=each) for each in documents]
        self.cache = Cache(api, PODS, "", SystemClock(), 45, "spec.nodeName=n1")  # type: ignore[arg-type]
        self.missing = MissingPods(api, "n1", self.cache, lambda: self.statuses, folder / FILE)  # type: ignore[arg-type]

    async def relist(self) -> None:
        await self.cache._list()

    def kept(self) -> list[str]:
        return sorted(self.missing.wishes())


def on_node(folder: Path, scenario: Any) -> None:
    asyncio.run(scenario(Node(folder, Api())))


def test_two_answers_are_needed(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        woken: list[int] = []
        node.missing.wake = lambda: woken.append(1)
        await node.relist()
        await node.missing.confirm()
        assert node.kept() == []
        node.api.pods.clear()
        await node.relist()
        assert node.kept() == ["uid-a", "uid-b", "uid-c"], "and not that of the manifest, which is another's business"
        await node.missing.confirm()
        assert (len(node.kept()), woken) == (3, [])
        await node.missing.confirm()
        assert (node.kept(), len(woken)) == ([], 3)

    on_node(tmp_path, scenario)


def test_a_pod_that_is_there_after_all_begins_anew(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.relist()
        lost = node.api.pods.pop("a")
        await node.relist()
        await node.missing.confirm()
        node.api.pods["a"] = lost
        await node.missing.confirm()
        del node.api.pods["a"]
        await node.missing.confirm()
        assert node.kept() == ["uid-a"]
        node.api.pods["a"] = document("a", uid="another")
        await node.missing.confirm()
        assert node.kept() == [], "another one of the same name is not this one"

    on_node(tmp_path, scenario)


def test_a_deletion_that_was_seen_needs_no_confirmation(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.relist()
        node.cache._store(("default", "a"), Change(node.api.pods["a"], None))
        assert node.kept() == []

    on_node(tmp_path, scenario)


def test_a_server_that_cannot_tell_confirms_nothing(tmp_path: Path) -> None:
    """As about an object that is damaged: it is in no list, and not gone."""

    async def scenario(node: Node) -> None:
        await node.relist()
        node.api.pods.clear()
        await node.relist()
        node.api.trouble = ApiError("damaged and set aside", code=500)
        for _ in range(3):
            with pytest.raises(ApiError):
                await node.missing.confirm()
        assert len(node.kept()) == 3
        node.api.trouble = ApiError("may ask about its own pods only", code=403, reason="Forbidden")
        for _ in range(2):
            await node.missing.confirm()
        assert node.kept() == []

    on_node(tmp_path, scenario)


def test_another_cluster_confirms_nothing_until_it_is_let(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.relist()
        await node.missing.confirm()
        node.api.pods.clear()
        node.api.cluster = "second"
        restarted = Node(tmp_path, Api(cluster="second"))
        restarted.api.pods.clear()
        for each in (node, restarted):
            await each.relist()
            for _ in range(3):
                with pytest.raises(JettisonError, match="has forgotten this node and 3 pods"):
                    await each.missing.confirm()
            assert len(each.kept()) == 3
        (tmp_path / FILE).unlink()
        for _ in range(2):
            await node.missing.confirm()
        assert node.kept() == []

    on_node(tmp_path, scenario)


def test_a_cluster_of_which_nothing_runs_here_is_forgotten(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.relist()
        await node.missing.confirm()
        node.statuses.clear()
        node.api.cluster = "second"
        await node.relist()
        await node.missing.confirm()
        assert "second" in (tmp_path / FILE).read_text()

    on_node(tmp_path, scenario)


def test_pods_outlive_a_server_that_has_lost_everything(tmp_path: Path) -> None:
    """With a real server: the store is gone, the operator begins anew, and the pods run on until told otherwise."""
    folder = tmp_path / "served"
    first = start(folder, "--node", "m1", "--controllers=-")
    command = (sys.executable, "-m", "jettison", "store", "repair", "--begin-anew", "--state-dir", str(folder))

    async def scenario() -> None:
        async with joined(first, "m1", tmp_path / "node", confirm_seconds=0.2) as member:
            await member.create("p", ["sleep", "1000"])
            await member.until_phase("p", "Running")
            memory = member.node.settings.node_state / FILE
            await until(lambda: _true(memory.exists()), seconds=PATIENCE)
            end(first.process, signal.SIGKILL)
            await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
            second = await asyncio.to_thread(
                start, folder, "--node", "m1", "--controllers=-", listen=f"127.0.0.1:{first.port}"
            )
            try:
                await until(lambda: _true(_complaint(member.said.facts)), seconds=PATIENCE)
                assert [each.phase for each in member.node.runtime.statuses()] == ["Running"]
                memory.unlink()
                await until(lambda: _true(not member.node.runtime.statuses()), seconds=PATIENCE)
            finally:
                await asyncio.to_thread(end, second.process, signal.SIGTERM)

    try:
        play(scenario())
    finally:
        end(first.process, signal.SIGKILL)


def _complaint(facts: list[Any]) -> bool:
    return any(isinstance(each, events.ActionFailed) and "has forgotten this node" in str(each) for each in facts)


async def _true(is_so: bool) -> bool | None:
    return is_so or None
