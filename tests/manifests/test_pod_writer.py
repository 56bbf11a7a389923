"""A pod that was written down reads back as an equal pod."""

from __future__ import annotations

from dataclasses import fields

import msgspec
from hypothesis import given

from jettison.engine.pods.pod import Pod
from jettison.manifests.pod_writer import pod_document
from jettison.manifests.pods import parse_pods
from tests.builders import pod
from tests.manifests.worlds import pods


@given(pods())
def test_a_pod_survives(original: Pod) -> None:
    (again,) = parse_pods(msgspec.json.encode(pod_document(original)))

    # Field by field, because a decoded pod is a class of its own.
    assert {each.name: getattr(again, each.name) for each in fields(Pod)} == {
        each.name: getattr(original, each.name) for each in fields(Pod)
    }


def test_what_is_empty_is_left_out() -> None:
    assert pod_document(pod("a", memory="64Mi")) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "uid": "a"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"memory": "64Mi"}}}]},
    }
