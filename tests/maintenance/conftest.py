"""One API server for all tests of this folder: the real one, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.served import Served, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Without controllers: the tests play those parts themselves, so that they know what happens when."""
    with serving(tmp_path_factory.mktemp("maintenance") / "state", "--controllers=") as server:
        yield server


@pytest.fixture(scope="session")
def kubeconfig(served: Served) -> Path:
    """As the administrator."""
    return served.kubeconfig()


@pytest.fixture(scope="session")
def viewer(served: Served) -> Path:
    """As a user that may only read."""
    return served.kubeconfig("viewer")
