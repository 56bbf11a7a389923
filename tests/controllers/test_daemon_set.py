"""One pod per node: which node gets one, which loses it, what follows a failed one, and how a new template spreads."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from jettison.controllers.daemon_set import DaemonSetController
from jettison.controllers.machinery.pod_control import Expectations
from jettison.engine.workloads.daemon_sync import Update
from jettison.errors import NotFound
from jettison.runtimes.kube.client import PatchType
from jettison.runtimes.kube.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from tests.controllers.staging import Json, controlled, is_gone, until, until_status, until_told
from tests.controllers.workloads import NOW, alive, change, template, until_alive
from tests.maintenance.playground import Playground, play

DAEMONS = "daemonset-controller"


def _target(pod: Json) -> str:
    """The node that its affinity names."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    assert (field["key"], field["operator"]) == ("metadata.name", "In")
    found: str = field["values"][0]
    return found


async def _daemon_set(ground: Playground, **spec: Any) -> Json:
    """On this playground's nodes alone: the server is shared."""
    body = template()
    body["spec"]["nodeSelector"] = {"ground": ground.namespace}
    body["spec"] |= spec.pop("pod_spec", {})
    whole = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "ds"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": body, **spec},
    }
    return await ground.client.create(DAEMON_SETS, whole, ground.namespace)


async def _node(ground: Playground, name: str, **spec: Any) -> str:
    full = await ground.node(name, **spec)
    labels = {"metadata": {"labels": {"ground": ground.namespace}}}
    await ground.client.patch(NODES, full, labels, how=PatchType.MERGE)
    return full


async def _taint(ground: Playground, node: str, effect: str | None, key: str = "bad") -> None:
    taints = None if effect is None else [{"key": key, "effect": effect}]
    await ground.client.patch(NODES, node, {"spec": {"taints": taints}}, how=PatchType.MERGE)


async def _serve(ground: Playground, *, ready: bool = True) -> None:
    """One round of scheduler and nodes: each pod gets its node and becomes Ready there, or goes."""
    for pod in await ground.pods():
        metadata = pod["metadata"]
        try:
            if "deletionTimestamp" in metadata:
                await ground.client.delete(PODS, metadata["name"], ground.namespace, NOW)
            elif not pod["spec"].get("nodeName"):
                target = {"apiVersion": "v1", "kind": "Node", "name": _target(pod)}
                body = {"metadata": {"name": metadata["name"]}, "target": target}
                await ground.client.create(PODS, body, ground.namespace, "binding")
            elif pod["status"]["phase"] == "Pending" and ready:
                await ground.become(metadata["name"], "Running", ready=True)
        except NotFound:
            continue


async def _settled_on(ground: Playground, *nodes: str) -> list[Json]:
    """The pods once exactly these nodes have one each."""

    async def look() -> list[Json] | None:
        pods = await ground.pods()
        return pods if sorted(map(_target, alive(pods))) == sorted(nodes) and len(alive(pods)) == len(pods) else None

    found = await until(look)
    assert found is not None
    return found


