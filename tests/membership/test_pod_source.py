from __future__ import annotations

import asyncio

import pytest

from jettison.clock import SystemClock
from jettison.errors import ManifestError
from jettison.events import Fact
from jettison.manifests.files.bounds import REFUSED
from jettison.membership.pod_source import ApiPods
from jettison.runtimes.host.specs.spec import pod_spec
from jettison.runtimes.kube.cache import Caches, Change
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.kube.kubeconfig import Access


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
