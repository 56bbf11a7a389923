"""Dependents follow, wait or are left behind; and nothing goes whose owner is only unheard of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jettison.errors import Conflict
from jettison.runtimes.kube.client import DeleteOptions, KubeClient, PatchType
from jettison.runtimes.kube.kinds import (
    BUDGETS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    Kind,
)
from tests.controllers.staging import DeafClient, Json, controlled, is_gone, until, until_status
from tests.controllers.workloads import Nodes, deployment, replica_set, until_alive
from tests.maintenance.playground import Playground, play

COLLECTOR = "garbage-collector-controller"
WORKLOADS = ("deployment-controller", "replicaset-controller")
BACKGROUND, IN_FOREGROUND, ORPHANING = (
    DeleteOptions(propagation=each) for each in ("Background", "Foreground", "Orphan")
)


async def _until_gone(client: KubeClient, kind: Kind, name: str, namespace: str = "") -> None:
    async def look() -> bool:
        return await is_gone(client, kind, name, namespace)

    await until(look)


def _owner(document: Json, kind: str = "ReplicaSet", api_version: str = "apps/v1", **more: Any) -> Json:
    metadata = document["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], **more}


async def _pod(ground: Playground, name: str, *owners: Json, **metadata: Any) -> Json:
    return await ground.pod(name, metadata={"ownerReferences": list(owners), **metadata})


def test_a_deployment_takes_everything_with_it(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await deployment(ground, 2)
        async with controlled(client, COLLECTOR, *WORKLOADS), ground.busy(Nodes(ground, node).round):
            await until_status(client, DEPLOYMENTS, "web", space, availableReplicas=2)
            await client.delete(DEPLOYMENTS, "web", space, BACKGROUND)

            async def is_empty() -> bool:
                return not await ground.pods() and not (await client.list(REPLICA_SETS, space)).items

            await until(is_empty)

    play(kubeconfig, scene)


def test_in_the_foreground_the_owner_goes_last(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        nodes = Nodes(ground, node)
        await deployment(ground, 2)
        async with controlled(client, COLLECTOR, *WORKLOADS):
            async with ground.busy(nodes.round):
                await until_status(client, DEPLOYMENTS, "web", space, availableReplicas=2)
            await client.delete(DEPLOYMENTS, "web", space, IN_FOREGROUND)

            async def are_leaving() -> bool:
                return all("deletionTimestamp" in each["metadata"] for each in await ground.pods())

            await until(are_leaving)
            (left,) = (await client.list(REPLICA_SETS, space)).items
            for document in (left, await client.get(DEPLOYMENTS, "web", space)):
                assert document["metadata"]["finalizers"] == ["foregroundDeletion"]
                assert "deletionTimestamp" in document["metadata"]
            assert len(await ground.pods()) == 2
            async with ground.busy(nodes.round):
                await _until_gone(client, DEPLOYMENTS, "web", space)
                assert not await ground.pods()
                assert not (await client.list(REPLICA_SETS, space)).items

    play(kubeconfig, scene)


def test_pods_of_a_replication_controller(kubeconfig: Path) -> None:
    """They stay where a client does not say otherwise, and go with it in the background where it does."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        async with controlled(client, COLLECTOR, "replicationcontroller-controller"):
            await ground.workload("ReplicationController", "first", 1)
            (pod,) = await until_alive(ground, 1)
            await client.request("DELETE", REPLICATION_CONTROLLERS.path(space, "first"))
            await _until_gone(client, REPLICATION_CONTROLLERS, "first", space)
            (left,) = await ground.pods()
            assert left["metadata"]["uid"] == pod["metadata"]["uid"]
            assert "ownerReferences" not in left["metadata"]
            await ground.workload("ReplicationController", "second", 1)

            async def is_adopted() -> bool:
                return bool((await ground.pods())[0]["metadata"].get("ownerReferences"))

            await until(is_adopted)
            await client.delete(REPLICATION_CONTROLLERS, "second", space, BACKGROUND)

            async def is_empty() -> bool:
                return not await ground.pods()

            await until(is_empty)

    play(kubeconfig, scene)


