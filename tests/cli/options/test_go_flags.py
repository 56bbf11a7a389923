"""Numbers on the command line: bounded, and nothing that Go would not take."""

from __future__ import annotations

import pytest

from tests.cli.running import run


@pytest.mark.parametrize(
    "text", ["9" * 30, "-" + "9" * 30, "9" * 5000, "nan", "inf", "1e3", "1_000", "٣", "", " 5", "0x10", "5.0"]
)
@pytest.mark.parametrize(
    "command",
    [
        ("journal", "--tail"),
        ("logs", "web", "--tail"),
        ("drain", "n1", "--grace-period"),
        ("drain", "n1", "--chunk-size"),
        ("drain", "n1", "--skip-wait-for-delete-timeout"),
        ("controllers", "--terminated-pod-gc-threshold"),
        ("up", "--nodes"),
        ("node", "--port"),
    ],
    ids=" ".join,
)
def test_what_is_no_whole_number_of_64_bits_is_refused(command: tuple[str, ...], text: str) -> None:
    result = run(*command[:-1], f"{command[-1]}={text}")

    assert result.exit_code in (1, 2)
    assert result.stderr.startswith(f"error: invalid value for `{command[-1]}`") or "`-n`" in result.stderr
    assert len(result.stderr) < 400


@pytest.mark.parametrize(("command", "shown"), [("serve", True), ("drain", False), ("journal", True)])
def test_help_shows_a_bound_only_where_it_is_narrower_than_64_bits(command: str, shown: bool) -> None:
    text = run(command, "--help").stdout

    assert "x<=" not in text
    assert ("[x>=" in text) is shown


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "9" * 30, "x"])
def test_an_interval_is_between_its_bounds(text: str) -> None:
    result = run("top", f"--interval={text}")

    assert result.exit_code == 2
    assert "--interval" in result.stderr
