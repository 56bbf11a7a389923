"""Places and names: which pod comes when, which goes first, and that an evicted pod comes back as itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from jettison.runtimes.kube.client import DeleteOptions
from jettison.runtimes.kube.kinds import CONTROLLER_REVISIONS, EVENTS, PODS, STATEFUL_SETS
from tests.controllers.staging import Json, controlled, is_gone, told, until, until_status, until_told
from tests.controllers.workloads import Nodes, alive, change, template
from tests.maintenance.playground import Playground, play

STATEFUL = "statefulset-controller"
LABEL = "controller-revision-hash"


def _image(number: int) -> Json:
    """A part of a template."""
    return {"spec": {"containers": template(f"app:{number}")["spec"]["containers"]}}


IMAGE_2 = _image(2)


async def _stateful_set(ground: Playground, replicas: int = 3, **spec: Any) -> Json:
    whole = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            **spec,
        },
    }
    return await ground.client.create(STATEFUL_SETS, whole, ground.namespace)


async def _until_names(ground: Playground, *names: str) -> list[Json]:
    """The pods, in order, once these are there and no others."""

    async def look() -> tuple[list[Json]] | None:
        pods = sorted(await ground.pods(), key=lambda each: str(each["metadata"]["name"]))
        found = [each["metadata"]["name"] for each in pods]
        return (pods,) if found == list(names) and alive(pods) == pods else None

    found = await until(look)
    assert found is not None
    return found[0]


async def _until_status(ground: Playground, **wanted: object) -> Json:
    return await until_status(ground.client, STATEFUL_SETS, "db", ground.namespace, **wanted)


def _images(pods: list[Json]) -> list[str]:
    return [each["spec"]["containers"][0]["image"].rpartition(":")[2] for each in pods]


async def _end(ground: Playground, name: str, phase: str = "Failed") -> None:
    status = {"status": {"phase": phase, "reason": "Evicted"}}
    await ground.client.patch(PODS, name, status, ground.namespace, subresource="status")


def test_each_is_ready_before_the_next_comes(kubeconfig: Path) -> None:
    """And the last goes first, one at a time."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        made = await _stateful_set(ground)
        async with controlled(client, STATEFUL):
            await _until_names(ground, "db-0")
            await _until_status(ground, replicas=1, availableReplicas=0, observedGeneration=1)
            await ground.become("db-0", "Running", ready=False)
            await _until_status(ground, replicas=1)
            assert [each["metadata"]["name"] for each in await ground.pods()] == ["db-0"]
            await ground.become("db-0", "Running", ready=True)
            first, _ = await _until_names(ground, "db-0", "db-1")
            assert first["metadata"]["generateName"] == "db-"
            async with ground.busy(Nodes(ground, node).round):
                await _until_names(ground, "db-0", "db-1", "db-2")
                status = await _until_status(ground, availableReplicas=3)
            await change(client, STATEFUL_SETS, "db", space, replicas=1)

            async def last_is_going() -> bool:
                pod = await client.get(PODS, "db-2", space)
                return "deletionTimestamp" in pod["metadata"]

            await until(last_is_going)
            assert "deletionTimestamp" not in (await client.get(PODS, "db-1", space))["metadata"]
            async with ground.busy(Nodes(ground, node).round):
                await _until_names(ground, "db-0")
                await _until_status(ground, replicas=1, availableReplicas=1)
            created = ("Normal", "SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful")
            deleted = ("Normal", "SuccessfulDelete", "Delete Pod db-2 in StatefulSet db successful")
            await until_told(client, "db", space, created, deleted)
        revision = status["currentRevision"]
        assert revision.startswith("db-")
        assert status == {
            "observedGeneration": 1,
            "replicas": 3,
            "readyReplicas": 3,
            "currentReplicas": 3,
            "updatedReplicas": 3,
            "availableReplicas": 3,
            "currentRevision": revision,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        assert first["metadata"]["labels"] == {
            "app": "web",
            "apps.kubernetes.io/pod-index": "0",
            "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": "db-0",
        }
        assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("db-0", "db")
        assert first["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]

    play(kubeconfig, scene)


def test_an_evicted_pod_comes_back_as_itself(kubeconfig: Path) -> None:
    """Whether its node ended it or the API did; no pod takes its place while it is still going."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await _stateful_set(ground, 2)
        async with controlled(client, STATEFUL):
            async with ground.busy(Nodes(ground, node).round):
                old, _ = await _until_names(ground, "db-0", "db-1")
                await _until_status(ground, readyReplicas=2)
                await _end(ground, "db-0")

                async def is_new() -> bool:
                    (new, *_) = await _until_names(ground, "db-0", "db-1")
                    return bool(new["metadata"]["uid"] != old["metadata"]["uid"])

                await until(is_new)
                await _until_status(ground, readyReplicas=2)
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db-1"}}
            await client.create(PODS, eviction, space, "eviction")
            await _until_status(ground, replicas=2, currentReplicas=1)
            going = await client.get(PODS, "db-1", space)
            assert "deletionTimestamp" in going["metadata"]
            options = DeleteOptions(grace_seconds=0, uid=going["metadata"]["uid"])
            await client.delete(PODS, "db-1", space, options)
            await _until_names(ground, "db-0", "db-1")
            deleted = ("Normal", "SuccessfulDelete", "Delete Pod db-0 in StatefulSet db successful")
            await until_told(client, "db", space, deleted)
            assert not [each for each in await told(client, "db", space) if each[1].startswith("Recreating")]

    play(kubeconfig, scene)


def test_in_parallel_no_pod_waits(kubeconfig: Path) -> None:
    """All at once, up and down, and from the first ordinal that was asked for."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _stateful_set(ground, 3, podManagementPolicy="Parallel", ordinals={"start": 5})
        async with controlled(client, STATEFUL):
            await _until_names(ground, "db-5", "db-6", "db-7")
            await change(client, STATEFUL_SETS, "db", space, replicas=0)
            await _until_names(ground)

    play(kubeconfig, scene)


def test_an_update_goes_from_the_last_to_the_partition(kubeconfig: Path) -> None:
    """Below it everything stays; when it is lowered the rest follows, and the new revision becomes the current one."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await _stateful_set(ground, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
        nodes = Nodes(ground, node)
        async with controlled(client, STATEFUL), ground.busy(nodes.round):
            first = await _until_status(ground, readyReplicas=3)
            await change(client, STATEFUL_SETS, "db", space, template=IMAGE_2)
            status = await _until_status(ground, observedGeneration=2, updatedReplicas=1, readyReplicas=3)
            assert status["currentRevision"] == first["currentRevision"] != status["updateRevision"]
            assert status["currentReplicas"] == 2
            assert _images(await _until_names(ground, "db-0", "db-1", "db-2")) == ["1", "1", "2"]
            await change(client, STATEFUL_SETS, "db", space, updateStrategy={"rollingUpdate": {"partition": 0}})
            done = await _until_status(ground, updatedReplicas=3, currentReplicas=3, readyReplicas=3)
            assert done["currentRevision"] == done["updateRevision"] == status["updateRevision"]

    play(kubeconfig, scene)


async def _until_back(ground: Playground, name: str, uid: str) -> Json:
    """The successor of a pod."""

    async def look() -> Json | None:
        found = [each for each in await ground.pods() if each["metadata"]["name"] == name]
        return found[0] if found and found[0]["metadata"]["uid"] != uid else None

    found = await until(look)
    assert found is not None
    return found


def test_below_the_partition_an_evicted_pod_comes_back_old(kubeconfig: Path) -> None:
    """A canary does not spread by eviction, nor by a controller that was started anew; from the partition on it may."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await _stateful_set(ground, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
        async with ground.busy(Nodes(ground, node).round):
            async with controlled(client, STATEFUL):
                await _until_status(ground, readyReplicas=3)
                await change(client, STATEFUL_SETS, "db", space, template=IMAGE_2)
                canary = await _until_status(ground, observedGeneration=2, updatedReplicas=1, readyReplicas=3)
            pods = await _until_names(ground, "db-0", "db-1", "db-2")
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db-1"}}
            async with controlled(client, STATEFUL):
                await _end(ground, "db-0")
                back = await _until_back(ground, "db-0", pods[0]["metadata"]["uid"])
                assert (_images([back]), back["metadata"]["labels"][LABEL]) == (["1"], canary["currentRevision"])
                await _until_status(ground, readyReplicas=3)
                await client.create(PODS, eviction, space, "eviction")
                await _until_back(ground, "db-1", pods[1]["metadata"]["uid"])
                await _until_status(ground, readyReplicas=3)
                await _end(ground, "db-2")
                await _until_back(ground, "db-2", pods[2]["metadata"]["uid"])
                status = await _until_status(ground, readyReplicas=3)
            found = await _until_names(ground, "db-0", "db-1", "db-2")
        assert _images(found) == ["1", "1", "2"]
        revisions = [canary["currentRevision"]] * 2 + [canary["updateRevision"]]
        assert [each["metadata"]["labels"][LABEL] for each in found] == revisions
        assert status == canary

    play(kubeconfig, scene)


async def _revisions(ground: Playground) -> dict[str, int]:
    """The image of each revision and its number."""
    found = (await ground.client.list(CONTROLLER_REVISIONS, ground.namespace)).items
    return {_images([each["data"]["spec"]["template"]])[0]: each["revision"] for each in found}


def test_the_history_can_be_gone_back_to(kubeconfig: Path) -> None:
    """With the patch that a revision is: it gets the newest number and no second one is made."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        made = await _stateful_set(ground, 1, revisionHistoryLimit=1)
        async with controlled(client, STATEFUL), ground.busy(Nodes(ground, node).round):
            first = await _until_status(ground, readyReplicas=1)
            await change(client, STATEFUL_SETS, "db", space, template=IMAGE_2)
            second = await _until_status(ground, observedGeneration=2, updatedReplicas=1, readyReplicas=1)
            assert await _revisions(ground) == {"1": 1, "2": 2}
            former = await client.get(CONTROLLER_REVISIONS, first["currentRevision"], space)
            await client.patch(STATEFUL_SETS, "db", former["data"], space)
            back = await _until_status(ground, observedGeneration=3, updatedReplicas=1, readyReplicas=1)
            assert (back["updateRevision"], back["currentRevision"]) == (first["updateRevision"],) * 2
            assert await _revisions(ground) == {"1": 3, "2": 2}
            assert _images(await _until_names(ground, "db-0")) == ["1"]
            await change(client, STATEFUL_SETS, "db", space, template=_image(3))
            await _until_status(ground, observedGeneration=4, updatedReplicas=1, readyReplicas=1)

            async def is_forgotten() -> bool:
                return await _revisions(ground) == {"1": 3, "3": 4}

            await until(is_forgotten)
        assert back["currentRevision"] != second["currentRevision"]
        metadata = former["metadata"]
        assert metadata["labels"] == {"app": "web", "controller.kubernetes.io/hash": metadata["name"][len("db-") :]}
        assert metadata["ownerReferences"][0]["uid"] == made["metadata"]["uid"]

    play(kubeconfig, scene)


def test_an_update_waits_for_each_new_pod(kubeconfig: Path) -> None:
    """A new image that does not start takes one pod with it and no more."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await _stateful_set(ground, 2)
        async with controlled(client, STATEFUL), ground.busy(Nodes(ground, node, "registry.example/app:2").round):
            await _until_status(ground, readyReplicas=2)
            await change(client, STATEFUL_SETS, "db", space, template=IMAGE_2)
            await _until_status(ground, updatedReplicas=1, readyReplicas=1, observedGeneration=2)
            assert _images(await _until_names(ground, "db-0", "db-1")) == ["1", "2"]

    play(kubeconfig, scene)


def test_on_delete_waits_for_a_client_to_delete(kubeconfig: Path) -> None:
    """And a controller that comes back goes on from what the server has."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await _stateful_set(ground, 2, updateStrategy={"type": "OnDelete"})
        async with ground.busy(Nodes(ground, node).round):
            async with controlled(client, STATEFUL):
                await _until_status(ground, readyReplicas=2)
            await change(client, STATEFUL_SETS, "db", space, template=IMAGE_2)
            async with controlled(client, STATEFUL):
                await _until_status(ground, observedGeneration=2, currentReplicas=2)
                await client.delete(PODS, "db-0", space)
                await _until_status(ground, updatedReplicas=1, readyReplicas=2)
                assert _images(await _until_names(ground, "db-0", "db-1")) == ["2", "1"]

    play(kubeconfig, scene)


def test_ready_for_long_enough_before_the_next(kubeconfig: Path) -> None:
    """`minReadySeconds` holds up the next ordinal, and it comes without another event."""

    async def scene(ground: Playground) -> None:
        node = await ground.node("n")
        await _stateful_set(ground, 2, minReadySeconds=2)
        async with controlled(ground.client, STATEFUL), ground.busy(Nodes(ground, node).round):
            status = await _until_status(ground, readyReplicas=1)
            assert (status["replicas"], status["availableReplicas"]) == (1, 0)
            await _until_status(ground, availableReplicas=2)

    play(kubeconfig, scene)


def test_orphans_of_the_right_name_are_adopted(kubeconfig: Path) -> None:
    """With the labels of their place; one whose name is none of the set's stays an orphan."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("db-0", node)
        await ground.pod("db-x", node)
        # Otherwise it would be replaced at once: it is of no revision.
        made = await _stateful_set(ground, 1, updateStrategy={"type": "OnDelete"})
        async with controlled(client, STATEFUL):
            await _until_status(ground, replicas=1)

            async def is_identified() -> bool:
                labels = (await client.get(PODS, "db-0", space))["metadata"]["labels"]
                return bool(labels.get("statefulset.kubernetes.io/pod-name") == "db-0")

            await until(is_identified)
            identified = ("Normal", "SuccessfulUpdate", "Update Pod db-0 in StatefulSet db successful")
            await until_told(client, "db", space, identified)
        adopted, stranger = [await client.get(PODS, name, space) for name in ("db-0", "db-x")]
        assert adopted["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert "ownerReferences" not in stranger["metadata"]

    play(kubeconfig, scene)


def test_an_adopted_pod_is_identified_when_it_is_ready_and_a_taken_name_is_no_event(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("db-0", node, ready=False)
        await ground.pod("db-1", node, labels={"app": "stranger"})
        await _stateful_set(ground, 2, updateStrategy={"type": "OnDelete"})
        label = "statefulset.kubernetes.io/pod-name"

        async def labels() -> Json:
            found: Json = (await client.get(PODS, "db-0", space))["metadata"]["labels"]
            return found

        async def is_identified() -> bool:
            return label in await labels()

        async with controlled(client, STATEFUL):
            await _until_status(ground, replicas=1)
            assert label not in await labels()
            await ground.become("db-0", "Running", ready=True)
            await until(is_identified)
            await asyncio.sleep(0.5)
        said = (await client.list(EVENTS, space, fields="involvedObject.name=db")).items
        assert [(each["reason"], each["count"]) for each in said] == [("SuccessfulUpdate", 1)]

    play(kubeconfig, scene)


def test_volume_claims_are_refused_aloud(kubeconfig: Path) -> None:
    """Pods without their data would be worse than none."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "data"}, "spec": wanted}
        await _stateful_set(ground, 1, volumeClaimTemplates=[claim])
        async with controlled(client, STATEFUL):
            why = "volumeClaimTemplates are not supported, use the volumes of the template"
            said = f"Create Pod db-0 in StatefulSet db failed error: {why}"
            await until_told(client, "db", space, ("Warning", "FailedCreate", said))
            assert await is_gone(client, PODS, "db-0", space)

    play(kubeconfig, scene)
