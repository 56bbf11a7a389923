"""As many pods as wanted: created, replaced, adopted, released and deleted, whatever happens in between."""

from __future__ import annotations

from pathlib import Path

from jettison.controllers.machinery.objects import condition_of
from jettison.controllers.machinery.owned_pods import Claims, selector_of
from jettison.controllers.replica_set import OWNER_KIND
from jettison.runtimes.kube.client import KubeClient, PatchType
from jettison.runtimes.kube.kinds import NAMESPACES, PODS, PRIORITY_CLASSES, REPLICA_SETS, REPLICATION_CONTROLLERS
from tests.controllers.staging import ForwardClock, Json, controlled, told, until, until_status
from tests.controllers.workloads import NOW, Nodes, change, replica_set, template, until_alive
from tests.maintenance.playground import Playground, play
from tests.watching import one_by_one

CONTROLLER = "replicaset-controller"


def test_pods_are_made_from_the_template(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        made = await replica_set(ground, 3, template=template(annotations={"a": "b"}, finalizers=["example.com/x"]))
        async with controlled(client, CONTROLLER):
            pods = await until_alive(ground, 3)
            await until_status(
                client, REPLICA_SETS, "rs", space, replicas=3, fullyLabeledReplicas=3, observedGeneration=1
            )
            for pod in pods:
                metadata = pod["metadata"]
                assert metadata["generateName"] == "rs-"
                assert metadata["labels"] == {"app": "web"}
                assert metadata["annotations"] == {"a": "b"}
                assert metadata["finalizers"] == ["example.com/x"]
                assert metadata["ownerReferences"] == [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": "rs",
                        "uid": made["metadata"]["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ]

            async def said() -> bool:
                expected = {("Normal", "SuccessfulCreate", f"Created pod: {each['metadata']['name']}") for each in pods}
                return expected <= await told(client, "rs", space)

            await until(said)

    play(kubeconfig, scene)


def test_the_status_counts_ready_available_and_leaving(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        nodes = Nodes(ground, node)
        clock = ForwardClock()
        await replica_set(ground, 2, minReadySeconds=60)
        async with controlled(client, CONTROLLER, clock=clock):
            await until_alive(ground, 2)
            async with ground.busy(nodes.round):
                await until_status(client, REPLICA_SETS, "rs", space, readyReplicas=2, availableReplicas=None)
            clock.forward(61)
            await client.patch(REPLICA_SETS, "rs", {"metadata": {"labels": {"look": "again"}}}, space)
            await until_status(client, REPLICA_SETS, "rs", space, readyReplicas=2, availableReplicas=2)
            name = (await ground.pods())[0]["metadata"]["name"]
            await client.delete(PODS, name, space)
            status = await until_status(client, REPLICA_SETS, "rs", space, terminatingReplicas=1, replicas=2)
            assert (status["readyReplicas"], status["availableReplicas"]) == (1, 1)

    play(kubeconfig, scene)


def test_what_has_ended_or_leaves_is_replaced(kubeconfig: Path) -> None:
    """A pod that its node evicted stays to be looked at, and counts for nothing."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await replica_set(ground, 2)
        async with controlled(client, CONTROLLER):
            async with ground.busy(Nodes(ground, node).round):
                await until_status(client, REPLICA_SETS, "rs", space, readyReplicas=2)
            evicted, deleted = (each["metadata"]["name"] for each in await ground.pods())
            status = {"status": {"phase": "Failed", "reason": "Evicted"}}
            await client.patch(PODS, evicted, status, space, how=PatchType.MERGE, subresource="status")
            await client.delete(PODS, deleted, space)
            await until_alive(ground, 2)
            assert {evicted, deleted} <= {each["metadata"]["name"] for each in await ground.pods()}

    play(kubeconfig, scene)


def test_orphans_are_adopted_and_strangers_released(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("lonely", node)
        await ground.pod("other", node, labels={"app": "other"})
        made = await replica_set(ground, 2)
        async with controlled(client, CONTROLLER):
            pods = await until_alive(ground, 3)
            owned = [each for each in pods if each["metadata"].get("ownerReferences")]
            assert {each["metadata"]["ownerReferences"][0]["uid"] for each in owned} == {made["metadata"]["uid"]}
            assert len(owned) == 2
            assert "lonely" in {each["metadata"]["name"] for each in owned}
            labels = {"metadata": {"labels": {"app": "debugging"}}}
            await client.patch(PODS, "lonely", labels, space, how=PatchType.MERGE)

            async def is_released() -> bool:
                return not (await client.get(PODS, "lonely", space))["metadata"].get("ownerReferences")

            await until(is_released)
            await until_alive(ground, 4)

    play(kubeconfig, scene)


def test_an_owner_that_is_another_by_now_adopts_no_pod(kubeconfig: Path) -> None:
    """The cache knows the old one; the live look before the adoption prevents it."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        old = await replica_set(ground, 0)
        await client.delete(REPLICA_SETS, "rs", space)
        await replica_set(ground, 0)
        orphan = await ground.pod("orphan")
        claims = Claims(client, OWNER_KIND, PODS)
        assert await claims.claim(old, selector_of(old), [orphan]) == []
        assert "ownerReferences" not in (await client.get(PODS, "orphan", space))["metadata"]

    play(kubeconfig, scene)


def test_scaling_down_takes_those_that_are_missed_least(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await replica_set(ground, 3)
        async with controlled(client, CONTROLLER):
            async with ground.busy(Nodes(ground, node).round):
                await until_status(client, REPLICA_SETS, "rs", space, readyReplicas=3)
            cheap, unready, kept = (each["metadata"]["name"] for each in await ground.pods())
            await ground.become(unready, "Running", ready=False)
            cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
            await client.patch(PODS, cheap, cost, space, how=PatchType.MERGE)
            await until_status(client, REPLICA_SETS, "rs", space, readyReplicas=2)
            await change(client, REPLICA_SETS, "rs", space, replicas=2)
            assert unready not in {each["metadata"]["name"] for each in await until_alive(ground, 2)}
            await change(client, REPLICA_SETS, "rs", space, replicas=1)
            assert [each["metadata"]["name"] for each in await until_alive(ground, 1)] == [kept]

            async def said() -> bool:
                return ("Normal", "SuccessfulDelete", f"Deleted pod: {cheap}") in await told(client, "rs", space)

            await until(said)

    play(kubeconfig, scene)


def test_a_restarted_controller_goes_on_without_one_pod_too_many(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await replica_set(ground, 20)
        for _ in range(3):
            async with controlled(client, CONTROLLER):

                async def has_begun() -> bool:
                    return len(await ground.pods()) > 2

                await until(has_begun)
        async with controlled(client, CONTROLLER):
            await until_status(client, REPLICA_SETS, "rs", space, replicas=20)
            for pod in (await ground.pods())[:5]:
                await client.delete(PODS, pod["metadata"]["name"], space, NOW)
            await until_alive(ground, 20)
            await until_status(client, REPLICA_SETS, "rs", space, replicas=20)
            assert len(await ground.pods()) == 20

    play(kubeconfig, scene)


def test_never_more_than_wanted(kubeconfig: Path) -> None:
    """Seen by a watcher, while pods are taken away all the time."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        since = (await client.list(PODS, space)).resource_version
        await replica_set(ground, 8)
        async with controlled(client, CONTROLLER):
            for _ in range(10):
                for pod in (await until_alive(ground, 8))[:3]:
                    await client.delete(PODS, pod["metadata"]["name"], space, NOW)
            await until_alive(ground, 8)
        there: set[str] = set()
        seen = 0
        async for event in one_by_one(client.watch(PODS, since, space)):
            if event.kind == "DELETED":
                there.discard(event.object["metadata"]["uid"])
            elif event.kind != "BOOKMARK":
                there.add(event.object["metadata"]["uid"])
            seen += event.kind == "ADDED"
            assert len(there) <= 8
            if seen == 8 + 30:
                break
        assert len(there) == 8

    play(kubeconfig, scene)


def test_a_refused_pod_is_told_and_tried_again(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        spec = {**template()["spec"], "priorityClassName": f"{space}-absent"}
        await replica_set(ground, 4, template={**template(), "spec": spec})
        async with controlled(client, CONTROLLER):

            async def failure() -> Json | None:
                return condition_of(await client.get(REPLICA_SETS, "rs", space), "ReplicaFailure")

            found = await until(failure)
            assert found is not None
            assert (found["status"], found["reason"]) == ("True", "FailedCreate")
            assert found["message"].endswith(f"is forbidden: no PriorityClass with name {space}-absent was found")

            async def said() -> bool:
                events = await told(client, "rs", space)
                return any(each[:2] == ("Warning", "FailedCreate") for each in events)

            await until(said)
            await _priority_class(client, f"{space}-absent")
            await until_alive(ground, 4)

            async def is_over() -> bool:
                return await failure() is None

            await until(is_over)

    play(kubeconfig, scene)


async def _priority_class(client: KubeClient, name: str) -> None:
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
    await client.create(PRIORITY_CLASSES, body)


def test_a_namespace_that_ends_is_left_alone(kubeconfig: Path) -> None:
    """Pods that go with it are not replaced, and there is no complaint."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await replica_set(ground, 2, template=template(finalizers=["example.com/held"]))
        async with controlled(client, CONTROLLER):
            await until_alive(ground, 2)
            await client.delete(NAMESPACES, space)

            async def are_leaving() -> bool:
                return all("deletionTimestamp" in each["metadata"] for each in await ground.pods())

            await until(are_leaving)
            for pod in await ground.pods():
                await client.patch(
                    PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, space, how=PatchType.MERGE
                )

            async def is_gone() -> bool:
                return space not in {each["metadata"]["name"] for each in (await client.list(NAMESPACES)).items}

            await until(is_gone)

    play(kubeconfig, scene)


def test_a_replication_controller_is_kept_the_same_way(kubeconfig: Path) -> None:
    """Adopted, made, replaced, counted and released by a selector that is a set of labels."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("lonely", node)
        await ground.workload("ReplicaSet", "rs", 0, {"app": "other"})
        made = await ground.workload("ReplicationController", "rc", 2)
        async with controlled(client, "replicationcontroller-controller", CONTROLLER):
            async with ground.busy(Nodes(ground, node).round):
                status = await until_status(client, REPLICATION_CONTROLLERS, "rc", space, readyReplicas=2)
            assert status == {
                "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
                "observedGeneration": 1,
            }  # fmt: skip
            pods = await until_alive(ground, 2)
            assert "lonely" in {each["metadata"]["name"] for each in pods}
            for pod in pods:
                assert pod["metadata"]["ownerReferences"] == [{**made, "blockOwnerDeletion": True}]
            new = next(each for each in pods if each["metadata"]["name"] != "lonely")
            assert new["metadata"]["generateName"] == "rc-"
            await client.patch(PODS, "lonely", {"metadata": {"labels": {"app": "loose"}}}, space, how=PatchType.MERGE)

            async def is_released() -> bool:
                return not (await client.get(PODS, "lonely", space))["metadata"].get("ownerReferences")

            await until(is_released)
            await until_alive(ground, 3)
            scale = {"spec": {"replicas": 0}}
            await client.patch(REPLICATION_CONTROLLERS, "rc", scale, space, how=PatchType.MERGE, subresource="scale")
            await until_status(client, REPLICATION_CONTROLLERS, "rc", space, replicas=0, observedGeneration=2)

            async def said() -> bool:
                expected = ("Normal", "SuccessfulDelete", f"Deleted pod: {new['metadata']['name']}")
                return expected in await told(client, "rc", space)

            await until(said)

    play(kubeconfig, scene)
