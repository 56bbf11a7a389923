"""One API server for all tests of this folder: the real one, in a process of its own, with no controllers in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.served import Served, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The tests run the controllers themselves, so that they can set their clocks and end them."""
    with serving(tmp_path_factory.mktemp("controllers") / "state", "--controllers=-") as server:
        yield server


@pytest.fixture(scope="session")
def kubeconfig(served: Served) -> Path:
    """As the administrator."""
    return served.kubeconfig()
