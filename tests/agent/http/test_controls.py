"""Orders on a node whose pods are an API's: what is refused, and what is named instead."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jettison.agent.http.controls import Controls
from jettison.errors import ApiError
from jettison.events import OrderReceived
from jettison.runtimes.protocol import PodStatus
from tests.agent.scripted_runtime import ScriptedHost
from tests.agent.test_admission import manifest


def controls(*, is_member: bool, leave_empty: Callable[[], None] | None = None) -> Controls:
    """Of a node that runs one pod of no manifest of its own."""
    runtime = ScriptedHost()
    made = manifest("web")
    runtime.running = [PodStatus(made.pod, "Running", document=made.document)]
    agent = cast("Any", SimpleNamespace(emit=lambda _: None))
    keeper = cast("Any", SimpleNamespace(held=[]))
    return Controls(
        "n1",
        runtime,
        keeper,
        agent,
        lambda _uid, name: name.encode(),
        lambda: None,
        is_member=is_member,
        leave_empty=leave_empty,
    )


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


def test_the_order_to_start_a_deleted_pod_again_names_it() -> None:
    """There is no pod of that name any more, only its manifest."""
    made = manifest("web")
    said: list[object] = []
    keeper = SimpleNamespace(
        held=["default/web"], wanted={"default/web": made.pod}.get, release=lambda _: None, wake=lambda: None
    )
    agent = SimpleNamespace(emit=said.append)
    ordered = Controls(
        "n1", ScriptedHost(), cast("Any", keeper), cast("Any", agent), lambda *_: b"", lambda: None, is_member=False
    )
    asyncio.run(ordered.restart({"pod": "web"}))
    assert said == [OrderReceived("restart", made.pod)]


def test_a_member_of_a_cluster_is_drained_before_it_goes_down() -> None:
    with pytest.raises(ApiError, match="`jettison drain n1` empties it"):
        controls(is_member=True).down({"pods": "end"})


def test_a_member_whose_api_ends_with_it_leaves_before_its_pods_end() -> None:
    """Its keeper here cannot end any."""

    async def work() -> bytes:
        left = asyncio.Event()
        answer = controls(is_member=True, leave_empty=left.set).down({"pods": "end"})
        assert not left.is_set()
        await left.wait()
        return answer.body

    assert json.loads(asyncio.run(work())) == {"node": "n1", "pods": 1}


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
