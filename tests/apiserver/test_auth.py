"""Who is asking, what he may do, and the sentences he gets if not."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.apiserver.auth import ANONYMOUS, Authenticator, User, denial, is_allowed, node_refusal
from jettison.apiserver.resources import RESOURCES
from jettison.apiserver.roles import ROLES, Access
from jettison.apiserver.tokens import TokenEntry

ADMIN, VIEWER, EVICTOR = (User(name, (), name) for name in ("admin", "viewer", "evictor"))
NODE = User("system:node:n1", (), "node")
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")

EVERY_ACCESS = [
    Access(verb, row.group, row.plural, part, "ns" if row.is_namespaced else "", "x")
    for row in RESOURCES
    for part in ("", *(each.name for each in row.subresources))
    for verb in (*READ, *WRITE)
]


def authenticator() -> Authenticator:
    return Authenticator([TokenEntry("a" * 16, "ann", "admin"), TokenEntry("b" * 16, "bob", "viewer", ("team",))])


def test_a_token_names_a_user_with_groups() -> None:
    known = authenticator()
    assert known.authenticate(f"Bearer {'a' * 16}") == User("ann", ("system:masters", "system:authenticated"), "admin")
    bob = known.authenticate(f"bearer {'b' * 16}")
    assert bob == User("bob", ("jettison:viewers", "team", "system:authenticated"), "viewer")
    assert known.named("bob") == bob
    assert known.named("carl") is None


@pytest.mark.parametrize("header", [None, "", "Basic YTpi", "Bearer", "Bearer ", "bearer\t" + "a" * 16, "a" * 16])
def test_anything_but_a_bearer_token_is_nobody(header: str | None) -> None:
    assert authenticator().authenticate(header) is ANONYMOUS


@pytest.mark.parametrize("token", ["a" * 15, "a" * 17, "A" * 16, "é", "\udcff", "a" * 10_000])
def test_a_wrong_token_is_refused(token: str) -> None:
    assert authenticator().authenticate(f"Bearer {token}") is None


@given(st.text(st.characters(codec="latin-1")))
def test_no_header_upsets_it_or_opens_a_door(header: str) -> None:
    assert authenticator().authenticate(header) in (None, ANONYMOUS)


def test_the_admin_may_do_everything_and_nobody_nothing() -> None:
    assert all(is_allowed(ADMIN, access) for access in EVERY_ACCESS)
    assert not any(is_allowed(ANONYMOUS, access) for access in EVERY_ACCESS)


def test_a_viewer_reads_everything_and_writes_only_questions_about_himself() -> None:
    allowed = {access for access in EVERY_ACCESS if is_allowed(VIEWER, access)}
    assert {access.resource for access in allowed if access.verb not in READ} == {
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
    }
    assert all(access in allowed for access in EVERY_ACCESS if access.verb in READ)


def test_an_evictor_evicts_and_cordons_but_cannot_delete() -> None:
    written = {
        (access.verb, access.target) for access in EVERY_ACCESS if access.verb in WRITE and is_allowed(EVICTOR, access)
    }
    assert written - {(verb, target) for verb, target in written if "review" in target} == {
        ("create", "pods/eviction"),
        ("patch", "nodes"),
        *product(("create", "patch"), ("events", "events.events.k8s.io")),
    }
    assert is_allowed(EVICTOR, Access("get", "apps", "daemonsets", namespace="a", name="b"))


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (Access("patch", "", "nodes", name="n1"), True),
        (Access("patch", "", "nodes", "status", name="n1"), True),
        (Access("patch", "", "nodes", "status", name="n2"), False),
        (Access("create", "", "nodes"), True),
        (Access("delete", "", "nodes", name="n1"), False),
        (Access("get", "", "nodes", name="n2"), True),
        (Access("delete", "", "pods", namespace="a", name="p"), True),
        (Access("create", "", "pods", "eviction", "a", "p"), False),
        (Access("patch", "", "pods", "status", "a", "p"), True),
        (Access("patch", "", "pods", namespace="a", name="p"), False),
        (Access("update", "coordination.k8s.io", "leases", namespace="kube-node-lease", name="n1"), True),
        (Access("update", "coordination.k8s.io", "leases", namespace="kube-node-lease", name="n2"), False),
        (Access("update", "coordination.k8s.io", "leases", namespace="default", name="n1"), False),
        (Access("create", "", "events", namespace="a"), True),
    ],
)
def test_a_node_speaks_for_itself(access: Access, expected: bool) -> None:
    assert is_allowed(NODE, access) is expected


@pytest.mark.parametrize(
    ("access", "target", "refusal"),
    [
        (Access("delete", "", "pods"), {"spec": {"nodeName": "n1"}}, None),
        (Access("get", "", "pods"), {"spec": {"nodeName": "n2"}}, None),
        (
            Access("delete", "", "pods"),
            {"spec": {"nodeName": "n2"}},
            'node "n1" can only delete pods with spec.nodeName set to itself',
        ),
        (
            Access("patch", "", "pods", "status"),
            {"spec": {}},
            'node "n1" can only update pod status for pods with spec.nodeName set to itself',
        ),
        (Access("create", "", "nodes"), {"metadata": {"name": "n1"}}, None),
        (
            Access("create", "", "nodes"),
            {"metadata": {"name": "n2"}},
            'node "n1" is not allowed to modify node "n2"',
        ),
        (
            Access("create", "coordination.k8s.io", "leases"),
            {"metadata": {"name": "n2"}},
            'node "n1" can only access node lease with the same name as the requesting node',
        ),
    ],
)
def test_a_node_touches_only_what_is_its_own(access: Access, target: dict[str, object], refusal: str | None) -> None:
    assert node_refusal(NODE, access, target) == refusal
    assert node_refusal(ADMIN, access, target) is None


def test_a_node_role_without_a_nodes_name_owns_nothing() -> None:
    nameless = User("box", (), "node")
    assert nameless.node == ""
    assert not is_allowed(nameless, Access("patch", "", "nodes", name="n1"))


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/version", "/version/"])
def test_health_and_version_are_open(path: str) -> None:
    assert is_allowed(ANONYMOUS, Access("get", path=path))
    assert not is_allowed(ANONYMOUS, Access("post", path=path))


@pytest.mark.parametrize("path", ["/api", "/apis/", "/apis/policy/v1", "/openapi/v2", "/openapi/v3/api/v1", "/livez"])
def test_the_rest_needs_a_user(path: str) -> None:
    assert not is_allowed(ANONYMOUS, Access("get", path=path))
    assert is_allowed(VIEWER, Access("get", path=path))


@pytest.mark.parametrize("path", ["/", "", "/debug", "/apix", "/healthz/../api", "/version/x"])
def test_an_unknown_path_is_for_admins(path: str) -> None:
    assert not is_allowed(VIEWER, Access("get", path=path))
    assert is_allowed(ADMIN, Access("get", path=path))


def test_the_sentences_are_kubernetes() -> None:
    user = User("system:anonymous", (), "")
    assert denial(user, Access("list", "", "pods", namespace="a")) == (
        'User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "a"'
    )
    assert denial(user, Access("patch", "apps", "deployments", "scale", "a", "x")) == (
        'User "system:anonymous" cannot patch resource "deployments/scale" in API group "apps" in the namespace "a"'
    )
    assert denial(user, Access("get", "", "nodes", name="n")) == (
        'User "system:anonymous" cannot get resource "nodes" in API group "" at the cluster scope'
    )
    assert denial(user, Access("get", path="/foo")) == 'User "system:anonymous" cannot get path "/foo"'


def test_every_grant_names_something_that_exists() -> None:
    known = {access.target for access in EVERY_ACCESS} | {"*"}
    for name, grants in ROLES.items():
        for grant in grants:
            assert grant.resources <= known, name
            assert grant.verbs <= {*READ, *WRITE, "*"}, name
