"""`kubectl --as`: an administrator may ask as another user, with that user's rights; the others may not."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.apiserver.served import PODS, Answer, Json, Served

WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAY: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
KNOWN: Final = "system:authenticated"


def ask(api: Served, *headers: tuple[str, str], method: str = "GET", path: str = PODS, **more: Any) -> Answer:
    return api(method, path, repeated=headers, **more)


def user_info(api: Served, *headers: tuple[str, str]) -> Json:
    answer = ask(api, *headers, method="POST", path=WHO, body={})
    assert answer.code == 201, answer.content
    found: Json = answer.body["status"]["userInfo"]
    return found


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("Impersonate-User", "bob")], {"username": "bob", "groups": [KNOWN]}),
        (
            [("Impersonate-User", "bob"), ("Impersonate-Group", "b"), ("Impersonate-Group", "a")],
            {"username": "bob", "groups": ["b", "a", KNOWN]},
        ),
        (
            [
                ("Impersonate-User", "jürgen"),
                ("Impersonate-Uid", "u-1"),
                ("Impersonate-Extra-Scopes", "view"),
                ("Impersonate-Extra-scopes", "write"),
                ("Impersonate-Extra-Acme.com%2Fproject", "x"),
            ],
            {
                "username": "jürgen",
                "uid": "u-1",
                "groups": [KNOWN],
                "extra": {"scopes": ["view", "write"], "acme.com/project": ["x"]},
            },
        ),
        (
            [("Impersonate-User", "system:serviceaccount:default:builder")],
            {
                "username": "system:serviceaccount:default:builder",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:default", KNOWN],
            },
        ),
        (
            [("Impersonate-User", "system:serviceaccount:default:builder"), ("Impersonate-Group", "g")],
            {"username": "system:serviceaccount:default:builder", "groups": ["g", KNOWN]},
        ),
        # The first name counts, and an empty one is none.
        ([("Impersonate-User", "bob"), ("Impersonate-User", "ann")], {"username": "bob", "groups": [KNOWN]}),
        ([("Impersonate-User", "")], {"username": "admin", "groups": ["system:masters", KNOWN]}),
    ],
)
def test_an_admin_is_the_user_that_it_asks_to_be(api: Served, headers: list[tuple[str, str]], expected: Json) -> None:
    assert user_info(api, *headers) == expected


@pytest.mark.parametrize(
    ("name", "groups", "may"),
    [
        ("viewer", (), "list"),
        ("bob", ("jettison:viewers",), "list"),
        ("evictor", (), "evict"),
        ("bob", ("jettison:evictors",), "evict"),
        ("admin", (), "everything"),
        ("bob", ("system:masters",), "everything"),
        ("viewer", ("system:masters",), "everything"),
        ("system:node:n1", (), "node"),
        ("system:node:n9", ("system:nodes",), "node"),
        ("system:node:n9", (), ""),
        ("bob", ("system:nodes",), ""),
        ("bob", (), ""),
        ("system:serviceaccount:default:x", (), ""),
        ("system:anonymous", (), "nothing"),
        ("bob", ("system:unauthenticated",), "nothing"),
    ],
)
def test_the_rights_are_those_of_the_other(api: Served, name: str, groups: tuple[str, ...], may: str) -> None:
    def code(method: str, path: str, body: Any = None, query: str = "") -> int:
        headers = [("Impersonate-User", name), *(("Impersonate-Group", each) for each in groups)]
        return ask(api, *headers, method=method, path=path, body=body, query=query).code

    own = f"fieldSelector=spec.nodeName%3D{name.rpartition(':')[2]}"
    found = {
        "list": code("GET", PODS) == 200,
        "own": code("GET", PODS, query=own) == 200,
        "evict": code("POST", f"{PODS}/x/eviction", {"metadata": {"name": "x"}}) == 404,
        "delete": code("DELETE", f"{PODS}/x") == 404,
        "ask": code("POST", WHO, {}) == 201,
        "discover": code("GET", "/api") == 200,
    }
    known = {"ask", "discover"}
    rights = {
        "list": {"list", "own", *known},
        "evict": {"list", "own", "evict", *known},
        "everything": set(found),
        # A pod that is not there is no node's: its eviction is a 404, too.
        "node": {"own", "evict", "delete", *known},
        "": known,
        "nothing": set(),
    }
    assert {right for right, is_given in found.items() if is_given} == rights[may]


def test_an_impersonated_anonymous_is_as_anonymous_as_any(api: Served) -> None:
    answer = ask(api, ("Impersonate-User", "system:anonymous"), path="/healthz")
    assert answer.code == 200
    answer = ask(api, ("Impersonate-User", "system:anonymous"))
    assert 'User "system:anonymous" cannot list resource "pods"' in answer.message


@pytest.mark.parametrize("token", ["viewer", "evictor", "node"])
@pytest.mark.parametrize(
    ("wanted", "target", "scope"),
    [
        ("admin", 'users "admin"', 'resource "users" in API group "" at the cluster scope'),
        ("viewer", 'users "viewer"', 'resource "users" in API group "" at the cluster scope'),
        (
            "system:serviceaccount:a:b",
            'serviceaccounts "b"',
            'resource "serviceaccounts" in API group "" in the namespace "a"',
        ),
        (
            "system:serviceaccount:a:b:c",
            'users "system:serviceaccount:a:b:c"',
            'resource "users" in API group "" at the cluster scope',
        ),
    ],
)
def test_others_may_not(api: Served, token: str, wanted: str, target: str, scope: str) -> None:
    user = "system:node:n1" if token == "node" else token
    expected = f'{target} is forbidden: User "{user}" cannot impersonate {scope}'
    for path in (PODS, "/healthz", "/api", "/no/such/path"):
        answer = ask(api, ("Impersonate-User", wanted), path=path, token=token)
        assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
        # The rules for nodes have something to add.
        assert answer.message.startswith(expected)
        assert answer.message == expected or token == "node"


def test_not_even_to_be_itself_or_less(api: Served) -> None:
    for wanted in ("viewer", "system:anonymous"):
        headers = [("Impersonate-User", wanted), ("Impersonate-Group", "system:masters")]
        assert ask(api, *headers, token="viewer").code == 403
    wrong = ask(api, ("Impersonate-User", "admin"), token="wrong")
    assert (wrong.code, wrong.message) == (401, "Unauthorized")
    anonymous = ask(api, ("Impersonate-User", "admin"), headers={"authorization": ""})
    assert 'User "system:anonymous" cannot impersonate resource "users"' in anonymous.message


@pytest.mark.parametrize(
    ("header", "value", "shown"),
    [
        ("Impersonate-Group", "system:masters", "{Group  system:masters    }"),
        ("Impersonate-Uid", "u", "{UID  u  authentication.k8s.io/v1  }"),
        ("Impersonate-Extra-Scope", "v", "{UserExtra  v  authentication.k8s.io/v1  scope}"),
    ],
)
@pytest.mark.parametrize("token", ["admin", "viewer"])
def test_a_user_is_needed(api: Served, header: str, value: str, shown: str, token: str) -> None:
    for more in ([], [("Impersonate-User", "")]):
        answer = ask(api, (header, value), *more, token=token)
        assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
        assert answer.message == f"requested [{shown}] without impersonating a user"


def test_may_i_impersonate(api: Served) -> None:
    about = {"spec": {"resourceAttributes": {"verb": "impersonate", "resource": "users", "name": "x"}}}
    found = {
        role: api.post(MAY, about, token=role).body["status"]["allowed"] for role in ("admin", "viewer", "evictor")
    }
    assert found == {"admin": True, "viewer": False, "evictor": False}
    asked = ask(api, ("Impersonate-User", "viewer"), method="POST", path=MAY, body=about)
    assert asked.body["status"]["allowed"] is False
