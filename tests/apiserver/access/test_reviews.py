"""The answers behind `kubectl auth can-i`, with and without `--as`, and `kubectl auth whoami`."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.apiserver.access.account_tokens import AUDIENCE
from jettison.apiserver.access.auth import ANONYMOUS, Authenticator, TokenEntry, User
from jettison.apiserver.access.authorization import Authorizer, answer_review
from jettison.apiserver.objects.resources import (
    ACCESS_REVIEWS,
    LOCAL_ACCESS_REVIEWS,
    SELF_ACCESS_REVIEWS,
    SELF_REVIEWS,
    SELF_RULES_REVIEWS,
    TOKEN_REVIEWS,
    Resource,
)
from jettison.errors import ApiError
from tests.apiserver.access.test_auth import NothingStored, account_tokens
from tests.apiserver.served import Served

RIGHTS = Authorizer(NothingStored())
KNOWN = Authenticator([TokenEntry("b" * 16, "bob", "evictor")], account_tokens())
ADMIN, EVICTOR = User("ann", ("system:masters",), "admin"), User("bob", ("jettison:evictors",), "evictor")
NOW = "2026-01-01T00:00:00Z"
NODE = User("system:node:n1", ("system:nodes",), "node")
EVICT = {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "eviction", "namespace": "a"}}
DELETE = {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "a"}}
ALL = {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}


def status(resource: Resource, spec: dict[str, Any], asker: User = ADMIN) -> dict[str, Any]:
    answered = answer_review(resource, {"spec": spec}, asker, KNOWN, RIGHTS, NOW)
    assert answered["spec"] == ({} if resource is SELF_RULES_REVIEWS else spec)
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


def test_access_review() -> None:
    assert status(ACCESS_REVIEWS, {"user": "bob", **EVICT}) == {"allowed": True}
    assert status(ACCESS_REVIEWS, {"user": "bob", **DELETE}) == {"allowed": False}
    assert status(ACCESS_REVIEWS, {"user": "carl", **EVICT}) == {"allowed": False}
    assert status(ACCESS_REVIEWS, {"groups": ["system:masters"], **ALL}) == {"allowed": True}


def test_access_review_in_this_namespace() -> None:
    review = {"metadata": {"namespace": "a"}, "spec": {"user": "bob", **EVICT}}
    assert answer_review(LOCAL_ACCESS_REVIEWS, review, ADMIN, KNOWN, RIGHTS, NOW)["status"] == {"allowed": True}


PATH = {"nonResourceAttributes": {"verb": "get", "path": "/"}}
NEITHER = (
    "spec.resourceAttributes: Invalid value: null: "
    "exactly one of nonResourceAttributes or resourceAttributes must be specified"
)
BOTH = (
    'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: '
    "cannot be specified in combination with resourceAttributes"
)
NO_SUBJECT = 'spec.user: Invalid value: "": at least one of user or group must be specified'
ELSEWHERE = 'spec.resourceAttributes.namespace: Invalid value: "a": must match metadata.namespace'
NO_PATH = 'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: disallowed on this kind of request'


@pytest.mark.parametrize(
    ("resource", "review", "expected"),
    [
        (SELF_ACCESS_REVIEWS, {"spec": {}}, NEITHER),
        (SELF_ACCESS_REVIEWS, {"spec": {**EVICT, **PATH}}, BOTH),
        (ACCESS_REVIEWS, {"spec": EVICT}, NO_SUBJECT),
        (ACCESS_REVIEWS, {"spec": {**EVICT, **PATH}}, f"[{BOTH}, {NO_SUBJECT}]"),
        (LOCAL_ACCESS_REVIEWS, {"spec": {"user": "bob", **EVICT}}, ELSEWHERE),
        (LOCAL_ACCESS_REVIEWS, {"spec": {"user": "bob", **PATH}}, NO_PATH),
        (
            SELF_ACCESS_REVIEWS,
            {"metadata": {"name": "x"}, "spec": EVICT},
            'metadata: Invalid value: {"name":"x"}: must be empty',
        ),
    ],
)
def test_a_question_that_makes_no_sense(resource: Resource, review: dict[str, Any], expected: str) -> None:
    with pytest.raises(ApiError) as caught:
        answer_review(resource, review, ADMIN, KNOWN, RIGHTS, NOW)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == f'.authorization.k8s.io "" is invalid: {expected}'
    assert set(caught.value.details or ()) == {"group", "causes"}


def test_the_list_of_what_i_may() -> None:
    listed = status(SELF_RULES_REVIEWS, {"namespace": "a"}, EVICTOR)
    assert {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"]} in listed["resourceRules"]
    apps = ["daemonsets", "deployments", "replicasets", "statefulsets"]
    assert {"verbs": ["get", "list", "watch"], "apiGroups": ["apps"], "resources": apps} in listed["resourceRules"]
    assert {"verbs": ["patch"], "apiGroups": [""], "resources": ["nodes"]} in listed["resourceRules"]
    assert listed["incomplete"] is True
    assert "patch of nodes may change only spec.unschedulable" in listed["evaluationError"]
    everything = status(SELF_RULES_REVIEWS, {"namespace": "a"}, ADMIN)
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in everything["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in everything["nonResourceRules"]
    assert (everything["incomplete"], "evaluationError" in everything) == (False, False)


def test_the_list_of_what_a_node_may_is_not_whole() -> None:
    listed = status(SELF_RULES_REVIEWS, {"namespace": "a"}, NODE)
    assert listed["evaluationError"] == "node authorizer does not support user rule resolution"
    assert listed["incomplete"] is True
    named = {name for rule in listed["resourceRules"] for name in rule["resources"]}
    assert not named & {"pods", "nodes", "leases", "serviceaccounts"}


def test_yes_but_only_of_these_fields() -> None:
    about = {"resourceAttributes": {"verb": "patch", "resource": "nodes", "name": "n1"}}
    limited = {"allowed": True, "reason": "only spec.unschedulable may be changed"}
    assert status(SELF_ACCESS_REVIEWS, about, EVICTOR) == limited
    assert status(ACCESS_REVIEWS, {"user": "bob", **about}) == limited
    assert status(SELF_ACCESS_REVIEWS, about, ADMIN) == {"allowed": True}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"rawSelector": "spec.nodeName=n1"}, True),
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}, True),
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1", "n2"]}]}, False),
        ({"requirements": [{"key": "spec.nodeName", "operator": "NotIn", "values": ["n1"]}]}, False),
        ({"rawSelector": "spec.nodeName=n2"}, False),
        ({"rawSelector": "=,=="}, False),
        ({}, False),
    ],
)
def test_may_a_node_list_these(selector: dict[str, Any], expected: bool) -> None:
    about = {"resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": selector}}
    assert status(SELF_ACCESS_REVIEWS, about, NODE) == {"allowed": expected}


def test_self_subject_review() -> None:
    assert answer_review(SELF_REVIEWS, {}, EVICTOR, KNOWN, RIGHTS, NOW) == {
        "metadata": {"creationTimestamp": NOW},
        "status": {"userInfo": {"username": "bob", "groups": ["jettison:evictors"]}},
    }


def test_whose_token_is_this() -> None:
    token = "b" * 16
    assert status(TOKEN_REVIEWS, {"token": token}) == {
        "authenticated": True,
        "user": {"username": "bob", "groups": ["jettison:evictors", "system:authenticated"]},
        "audiences": [AUDIENCE],
    }
    assert status(TOKEN_REVIEWS, {"token": token, "audiences": ["x", AUDIENCE]})["audiences"] == [AUDIENCE]
    unknown = {"user": {}, "error": "invalid bearer token"}
    assert status(TOKEN_REVIEWS, {"token": token, "audiences": ["x"]}) == unknown
    assert status(TOKEN_REVIEWS, {"token": "c" * 16}) == unknown
    with pytest.raises(ApiError, match="token is required for TokenReview in authentication"):
        status(TOKEN_REVIEWS, {"token": ""})


def test_whose_token_of_an_account_is_this(api: Served) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    made = api.post(accounts, {"metadata": {"name": "a"}}).body
    token = api.post(f"{accounts}/a/token", {"spec": {"audiences": ["one", "two"]}}).body["status"]["token"]
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    answer = api.post(path, {"spec": {"token": token, "audiences": ["two", "three", "one"]}})
    assert (answer.code, answer.body["status"]["audiences"]) == (201, ["two", "one"])
    user = answer.body["status"]["user"]
    assert (user["username"], user["uid"]) == ("system:serviceaccount:default:a", made["metadata"]["uid"])
    assert "authenticated" not in api.post(path, {"spec": {"token": token}}).body["status"]
    assert api.post(path, {"spec": {"token": token}}, token="viewer").code == 403


def test_a_local_question_is_about_the_namespace_of_its_path(api: Served) -> None:
    path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
    about = {"verb": "get", "resource": "pods", "namespace": "default"}
    answer = api.post(path, {"spec": {"user": "viewer", "resourceAttributes": about}})
    assert (answer.code, answer.body["status"]) == (201, {"allowed": True})
    answer = api.post(path, {"spec": {"user": "viewer", "resourceAttributes": {**about, "namespace": "other"}}})
    assert (answer.code, "must match metadata.namespace" in answer.message) == (422, True)


def test_a_question_says_which_fields_its_client_has_set(api: Served) -> None:
    """As any object that is posted; the answer about all rules is made anew."""
    path = "/apis/authorization.k8s.io/v1"
    (entry,) = api.post(f"{path}/selfsubjectaccessreviews", {"spec": EVICT}).body["metadata"]["managedFields"]
    named: dict[str, Any] = {f"f:{key}": {} for key in EVICT["resourceAttributes"]}
    assert entry["fieldsV1"] == {"f:spec": {"f:resourceAttributes": {".": {}, **named}}}
    answer = api.post(f"{path}/selfsubjectrulesreviews", {"spec": {"namespace": "a"}})
    assert answer.body["metadata"] == {}
