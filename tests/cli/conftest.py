"""Two real nodes for all commands that look at one. Making one takes some seconds, so no test changes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.guarded import FLAGS, WORLD, Guarded


@contextmanager
def _after_an_eviction() -> Iterator[Guarded]:
    with TemporaryDirectory(prefix="jettison-cli-") as directory:
        # Unlike pytest's own directories one that others may enter, so that only the node itself keeps them out.
        Path(directory).chmod(0o755)
        node = Guarded(Path(directory), FLAGS)
        node.write(*WORLD)
        node.up()
        try:
            node.wait(lambda: node.has_on_record("pod_cleaned_up", "shop/leak"), "the leak's eviction")
            yield node
        finally:
            node.stop()


@pytest.fixture(scope="session")
def guarded() -> Iterator[Guarded]:
    """Its agent runs, its pods run, and shop/leak was evicted."""
    with _after_an_eviction() as node:
        yield node


@pytest.fixture(scope="session")
def unguarded() -> Iterator[Guarded]:
    """The same, but its agent was stopped since."""
    with _after_an_eviction() as node:
        node.down()
        yield node
