"""Deep trees, and trees that change under the walker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jettison.runtimes.linux.files.descent import Descent

Count = Callable[[], int]


@pytest.fixture
def removable(tmp_path: Path) -> Iterator[Path]:
    """A directory that `rm` takes away afterwards, because Python's own rmtree recurses."""
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "deep"], check=True)


def test_ten_thousand_levels_take_two_descriptors(removable: Path, open_descriptors: Count) -> None:
    (removable / "deep").mkdir()
    before = open_descriptors()
    with Descent(removable / "deep") as place:
        for _ in range(10_000):
            os.mkdir("d", dir_fd=place.fd)
            place.enter("d")
        assert open_descriptors() == before + 2
        assert place.depth == 10_000

        for _ in range(10_000):
            place.leave()

        assert place.depth == 0
        assert os.path.samestat(os.fstat(place.fd), (removable / "deep").stat())
    assert open_descriptors() == before


def test_a_directory_moved_elsewhere_does_not_lead_out_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "tree/a/b").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    with Descent(tmp_path / "tree") as place:
        place.enter("a")
        place.enter("b")
        (tmp_path / "tree/a/b").rename(tmp_path / "outside/b")
        place.leave()

        assert (place.depth, place.name) == (1, "a")
        assert os.path.samestat(os.fstat(place.fd), (tmp_path / "tree/a").stat())


def test_when_the_way_back_is_gone_we_stand_at_the_deepest_level_that_remains(tmp_path: Path) -> None:
    (tmp_path / "tree/a/b/c").mkdir(parents=True)
    with Descent(tmp_path / "tree") as place:
        for name in "abc":
            place.enter(name)
        (tmp_path / "tree/a/b/c").rename(tmp_path / "c")
        (tmp_path / "tree/a").rename(tmp_path / "a")
        (tmp_path / "tree/a").mkdir()  # of the same name, but another directory
        place.leave()

        assert place.depth == 0
        assert os.path.samestat(os.fstat(place.fd), (tmp_path / "tree").stat())


def test_symbolic_links_are_not_entered(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    with Descent(tmp_path) as place:
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            place.enter("link")

        assert place.depth == 0
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        Descent(tmp_path / "link")
