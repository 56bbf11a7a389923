"""Options of commands that read a node: named apart from the values that they stand for, and the same."""

from __future__ import annotations

import pytest

from jettison.cli.policy import config_input, node_input, node_source
from jettison.engine.config.policy import PROFILES
from jettison.engine.node.signals import Signal
from tests.cli.running import EXAMPLES, KUBELET, run


def test_every_choice_of_an_option_has_its_value() -> None:
    """The names are written down once more, because a question to a cluster must not wait for the engine."""
    assert tuple(PROFILES) == node_source.PROFILE_NAMES
    assert tuple(signal.value for signal in Signal) == node_source.SIGNAL_NAMES
    assert tuple(node_input.LAYOUTS) == node_source.IMAGE_FILESYSTEMS

    @node_source.capacity_value_options
    def command(told: dict[str, str | None]) -> None:
        assert list(told) == list(config_input.OPTIONS)

    command(**{f"capacity_{name.replace('-', '_')}": None for name in config_input.OPTIONS})


@pytest.mark.parametrize("command", ["explain", "next"])
@pytest.mark.parametrize(
    "words", [("--config", KUBELET), ("--eviction-hard", "memory.available<1Gi"), ("--profile", "improved")]
)
def test_a_node_of_this_machine_goes_by_its_own_settings(command: str, words: tuple[str, str]) -> None:
    """An answer by these would seem to be one about what the command line gives."""
    done = run(command, *words, "--state-dir", str(EXAMPLES / "guarded"))
    said = f"error: {words[0]} goes with --summary and --pods, or with --node: a node of this machine has its own\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", said)
