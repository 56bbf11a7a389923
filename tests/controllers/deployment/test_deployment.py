"""Rollouts as the API shows them: sizes of ReplicaSets, revisions, conditions, events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jettison.controllers.deployment.revisions import REVISION
from jettison.controllers.machinery.objects import condition_of
from jettison.engine.workloads.template_hash import template_hash
from jettison.runtimes.kube.client import Document, KubeClient, PatchType
from jettison.runtimes.kube.kinds import DEPLOYMENTS, PODS, REPLICA_SETS, Kind
from tests.controllers.staging import ForwardClock, Json, controlled, told, until, until_status
from tests.controllers.workloads import Nodes, change, deployment, replica_set, template, until_alive
from tests.maintenance.playground import Playground, play
from tests.watching import one_by_one

CONTROLLERS = ("deployment-controller", "replicaset-controller")
BROKEN = "registry.example/broken:1"


@asynccontextmanager
async def _cluster(ground: Playground, clock: ForwardClock | None = None) -> AsyncIterator[None]:
    """Both controllers, and nodes on which the broken image never becomes Ready."""
    node = await ground.node("n")
    async with (
        controlled(ground.client, *CONTROLLERS, clock=clock),
        ground.busy(Nodes(ground, node, BROKEN).round),
    ):
        yield


async def _sets(ground: Playground) -> dict[str, Json]:
    """By revision."""
    found = (await ground.client.list(REPLICA_SETS, ground.namespace)).items
    return {each["metadata"]["annotations"][REVISION]: each for each in found}


async def _until_done(ground: Playground, generation: int, replicas: int) -> Json:
    """What `kubectl rollout status` waits for."""
    return await until_status(
        ground.client,
        DEPLOYMENTS,
        "web",
        ground.namespace,
        observedGeneration=generation,
        replicas=replicas,
        updatedReplicas=replicas,
        availableReplicas=replicas,
        unavailableReplicas=None,
    )


async def _until_reason(ground: Playground, kind: str, reason: str) -> Json:
    async def look() -> Json | None:
        found = condition_of(await ground.client.get(DEPLOYMENTS, "web", ground.namespace), kind)
        return found if found is not None and found["reason"] == reason else None

    found = await until(look)
    assert found is not None
    return found


def test_a_first_rollout(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        made = await deployment(ground, 3)
        async with _cluster(ground):
            await _until_done(ground, 1, 3)
            progress = await _until_reason(ground, "Progressing", "NewReplicaSetAvailable")
            available = await _until_reason(ground, "Available", "MinimumReplicasAvailable")
            found = await client.get(DEPLOYMENTS, "web", space)
            (replica_set,) = (await _sets(ground)).values()
            name = replica_set["metadata"]["name"]
            assert name == f"web-{template_hash(found['spec']['template'])}"
            assert (progress["status"], progress["message"]) == (
                "True",
                f'ReplicaSet "{name}" has successfully progressed.',
            )
            assert (available["status"], available["message"]) == ("True", "Deployment has minimum availability.")
            assert found["metadata"]["annotations"] == {REVISION: "1"}
            assert replica_set["metadata"]["annotations"] == {
                REVISION: "1",
                "deployment.kubernetes.io/desired-replicas": "3",
                "deployment.kubernetes.io/max-replicas": "4",
            }
            digest = name.removeprefix("web-")
            assert replica_set["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": digest}}
            assert replica_set["metadata"]["labels"] == {"app": "web", "pod-template-hash": digest}
            assert replica_set["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
            assert {each["metadata"]["labels"]["pod-template-hash"] for each in await ground.pods()} == {digest}

            async def said() -> bool:
                expected = ("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 3")
                return expected in await told(client, "web", space)

            await until(said)

    play(kubeconfig, scene)


def test_a_rolling_update_keeps_its_limits(kubeconfig: Path) -> None:
    """Seen by two watchers: never fewer ready pods than allowed, and never more wanted."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        limits = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await deployment(ground, 4, strategy=limits)
        async with _cluster(ground):
            await _until_done(ground, 1, 4)
            watching = asyncio.create_task(_fewest_ready(client, space))
            wanted = asyncio.create_task(_most_wanted(client, space))
            await change(client, DEPLOYMENTS, "web", space, template=template("app:2"))
            await _until_done(ground, 2, 4)
            await _until_reason(ground, "Progressing", "NewReplicaSetAvailable")
            await client.patch(DEPLOYMENTS, "web", {"metadata": {"labels": {"seen": "yes"}}}, space)
            assert await asyncio.wait_for(watching, 60) >= 3
            # How many at most is a promise about what the sets want: the new one may be faster than the old one.
            assert await asyncio.wait_for(wanted, 60) == 5
            sets = await _sets(ground)
            assert {key: each["spec"]["replicas"] for key, each in sets.items()} == {"1": 0, "2": 4}
            images = {each["spec"]["containers"][0]["image"] for each in await until_alive(ground, 4)}
            assert images == {"registry.example/app:2"}

    play(kubeconfig, scene)


