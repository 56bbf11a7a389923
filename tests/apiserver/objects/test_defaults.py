"""What is filled in when a pod is read, and what a template is left without."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import PODS, Served, pod_document

Json = dict[str, Any]

LIMITED = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]


def test_a_ceiling_is_reserved(api: Served) -> None:
    spec = api.post(PODS, pod_document("a", containers=LIMITED, initContainers=[{**LIMITED[0], "name": "i"}])).body[
        "spec"
    ]
    for key in ("containers", "initContainers"):
        assert spec[key][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets", "daemonsets"])
def test_a_template_is_left_as_it_is(api: Served, plural: str) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": LIMITED}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    made = api.post(f"/apis/apps/v1/namespaces/default/{plural}", {"metadata": {"name": "d"}, "spec": spec})
    assert made.code == 201, made.content
    kept = made.body["spec"]["template"]["spec"]
    assert kept["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert "enableServiceLinks" not in kept


@pytest.mark.parametrize("links", [None, False])
def test_the_manifest_that_a_pod_was_made_from_changes_nothing(api: Served, links: bool | None) -> None:
    rest: Json = {} if links is None else {"enableServiceLinks": links}
    manifest = pod_document("p", containers=LIMITED, **rest)
    made = api.post(PODS, manifest).body
    assert made["spec"]["enableServiceLinks"] is (links is None)
    again = api("PUT", f"{PODS}/p", manifest)
    assert (again.code, again.body) == (200, made)
