"""Which user asks, what it may do, and the refusal when it may not; and the file of tokens."""

from __future__ import annotations

import base64
import json
import stat
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lightkube.config.kubeconfig import KubeConfig

from jettison.apiserver.access.account_tokens import AccountTokens
from jettison.apiserver.access.auth import ANONYMOUS, Authenticator, TokenEntry, User, ensure_tokens, write_kubeconfig
from jettison.apiserver.access.authorization import Authorizer, denied
from jettison.apiserver.access.roles import ROLES, Access
from jettison.apiserver.objects.resources import RESOURCES, Resource
from jettison.apiserver.storage.indexes import Lookup
from jettison.apiserver.storage.stored import Stored
from jettison.clock import SystemClock
from jettison.errors import InputError

ADMIN, VIEWER, EVICTOR = (User(name, (), name) for name in ("admin", "viewer", "evictor"))
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")

EVERY_ACCESS = [
    Access(verb, row.group, row.plural, part, "ns" if row.is_namespaced else "", "x")
    for row in RESOURCES
    for part in ("", *(each.name for each in row.subresources))
    for verb in (*READ, *WRITE)
]


class NothingStored:
    """A store for users whose rights do not depend on it."""

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        del resource, namespace, name
        return None

    def list(
        self, resource: Resource, namespace: str | None = None, lookup: Lookup | None = None
    ) -> tuple[list[Stored], int]:
        del resource, namespace, lookup
        return [], 1

    def is_set_aside(self, resource: Resource, namespace: str, name: str) -> bool:
        del resource, namespace, name
        return False


def account_tokens() -> AccountTokens:
    return AccountTokens(b"k" * 32, NothingStored(), SystemClock())


def is_allowed(user: User, access: Access) -> bool:
    return Authorizer(NothingStored()).judge(user, access).is_allowed


def authenticator() -> Authenticator:
    entries = [TokenEntry("a" * 16, "ann", "admin"), TokenEntry("b" * 16, "bob", "viewer", ("team",))]
    return Authenticator(entries, account_tokens())


def test_a_token_names_a_user_with_groups() -> None:
    known = authenticator()
    assert known.authenticate(f"Bearer {'a' * 16}") == User("ann", ("system:masters", "system:authenticated"), "admin")
    bob = known.authenticate(f"bearer {'b' * 16}")
    assert bob == User("bob", ("jettison:viewers", "team", "system:authenticated"), "viewer")


@pytest.mark.parametrize("header", [None, "", "Basic YTpi", "Bearer", "Bearer ", "bearer\t" + "a" * 16, "a" * 16])
def test_anything_but_a_bearer_token_is_no_user(header: str | None) -> None:
    assert authenticator().authenticate(header) is ANONYMOUS


@pytest.mark.parametrize("token", ["a" * 15, "a" * 17, "A" * 16, "é", "\udcff", "a" * 10_000])
def test_a_wrong_token_is_refused(token: str) -> None:
    assert authenticator().authenticate(f"Bearer {token}") is None


@given(st.text(st.characters(codec="latin-1")))
def test_no_header_upsets_it_or_opens_a_door(header: str) -> None:
    assert authenticator().authenticate(header) in (None, ANONYMOUS)


def test_the_admin_may_do_everything_and_an_anonymous_user_nothing() -> None:
    assert all(is_allowed(ADMIN, access) for access in EVERY_ACCESS)
    assert not any(is_allowed(ANONYMOUS, access) for access in EVERY_ACCESS)


def test_a_viewer_reads_all_but_secrets_and_streams_and_writes_only_questions_about_itself() -> None:
    allowed = {access for access in EVERY_ACCESS if is_allowed(VIEWER, access)}
    assert {access.resource for access in allowed if access.verb not in READ} == {
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
    }
    streams = ("attach", "exec", "portforward", "proxy")
    readable = {
        access
        for access in EVERY_ACCESS
        if access.verb in READ and access.resource != "secrets" and access.subresource not in streams
    }
    assert {access for access in allowed if access.verb in READ} == readable


def test_an_unknown_user_may_ask_about_itself_and_no_more() -> None:
    unknown = User("carl", ("system:authenticated",), "")
    allowed = [access.resource for access in EVERY_ACCESS if is_allowed(unknown, access)]
    assert sorted(allowed) == ["selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"]
    assert is_allowed(unknown, Access("get", path="/api"))


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


def test_a_node_role_without_a_nodes_name_owns_nothing() -> None:
    nameless = User("box", (), "node")
    assert nameless.node == ""
    allowed = {access.target for access in EVERY_ACCESS if is_allowed(nameless, access)}
    assert not any(is_allowed(nameless, Access(verb, "", "nodes")) for verb in (*READ, *WRITE))
    assert not {"nodes", "pods", "leases.coordination.k8s.io", "pods/eviction", "pods/status"} & allowed
    why = Authorizer(NothingStored()).judge(nameless, Access("create", "", "pods", namespace="a")).reason
    assert why == 'unknown node for user "box"'


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz", "/version", "/version/"])
def test_health_and_version_are_open(path: str) -> None:
    assert is_allowed(ANONYMOUS, Access("get", path=path))
    assert not is_allowed(ANONYMOUS, Access("post", path=path))


