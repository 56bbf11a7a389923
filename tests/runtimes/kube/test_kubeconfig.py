"""Which server, which authority to trust, which user we are: found, merged and overridden as kubectl does it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from jettison.errors import InputError
from jettison.runtimes.kube.credentials import authentication, trust
from jettison.runtimes.kube.kubeconfig import Credentials, Overrides, load_access

NOTHING = Overrides()


def config(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "web"}}],
        "current-context": "x",
        **changes,
    }


def write(path: Path, document: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_current_context_says_server_and_user(tmp_path: Path) -> None:
    access = load_access(Overrides(kubeconfig=write(tmp_path / "k", config())), {})
    assert (access.server, access.namespace) == ("https://127.0.0.1:6443", "web")
    assert access.credentials == Credentials(token="secret")


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    users = [{"name": "u", "user": {"token": "secret", "username": "me", "password": "hidden"}}]
    access = load_access(Overrides(kubeconfig=write(tmp_path / "k", config(users=users))), {})
    assert "secret" not in repr(access)
    assert "hidden" not in repr(access)


def test_the_home_directory_is_looked_at_last(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", config())
    assert load_access(NOTHING, {"HOME": str(tmp_path)}).namespace == "web"
    other = write(tmp_path / "other", config(contexts=[{"name": "x", "context": {"cluster": "c"}}]))
    environment = {"HOME": str(tmp_path), "KUBECONFIG": other}
    assert load_access(NOTHING, environment).namespace == "default"
    explicit = write(tmp_path / "explicit", config(clusters=[{"name": "c", "cluster": {"server": "https://e:1"}}]))
    assert load_access(Overrides(kubeconfig=explicit), environment).server == "https://e:1"


def test_of_several_files_the_first_to_name_something_counts(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"clusters": config()["clusters"], "users": None})
    cluster = {"server": "https://late:1"}
    two = write(
        tmp_path / "two",
        config(clusters=[{"name": "c", "cluster": cluster}, {"name": "d", "cluster": cluster}]),
    )
    environment = {"KUBECONFIG": f"{one}:{tmp_path / 'missing'}::{two}"}
    assert load_access(NOTHING, environment).server == "https://127.0.0.1:6443"
    assert load_access(Overrides(cluster="d"), environment).server == "https://late:1"


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "ca.crt").write_bytes(b"authority")
    cluster = {"server": "https://h:1", "certificate-authority": "pki/ca.crt"}
    users = [{"name": "u", "user": {"tokenFile": "pki/token", "client-key-data": base64.b64encode(b"key").decode()}}]
    path = write(tmp_path / "k", config(clusters=[{"name": "c", "cluster": cluster}], users=users))
    access = load_access(Overrides(kubeconfig=path), {})
    assert access.authority_pem == b"authority"
    assert access.credentials == Credentials(token_file=tmp_path / "pki" / "token", key_pem=b"key")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (Overrides(server="https://o:1"), ("https://o:1", "web", "secret")),
        (Overrides(namespace="n"), ("https://127.0.0.1:6443", "n", "secret")),
        (Overrides(token="t"), ("https://127.0.0.1:6443", "web", "t")),
        (Overrides(context="y"), ("https://127.0.0.1:6443", "default", "")),
        (Overrides(user="v"), ("https://127.0.0.1:6443", "web", "other")),
    ],
)
def test_the_command_line_overrides(tmp_path: Path, overrides: Overrides, expected: tuple[str, str, str]) -> None:
    contexts = [*config()["contexts"], {"name": "y", "context": {"cluster": "c"}}]
    users = [*config()["users"], {"name": "v", "user": {"token": "other"}}]
    environment = {"KUBECONFIG": write(tmp_path / "k", config(contexts=contexts, users=users))}
    access = load_access(overrides, environment)
    assert (access.server, access.namespace, access.credentials.token) == expected


def test_files_without_a_current_context_are_named(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"contexts": config()["contexts"]})
    two = write(tmp_path / "two", config(**{"current-context": None, "contexts": [{"name": "a", "context": {}}]}))
    environment = {"KUBECONFIG": f"{one}:{two}"}
    complaint = f"kubeconfig `{one}`, `{two}` has no current-context: name one with --context, it has a, x"
    with pytest.raises(InputError) as raised:
        load_access(NOTHING, environment)
    assert str(raised.value) == complaint
    for enough in (Overrides(context="x"), Overrides(cluster="c"), Overrides(server="https://127.0.0.1:6443")):
        assert load_access(enough, environment).server == "https://127.0.0.1:6443"


def test_a_server_needs_no_file_at_all(tmp_path: Path) -> None:
    """Without a scheme it is https where anything speaks of certificates."""
    assert load_access(Overrides(server="h:1"), {}).server == "http://h:1"
    assert load_access(Overrides(server="h:1", is_insecure=True), {}).server == "https://h:1"
    (tmp_path / "ca").write_bytes(b"pem")
    trusting = load_access(Overrides(server="h:1", certificate_authority=str(tmp_path / "ca")), {})
    assert (trusting.server, trusting.authority_pem) == ("https://h:1", b"pem")


def test_a_flag_about_trust_replaces_what_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(b"pem")
    authority = str(tmp_path / "ca")
    cluster = {"server": "https://h:1", "certificate-authority": authority}
    environment = {"KUBECONFIG": write(tmp_path / "k", config(clusters=[{"name": "c", "cluster": cluster}]))}
    assert load_access(Overrides(is_insecure=True), environment).authority_pem is None
    lax = {"server": "https://h:1", "insecure-skip-tls-verify": True}
    environment = {"KUBECONFIG": write(tmp_path / "l", config(clusters=[{"name": "c", "cluster": lax}]))}
    assert load_access(NOTHING, environment).is_insecure
    assert not load_access(Overrides(certificate_authority=authority), environment).is_insecure
    with pytest.raises(InputError, match="insecure flag is not allowed"):
        load_access(Overrides(certificate_authority=authority, is_insecure=True), environment)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (config(**{"current-context": "nope"}), "kubeconfig has no context `nope`, it has x"),
        (config(clusters=[]), "kubeconfig has no cluster `c`, it has none"),
        (config(users=[{"name": "u", "user": {"token": 7}}]), "user `u`: expected `str | null`, got `int` at `token`"),
        (config(users=[{"user": {}}]), "an entry of users has no name"),
        (config(clusters=[{"name": "c", "cluster": {}}]), "no server: name one with --server"),
        (
            config(clusters=[{"name": "c", "cluster": {"server": "s", "certificate-authority-data": "%"}}]),
            "kubeconfig: certificate-authority-data is not base64",
        ),
        (config(contexts=5), "contexts is a number, expected a list"),
        (config(users={"u": {}}), "users is a map, expected a list"),
        (config(clusters=True), "clusters is true or false, expected a list"),
        (config(**{"current-context": 5}), "current-context is a number, expected a name"),
        (config(clusters=[{"name": "c", "cluster": {"server": "s", "certificate-authority": "/no/ca"}}]), "/no/ca"),
        (config(users=[{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]), "auth-provider is not supported"),
        (config(**{"current-context": ""}), "has no current-context: name one with --context, it has x"),
        ({}, "has no current-context: name one with --context, it has none"),
        ([1], "is not an object with clusters"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, document: object, complaint: str) -> None:
    with pytest.raises(InputError) as raised:
        load_access(Overrides(kubeconfig=write(tmp_path / "k", document)), {})
    assert complaint in str(raised.value)


@pytest.mark.parametrize("content", [b"{", b"a: b: c", b"\xff\xfe\x00", b"!!python/object:os.system {}", b"[" * 5000])
def test_a_file_that_is_no_yaml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "k"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"kubeconfig `{path}`"):
        load_access(Overrides(kubeconfig=str(path)), {})


def test_an_explicit_file_must_exist_and_something_must() -> None:
    with pytest.raises(InputError, match="cannot read `/no/where`: no such file"):
        load_access(Overrides(kubeconfig="/no/where"), {})
    with pytest.raises(InputError, match="no kubeconfig found"):
        load_access(NOTHING, {})


@pytest.mark.parametrize(
    ("server", "is_secret"), [("https://h:1", True), ("HTTPS://h:1", True), ("http://h:1", False), ("Http://h", False)]
)
def test_only_a_secret_connection_is_trusted_and_given_the_token(server: str, is_secret: bool) -> None:
    """However its scheme is written. Over plain http the machine's certificates, 20 ms of them, are not even read."""
    access = load_access(Overrides(server=server, token="t"), {})
    assert (trust(access) is not None) is is_secret
    assert (authentication(access) is not None) is is_secret
