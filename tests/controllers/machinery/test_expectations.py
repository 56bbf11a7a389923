"""What was asked for is waited for, and no longer than five minutes."""

from __future__ import annotations

from jettison.controllers.machinery.expectations import Expectations
from jettison.controllers.replica_set import OWNER_KIND
from jettison.runtimes.kube.cache import Cache, Change
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.kube.kubeconfig import Access
from tests.controllers.staging import ForwardClock, Json

OWNER = ("s", "rs")


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
    assert expectations.are_met(OWNER)
    expectations.expect(OWNER, creations=2)
    cache._store(("s", "a"), Change(None, _pod("a")))
    assert not expectations.are_met(OWNER)
    # A change or a resync of one that was seen is no other one.
    cache._store(("s", "a"), Change(_pod("a"), _pod("a")))
    assert not expectations.are_met(OWNER)
    cache._store(("s", "b"), Change(None, _pod("b")))
    assert expectations.are_met(OWNER)


def test_the_end_of_a_pod_is_expected_of_that_very_pod() -> None:
    expectations, cache, _ = _staged()
    expectations.expect(OWNER, deletions=["a", "b"])
    cache._store(("s", "c"), Change(_pod("c"), None))
    cache._store(("s", "a"), Change(_pod("a"), _pod("a", is_going=True)))
    assert not expectations.are_met(OWNER)
    cache._store(("s", "b"), Change(_pod("b"), None))
    assert expectations.are_met(OWNER)


def test_one_that_came_unexpected_is_no_loan() -> None:
    expectations, cache, _ = _staged()
    expectations.saw_created(OWNER)
    expectations.expect(OWNER, creations=1)
    assert not expectations.are_met(OWNER)
    cache._store(("s", "a"), Change(None, _pod("a")))
    cache._store(("s", "b"), Change(None, _pod("b")))
    expectations.expect(OWNER, creations=1)
    assert not expectations.are_met(OWNER)


def test_after_five_minutes_the_cache_is_the_truth() -> None:
    expectations, _, clock = _staged()
    expectations.expect(OWNER, creations=1, deletions=["a"])
    clock.forward(299)
    assert not expectations.are_met(OWNER)
    clock.forward(2)
    assert expectations.are_met(OWNER)


def test_an_owner_that_is_gone_leaves_nothing_to_its_namesake() -> None:
    expectations, _, _ = _staged()
    expectations.expect(OWNER, creations=1)
    expectations.forget(OWNER)
    assert expectations.are_met(OWNER)
