"""Tokens are made once, kept, private and checked; a kubeconfig with one is read by clients and by no other user."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.config.kubeconfig import KubeConfig

from jettison.apiserver.access.tokens import ensure_tokens, write_kubeconfig
from jettison.errors import InputError

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
