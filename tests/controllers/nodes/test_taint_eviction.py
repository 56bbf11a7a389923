"""NoExecute taints: which pods go, when, why, and which wait ends otherwise. Budgets have no say."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from jettison.controllers.machinery.objects import condition_of
from jettison.runtimes.kube.client import DeleteOptions, PatchType
from jettison.runtimes.kube.kinds import EVENTS, NODES, PODS
from tests.controllers.staging import Json, controlled, told, until
from tests.maintenance.playground import Playground, play

TAINTS = "taint-eviction-controller"


def _bears(key: str, seconds: int | None = None) -> Json:
    toleration: Json = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


async def _taint(ground: Playground, node: str, *keys: str) -> None:
    taints: Any = [{"key": key, "effect": "NoExecute"} for key in keys] or None
    await ground.client.patch(NODES, node, {"spec": {"taints": taints}}, how=PatchType.MERGE)


async def _is_going(ground: Playground, name: str) -> bool:
    return "deletionTimestamp" in (await ground.client.get(PODS, name, ground.namespace))["metadata"]


async def _goes_after(ground: Playground, name: str, began: float) -> float:
    async def is_going() -> bool:
        return await _is_going(ground, name)

    await until(is_going)
    return time.monotonic() - began


def test_pods_go_in_their_time_and_say_why(kubeconfig: Path) -> None:
    """At once without a toleration, after its seconds with one, never with one that has none."""

    async def scene(ground: Playground) -> None:
        node = await ground.node("n")
        await ground.pod("plain", node)
        await ground.pod("zero", node, tolerations=[_bears("bad", 0)])
        await ground.pod("patient", node, tolerations=[_bears("bad", 5)])
        await ground.pod("tolerant", node, tolerations=[_bears("bad")])
        await ground.pod("elsewhere", await ground.node("other"))
        async with controlled(ground.client, TAINTS):
            await asyncio.sleep(0.3)
            assert not await _is_going(ground, "plain")
            began = time.monotonic()
            await _taint(ground, node, "bad")
            await _goes_after(ground, "plain", began)
            await _goes_after(ground, "zero", began)
            assert time.monotonic() - began > 5 or not await _is_going(ground, "patient")
            assert await _goes_after(ground, "patient", began) > 4.9
            assert not await _is_going(ground, "tolerant")
            assert not await _is_going(ground, "elsewhere")
        plain = await ground.client.get(PODS, "plain", ground.namespace)
        why = condition_of(plain, "DisruptionTarget")
        assert why is not None
        assert (why["status"], why["reason"]) == ("True", "DeletionByTaintManager")
        assert why["message"] == "Taint manager: deleting due to NoExecute taint"
        assert why["observedGeneration"] == 1
        assert [each["type"] for each in plain["status"]["conditions"]] == ["Ready", "DisruptionTarget"]
        assert plain["metadata"]["deletionGracePeriodSeconds"] == 30

    play(kubeconfig, scene)


def test_a_wait_ends_with_its_taint_and_is_not_changed_by_another(kubeconfig: Path) -> None:
    """Kubernetes keeps the first timer whatever is added; when all taints go, so does the timer."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("p", node, tolerations=[_bears("a", 300), _bears("b", 1)])
        async with controlled(client, TAINTS):
            await _taint(ground, node, "a")
            await asyncio.sleep(0.5)
            await _taint(ground, node, "a", "b")
            await asyncio.sleep(2)
            assert not await _is_going(ground, "p")
            await _taint(ground, node)

            async def is_cancelled() -> bool:
                said = ("Normal", "TaintManagerEviction", f"Cancelling deletion of Pod {space}/p")
                return said in await told(client, "p", space)

            await until(is_cancelled)
            await _taint(ground, node, "b")
            assert await _goes_after(ground, "p", time.monotonic()) > 0.9

    play(kubeconfig, scene)


def test_a_pod_that_arrives_on_a_tainted_node_goes_too(kubeconfig: Path) -> None:
    """Also one that was there before the controller was."""

    async def scene(ground: Playground) -> None:
        node = await ground.node("n")
        await _taint(ground, node, "bad")
        await ground.pod("early", node)
        async with controlled(ground.client, TAINTS):
            await _goes_after(ground, "early", 0)
            await ground.pod("late", node)
            await _goes_after(ground, "late", 0)

    play(kubeconfig, scene)


def test_a_pod_that_is_terminating_is_told_once_for_each_set_of_taints(kubeconfig: Path) -> None:
    """Its condition says why it goes. A taint that is taken away and comes back is another one."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("p", node)
        await client.delete(PODS, "p", space, DeleteOptions(grace_seconds=600))

        async def marked() -> int:
            return sum(
                each.get("count", 1)
                for each in (await client.list(EVENTS, space)).items
                if each["message"] == f"Marking for deletion Pod {space}/p"
            )

        async def is_marked(times: int) -> bool:
            return await marked() == times

        async with controlled(client, TAINTS):
            await asyncio.sleep(0.3)
            await _taint(ground, node, "bad")
            await until(lambda: is_marked(1))
            await until(lambda: _has_reason(ground, "p"))
            # A change of the pod that is no reason.
            await client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, space)
            await asyncio.sleep(0.5)
            assert await marked() == 1
            await _taint(ground, node)
            await asyncio.sleep(0.3)
            await _taint(ground, node, "bad")
            await until(lambda: is_marked(2))

    play(kubeconfig, scene)


async def _has_reason(ground: Playground, name: str) -> bool:
    return condition_of(await ground.client.get(PODS, name, ground.namespace), "DisruptionTarget") is not None