def test_every_node_it_was_made_for_gets_one(kubeconfig: Path) -> None:
    """Nodes that come and go, labels and taints; and the tolerations that let it stay where others cannot."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        one, two = await _node(ground, "one"), await _node(ground, "two", unschedulable=True)
        await ground.node("stranger")
        tainted = await _node(ground, "tainted", taints=[{"key": "bad", "effect": "NoSchedule"}])
        await _taint(ground, two, "NoSchedule", "node.kubernetes.io/unschedulable")
        own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        made = await _daemon_set(ground, pod_spec={"tolerations": [{**own, "tolerationSeconds": 5}]})
        async with controlled(client, DAEMONS), ground.busy(lambda: _serve(ground)):
            pods = await _settled_on(ground, one, two)
            status = await until_status(
                client, DAEMON_SETS, "ds", space, numberAvailable=2, desiredNumberScheduled=2, numberReady=2
            )
            three = await _node(ground, "three")
            await _taint(ground, tainted, None)
            await _settled_on(ground, one, two, three, tainted)
            await _taint(ground, three, "NoSchedule")
            await _taint(ground, tainted, "NoExecute")
            await client.patch(NODES, one, {"metadata": {"labels": None}}, how=PatchType.MERGE)
            await _settled_on(ground, two, three)
            await until_status(client, DAEMON_SETS, "ds", space, desiredNumberScheduled=1, numberMisscheduled=1)
        assert status == {
            "currentNumberScheduled": 2,
            "desiredNumberScheduled": 2,
            "numberAvailable": 2,
            "numberMisscheduled": 0,
            "numberReady": 2,
            "observedGeneration": 1,
            "updatedNumberScheduled": 2,
        }
        pod = pods[0]
        assert pod["metadata"]["generateName"] == "ds-"
        assert pod["metadata"]["labels"]["controller-revision-hash"]
        assert pod["metadata"]["labels"]["pod-template-generation"] == "1"
        assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert pod["spec"]["tolerations"] == [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
            for key, effect in (
                ("not-ready", "NoExecute"),
                ("unreachable", "NoExecute"),
                ("disk-pressure", "NoSchedule"),
                ("memory-pressure", "NoSchedule"),
                ("pid-pressure", "NoSchedule"),
                ("unschedulable", "NoSchedule"),
            )
        ]

    play(kubeconfig, scene)


def test_an_evicted_one_is_replaced_and_a_stubborn_node_is_not_hurried(kubeconfig: Path) -> None:
    """The first at once; the next one when its second is over, and not because the node asked again."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await _node(ground, "n")
        await _daemon_set(ground)
        replaced: list[float] = []
        async with controlled(client, DAEMONS), ground.busy(lambda: _serve(ground)):
            # The wait belongs to a generation, so that one must have been observed first.
            await until_status(client, DAEMON_SETS, "ds", space, numberReady=1, observedGeneration=1)
            (first,) = await _settled_on(ground, node)
            gone = first
            for _ in range(2):
                name = gone["metadata"]["name"]
                status = {"status": {"phase": "Failed", "reason": "Evicted"}}
                await client.patch(PODS, name, status, space, subresource="status")

                async def is_replaced(name: str = name) -> bool:
                    return await is_gone(client, PODS, name, space)

                await until(is_replaced)
                replaced.append(time.monotonic())
                (gone,) = await _settled_on(ground, node)
            name = first["metadata"]["name"]
            text = f"Found failed daemon pod {space}/{name} on node {node}, will try to kill it"
            deleted = ("Normal", "SuccessfulDelete", f"Deleted pod: {name}")
            await until_told(client, "ds", space, ("Warning", "FailedDaemonPod", text), deleted)
        assert replaced[1] - replaced[0] > 0.9

    play(kubeconfig, scene)


def test_a_pod_that_waits_for_a_node_that_is_gone_goes_too(kubeconfig: Path) -> None:
    """It would never get a place. One that was there already is the pod garbage collector's."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        nodes = [await _node(ground, name) for name in ("a", "b")]
        await _daemon_set(ground)
        async with controlled(client, DAEMONS):
            pods = {_target(each): each["metadata"]["name"] for each in await until_alive(ground, 2)}
            placed, waiting = (pods[node] for node in nodes)
            target = {"apiVersion": "v1", "kind": "Node", "name": nodes[0]}
            await client.create(PODS, {"metadata": {"name": placed}, "target": target}, space, "binding")
            await asyncio.sleep(1)  # a watch is behind, and a controller that has not heard of it takes it for waiting
            for node in nodes:
                await client.delete(NODES, node)

            async def is_one_gone() -> bool:
                return await is_gone(client, PODS, waiting, space)

            await until(is_one_gone)
            assert "deletionTimestamp" not in (await client.get(PODS, placed, space))["metadata"]

    play(kubeconfig, scene)


def test_a_new_template_spreads_one_node_at_a_time(kubeconfig: Path) -> None:
    """`maxUnavailable: 1`: while the first new pod is not Ready the other nodes keep their old one."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        nodes = [await _node(ground, name) for name in "abc"]
        await _daemon_set(ground)
        async with controlled(client, DAEMONS):
            async with ground.busy(lambda: _serve(ground)):
                await until_status(client, DAEMON_SETS, "ds", space, numberAvailable=3, updatedNumberScheduled=3)
            changed = template("app:2")
            await change(
                client, DAEMON_SETS, "ds", space, template={"spec": {"containers": changed["spec"]["containers"]}}
            )
            async with ground.busy(lambda: _serve(ground, ready=False)):
                await until_status(
                    client, DAEMON_SETS, "ds", space, updatedNumberScheduled=1, numberAvailable=2, observedGeneration=2
                )
                images = [each["spec"]["containers"][0]["image"] for each in await ground.pods()]
                assert sorted(images) == ["registry.example/app:1"] * 2 + ["registry.example/app:2"]
            async with ground.busy(lambda: _serve(ground)):
                await until_status(client, DAEMON_SETS, "ds", space, numberAvailable=3, updatedNumberScheduled=3)
                await _settled_on(ground, *nodes)

    play(kubeconfig, scene)


