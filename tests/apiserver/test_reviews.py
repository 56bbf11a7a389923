"""What may I, what may he, who am I: the answers behind `kubectl auth`."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.apiserver.auth import ANONYMOUS, Authenticator, User
from jettison.apiserver.resources import (
    ACCESS_REVIEWS,
    LOCAL_ACCESS_REVIEWS,
    SELF_ACCESS_REVIEWS,
    SELF_REVIEWS,
    SELF_RULES_REVIEWS,
    Resource,
)
from jettison.apiserver.reviews import answer_review
from jettison.apiserver.tokens import TokenEntry
from jettison.errors import ApiError

KNOWN = Authenticator([TokenEntry("b" * 16, "bob", "evictor")])
ADMIN, EVICTOR = User("ann", ("system:masters",), "admin"), User("bob", ("jettison:evictors",), "evictor")
EVICT = {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "eviction", "namespace": "a"}}
DELETE = {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "a"}}
ALL = {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}


def status(resource: Resource, spec: dict[str, Any], asker: User = ADMIN) -> dict[str, Any]:
    answered = answer_review(resource, {"spec": spec}, asker, KNOWN)
    assert answered["spec"] == spec
    found: dict[str, Any] = answered["status"]
    return found


@pytest.mark.parametrize(
    ("asker", "spec", "expected"),
    [
        (EVICTOR, EVICT, True),
        (EVICTOR, DELETE, False),
        (EVICTOR, ALL, False),
        (ADMIN, ALL, True),
        (ANONYMOUS, EVICT, False),
        (EVICTOR, {"nonResourceAttributes": {"verb": "get", "path": "/api"}}, True),
        (EVICTOR, {"nonResourceAttributes": {"verb": "get", "path": "/secret"}}, False),
    ],
)
def test_may_i(asker: User, spec: dict[str, Any], expected: bool) -> None:
    assert status(SELF_ACCESS_REVIEWS, spec, asker)["allowed"] is expected


@pytest.mark.parametrize("resource", [ACCESS_REVIEWS, LOCAL_ACCESS_REVIEWS])
def test_may_he(resource: Resource) -> None:
    assert status(resource, {"user": "bob", **EVICT}) == {"allowed": True}
    assert status(resource, {"user": "bob", **DELETE}) == {"allowed": False}
    assert status(resource, {"user": "carl", **EVICT}) == {"allowed": False}
    assert status(resource, {"groups": ["system:masters"], **ALL}) == {"allowed": True}


@pytest.mark.parametrize("spec", [{}, {**EVICT, "nonResourceAttributes": {"verb": "get", "path": "/"}}])
def test_a_question_is_about_exactly_one_thing(spec: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match="exactly one of nonResourceAttributes or resourceAttributes") as caught:
        status(SELF_ACCESS_REVIEWS, spec)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


def test_a_question_about_nobody_makes_no_sense() -> None:
    with pytest.raises(ApiError, match="at least one of user or group must be specified"):
        status(ACCESS_REVIEWS, dict(EVICT))


def test_the_list_of_what_i_may() -> None:
    listed = status(SELF_RULES_REVIEWS, {"namespace": "a"}, EVICTOR)
    assert {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"]} in listed["resourceRules"]
    apps = ["daemonsets", "deployments", "replicasets", "statefulsets"]
    assert {"verbs": ["get", "list", "watch"], "apiGroups": ["apps"], "resources": apps} in listed["resourceRules"]
    assert listed["incomplete"] is False
    everything = status(SELF_RULES_REVIEWS, {}, ADMIN)
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in everything["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in everything["nonResourceRules"]


def test_who_am_i() -> None:
    assert answer_review(SELF_REVIEWS, {}, EVICTOR, KNOWN) == {
        "metadata": {},
        "status": {"userInfo": {"username": "bob", "groups": ["jettison:evictors"]}},
    }
