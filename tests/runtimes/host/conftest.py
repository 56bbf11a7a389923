"""Fixtures for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.runtimes.host.processes import system_calls


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 1 MiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    system_calls.mount_tmpfs(directory, 2**20)
    yield directory
    system_calls.detach(directory)
