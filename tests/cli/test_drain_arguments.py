"""What the commands against a cluster say to wrong arguments, before they ask any server. Texts are kubectl's."""

from __future__ import annotations

import pytest

from tests.cli.running import run

NOWHERE = ("--server", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["drain"], 1, "error: USAGE: drain NODE [flags]"),
        (["cordon"], 1, "error: USAGE: cordon NODE [flags]"),
        (["uncordon"], 1, "error: USAGE: uncordon NODE [flags]"),
        (["drain", "n", "-l", "a=b"], 1, "error: cannot specify both a node name and a --selector option"),
        (
            ["drain", "n", "--pod-selector=a in"],
            1,
            "error: --pod-selector=<pod_selector> must be a valid label selector",
        ),
        (["drain", "-l", "a in"], 1, "error: unable to parse requirement: found '' expected: '('"),
        (
            ["drain", "n", "--dry-run=foo"],
            1,
            'error: Invalid dry-run value (foo). Must be "none", "server", or "client".',
        ),
        (
            ["drain", "n", "--timeout=5x"],
            1,
            'error: invalid argument "5x" for "--timeout" flag: time: unknown unit "x" in duration "5x"',
        ),
        (["evict"], 2, "error: missing argument `POD…`"),
        (["drain", "n", "--grace-period=soon"], 2, "error: invalid value for `--grace-period`"),
        (["drain", "n", "--force=maybe"], 2, "error: invalid value for `--force`"),
    ],
)
def test_mistakes(arguments: list[str], code: int, complaint: str) -> None:
    result = run(*arguments, *NOWHERE)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(complaint), result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["drain", "--force", "n"],
        ["drain", "n", "--force=true", "--ignore-daemonsets=false"],
        ["drain", "n", "--grace-period", "-1", "--skip-wait-for-delete-timeout=5", "--chunk-size=0"],
        ["drain", "n", "--delete_emptydir_data", "--timeout", "1h30m"],
        ["cordon", "--dry-run", "n"],
        ["evict", "p", "--retry", "--no-wait"],
    ],
)
def test_right_arguments_get_as_far_as_the_server(arguments: list[str]) -> None:
    """A bare flag must not take the next word: `--force n` drains the node n."""
    result = run(*arguments, *NOWHERE)
    assert result.exit_code == 1
    refused = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
    assert result.stderr.splitlines()[-1] == refused


def test_an_address_that_is_none() -> None:
    result = run("cordon", "n", "--server", "ftp://127.0.0.1:1")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: `ftp://127.0.0.1:1` is not the address of a server")
