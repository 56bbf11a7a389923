"""Every flag of the kubelet is there, under its own name, with the kubelet's habits."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from jettison.cli.options.kubelet_flags import ConfigArguments, KubeletCommand, config_option, kubelet_options
from jettison.engine.config.kubelet_fields import BY_FLAG, FIELDS


def parsed(*arguments: str) -> ConfigArguments:
    """What a command with the flags is given."""
    found: list[ConfigArguments] = []

    @click.command(cls=KubeletCommand)
    @config_option
    @kubelet_options
    @click.argument("rest", nargs=-1)
    def command(config: ConfigArguments, rest: tuple[str, ...]) -> None:
        found.append(config)
        click.echo(" ".join(rest), nl=False)

    settings = {"token_normalize_func": lambda token: token.replace("_", "-")}
    command.context_settings = settings
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return found[0]


@pytest.mark.parametrize("flag", [row.flag for row in FIELDS if row.flag is not None])
def test_every_flag_of_the_table_is_an_option(flag: str) -> None:
    assert parsed(f"--{flag}=x").flags == ((flag, "x"),)


def test_underscores_are_dashes() -> None:
    assert parsed("--eviction_hard", "memory.available<1Gi").flags == (("eviction-hard", "memory.available<1Gi"),)
    assert parsed("--cgroups_per_qos").flags == (("cgroups-per-qos", "true"),)


def test_a_repeated_flag_is_passed_on_in_order() -> None:
    assert parsed("--eviction-hard=a<1", "--max-pods=3", "--eviction-hard", "b<2").flags == (
        ("eviction-hard", "a<1"),
        ("eviction-hard", "b<2"),
        ("max-pods", "3"),
    )


def test_a_boolean_never_takes_the_next_word() -> None:
    """Go's flags do not, so a file name after one is a file name."""
    assert parsed("--fail-cgroupv1", "false").flags == (("fail-cgroupv1", "true"),)
    assert parsed("--fail-cgroupv1=false").flags == (("fail-cgroupv1", "false"),)


def test_words_after_two_dashes_are_left_alone() -> None:
    assert parsed("--", "--fail-cgroupv1").flags == ()


def test_an_empty_value_is_a_value() -> None:
    assert parsed("--eviction-hard=").flags == (("eviction-hard", ""),)


def test_file_and_directory_are_passed_on() -> None:
    assert parsed("--config", "k.yaml", "--config-dir=d") == ConfigArguments("k.yaml", "d")


def test_there_are_flags_to_test() -> None:
    assert len(BY_FLAG) > 30
