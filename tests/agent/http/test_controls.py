"""Orders on a node whose pods are an API's: what is refused, and what is named instead."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jettison.agent.http.controls import Controls
from jettison.errors import ApiError
from jettison.runtimes.protocol import PodStatus
from tests.agent.scripted_runtime import ScriptedHost
from tests.agent.test_admission import manifest


def controls(*, is_member: bool) -> Controls:
    """Of a node that runs one pod of no manifest of its own."""
    runtime = ScriptedHost()
    made = manifest("web")
    runtime.running = [PodStatus(made.pod, "Running", document=made.document)]
    agent = cast("Any", SimpleNamespace(emit=lambda _: None))
    keeper = cast("Any", SimpleNamespace(held=[]))
    return Controls("n1", runtime, keeper, agent, lambda _uid, name: name.encode(), lambda: None, is_member=is_member)


@pytest.mark.parametrize(
    ("order", "instead"),
    [
        ("delete", "kubectl delete pod"),
        ("restart", "kubectl delete pod"),
        ("evict", "jettison evict --kubeconfig FILE"),
    ],
)
def test_a_pod_of_an_api_is_the_apis_to_end(order: str, instead: str) -> None:
    refusing = controls(is_member=True)
    with pytest.raises(ApiError, match=f"pod `default/web` is the API's: `{instead}") as caught:
        asyncio.run(getattr(refusing, order)({"pod": "web"}))
    assert caught.value.code == 409


def test_a_member_of_a_cluster_is_drained_before_it_goes_down() -> None:
    with pytest.raises(ApiError, match="`jettison drain n1` empties it"):
        controls(is_member=True).down({"pods": "end"})


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({}, 400),
        ({"pod": "absent"}, 404),
        ({"pod": "web", "grace": "x"}, 400),
        ({"pod": "web", "grace": "9" * 30}, 400),
    ],
)
def test_what_makes_no_sense_is_refused(query: dict[str, str], code: int) -> None:
    with pytest.raises(ApiError) as caught:
        asyncio.run(controls(is_member=False).delete(query))
    assert caught.value.code == code