async def _fewest_ready(client: KubeClient, space: str) -> int:
    """Pods at a time, until all are of the second image."""
    fewest = 4
    async for pods in _states(client, PODS, space):
        living = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
        ready = [each for each in living if (condition_of(each, "Ready") or {}).get("status") == "True"]
        fewest = min(fewest, len(ready))
        if {each["spec"]["containers"][0]["image"] for each in pods} == {"registry.example/app:2"}:
            break
    return fewest


async def _most_wanted(client: KubeClient, space: str) -> int:
    """Pods by all sets together, until one of them wants them all."""
    most = 0
    async for sets in _states(client, REPLICA_SETS, space):
        replicas = [each["spec"]["replicas"] for each in sets]
        most = max(most, sum(replicas))
        if sorted(replicas) == [0, 4]:
            break
    return most


async def _states(client: KubeClient, kind: Kind, space: str) -> AsyncIterator[list[Document]]:
    """All objects of the kind, after each change."""
    listing = await client.list(kind, space)
    objects = {each["metadata"]["uid"]: each for each in listing.items}
    async for event in one_by_one(client.watch(kind, listing.resource_version, space)):
        if event.kind != "BOOKMARK":
            objects.pop(event.object["metadata"]["uid"], None)
            if event.kind != "DELETED":
                objects[event.object["metadata"]["uid"]] = event.object
            yield list(objects.values())


