"""The status of budgets follows the pods, the workloads and the budgets themselves, and is never more than true."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.controllers.disruption.disruption import DisruptionController
from jettison.controllers.machinery.event_recorder import EventRecorder
from jettison.controllers.machinery.object_state import condition_of
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.controllers.settings import ControllerSettings
from jettison.engine.budgets.budget import Budget, BudgetStatus
from jettison.engine.numbers.durations import SECOND_NS
from jettison.manifests.times import time_text
from jettison.runtimes.kube.cache import Caches, Change
from jettison.runtimes.kube.client import DeleteOptions, KubeClient, PatchType
from jettison.runtimes.kube.kinds import BUDGETS, PODS, REPLICA_SETS
from jettison.runtimes.kube.kubeconfig import Access
from tests.controllers.staging import DeafClient, Json, StandingClock, controlled, told, until, until_status
from tests.maintenance.playground import Playground, play

DISRUPTION = "disruption-controller"
NOW = DeleteOptions(grace_seconds=0)


def test_the_status_follows_pods(kubeconfig: Path) -> None:
    """Ready, not ready, relabelled, terminating, gone: each shows, within moments."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        for name in "abcd":
            await ground.pod(name, node)
        await ground.budget(minAvailable=2)
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, currentHealthy=4, disruptionsAllowed=2, expectedPods=4)
            await ground.become("a", "Running", ready=False)
            await until_status(client, BUDGETS, "web", space, currentHealthy=3, disruptionsAllowed=1, expectedPods=4)
            labels = {"metadata": {"labels": {"app": "other"}}}
            await client.patch(PODS, "b", labels, space, how=PatchType.MERGE)
            await until_status(client, BUDGETS, "web", space, currentHealthy=2, disruptionsAllowed=0, expectedPods=3)
            await client.delete(PODS, "c", space)
            await until_status(client, BUDGETS, "web", space, currentHealthy=1, disruptionsAllowed=0, expectedPods=3)
            await client.delete(PODS, "c", space, NOW)
            status = await until_status(client, BUDGETS, "web", space, currentHealthy=1, expectedPods=2)
            assert status["conditions"][0]["reason"] == "InsufficientPods"

    play(kubeconfig, scene)


def test_a_changed_size_of_the_workload_wakes_the_budget(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        owner = await ground.workload("ReplicaSet", "rs", 4)
        for name in "abcd":
            await ground.pod(name, node, owner=owner)
        await ground.budget(maxUnavailable="25%")
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, expectedPods=4, desiredHealthy=3, disruptionsAllowed=1)
            await client.patch(REPLICA_SETS, "rs", {"spec": {"replicas": 2}}, space, how=PatchType.MERGE)
            await until_status(client, BUDGETS, "web", space, expectedPods=2, desiredHealthy=1, disruptionsAllowed=3)

    play(kubeconfig, scene)


def test_it_goes_on_where_another_one_ended(kubeconfig: Path) -> None:
    """Everything that happened without a controller is found from the API alone."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("a", node)
        await ground.budget(minAvailable=1)
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, currentHealthy=1)
        await ground.pod("b", node)
        await client.patch(BUDGETS, "web", {"spec": {"minAvailable": 0}}, space, how=PatchType.MERGE)
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, observedGeneration=2, disruptionsAllowed=2)

    play(kubeconfig, scene)


def test_an_eviction_that_was_granted_counts_until_the_pod_is_gone(kubeconfig: Path) -> None:
    """And the entry of a pod that is on its way out is taken off the list."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        for name in "abc":
            await ground.pod(name, node)
        await ground.budget(minAvailable=1)
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, disruptionsAllowed=2)
            await client.evict("a", space)
            await until_status(client, BUDGETS, "web", space, disruptionsAllowed=1, disruptedPods=None)
            await client.evict("b", space, NOW)
            await until_status(client, BUDGETS, "web", space, disruptionsAllowed=0, disruptedPods=None)

    play(kubeconfig, scene)


