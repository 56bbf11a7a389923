"""Options of commands that read a node: named apart from the values that they stand for, and the same."""

from __future__ import annotations

from jettison.cli.policy import config_input, node_input, node_source
from jettison.engine.config.policy import PROFILES
from jettison.engine.node.signals import Signal


def test_every_choice_of_an_option_has_its_value() -> None:
    """The names are written down once more, because a question to a cluster must not wait for the engine."""
    assert tuple(PROFILES) == node_source.PROFILE_NAMES
    assert tuple(signal.value for signal in Signal) == node_source.SIGNAL_NAMES
    assert tuple(node_input.LAYOUTS) == node_source.IMAGE_FILESYSTEMS

    @node_source.capacity_value_options
    def command(told: dict[str, str | None]) -> None:
        assert list(told) == list(config_input.OPTIONS)

    command(**{f"capacity_{name.replace('-', '_')}": None for name in config_input.OPTIONS})
