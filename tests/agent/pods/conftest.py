"""What tests of pods open is closed after each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.pods.test_keeper import House


@pytest.fixture(autouse=True)
def closed_houses() -> Iterator[None]:
    yield
    while House.directories:
        House.directories.pop().close()
