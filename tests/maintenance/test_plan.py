"""`drain --plan` against a real API: what it says, what it exits with, and that it touches nothing."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jettison.clock import SystemClock
from jettison.engine.drain.plan import PodFate
from jettison.errors import ApiError
from jettison.maintenance.drain import read_plan
from jettison.maintenance.settings import DrainSettings
from jettison.runtimes.kube.client import CHUNK, KubeClient, Listing
from jettison.runtimes.kube.kinds import NODES, Kind
from jettison.runtimes.kube.kubeconfig import Overrides, load_access
from tests.maintenance.playground import Playground, Ran, play


def fates(ran: Ran) -> dict[str, tuple[str, int | None]]:
    plan = json.loads("\n".join(ran.out))
    return {pod["name"]: (pod["fate"], pod["wave"]) for node in plan["nodes"] for pod in node["pods"]}


async def web(world: Playground, node: str, count: int, *, ready: int) -> None:
    owner = await world.workload("ReplicaSet", "web", count)
    for index in range(count):
        await world.pod(f"web-{index}", node, owner=owner, ready=index < ready, nodeSelector=world.home)


def test_a_plan_that_works_out_exits_0_and_is_what_happens(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node, other = await world.node("n1"), await world.node("n2")
        await web(world, node, 3, ready=3)
        await world.pod("solo", node, labels={"app": "solo"})
        await world.budget(maxUnavailable=2)
        await world.count_budgets()
        before = await world.client.get(NODES, node), await world.pods()
        planned = await world.run("drain", node, "--force", "--plan", "-o", "json")
        assert planned.code == 0, planned
        (*_, last) = json.loads("\n".join(planned.out))["nodes"][0]["pods"]
        name = world.namespace
        assert last["waitsFor"] == [f"{name}/web-0", f"{name}/web-1"]
        assert last["why"] == f"after the replacements of {name}/web-0, {name}/web-1 are Ready"
        assert fates(planned) == {
            "web-0": ("goes", 1), "web-1": ("goes", 1), "web-2": ("waits", 2), "solo": ("goes", 1),
        }  # fmt: skip
        assert (await world.client.get(NODES, node), await world.pods()) == before
        parts = (world.finish_pods, partial(world.replace_pods, other, 0.1), world.count_budgets)
        async with world.busy(*parts):
            ran = await world.run("drain", node, "--force", "--timeout=30s")
        assert ran.code == 0, ran
        refused = [line for line in ran.err if "(will retry after 5s)" in line]
        assert len(refused) == 1

    play(kubeconfig, scene)


def test_a_plan_that_does_not_work_out_exits_3_and_says_what_would_help(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        await web(world, node, 2, ready=2)
        await world.budget(minAvailable=2)
        await world.count_budgets()
        ran = await world.run("drain", node, "--plan")
        name = world.namespace
        blocked = (
            f"blocked  {name}/web-0  {name}/web  The disruption budget web needs 2 healthy pods and has 2 currently"
        )
        assert ran.code == 3
        assert ran.out == [
            f"node/{node}: 2 pods",
            f"  WAVE  FATE     {'POD':{len(name) + 6}}  {'BUDGET':{len(name) + 4}}  WHY",
            f"     -  {blocked}",
            f"     -  {blocked.replace('web-0', 'web-1')}",
            f"  to unblock {name}/web-0: add 1 pod or lower minAvailable `2`: 2 healthy pods must remain",
            f"  to unblock {name}/web-1: add 1 pod or lower minAvailable `2`: 2 healthy pods must remain",
            "the drain would not finish: 0 pods go in 0 waves, 2 stay",
        ]
        assert ran.err == []

    play(kubeconfig, scene)


def test_filters_speak_in_the_plan_too(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        await world.pod("solo", node)
        refused = await world.run("drain", node, "--plan", "-o", "json")
        assert (refused.code, fates(refused)) == (3, {"solo": ("refused", None)})
        forced = await world.run("drain", node, "--plan", "-o", "json", "--force")
        assert (forced.code, fates(forced)) == (0, {"solo": ("goes", 1)})

    play(kubeconfig, scene)


def test_a_viewer_may_plan(kubeconfig: Path, viewer: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        await web(world, node, 2, ready=1)
        await world.budget(minAvailable=1)
        await world.count_budgets()
        ran = await world.run("drain", node, "--plan", "-o", "json", kubeconfig=viewer)
        assert (ran.code, fates(ran)) == (3, {"web-0": ("blocked", None), "web-1": ("goes", 1)})
        (blocked, _) = json.loads("\n".join(ran.out))["nodes"][0]["pods"]
        assert blocked["budgets"] == [f"{world.namespace}/web"]
        assert blocked["remedy"].startswith("1 more Ready pod, not Ready now: ")

    play(kubeconfig, scene)


def test_an_empty_node_and_a_missing_one(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        ran = await world.run("drain", node, "--plan")
        assert (ran.code, ran.out) == (0, [f"node/{node}: 0 pods", "the drain would finish: 0 pods go in 0 waves"])
        missing = await world.run("drain", "nowhere", "--plan")
        assert (missing.code, missing.err) == (1, ['Error from server (NotFound): nodes "nowhere" not found'])

    play(kubeconfig, scene)


@pytest.mark.parametrize(
    "other",
    [
        {"unschedulable": True},
        {"is_ready": False},
        {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        {"taints": [{"key": "gpu", "effect": "NoExecute"}]},
        None,
    ],
    ids=str,
)
def test_a_drain_that_no_node_can_take_the_replacements_of_would_not_finish(
    kubeconfig: Path, other: dict[str, Any] | None
) -> None:
    """None: the other node would do, but is drained as well."""

    async def scene(world: Playground) -> None:
        node, second = await world.node("n1"), await world.node("n2", **(other or {}))
        await web(world, node, 2, ready=2)
        await world.budget(maxUnavailable=1)
        await world.count_budgets()
        drained = [node] if other is not None else [node, second]
        ran = await world.run("drain", *drained, "--plan", "-o", "json")
        assert (ran.code, fates(ran)) == (3, {"web-0": ("goes", 1), "web-1": ("blocked", None)})
        found = json.loads("\n".join(ran.out))
        (goes, blocked) = found["nodes"][0]["pods"]
        assert goes["why"] == "the budget has room (allows 1), but no other node can take its replacement"
        assert blocked["remedy"].startswith(f"no other node can take the replacement of {world.namespace}/web-0: ")
        assert found["warnings"] == [
            "no other node can take the replacements of 1 pod that goes: uncordon one, or add one"
        ]
        await world.node("n3")
        better = await world.run("drain", *drained, "--plan", "-o", "json")
        assert (better.code, fates(better)) == (0, {"web-0": ("goes", 1), "web-1": ("waits", 2)})

    play(kubeconfig, scene)


def test_where_no_budget_minds_the_lack_of_a_node_is_only_told(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        await web(world, node, 2, ready=2)
        ran = await world.run("drain", node, "--plan")
        assert ran.code == 0
        assert ran.err == [
            "warning: no other node can take the replacements of 2 pods that go: uncordon one, or add one"
        ]
        assert ran.out[2].endswith("no budget, but no other node can take its replacement")

    play(kubeconfig, scene)


class NoNodes(KubeClient):
    """As a user that may read nodes one by one but not list them, for which our server has no role."""

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", chunk: int = CHUNK
    ) -> Listing:
        if kind is NODES:
            raise ApiError("nodes is forbidden", code=403, reason="Forbidden")
        return await super().list(kind, namespace, labels=labels, fields=fields, chunk=chunk)


def test_a_user_that_may_not_list_nodes_gets_the_plan_that_assumes_one(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        await web(world, node, 2, ready=2)
        await world.budget(maxUnavailable=1)
        await world.count_budgets()
        async with NoNodes(load_access(Overrides(kubeconfig=str(kubeconfig)))) as client:
            found = await read_plan(client, [node], DrainSettings(), SystemClock())
        assert [pod.fate for pod in found.nodes[0].pods] == [PodFate.GOES, PodFate.WAITS]

    play(kubeconfig, scene)
