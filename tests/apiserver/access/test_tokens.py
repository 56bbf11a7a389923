"""The file of tokens: made once, kept, private, and checked before anybody relies on it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.access.tokens import ensure_tokens
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
    with pytest.raises(InputError, match="the token of `bob` is somebody else's too"):
        ensure_tokens(path, {})


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"])
def test_another_file_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokens.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a file of tokens"):
        ensure_tokens(path, WANTED)
    assert path.read_bytes() == content
