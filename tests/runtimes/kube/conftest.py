"""The real API server, in a process of its own, for the tests of the client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.served import Served, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Without controllers: what the tests write stays as it is."""
    with serving(tmp_path_factory.mktemp("client") / "state", "--controllers=") as server:
        yield server


@pytest.fixture(scope="session")
def kubeconfig(served: Served) -> Path:
    """As the administrator."""
    return served.kubeconfig()
