from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jettison.clock import SystemClock
from jettison.errors import ManifestError
from jettison.events import ActionFailed, Fact
from jettison.manifests.files.bounds import REFUSED
from jettison.membership.pod_source import ApiPods
from jettison.runtimes.host.specs.spec import pod_spec
from jettison.runtimes.kube.cache import Caches, Change
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.kube.kubeconfig import Access
from jettison.runtimes.protocol import PodManifest


def test_the_api_cannot_pass_its_pods_off_as_those_of_a_manifest() -> None:
    """An agent that starts again keeps the pods of a file that it cannot read, and knows them by their annotations."""
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    said: list[Fact] = []
    pods = ApiPods(cache, lambda: None, lambda _: True, said.append)
    annotations = {"jettison.dev/manifest": "/pods/broken.yaml", "jettison.dev/lives": "7", "team": "a"}
    metadata = {"name": "p", "namespace": "default", "uid": "u1", "annotations": annotations}
    document = {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}}
    cache._store(("default", "p"), Change(None, document))
    assert asyncio.run(pods.look())
    assert pods.wishes()["u1"].manifest.document["metadata"]["annotations"] == {"team": "a"}
    assert metadata["annotations"] is annotations, "the cache's own object must not be changed"
    assert said == []


def test_a_pod_that_is_too_large_waits_and_says_so() -> None:
    """Neither its spec is kept nor what others wrote about it; the reason reaches its status."""
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    said: list[Fact] = []
    pods = ApiPods(cache, lambda: None, lambda _: True, said.append)
    annotations = {"jettison.dev/refused": "a lie"}
    metadata = {"name": "p", "namespace": "default", "uid": "u1", "annotations": annotations}
    env = [{"name": f"V{n}", "value": "x"} for n in range(3000)]
    large = {"metadata": metadata, "spec": {"containers": [{"name": "main", "command": ["x"], "env": env}]}}
    small = {"metadata": {**metadata, "uid": "u2"}, "spec": {"containers": [{"name": "main", "command": ["x"]}]}}
    cache._store(("default", "p"), Change(None, large))
    cache._store(("default", "q"), Change(None, small))
    assert asyncio.run(pods.look())
    left = pods.wishes()["u1"].manifest
    assert [each.name for each in left.pod.containers] == ["main"]
    with pytest.raises(ManifestError, match="spec: more than 4000 values"):
        pod_spec(left.document)
    assert pod_spec(pods.wishes()["u2"].manifest.document).containers
    assert said == []


def test_a_pod_that_was_not_even_decoded_waits_with_the_reason_and_one_that_grew_stays_as_it_was() -> None:
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    pods = ApiPods(cache, lambda: None, lambda _: True, lambda _: None)
    metadata = {"name": "p", "namespace": "default", "uid": "u1"}
    refused = {"metadata": metadata, "spec": {}, REFUSED: "more than 524288 bytes"}
    grown = {**refused, "metadata": {**metadata, "uid": "u2"}}
    small = {"metadata": {**metadata, "uid": "u2"}, "spec": {"containers": [{"name": "main", "command": ["x"]}]}}
    cache._store(("default", "p"), Change(None, refused))
    cache._store(("default", "q"), Change(None, small))
    assert asyncio.run(pods.look())
    cache._store(("default", "q"), Change(small, grown))
    assert asyncio.run(pods.look())
    wishes = pods.wishes()
    with pytest.raises(ManifestError, match="more than 524288 bytes"):
        pod_spec(wishes["u1"].manifest.document)
    assert pod_spec(wishes["u2"].manifest.document).containers


def shown(*ephemeral: object, **more: object) -> dict[str, Any]:
    """A pod of the API to which these containers were added."""
    metadata = {"name": "p", "namespace": "default", "uid": "u1", **more}
    spec: dict[str, Any] = {"containers": [{"name": "main", "command": ["x"]}], "tolerations": []}
    return {"metadata": metadata, "spec": {**spec, "ephemeralContainers": list(ephemeral)} if ephemeral else spec}


