"""Whatever lies in a directory of manifests, reading it neither waits nor goes on for ever."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from jettison.errors import ManifestError
from jettison.manifests.plain_files import read_plain


def test_a_file_is_read_whole_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    (tmp_path / "link").symlink_to("file")

    assert read_plain(tmp_path / "file", 1000) == read_plain(tmp_path / "link", 1000) == b"x" * 1000


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1001)

    with pytest.raises(ManifestError, match="file: more than 1000 bytes"):
        read_plain(tmp_path / "file", 1000)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.timeout(10)
@pytest.mark.parametrize("make", [make_fifo, make_endless, Path.mkdir])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "odd")
    before = len(list(Path("/proc/self/fd").iterdir()))

    with pytest.raises(ManifestError, match="odd: not a plain file"):
        read_plain(tmp_path / "odd", 1000)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("name", ["gone", "loop", "socket"])
def test_what_cannot_be_opened_is_the_kernels_word(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match=r"No such|symbolic links|No such device"):
            read_plain(tmp_path / name, 1000)
