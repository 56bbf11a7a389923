"""One API server for all tests of this folder: the real one, in a process of its own, with no controllers in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.served import Served, serving
from tests.membership.joined import NODES


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """It knows some nodes, each of which one test may be."""
    names = [word for name in NODES for word in ("--node", name)]
    with serving(tmp_path_factory.mktemp("membership") / "state", "--controllers=-", *names) as server:
        yield server