def test_on_delete_waits_for_a_client_to_delete(kubeconfig: Path) -> None:
    """And a controller that comes back goes on from what the server has."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await _node(ground, "n")
        await _daemon_set(ground, updateStrategy={"type": "OnDelete"})
        async with ground.busy(lambda: _serve(ground)):
            async with controlled(client, DAEMONS):
                (old,) = await _settled_on(ground, node)
            containers = template("app:2")["spec"]["containers"]
            await change(client, DAEMON_SETS, "ds", space, template={"spec": {"containers": containers}})
            async with controlled(client, DAEMONS):
                await until_status(client, DAEMON_SETS, "ds", space, observedGeneration=2, numberReady=1)
                assert [each["metadata"]["uid"] for each in await ground.pods()] == [old["metadata"]["uid"]]
                await client.delete(PODS, old["metadata"]["name"], space)
                await until_status(client, DAEMON_SETS, "ds", space, updatedNumberScheduled=1, numberReady=1)

    play(kubeconfig, scene)


def test_a_surge_puts_the_new_pod_beside_the_old_one(kubeconfig: Path) -> None:
    """The old one goes only when the new one serves."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await _node(ground, "n")
        await _daemon_set(ground, updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
        async with controlled(client, DAEMONS):
            async with ground.busy(lambda: _serve(ground)):
                (old,) = await _settled_on(ground, node)
                await until_status(client, DAEMON_SETS, "ds", space, numberAvailable=1)
            containers = template("app:2")["spec"]["containers"]
            await change(client, DAEMON_SETS, "ds", space, template={"spec": {"containers": containers}})
            async with ground.busy(lambda: _serve(ground, ready=False)):
                await _settled_on(ground, node, node)
            async with ground.busy(lambda: _serve(ground)):
                (new,) = await _settled_on(ground, node)
            assert new["metadata"]["uid"] != old["metadata"]["uid"]

    play(kubeconfig, scene)


def test_an_update_waits_until_what_was_just_done_is_known(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However soon that is: from the same look the old pod would be deleted twice."""
    deleted: list[tuple[int, str]] = []
    looks: list[object] = []
    act = DaemonSetController._act

    async def spy(self: DaemonSetController, look: Any, update: Update) -> Any:
        looks.append(look)
        deleted.extend((id(look), each.uid) for each in update.delete)
        return await act(self, look, update)

    def are_met(self: Expectations, key: object) -> bool:
        del self, key
        return True

    monkeypatch.setattr(DaemonSetController, "_act", spy)
    monkeypatch.setattr(Expectations, "are_met", are_met)

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await _node(ground, "n")
        await _daemon_set(ground, updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})

        async def old_is_gone() -> bool:
            return await is_gone(client, PODS, old["metadata"]["name"], space)

        async with controlled(client, DAEMONS), ground.busy(lambda: _serve(ground)):
            (old,) = await _settled_on(ground, node)
            await until_status(client, DAEMON_SETS, "ds", space, numberAvailable=1)
            containers = template("app:2")["spec"]["containers"]
            await change(client, DAEMON_SETS, "ds", space, template={"spec": {"containers": containers}})
            await until(old_is_gone)
        assert len(deleted) == len(set(deleted))

    play(kubeconfig, scene)


def test_the_history_is_kept_as_far_as_it_should(kubeconfig: Path) -> None:
    """A revision that a pod is still of stays, and going back gives the old one the newest number."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await _node(ground, "n")
        made = await _daemon_set(ground, revisionHistoryLimit=1, updateStrategy={"type": "OnDelete"})

        async def numbers(*wanted: int) -> list[Json]:
            async def look() -> list[Json] | None:
                found = (await client.list(CONTROLLER_REVISIONS, space)).items
                found.sort(key=lambda each: int(each["revision"]))
                return found if [each["revision"] for each in found] == list(wanted) else None

            found = await until(look)
            assert found is not None
            return found

        async with controlled(client, DAEMONS), ground.busy(lambda: _serve(ground)):
            (pod,) = await _settled_on(ground, node)
            (first,) = await numbers(1)
            for image in ("app:2", "app:3"):
                containers = template(image)["spec"]["containers"]
                await change(client, DAEMON_SETS, "ds", space, template={"spec": {"containers": containers}})
                await numbers(1, 2) if image == "app:2" else await numbers(1, 3)
            await client.patch(DAEMON_SETS, "ds", first["data"], space)
            _, back = await numbers(3, 4)
            await until_status(client, DAEMON_SETS, "ds", space, updatedNumberScheduled=1, observedGeneration=4)
        assert (back["metadata"]["uid"], back["data"]) == (first["metadata"]["uid"], first["data"])
        assert first["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        digest = pod["metadata"]["labels"]["controller-revision-hash"]
        assert first["metadata"]["name"] == f"ds-{digest}"
        assert first["metadata"]["labels"] == {"app": "web", "controller-revision-hash": digest}

    play(kubeconfig, scene)
