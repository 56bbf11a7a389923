"""`jettison evict`: single pods, through their budgets."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.maintenance.playground import Playground, play

VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


async def guarded(world: Playground, count: int, least: int) -> str:
    node = await world.node("n1")
    owner = await world.workload("ReplicaSet", "web", count)
    for index in range(count):
        await world.pod(f"web-{index}", node, owner=owner)
    await world.budget(minAvailable=least)
    await world.count_budgets()
    return node


def test_a_pod_goes_and_is_waited_for(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await guarded(world, 2, 1)
        async with world.busy(world.finish_pods):
            ran = await world.run("evict", "pod/web-0", "-n", world.namespace)
        assert (ran.code, ran.err) == (0, [])
        assert ran.out == [f"evicting pod {world.namespace}/web-0", "pod/web-0 evicted"]
        assert await world.names_on(node) == ["web-1"]

    play(kubeconfig, scene)


def test_a_refusal_names_the_budget_and_exits_3(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        await guarded(world, 1, 1)
        ran = await world.run("evict", "web-0", "-n", world.namespace)
        cause = "The disruption budget web needs 1 healthy pods and has 1 currently"
        text = f'error when evicting pods/"web-0" -n "{world.namespace}": {VIOLATION} ({cause})'
        assert (ran.code, ran.err) == (3, [text])

    play(kubeconfig, scene)


def test_retrying_outlasts_a_refusal(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        await guarded(world, 2, 1)
        parts = (world.finish_pods, partial(world.replace_pods, "", 0.1), world.count_budgets)
        async with world.busy(*parts):
            ran = await world.run("evict", "web-0", "web-1", "-n", world.namespace, "--retry", "--timeout=30s")
        assert ran.code == 0, ran
        assert {"pod/web-0 evicted", "pod/web-1 evicted"} <= set(ran.out)
        assert len(ran.err) == 1

    play(kubeconfig, scene)


def test_without_waiting_the_pod_is_still_there(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        await guarded(world, 2, 1)
        ran = await world.run("evict", "web-0", "-n", world.namespace, "--no-wait", "--grace-period=77")
        assert (ran.code, ran.out[-1]) == (0, "pod/web-0 eviction started")
        pod = next(each for each in await world.pods() if each["metadata"]["name"] == "web-0")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 77

    play(kubeconfig, scene)


def test_a_dry_run_changes_nothing(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        await guarded(world, 2, 1)
        before = await world.pods()
        asked = await world.run("evict", "web-0", "-n", world.namespace, "--dry-run=server")
        assert (asked.code, asked.out) == (0, [f"evicting pod {world.namespace}/web-0 (server dry run)"])
        told = await world.run("evict", "web-0", "-n", world.namespace, "--dry-run=client")
        assert (told.code, told.out) == (0, [f"evicting pod {world.namespace}/web-0 (dry run)"])
        assert await world.pods() == before

    play(kubeconfig, scene)


def test_if_one_pod_is_missing_none_is_touched(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        await guarded(world, 2, 1)
        ran = await world.run("evict", "web-0", "nobody", "-n", world.namespace)
        assert (ran.code, ran.out) == (1, [])
        assert ran.err == ['Error from server (NotFound): pods "nobody" not found']
        assert len(await world.pods()) == 2

    play(kubeconfig, scene)


def test_a_name_that_is_a_path_is_refused(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        ran = await world.run("evict", "../../nodes", "-n", world.namespace)
        assert (ran.code, ran.out) == (1, [])
        assert ran.err == ["error: `../../nodes` cannot be a name: not `.` or `..`, and no `/` or `%` in it"]

    play(kubeconfig, scene)