def test_a_rollout_that_stands_still_is_told_and_can_be_undone(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        clock = ForwardClock()
        await deployment(ground, 4, progressDeadlineSeconds=60)
        async with _cluster(ground, clock):
            await _until_done(ground, 1, 4)
            await change(client, DEPLOYMENTS, "web", space, template=template("broken:1"))
            await until_status(client, DEPLOYMENTS, "web", space, updatedReplicas=2, replicas=5, readyReplicas=3)
            assert (await _until_reason(ground, "Progressing", "ReplicaSetUpdated"))["status"] == "True"
            clock.forward(120)
            # Whatever wakes it: the timer was set by a clock that cannot be put forward.
            await client.patch(DEPLOYMENTS, "web", {"metadata": {"labels": {"look": "again"}}}, space)
            late = await _until_reason(ground, "Progressing", "ProgressDeadlineExceeded")
            name = (await _sets(ground))["2"]["metadata"]["name"]
            assert (late["status"], late["message"]) == ("False", f'ReplicaSet "{name}" has timed out progressing.')
            sets = await _sets(ground)
            assert (sets["1"]["spec"]["replicas"], sets["2"]["spec"]["replicas"]) == (3, 2)
            await change(client, DEPLOYMENTS, "web", space, template=template("app:1"))
            await _until_done(ground, 3, 4)
            await _until_reason(ground, "Progressing", "NewReplicaSetAvailable")
            sets = await _sets(ground)
            assert set(sets) == {"2", "3"}
            assert sets["3"]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
            found = await client.get(DEPLOYMENTS, "web", space)
            assert found["metadata"]["annotations"][REVISION] == "3"

    play(kubeconfig, scene)


def test_recreate_waits_for_the_last_old_pod(kubeconfig: Path) -> None:
    """A pod on its way out holds up the new ones, although its ReplicaSet no longer counts it."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        held = template(finalizers=["example.com/held"])
        await deployment(ground, 2, strategy={"type": "Recreate"}, template=held)
        async with _cluster(ground):
            await _until_done(ground, 1, 2)
            old = [each["metadata"]["name"] for each in await ground.pods()]
            await change(client, DEPLOYMENTS, "web", space, template=template("app:2", finalizers=None))
            await until_status(client, DEPLOYMENTS, "web", space, replicas=None, terminatingReplicas=2)
            for name in old:
                assert {each["metadata"]["name"] for each in await ground.pods()} <= set(old)
                await client.patch(PODS, name, {"metadata": {"finalizers": None}}, space, how=PatchType.MERGE)
            await _until_done(ground, 2, 2)

    play(kubeconfig, scene)


def test_a_paused_deployment_is_scaled_but_not_rolled_out(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await deployment(ground, 2)
        async with _cluster(ground):
            await _until_done(ground, 1, 2)
            await change(client, DEPLOYMENTS, "web", space, paused=True)
            paused = await _until_reason(ground, "Progressing", "DeploymentPaused")
            assert (paused["status"], paused["message"]) == ("Unknown", "Deployment is paused")
            await change(client, DEPLOYMENTS, "web", space, template=template("app:2"), replicas=3)
            await until_status(client, DEPLOYMENTS, "web", space, observedGeneration=3, availableReplicas=3)
            assert set(await _sets(ground)) == {"1"}
            await change(client, DEPLOYMENTS, "web", space, paused=False)
            await _until_done(ground, 4, 3)
            await _until_reason(ground, "Progressing", "NewReplicaSetAvailable")
            assert {each["spec"]["replicas"] for each in (await _sets(ground)).values()} == {0, 3}

    play(kubeconfig, scene)


def test_scaling_in_the_middle_of_a_rollout_keeps_the_shares(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        limits = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        await deployment(ground, 10, strategy=limits)
        async with _cluster(ground):
            await _until_done(ground, 1, 10)
            await change(client, DEPLOYMENTS, "web", space, template=template("broken:1"))
            # 10 wanted: 8 old ones stay available, and 13 - 8 new ones may be tried.
            await until_status(client, DEPLOYMENTS, "web", space, replicas=13, updatedReplicas=5, readyReplicas=8)
            await change(client, DEPLOYMENTS, "web", space, replicas=15)
            await until_status(client, DEPLOYMENTS, "web", space, replicas=18)

            async def sizes() -> bool:
                sets = await _sets(ground)
                return (sets["1"]["spec"]["replicas"], sets["2"]["spec"]["replicas"]) == (11, 7)

            await until(sizes)

    play(kubeconfig, scene)


def test_old_revisions_are_forgotten(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await deployment(ground, 1, revisionHistoryLimit=1)
        async with _cluster(ground):
            await _until_done(ground, 1, 1)
            for number in (2, 3):
                await change(client, DEPLOYMENTS, "web", space, template=template(f"app:{number}"))
                await _until_done(ground, number, 1)

            async def is_forgotten() -> bool:
                return set(await _sets(ground)) == {"2", "3"}

            await until(is_forgotten)

    play(kubeconfig, scene)


def test_a_set_that_matches_is_adopted_and_kept(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        own = {"matchLabels": {"app": "web"}}
        labelled = await replica_set(ground, 2, "older", selector=own)
        body = {"metadata": {"labels": {"app": "web"}}}
        await client.patch(REPLICA_SETS, "older", body, space)
        made = await deployment(ground, 2)
        async with _cluster(ground):
            await _until_done(ground, 1, 2)
            (only,) = (await _sets(ground)).values()
            assert only["metadata"]["uid"] == labelled["metadata"]["uid"]
            assert only["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]

    play(kubeconfig, scene)


def test_a_name_that_is_taken_is_gone_around(kubeconfig: Path) -> None:
    """Another owner's ReplicaSet has the very name: the count of collisions makes another."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        made = await deployment(ground, 1)
        taken = f"web-{template_hash(made['spec']['template'])}"
        other = {**template(), "metadata": {"labels": {"app": "other"}}}
        await replica_set(ground, 0, taken, selector={"matchLabels": {"app": "other"}}, template=other)
        async with _cluster(ground):
            status = await _until_done(ground, 1, 1)
            assert status["collisionCount"] == 1
            names = {each["metadata"]["name"] for each in (await client.list(REPLICA_SETS, space)).items}
            assert names == {taken, f"web-{template_hash(made['spec']['template'], 1)}"}

    play(kubeconfig, scene)


def test_it_goes_on_after_a_restart_in_the_middle(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await deployment(ground, 4)
        node = await ground.node("n")
        async with ground.busy(Nodes(ground, node).round):
            for generation in range(1, 4):
                async with controlled(client, *CONTROLLERS):

                    async def has_begun(generation: int = generation) -> bool:
                        return str(generation) in await _sets(ground)

                    await until(has_begun)
                if generation < 3:
                    await change(client, DEPLOYMENTS, "web", space, template=template(f"app:{generation + 1}"))
            async with controlled(client, *CONTROLLERS):
                await _until_done(ground, 3, 4)
                await _until_reason(ground, "Progressing", "NewReplicaSetAvailable")
        assert set(await _sets(ground)) == {"1", "2", "3"}

    play(kubeconfig, scene)


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_pods_that_cannot_be_made_show_in_the_deployment(kubeconfig: Path, strategy: str) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        spec = {**template()["spec"], "priorityClassName": f"{space}-absent"}
        await deployment(ground, 2, strategy={"type": strategy}, template={**template(), "spec": spec})
        async with controlled(client, *CONTROLLERS):
            failed = await _until_reason(ground, "ReplicaFailure", "FailedCreate")
            assert failed["status"] == "True"
            missing = await _until_reason(ground, "Available", "MinimumReplicasUnavailable")
            assert (missing["status"], missing["message"]) == (
                "False",
                "Deployment does not have minimum availability.",
            )

    play(kubeconfig, scene)
