"""Which controllers there are."""

from __future__ import annotations

from jettison.controllers.runner import MAKERS
from jettison.controllers.settings import CONTROLLERS


def test_every_controller_that_can_be_named_can_be_made() -> None:
    """The names are apart, because a server whose controllers are in another process loads none of them."""
    assert MAKERS.keys() == CONTROLLERS.keys()
