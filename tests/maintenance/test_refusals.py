"""What a cluster refuses is one line of a command, in kubectl's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run

_LOGGED_OUT = "error: You must be logged in to the server (Unauthorized)"
_NO_PROXY = 'User "viewer" cannot get resource "nodes/proxy" in API group "" at the cluster scope'
_ASKING = [
    ("rank", "--node", "n1"),
    ("decide", "--node", "n1"),
    ("next", "--node", "n1"),
    ("lint", "--node", "n1"),
    ("record", "RECORDING", "--node", "n1", "--for", "1s"),
]


def _words(words: tuple[str, ...], directory: Path) -> list[str]:
    return [str(directory / "n1.rec") if word == "RECORDING" else word for word in words]


@pytest.mark.parametrize("words", [*_ASKING, ("evict", "web"), ("cordon", "n1"), ("drain", "n1", "--plan")])
def test_an_unknown_token_is_told_of_once(kubeconfig: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = run(*_words(words, tmp_path), "--kubeconfig", str(kubeconfig), "--token", "wrong")
    assert (ran.exit_code, ran.stdout, ran.stderr.splitlines()) == (1, "", [_LOGGED_OUT])


@pytest.mark.parametrize("words", _ASKING)
def test_a_user_that_may_not_ask_a_node_reads_which_right_is_missing(
    viewer: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    ran = run(*_words(words, tmp_path), "--kubeconfig", str(viewer))
    told = f'Error from server (Forbidden): nodes "n1" is forbidden: {_NO_PROXY}'
    assert (ran.exit_code, ran.stdout, ran.stderr.splitlines()) == (1, "", [told])


@pytest.mark.parametrize("words", _ASKING)
def test_a_node_that_is_not_there_is_named(kubeconfig: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = run(*_words(words, tmp_path), "--kubeconfig", str(kubeconfig))
    told = 'Error from server (NotFound): nodes "n1" not found'
    assert (ran.exit_code, ran.stdout, ran.stderr.splitlines()) == (1, "", [told])


@pytest.mark.parametrize(
    "words",
    [
        ("record", "RECORDING", "--node", "n1", "--kubeconfig", "/no/such/file"),
        ("record", "RECORDING", "--node", "n1", "--for", "soon"),
        ("record", "RECORDING", "--node", "n1", "--no-such-option"),
        ("record", "RECORDING", "--for=-1s"),
        ("record", "RECORDING", "--config", "kubelet.yaml"),
        ("record", "RECORDING", "--interval", "1m"),
        ("rank", "--node", "n1", "--kubeconfig", "/no/such/file"),
        ("rank", "--node", "n1", "--request-timeout", "soon"),
    ],
)
def test_what_cannot_be_used_exits_with_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Unlike commands that kubectl has too, which exit with 1."""
    ran = run(*_words(words, tmp_path))
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")
    assert "no node" not in ran.stderr
