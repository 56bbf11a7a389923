"""Two real nodes for all commands that look at one. Making one takes some seconds, so no test changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.guarded import Guarded, after_an_eviction


@pytest.fixture(scope="session")
def guarded() -> Iterator[Guarded]:
    """Its agent runs, its pods run, and shop/leak was evicted."""
    with after_an_eviction() as node:
        yield node


@pytest.fixture(scope="session")
def unguarded() -> Iterator[Guarded]:
    """The same, but its agent was stopped since."""
    with after_an_eviction() as node:
        node.down()
        yield node
