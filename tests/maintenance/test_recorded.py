"""`jettison drain` prints, does and exits with exactly what `kubectl drain` v1.36 did in the same situations."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jettison.errors import NotFound
from jettison.runtimes.kube.kinds import NODES
from tests.maintenance.playground import Json, Playground, play

RECORDED: dict[str, Json] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "oracle" / "data" / "drain-recorded.json.gz").read_bytes())
)
EMPTY_DIR = [{"name": "v", "emptyDir": {}}]
COMPLAINTS = re.compile(r"\[(cannot .*)\]")


class Stage:
    """What a scenario needs, and the names it must not be compared by."""

    def __init__(self, world: Playground) -> None:
        self.world = world
        self.masks: dict[str, str] = {}

    async def managed(
        self, kind: str, name: str, count: int, node: str, *, app: str = "web", volumes: Any = None
    ) -> None:
        owner = await self.world.workload(kind, name, count, {"app": app})
        spec = {"volumes": volumes} if volumes else {}
        for index in range(count):
            full = f"{name}-{index}-xyz"
            await self.world.pod(full, node, owner=owner, labels={"app": app}, **spec)
            self.masks[full] = f"<{name}-{index}>"

    def masked(self, text: str) -> str:
        text = text.replace(self.world.namespace, "<ns>")
        for full, mask in self.masks.items():
            text = text.replace(full, mask)
        # kubectl's order of several complaints is random, so the recording has them sorted.
        return COMPLAINTS.sub(lambda match: "[" + ", ".join(sorted(re.split(r", (?=cannot )", match[1]))) + "]", text)


async def _plain(stage: Stage, node: str) -> None:
    await stage.managed("ReplicaSet", "rs", 3, node)


async def _unmanaged_refused(stage: Stage, node: str) -> None:
    await stage.world.pod("solo", node, labels={"app": "solo"})
    await stage.managed("ReplicaSet", "rs", 1, node)


async def _unmanaged_forced(stage: Stage, node: str) -> None:
    await stage.world.pod("solo", node, labels={"app": "solo"})
    await stage.world.pod("solo2", node, labels={"app": "solo"})


async def _daemonset_refused(stage: Stage, node: str) -> None:
    await stage.managed("DaemonSet", "ds", 1, node)


async def _daemonset_ignored(stage: Stage, node: str) -> None:
    await stage.managed("DaemonSet", "ds", 1, node, app="ds")
    await stage.managed("ReplicaSet", "rs", 1, node)


async def _emptydir_refused(stage: Stage, node: str) -> None:
    await stage.managed("ReplicaSet", "rs", 1, node, volumes=EMPTY_DIR)


async def _emptydir_deleted(stage: Stage, node: str) -> None:
    await stage.managed("StatefulSet", "ss", 2, node, volumes=EMPTY_DIR)


async def _budget(stage: Stage, node: str) -> None:
    await stage.managed("ReplicaSet", "rs", 1, node)
    await stage.world.budget(minAvailable=1)
    await stage.world.count_budgets()


async def _two_budgets(stage: Stage, node: str) -> None:
    await stage.managed("ReplicaSet", "rs", 1, node)
    await stage.world.budget("one", minAvailable=0)
    await stage.world.budget("two", minAvailable=0)


async def _two_pods(stage: Stage, node: str) -> None:
    await stage.managed("ReplicaSet", "rs", 2, node)


async def _pod_selector(stage: Stage, node: str) -> None:
    await stage.managed("ReplicaSet", "rs", 1, node)
    await stage.managed("ReplicaSet", "other", 1, node, app="db")


async def _mirror_and_finished(stage: Stage, node: str) -> None:
    uid = (await stage.world.client.get(NODES, node))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    mirror = {"annotations": {"kubernetes.io/config.mirror": "abc"}}
    await stage.world.pod("static-x", node, owner=owner, metadata=mirror)
    await stage.world.pod("done", node, labels={"app": "x"}, phase="Succeeded", ready=False)
    await stage.world.pod("broken", node, labels={"app": "x"}, phase="Failed", ready=False)


async def _missing(stage: Stage, node: str) -> None:
    await stage.world.client.delete(NODES, node)


async def _all_problems(stage: Stage, node: str) -> None:
    await stage.world.pod("solo", node, labels={"app": "solo"})
    await stage.managed("DaemonSet", "ds", 1, node, app="ds")
    await stage.managed("ReplicaSet", "rs", 1, node, volumes=EMPTY_DIR)


async def _already_cordoned(stage: Stage, node: str) -> None:
    await stage.world.client.patch(NODES, node, {"spec": {"unschedulable": True}})
    await stage.managed("ReplicaSet", "rs", 1, node)


SCENES: dict[str, Callable[[Stage, str], Awaitable[None]]] = {
    "plain": _plain,
    "unmanaged-refused": _unmanaged_refused,
    "unmanaged-forced": _unmanaged_forced,
    "daemonset-refused": _daemonset_refused,
    "daemonset-ignored": _daemonset_ignored,
    "emptydir-refused": _emptydir_refused,
    "emptydir-deleted": _emptydir_deleted,
    "budget-exhausted": _budget,
    "budget-bypassed": _budget,
    "two-budgets": _two_budgets,
    "dry-run-server": _two_pods,
    "dry-run-client": _two_pods,
    "pod-selector": _pod_selector,
    "mirror-and-finished": _mirror_and_finished,
    "missing-node": _missing,
    "all-problems": _all_problems,
    "already-cordoned": _already_cordoned,
}


def test_every_recorded_scenario_is_played() -> None:
    assert SCENES.keys() == RECORDED.keys()


@pytest.mark.parametrize("name", SCENES)
def test_as_recorded(name: str, kubeconfig: Path) -> None:
    expected = RECORDED[name]

    async def scene(world: Playground) -> None:
        stage = Stage(world)
        node = await world.node("nope" if name == "missing-node" else "n1")
        await SCENES[name](stage, node)
        arguments = [each.replace("<ns>", world.namespace) for each in expected["args"]]
        async with world.busy(world.finish_pods):
            ran = await world.run("drain", *arguments)
        try:
            cordoned = (await world.client.get(NODES, node))["spec"].get("unschedulable", False)
        except NotFound:
            cordoned = None
        assert {
            "args": expected["args"],
            "exit": ran.code,
            "stdout": sorted(map(stage.masked, ran.out)),
            "stderr": sorted(map(stage.masked, ran.err)),
            "cordoned": cordoned,
            "podsLeftOnNode": sorted(map(stage.masked, await world.names_on(node))),
        } == expected
        if name == "budget-exhausted":
            # kubectl needs 5.3 s for its 3: it looks at the clock only between two tries.
            assert 3 <= ran.seconds < 4.8

    play(kubeconfig, scene)