@pytest.mark.parametrize("path", ["/api", "/apis/", "/apis/policy/v1", "/openapi/v2", "/openapi/v3/api/v1"])
def test_the_rest_needs_a_user(path: str) -> None:
    assert not is_allowed(ANONYMOUS, Access("get", path=path))
    assert is_allowed(VIEWER, Access("get", path=path))


@pytest.mark.parametrize("path", ["/", "", "/debug", "/apix", "/healthz/../api", "/version/x"])
def test_an_unknown_path_is_for_admins(path: str) -> None:
    assert not is_allowed(VIEWER, Access("get", path=path))
    assert is_allowed(ADMIN, Access("get", path=path))


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (
            Access("list", "", "pods", namespace="a"),
            'pods is forbidden: User "<b>" cannot list resource "pods" in API group "" in the namespace "a"',
        ),
        (
            Access("patch", "apps", "deployments", "scale", "a", "x"),
            (
                'deployments.apps "x" is forbidden: User "<b>" cannot patch resource "deployments/scale" '
                'in API group "apps" in the namespace "a"'
            ),
        ),
        (
            Access("get", "", "nodes", name="n"),
            'nodes "n" is forbidden: User "<b>" cannot get resource "nodes" in API group "" at the cluster scope',
        ),
        (Access("get", path="/foo"), 'forbidden: User "<b>" cannot get path "/foo"'),
    ],
)
def test_the_sentences_are_kubernetes(access: Access, expected: str) -> None:
    error = denied(User("<b>", (), ""), access)
    # What looks like HTML is made harmless, as upstream does.
    assert error.message == expected.replace("<b>", "&lt;b&gt;")
    assert (error.code, error.reason) == (403, "Forbidden")


def test_every_grant_names_something_that_exists() -> None:
    known = {access.target for access in EVERY_ACCESS} | {"*"}
    for name, grants in ROLES.items():
        for grant in grants:
            assert grant.resources <= known, name
            assert grant.verbs <= {*READ, *WRITE, "*"}, name


WANTED = {"admin": "admin", "viewer": "viewer"}
GOOD = {"token": "0123456789abcdef", "user": "ann", "role": "viewer"}


def written(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"tokens": entries}))
    return path


def test_tokens_are_long_different_and_private(tmp_path: Path) -> None:
    entries = ensure_tokens(tmp_path / "tokens.json", WANTED)
    assert [(entry.user, entry.role) for entry in entries] == [("admin", "admin"), ("viewer", "viewer")]
    assert all(len(entry.token) == 43 for entry in entries)
    assert len({entry.token for entry in entries}) == 2
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600


def test_a_restart_keeps_them_and_adds_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    first = ensure_tokens(path, WANTED)
    assert ensure_tokens(path, WANTED) == first
    assert ensure_tokens(path, {**WANTED, "system:node:a": "node"})[:2] == first
    assert len(ensure_tokens(path, {})) == 3


def test_an_operator_may_write_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "tokens.json", {**GOOD, "groups": ["team"]})
    assert ensure_tokens(path, {"admin": "admin"})[0].groups == ("team",)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"role": "root"}, "has the role `root`, expected admin, viewer, evictor, node"),
        ({"user": ""}, "a token has no user"),
        ({"token": "short"}, "16 printable characters or more"),
        ({"token": "with a blank inside"}, "16 printable characters or more"),
        ({"token": "ümlautümlautümlaut"}, "16 printable characters or more"),
        ({"extra": 1}, "not a file of tokens"),
        ({"token": 7}, "not a file of tokens"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        ensure_tokens(written(tmp_path / "tokens.json", GOOD | change), {})


def test_a_token_belongs_to_one_user(tmp_path: Path) -> None:
    path = written(tmp_path / "tokens.json", GOOD, GOOD | {"user": "bob"})
    with pytest.raises(InputError, match="the token of `bob` is that of another user, too"):
        ensure_tokens(path, {})


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"])
def test_another_file_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokens.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a file of tokens"):
        ensure_tokens(path, WANTED)
    assert path.read_bytes() == content


def test_clients_read_a_kubeconfig_and_other_users_cannot(tmp_path: Path) -> None:
    path = tmp_path / "ann.kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:6443", b"PEM", "ann", "t" * 43)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = KubeConfig.from_file(path).get()
    assert config is not None
    assert config.user is not None
    assert (config.cluster.server, config.user.token) == ("https://127.0.0.1:6443", "t" * 43)
    cluster = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"


def test_a_second_kubeconfig_replaces_the_first(tmp_path: Path) -> None:
    for token in ("a" * 43, "b" * 43):
        write_kubeconfig(tmp_path / "x", "https://127.0.0.1:1", b"", "ann", token)
    assert "b" * 43 in (tmp_path / "x").read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
