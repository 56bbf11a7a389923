"""Slow starts, pods from templates, and pods that are expected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jettison.controllers.machinery.pod_control import Expectations, is_namespace_ending, pod_from_template, slow_start
from jettison.controllers.replica_set import OWNER_KIND
from jettison.errors import ApiError, RuntimeFailure
from jettison.runtimes.kube.cache import Cache, Change
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.kube.kubeconfig import Access
from tests.controllers.staging import ForwardClock, Json

OWNER: dict[str, Any] = {"metadata": {"name": "rs", "namespace": "s", "uid": "o"}}


def _run(count: int, refused: set[int]) -> tuple[list[int], int, str]:
    """The numbers that were tried in the order of their beginning, how many were made, and the complaint."""
    tried: list[int] = []

    async def work(number: int) -> None:
        tried.append(number)
        await asyncio.sleep(0)
        if number in refused:
            raise ApiError(f"no {number}")

    started = asyncio.run(slow_start(count, work))
    return tried, started.made, str(started.error or "")


@pytest.mark.parametrize(
    ("count", "refused", "tried", "made", "complaint"),
    [
        (0, set(), 0, 0, ""),
        (10, set(), 10, 10, ""),
        # A quota that refuses everything is asked once.
        (500, set(range(500)), 1, 0, "no 0"),
        # 1, then 2, then 4: the batch in which it fails is the last.
        (500, {4, 5}, 7, 5, "no 4"),
    ],
)
def test_a_slow_start(count: int, refused: set[int], tried: int, made: int, complaint: str) -> None:
    assert _run(count, refused) == (list(range(tried)), made, complaint)


def test_a_mistake_of_ours_is_no_refusal() -> None:
    async def work(number: int) -> None:
        raise (RuntimeFailure("the connection broke") if number < 2 else KeyError("spec"))

    started = asyncio.run(slow_start(2, work))
    assert (started.made, str(started.error)) == (0, "the connection broke")

    async def mixed(number: int) -> None:
        if number:
            await work(number)

    with pytest.raises(KeyError):
        asyncio.run(slow_start(4, mixed))


def test_a_pod_of_an_empty_template() -> None:
    pod = pod_from_template(OWNER_KIND, OWNER, {})
    assert set(pod["metadata"]) == {"generateName", "ownerReferences"}
    assert pod["spec"] == {}


@pytest.mark.parametrize(
    ("details", "is_ending"),
    [
        ({"causes": [{"reason": "NamespaceTerminating", "message": "m"}]}, True),
        ({"causes": [{"reason": "FieldValueInvalid"}]}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_namespace_that_ends(details: dict[str, Any] | None, is_ending: bool) -> None:
    assert is_namespace_ending(ApiError("no", code=403, reason="Forbidden", details=details)) is is_ending
    assert not is_namespace_ending(RuntimeFailure("no answer"))


OWNER_KEY = ("s", "rs")


def _pod(uid: str, *, is_going: bool = False) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "o", "controller": True}
    metadata: Json = {"name": uid, "namespace": "s", "uid": uid, "ownerReferences": [owner]}
    return {"metadata": {**metadata, **({"deletionTimestamp": "2030-01-01T00:00:00Z"} if is_going else {})}}


def _staged() -> tuple[Expectations, Cache, ForwardClock]:
    clock = ForwardClock()
    cache = Cache(KubeClient(Access("https://127.0.0.1:1")), PODS, "", clock, 45.0)
    expectations = Expectations(clock)
    expectations.follow(cache, OWNER_KIND.key_from)
    return expectations, cache, clock


def test_creations_are_counted() -> None:
    expectations, cache, _ = _staged()
    assert expectations.are_met(OWNER_KEY)
    expectations.expect(OWNER_KEY, creations=2)
    cache._store(("s", "a"), Change(None, _pod("a")))
    assert not expectations.are_met(OWNER_KEY)
    # A change or a resync of one that was seen is no other one.
    cache._store(("s", "a"), Change(_pod("a"), _pod("a")))
    assert not expectations.are_met(OWNER_KEY)
    cache._store(("s", "b"), Change(None, _pod("b")))
    assert expectations.are_met(OWNER_KEY)


def test_the_end_of_a_pod_is_expected_of_that_very_pod() -> None:
    expectations, cache, _ = _staged()
    expectations.expect(OWNER_KEY, deletions=["a", "b"])
    cache._store(("s", "c"), Change(_pod("c"), None))
    cache._store(("s", "a"), Change(_pod("a"), _pod("a", is_going=True)))
    assert not expectations.are_met(OWNER_KEY)
    cache._store(("s", "b"), Change(_pod("b"), None))
    assert expectations.are_met(OWNER_KEY)


def test_one_that_came_unexpected_is_no_loan() -> None:
    expectations, cache, _ = _staged()
    expectations.saw_created(OWNER_KEY)
    expectations.expect(OWNER_KEY, creations=1)
    assert not expectations.are_met(OWNER_KEY)
    cache._store(("s", "a"), Change(None, _pod("a")))
    cache._store(("s", "b"), Change(None, _pod("b")))
    expectations.expect(OWNER_KEY, creations=1)
    assert not expectations.are_met(OWNER_KEY)


def test_after_five_minutes_the_cache_is_the_truth() -> None:
    expectations, _, clock = _staged()
    expectations.expect(OWNER_KEY, creations=1, deletions=["a"])
    clock.forward(299)
    assert not expectations.are_met(OWNER_KEY)
    clock.forward(2)
    assert expectations.are_met(OWNER_KEY)


def test_an_owner_that_is_gone_leaves_nothing_to_its_namesake() -> None:
    expectations, _, _ = _staged()
    expectations.expect(OWNER_KEY, creations=1)
    expectations.forget(OWNER_KEY)
    assert expectations.are_met(OWNER_KEY)