def test_orphans_stay_and_can_be_adopted_again(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        async with controlled(client, COLLECTOR, *WORKLOADS):
            await deployment(ground, 2)
            await until_alive(ground, 2)
            (before,) = (await client.list(REPLICA_SETS, space)).items
            await client.delete(DEPLOYMENTS, "web", space, ORPHANING)
            await _until_gone(client, DEPLOYMENTS, "web", space)
            (left,) = (await client.list(REPLICA_SETS, space)).items
            assert left["metadata"]["uid"] == before["metadata"]["uid"]
            assert "ownerReferences" not in left["metadata"]
            assert len(await ground.pods()) == 2
            made = await deployment(ground, 2)

            async def is_adopted() -> bool:
                found = await client.get(REPLICA_SETS, left["metadata"]["name"], space)
                owners = found["metadata"].get("ownerReferences") or ()
                return [each["uid"] for each in owners] == [made["metadata"]["uid"]]

            await until(is_adopted)
            assert len(await ground.pods()) == 2

    play(kubeconfig, scene)


def test_what_was_not_orphaned_yet_is_found_after_a_restart(kubeconfig: Path) -> None:
    """The owner went while no collector ran: its absence is all there is to see."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        owner = await replica_set(ground, 0)
        await _pod(ground, "dependent", _owner(owner))
        await client.delete(REPLICA_SETS, "rs", space, BACKGROUND)
        # Another one of the same name is another one.
        await replica_set(ground, 0)
        async with controlled(client, COLLECTOR):
            await _until_gone(client, PODS, "dependent", space)

    play(kubeconfig, scene)


def test_one_living_owner_is_enough(kubeconfig: Path) -> None:
    """And the reference to the one that is gone, or that waits for its dependents, is dropped."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        living, dead, waiting = [await replica_set(ground, 0, name) for name in ("living", "dead", "waiting")]
        await _pod(ground, "both", _owner(living), _owner(dead))
        await _pod(ground, "held", _owner(living), _owner(waiting, blockOwnerDeletion=True))
        await client.delete(REPLICA_SETS, "dead", space, BACKGROUND)
        async with controlled(client, COLLECTOR):
            await client.delete(REPLICA_SETS, "waiting", space, IN_FOREGROUND)
            await _until_gone(client, REPLICA_SETS, "waiting", space)
            for name in ("both", "held"):

                async def is_settled(name: str = name) -> bool:
                    pod = await client.get(PODS, name, space)
                    return [each["name"] for each in pod["metadata"]["ownerReferences"]] == ["living"]

                await until(is_settled)
                assert "deletionTimestamp" not in (await client.get(PODS, name, space))["metadata"]

    play(kubeconfig, scene)


def test_a_dependent_that_does_not_block_is_not_waited_for(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        owner = await replica_set(ground, 0)
        await _pod(ground, "held", _owner(owner), finalizers=["example.com/held"])
        async with controlled(client, COLLECTOR):
            await client.delete(REPLICA_SETS, "rs", space, IN_FOREGROUND)
            await _until_gone(client, REPLICA_SETS, "rs", space)

            async def is_leaving() -> bool:
                return "deletionTimestamp" in (await client.get(PODS, "held", space))["metadata"]

            await until(is_leaving)

    play(kubeconfig, scene)


def test_a_dependent_that_does_not_block_goes_while_another_is_waited_for(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        owner = await ground.pod("owner")
        blocks = {"blockOwnerDeletion": True, "uid": owner["metadata"]["uid"]}
        await _pod(ground, "slow", _owner(owner, "Pod", "v1", **blocks), finalizers=["example.com/busy"])
        await _pod(ground, "loose", _owner(owner, "Pod", "v1"))
        async with controlled(client, COLLECTOR):
            await asyncio.sleep(0.5)  # both were looked at, and are only looked at again for a reason
            await client.delete(PODS, "owner", space, IN_FOREGROUND)
            await _until_gone(client, PODS, "loose", space)
            assert not await is_gone(client, PODS, "owner", space)

    play(kubeconfig, scene)


def test_a_wrong_name_says_nothing_about_the_right_one(kubeconfig: Path) -> None:
    """Three pods name the same uid: the one with another's name goes, those before and after it stay."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        right = _owner(await client.get(NAMESPACES, space), "Namespace", "v1")
        wrong = {**right, "name": f"{space}-no-such"}
        await _pod(ground, "before", right)
        await _pod(ground, "both", right, wrong)
        await _pod(ground, "bad", wrong)
        async with controlled(client, COLLECTOR):
            await _until_gone(client, PODS, "bad", space)
            await _pod(ground, "after", right)
            # Without a status: the collector may take it before one can be written.
            spec = {"containers": [{"name": "c", "image": "registry.example/app:1"}]}
            await client.create(PODS, {"metadata": {"name": "bad2", "ownerReferences": [wrong]}, "spec": spec}, space)
            await _until_gone(client, PODS, "bad2", space)
            for name in ("before", "both", "after"):
                assert "deletionTimestamp" not in (await client.get(PODS, name, space))["metadata"], name

    play(kubeconfig, scene)


class _Adopting(KubeClient):
    """A client gives the pod a living owner at the last moment before it is deleted."""

    owner: Json
    refused: list[str]

    async def delete(self, kind: Kind, name: str, namespace: str = "", options: DeleteOptions = BACKGROUND) -> Json:
        if kind == PODS and not self.refused:
            patch = {"metadata": {"ownerReferences": [self.owner]}}
            await self.patch(PODS, name, patch, namespace, how=PatchType.MERGE)
        try:
            return await super().delete(kind, name, namespace, options)
        except Conflict:
            self.refused.append(name)
            raise


def test_what_has_changed_since_is_not_deleted(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        space = ground.namespace
        living, dead = await replica_set(ground, 0, "living"), await replica_set(ground, 0, "dead")
        await _pod(ground, "adopted", _owner(dead))
        async with _Adopting(ground.client.access) as client:
            client.owner, client.refused = _owner(living), []
            async with controlled(client, COLLECTOR):
                await client.delete(REPLICA_SETS, "dead", space, BACKGROUND)

                async def is_decided() -> bool:
                    pod = await ground.client.get(PODS, "adopted", space)
                    return bool(client.refused) or "deletionTimestamp" in pod["metadata"]

                await until(is_decided)
                assert client.refused == ["adopted"]
        assert "deletionTimestamp" not in (await ground.client.get(PODS, "adopted", space))["metadata"]

    play(kubeconfig, scene)


def test_a_dependent_of_an_unknown_kind_is_orphaned_too(kubeconfig: Path) -> None:
    """The owner is gone in a moment, and the dependent would be collected as soon as it is heard of."""

    async def scene(ground: Playground) -> None:
        space = ground.namespace
        owner = await replica_set(ground, 0)
        async with DeafClient(ground.client.access, PODS) as client, controlled(client, COLLECTOR):
            await client.is_deaf.wait()
            await _pod(ground, "unheard", _owner(owner))
            await client.delete(REPLICA_SETS, "rs", space, ORPHANING)
            await _until_gone(client, REPLICA_SETS, "rs", space)
        assert "ownerReferences" not in (await ground.client.get(PODS, "unheard", space))["metadata"]

    play(kubeconfig, scene)


UNKNOWN = [
    {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"},
    {"apiVersion": "apps/v1", "kind": "Widget", "name": "w"},
    {"apiVersion": "../v1", "kind": "Pod", "name": "w"},
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "../../pods/w"},
]


@pytest.mark.parametrize("stranger", UNKNOWN, ids=lambda each: f"{each['apiVersion']} {each['kind']} {each['name']}")
def test_an_owner_that_cannot_be_asked_for_is_not_judged(kubeconfig: Path, stranger: Json) -> None:
    """The pod beside it, with an owner that is certainly gone, shows that the collector was at work."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _pod(ground, "foreign", {**stranger, "uid": f"{space}-w"})
        gone = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": f"{space}-gone"}
        await _pod(ground, "left", gone)
        async with controlled(client, COLLECTOR):
            await _until_gone(client, PODS, "left", space)
            assert "deletionTimestamp" not in (await client.get(PODS, "foreign", space))["metadata"]

    play(kubeconfig, scene)


def test_other_kinds_are_collected_too(kubeconfig: Path) -> None:
    """A budget and a revision of a set, the lease of a node; and finalizers of objects that own nothing."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        owner = await replica_set(ground, 0)
        node = await ground.node("n")
        await ground.budget(minAvailable=1)
        patch = {"metadata": {"ownerReferences": [_owner(owner)]}}
        await client.patch(BUDGETS, "web", patch, space, how=PatchType.MERGE)
        revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {}}
        revision["metadata"] = {"name": "r", "ownerReferences": [_owner(owner)]}
        await client.create(CONTROLLER_REVISIONS, revision, space)
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": node}}
        node_reference = _owner(await client.get(NODES, node), "Node", "v1")
        lease["metadata"] = {"name": node, "ownerReferences": [node_reference]}
        await client.create(LEASES, lease, "kube-node-lease")
        async with controlled(client, COLLECTOR):
            await client.delete(REPLICA_SETS, "rs", space, BACKGROUND)
            await client.delete(NODES, node, "", IN_FOREGROUND)
            await _until_gone(client, BUDGETS, "web", space)
            await _until_gone(client, CONTROLLER_REVISIONS, "r", space)
            await _until_gone(client, NODES, node)
            await _until_gone(client, LEASES, node, "kube-node-lease")

    play(kubeconfig, scene)


def test_two_that_wait_for_one_another_do_not_wait_without_end(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        first = await replica_set(ground, 0, "first")
        second = await replica_set(ground, 0, "second")
        for name, other in (("first", second), ("second", first)):
            patch = {"metadata": {"ownerReferences": [_owner(other, blockOwnerDeletion=True)]}}
            await client.patch(REPLICA_SETS, name, patch, space, how=PatchType.MERGE)
        async with controlled(client, COLLECTOR):
            await client.delete(REPLICA_SETS, "first", space, IN_FOREGROUND)
            await _until_gone(client, REPLICA_SETS, "first", space)
            await _until_gone(client, REPLICA_SETS, "second", space)

    play(kubeconfig, scene)
