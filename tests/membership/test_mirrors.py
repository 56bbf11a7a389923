"""Static pods of a node that has joined: the API shows them, and has no say in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.errors import ApiError
from jettison.runtimes.kube.client import DeleteOptions, KubeClient
from jettison.runtimes.kube.kinds import NODES, PODS, Kind
from tests.controllers.staging import is_gone, until
from tests.live.served import Served
from tests.membership.joined import PATIENCE, Joined, condition, joined, play

Json = dict[str, Any]

pytestmark = pytest.mark.timeout(300)


def static(directory: Path, name: str, **metadata: Any) -> None:
    """Without an image, as a bare host has them."""
    container = {"name": "main", "command": ["sleep", "1000"], "resources": {"requests": {"memory": "8Mi"}}}
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "priorityClassName": "system-node-critical",
        # As in a manifest that was written for a cluster.
        "serviceAccountName": "default",
        "imagePullSecrets": [{"name": "registry"}],
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
    fresh = directory / f".{name}.new"
    fresh.write_text(json.dumps(document))
    fresh.rename(directory / f"{name}.json")


def _started(member: Joined, name: str) -> int:
    return sum(isinstance(fact, events.ContainerStarted) and fact.pod.name == name for fact in member.said.facts)


async def _another(member: Joined, name: str, uid: str) -> Json:
    """A mirror that is ready and not the one with this uid."""

    async def look() -> Json | None:
        for each in (await member.admin.list(PODS, "default")).items:
            is_other = each["metadata"]["name"] == name and each["metadata"]["uid"] != uid
            if is_other and condition(each, "Ready").get("status") == "True":
                return each
        return None

    found = await until(look, seconds=PATIENCE)
    assert found is not None
    return found


def test_a_static_pod_has_a_mirror_that_lives_as_long_as_its_manifest(served: Served, tmp_path: Path) -> None:
    manifests = tmp_path / "static"
    manifests.mkdir()
    static(manifests, "dns", labels={"app": "dns"})

    async def scenario() -> None:
        async with joined(served, "m14", tmp_path, static_manifests=[manifests]) as member:
            first = await _another(member, "dns-m14", "")
            local = first["metadata"]["annotations"]["kubernetes.io/config.mirror"]
            assert first["metadata"]["annotations"]["kubernetes.io/config.source"] == "file"
            assert first["metadata"]["labels"] == {"app": "dns"}
            owner = first["metadata"]["ownerReferences"][0]
            assert owner["uid"] == (await member.admin.get(NODES, "m14"))["metadata"]["uid"]
            assert (first["spec"]["nodeName"], first["spec"]["priority"]) == ("m14", 2_000_001_000)
            assert first["status"]["containerStatuses"][0]["containerID"] == f"jettison://{local}/main/0"

            # Deleting the mirror does not end the pod.
            await member.admin.delete(PODS, "dns-m14", "default", DeleteOptions(grace_seconds=30))
            second = await _another(member, "dns-m14", first["metadata"]["uid"])
            assert second["metadata"]["annotations"]["kubernetes.io/config.mirror"] == local
            assert _started(member, "dns") == 1

            static(manifests, "dns", labels={"app": "dns", "turn": "2"})
            third = await _another(member, "dns-m14", second["metadata"]["uid"])
            assert third["metadata"]["labels"]["turn"] == "2"
            assert third["metadata"]["annotations"]["kubernetes.io/config.mirror"] != local

            (manifests / "dns.json").unlink()
            await until(lambda: is_gone(member.admin, PODS, "dns-m14", "default"), seconds=PATIENCE)

    play(scenario())


def test_a_mirror_that_stays_hides_no_other(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook of the cluster may refuse that it is deleted."""
    manifests = tmp_path / "static"
    manifests.mkdir()
    static(manifests, "a")
    delete = KubeClient.delete

    async def refuse(client: KubeClient, kind: Kind, name: str, *arguments: Any) -> Any:
        if name == "a-m22":
            raise ApiError("no", code=403, reason="Forbidden")
        return await delete(client, kind, name, *arguments)

    async def scenario() -> None:
        async with joined(served, "m22", tmp_path, static_manifests=[manifests]) as member:
            await _another(member, "a-m22", "")
            monkeypatch.setattr(KubeClient, "delete", refuse)
            (manifests / "a.json").unlink()
            await until(lambda: _is_refused(member), seconds=PATIENCE)
            static(manifests, "b")
            await _another(member, "b-m22", "")
            monkeypatch.setattr(KubeClient, "delete", delete)
            await until(lambda: is_gone(member.admin, PODS, "a-m22", "default"), seconds=PATIENCE)

    async def _is_refused(member: Joined) -> bool:
        return any(isinstance(fact, events.ActionFailed) and fact.why == "no" for fact in member.said.facts)

    play(scenario())


def test_a_mirror_that_is_refused_hides_no_other(served: Served, tmp_path: Path) -> None:
    manifests = tmp_path / "static"
    manifests.mkdir()
    static(manifests, "a", namespace="nowhere")
    static(manifests, "b")

    async def scenario() -> None:
        async with joined(served, "m15", tmp_path, static_manifests=[manifests]) as member:
            await _another(member, "b-m15", "")
            assert _started(member, "a") == 1
            said = [fact for fact in member.said.facts if isinstance(fact, events.ActionFailed)]
            assert [fact.what for fact in said] == ["mirror static pods"]
            assert 'namespaces "nowhere" not found' in said[0].why

    play(scenario())