def test_a_grant_that_came_to_nothing_is_dropped_after_two_minutes(kubeconfig: Path) -> None:
    """Entries younger than that keep their pods from counting, entries of unknown pods are forgotten."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        for name in "abc":
            await ground.pod(name, node)
        await ground.budget(minAvailable=1)
        now_ns = time.time_ns()
        grants = {"a": now_ns - 30 * SECOND_NS, "b": now_ns - 150 * SECOND_NS, "ghost": now_ns - 30 * SECOND_NS}
        status = {"disruptedPods": {name: time_text(at) for name, at in grants.items()}}
        await client.patch(BUDGETS, "web", {"status": status}, space, how=PatchType.MERGE, subresource="status")
        async with controlled(client, DISRUPTION):
            found = await until_status(client, BUDGETS, "web", space, currentHealthy=2, disruptionsAllowed=1)
            assert set(found["disruptedPods"]) == {"a"}

            async def said() -> bool:
                return ("Warning", "NotDeleted") in {each[:2] for each in await told(client, "b", space)}

            await until(said)

    play(kubeconfig, scene)


def test_an_announcement_that_nobody_acted_upon_is_taken_back(kubeconfig: Path) -> None:
    """After two minutes DisruptionTarget becomes False; one by a kubelet, or of a pod that goes, stays."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        old, young = (time_text(time.time_ns() - seconds * SECOND_NS) for seconds in (121, 60))
        for name, reason, at in (
            ("stale", "EvictionByEvictionAPI", old),
            ("fresh", "EvictionByEvictionAPI", young),
            ("kubelet", "TerminationByKubelet", old),
            ("going", "EvictionByEvictionAPI", old),
        ):
            await ground.pod(name, node)
            said = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}
            body = {"status": {"conditions": [{**said, "lastTransitionTime": at}]}}
            await client.patch(PODS, name, body, space, subresource="status")
        await client.delete(PODS, "going", space)

        async def condition(name: str) -> Json:
            found = condition_of(await client.get(PODS, name, space), "DisruptionTarget")
            assert found is not None
            return found

        async def is_taken_back() -> bool:
            return bool((await condition("stale"))["status"] == "False")

        async with controlled(client, DISRUPTION):
            await until(is_taken_back)
            taken_back = await condition("stale")
            assert (taken_back.get("reason", ""), taken_back.get("message", "")) == ("", "")
            assert taken_back["observedGeneration"] == 1
            assert taken_back["lastTransitionTime"] > old
            for name in ("fresh", "kubelet", "going"):
                assert (await condition(name))["status"] == "True", name

    play(kubeconfig, scene)


@pytest.mark.parametrize(
    ("version", "kind", "why"),
    [
        ("v1", "ReplicationController", 'found no controllers for pod "p"'),
        ("batch/v1", "CronJob", "cronjobs.batch does not implement the scale subresource"),
        ("batch/v9", "CronJob", 'no matches for kind "CronJob" in version "batch/v9"'),
        ("apps/v1", "ReplicaSet", 'found no controllers for pod "p"'),
    ],
)
def test_an_owner_that_is_not_there(kubeconfig: Path, version: str, kind: str, why: str) -> None:
    """Said as Kubernetes says it, which serves more kinds than we."""

    async def scene(ground: Playground) -> None:
        owner = {"apiVersion": version, "kind": kind, "name": "gone", "uid": "u", "controller": True}
        await ground.pod("p", await ground.node("n"), owner=owner)
        await ground.budget(maxUnavailable=1)

        async def failure() -> Json | None:
            return condition_of(await ground.client.get(BUDGETS, "web", ground.namespace), "DisruptionAllowed")

        async with controlled(ground.client, DISRUPTION):
            failed = await until(failure)
        assert failed is not None
        assert (failed["reason"], failed["message"]) == ("SyncFailed", why)

    play(kubeconfig, scene)


