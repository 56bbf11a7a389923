"""What the commands against a cluster say to wrong arguments, before they ask any server. Texts are kubectl's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run

NOWHERE = ("--server", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["drain"], "error: USAGE: drain NODE [flags]"),
        (["cordon"], "error: USAGE: cordon NODE [flags]"),
        (["uncordon"], "error: USAGE: uncordon NODE [flags]"),
        (["drain", "n", "-l", "a=b"], "error: cannot specify both a node name and a --selector option"),
        (
            ["drain", "n", "--pod-selector=a in"],
            "error: --pod-selector=<pod_selector> must be a valid label selector",
        ),
        (["drain", "-l", "a in"], "error: unable to parse requirement: found '' expected: '('"),
        (
            ["drain", "n", "--dry-run=foo"],
            'error: Invalid dry-run value (foo). Must be "none", "server", or "client".',
        ),
        (
            ["drain", "n", "--timeout=5x"],
            'error: invalid argument "5x" for "--timeout" flag: time: unknown unit "x" in duration "5x"',
        ),
        (["evict"], "error: missing argument `POD…`"),
        (["drain", "n", "--grace-period=soon"], "error: invalid value for `--grace-period`"),
        (["drain", "n", "-o", "xml"], "error: invalid value for `-o` / `--output`: `xml` is not one of"),
        (["drain", "n", "--force=maybe"], "error: invalid value for `--force`"),
    ],
)
def test_mistakes(arguments: list[str], complaint: str) -> None:
    """All of them end with 1, as everything does that goes wrong in kubectl."""
    result = run(*arguments, *NOWHERE)
    assert (result.exit_code, result.stdout) == (1, "")
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
    assert result.exit_code == 1
    assert result.stderr.startswith("error: `ftp://127.0.0.1:1` is not the address of a server")


@pytest.mark.parametrize("command", ["drain", "cordon", "uncordon", "evict"])
def test_every_command_that_scripts_take_for_kubectl_ends_with_1(command: str, tmp_path: Path) -> None:
    flag = run(command, "x", "--bogus")
    assert (flag.exit_code, flag.stderr.splitlines()[-1]) == (1, f"try `jettison {command} --help`")
    assert flag.stderr.startswith("error: no such option `--bogus`")
    config = tmp_path / "config"
    config.write_text("contexts: [{name: home, context: {}}, {name: work, context: {}}]")
    chosen = run(command, "x", "--kubeconfig", str(config))
    complaint = f"kubeconfig `{config}` has no current-context: name one with --context, it has home, work"
    assert (chosen.exit_code, chosen.stderr) == (1, f"error: {complaint}\n")


def test_the_commands_that_kubectl_has_not_keep_their_own_code() -> None:
    assert run("controllers", "--bogus").exit_code == 2
