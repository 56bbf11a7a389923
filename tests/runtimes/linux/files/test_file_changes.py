"""What the kernel tells of files: each change once, until the file is followed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jettison.runtimes.linux.files.file_changes import FileChanges


@pytest.fixture
def changes() -> Iterator[FileChanges]:
    found = FileChanges()
    yield found
    found.close()


def test_a_file_that_is_written_is_told_once(changes: FileChanges, tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    for each in (path, other):
        each.write_text("x")
        changes.follow(str(each))
    assert changes.take() == set()
    for _ in range(3):
        path.write_text("y")
    assert changes.take() == {str(path)}
    path.write_text("z")
    assert changes.take() == set()
    changes.follow(str(path))
    path.write_text("z")
    assert changes.take() == {str(path)}


@pytest.mark.parametrize("change", ["make", "remove", "write", "rename", "replace"])
def test_a_directory_tells_of_what_is_in_it(changes: FileChanges, tmp_path: Path, change: str) -> None:
    old, new, directory = tmp_path / "old", tmp_path.parent / f"new-{change}", tmp_path
    old.write_text("x")
    new.write_text("y")
    deeds: dict[str, Callable[[], object]] = {
        "make": (directory / "fresh").touch,
        "remove": old.unlink,
        "write": lambda: old.write_text("other"),
        "rename": lambda: old.rename(directory / "other"),
        "replace": lambda: new.rename(old),
    }
    changes.follow(str(tmp_path))
    deeds[change]()
    assert changes.take() == {str(tmp_path)}


def test_what_is_not_there_cannot_be_followed(changes: FileChanges, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        changes.follow(str(tmp_path / "nothing"))


def test_a_link_is_not_followed(changes: FileChanges, tmp_path: Path) -> None:
    """A pod may put one in the place of its log."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "log").symlink_to(tmp_path / "secret")
    changes.follow(str(tmp_path / "log"))
    (tmp_path / "secret").write_text("y")
    assert changes.take() == set()


def test_more_changes_than_the_kernel_remembers_mean_all_of_them(changes: FileChanges, tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    path = tmp_path / "a"
    path.touch()
    # Two events for each time that it is followed and written.
    for _ in range(most // 2 + 1):
        changes.follow(str(path))
        path.write_bytes(b"x")
    assert changes.take() is None
    assert changes.take() == set()