def test_what_people_are_told(kubeconfig: Path) -> None:
    """The events of the specification's table, each with its words."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("bare", node)
        owner = await ground.workload("DaemonSet", "ds", labels={"app": "daemon"})
        await ground.pod("daemon", node, owner=owner, labels={"app": "daemon"})
        await ground.budget("empty", app="nobody", minAvailable=1)
        await ground.budget("unmanaged", maxUnavailable=1)
        await ground.budget("second", minAvailable=1)
        await ground.budget("failing", app="daemon", maxUnavailable=1)
        why = "daemonsets.apps does not implement the scale subresource"
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "empty", space, observedGeneration=1, disruptionsAllowed=0)

            async def failure() -> Json | None:
                return condition_of(await client.get(BUDGETS, "failing", space), "DisruptionAllowed")

            failed = await until(failure)
            assert failed is not None
            assert (failed["status"], failed["reason"], failed["message"]) == ("False", "SyncFailed", why)
            await ground.become("bare", "Running", ready=False)
            for name, expected in {
                "empty": ("Normal", "NoPods", "No matching pods found"),
                "failing": (
                    "Warning",
                    "CalculateExpectedPodCountFailed",
                    f"Failed to calculate the number of expected pods: {why}",
                ),
            }.items():

                async def said(name: str = name, expected: tuple[str, str, str] = expected) -> bool:
                    return expected in await told(client, name, space)

                await until(said)

            async def all_said() -> bool:
                reasons = {each[1] for name in ("unmanaged", "bare") for each in await told(client, name, space)}
                return reasons >= {"UnmanagedPods", "MultiplePodDisruptionBudgets"}

            await until(all_said)

    play(kubeconfig, scene)


def test_a_budget_that_has_changed_is_counted_again_at_once(kubeconfig: Path) -> None:
    """Not when the cache has heard of it, which here it never does: under evictions it is behind all the time."""

    async def scene(ground: Playground) -> None:
        space = ground.namespace
        node = await ground.node("n")
        await ground.budget(minAvailable=1)
        async with DeafClient(ground.client.access, BUDGETS) as client, controlled(client, DISRUPTION):
            await client.is_deaf.wait()
            await client.patch(BUDGETS, "web", {"spec": {"minAvailable": 0}}, space, how=PatchType.MERGE)
            await ground.pod("a", node)
            await until_status(client, BUDGETS, "web", space, observedGeneration=2, disruptionsAllowed=1)

    play(kubeconfig, scene)


def test_a_budget_that_is_counted_again_and_again_is_left_alone_for_a_moment(kubeconfig: Path) -> None:
    """But for its turn another one need not wait, and it comes when the moment is over."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await ground.pod("a", await ground.node("n"))
        await ground.budget(minAvailable=0)
        clock = StandingClock()
        async with controlled(client, DISRUPTION, clock=clock):
            await until_status(client, BUDGETS, "web", space, currentHealthy=1)
            for turn in range(20):
                healthy = turn % 2
                await ground.become("a", "Running", ready=bool(healthy))
                await ground.budget(f"another-{turn}", minAvailable=0)
                await until_status(
                    client, BUDGETS, f"another-{turn}", space, observedGeneration=1, currentHealthy=healthy
                )
                if (await client.get(BUDGETS, "web", space))["status"]["currentHealthy"] != healthy:
                    break
            else:
                pytest.fail("it never has a rest")
            clock.forward(1)
            await until_status(client, BUDGETS, "web", space, currentHealthy=healthy)

    play(kubeconfig, scene)


SECONDS_AGO = [
    ("seen", 0, False),
    ("departed", 0, False),
    ("unheard", 0, True),
    ("unheard", 2, True),
    # A pod that is not there by now never will be.
    ("unheard", 5, False),
]


@pytest.mark.parametrize(("pod", "seconds_ago", "is_behind"), SECONDS_AGO)
def test_a_grant_for_a_pod_unheard_of_is_waited_for(pod: str, seconds_ago: int, is_behind: bool) -> None:
    """Budgets and pods come by two watches: forgetting the grant would make the budget larger for a moment."""
    client, clock = KubeClient(Access("https://127.0.0.1:1")), SystemClock()
    caches = Caches(client, clock)
    around = Surroundings(client, caches, EventRecorder(client, clock), clock, ControllerSettings())
    controller = DisruptionController(around)
    pods = caches.of(PODS)
    for name in ("seen", "departed"):
        pods._store(("s", name), Change(None, _document(name)))
    pods._store(("s", "departed"), Change(_document("departed"), None))
    now_ns = clock.now_ns()
    status = BudgetStatus(disrupted_pods={pod: now_ns - seconds_ago * SECOND_NS})
    budget = Budget("b", "s", status=status)
    assert controller._is_behind(budget, now_ns) is is_behind
    # What was granted before the last list is in it, or gone.
    pods.listed_ns = now_ns + SECOND_NS
    assert not controller._is_behind(budget, now_ns)


def _document(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "s", "uid": name, "resourceVersion": "1"}}