class Source:
    """One pod of an API, and what the agent makes of it."""

    def __init__(self) -> None:
        self.cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
        self.said: list[Fact] = []
        self.pods = ApiPods(self.cache, lambda: None, lambda _: True, self.said.append)
        self.document: dict[str, Any] | None = None

    def show(self, document: dict[str, Any]) -> PodManifest:
        self.cache._store(("default", "p"), Change(self.document, document))
        self.document = document
        assert asyncio.run(self.pods.look())
        return self.pods.wishes()["u1"].manifest


def test_what_is_added_to_a_pod_is_passed_on_and_nothing_else_that_changes() -> None:
    source = Source()
    first = source.show(shown())
    debugger = {"name": "d", "command": ["sh"]}
    changed = shown(debugger, labels={"new": "label"})
    changed["spec"]["containers"][0]["command"] = ["other"]
    second = source.show(changed)
    assert second.pod is first.pod
    assert second.document == {
        **first.document,
        "spec": {**first.document["spec"], "ephemeralContainers": [debugger]},
    }
    assert source.show(shown(dict(debugger))) is second, "the same containers are no news"
    grown = source.show({**shown(), REFUSED: "more than 524288 bytes"})
    assert grown is second, "of one that became too large nothing new is known"
    more = source.show(shown(debugger, {"name": "e"}))
    assert [each["name"] for each in more.ephemeral] == ["d", "e"]


def test_one_that_was_there_before_the_agent_is_passed_on() -> None:
    assert [each["name"] for each in Source().show(shown({"name": "d", "command": ["sh"]})).ephemeral] == ["d"]


def test_too_many_of_them_are_told_of_and_far_too_many_change_nothing() -> None:
    """64 are started, some more are told of; beyond the bounds of a spec the pod stays as it was, and that is said. A
    note of ours is not believed.
    """
    source = Source()
    source.show(shown())
    many = [{"name": f"d{number}", "command": ["sh"], REFUSED: "a lie"} for number in range(100)]
    found = source.show(shown(*many, "text"))
    assert len(found.ephemeral) == 80
    assert all(each == {"name": f"d{number}", "command": ["sh"]} for number, each in enumerate(found.ephemeral[:64]))
    assert found.ephemeral[64] == {
        "name": "d64",
        REFUSED: "at most 64 ephemeral containers of a pod are started, it has 101",
    }
    spec = pod_spec(found.document)
    assert [bool(each.refusal) for each in spec.ephemeral_containers] == [False] * 64 + [True] * 16
    assert source.said == []
    env = [{"name": f"V{n}", "value": "x"} for n in range(400)]
    assert source.show(shown(*({"name": f"d{n}", "env": env} for n in range(9)))) is found
    assert source.show(shown({"name": "d", "command": ["x" * 300_000]})) is found
    assert [str(fact) for fact in source.said] == [
        str(ActionFailed("read pod default/p", why))
        for why in ("spec: more than 4000 values", "spec: more than 262144 bytes of text")
    ]


def test_nothing_is_added_to_a_pod_that_is_refused() -> None:
    source = Source()
    env = [{"name": f"V{n}", "value": "x"} for n in range(3000)]
    large = shown()
    large["spec"]["containers"][0]["env"] = env
    refused = source.show(large)
    large = shown({"name": "d"})
    large["spec"]["containers"][0]["env"] = env
    assert source.show(large) is refused


def test_a_pod_without_a_spec_hides_no_other() -> None:
    """It was an exception at each look, so that the agent heard of no pod any more."""
    source = Source()
    metadata = {"name": "bare", "namespace": "default", "uid": "u2"}
    source.cache._store(("default", "bare"), Change(None, {"metadata": metadata}))
    assert source.show(shown()).pod.name == "p"
