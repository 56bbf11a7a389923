"""Whatever lies in a directory of manifests, reading it neither waits nor goes on without end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from jettison.errors import InputError, ManifestError
from jettison.manifests.files.plain_files import plain_text, read_given, read_plain


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


@pytest.mark.timeout(10)
def test_what_an_operator_names_may_be_a_pipe(tmp_path: Path) -> None:
    """Shells make one of `<(command)`. One without a writer is empty, and a mark of Windows' shells is dropped."""
    readable, writable = os.pipe()
    os.write(writable, b"\xef\xbb\xbfkind: Pod")
    os.close(writable)
    os.mkfifo(tmp_path / "pipe")

    assert read_given(Path(f"/proc/self/fd/{readable}"), 100) == b"kind: Pod"
    assert read_given(tmp_path / "pipe", 100) == b""
    os.close(readable)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/dev/zero", "/dev/zero: more than 1000 bytes"),
        ("/proc/self", "cannot read `/proc/self`: is a directory"),
        ("/no/where", "cannot read `/no/where`: no such file or directory"),
        ("a\0b", "'a\\x00b' is not the name of a file"),
        ("n" * 300, "file name too long"),
    ],
)
def test_what_an_operator_names_is_refused_in_a_line(path: str, said: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(InputError) as refusal:
        read_given(Path(path), 1000)
    assert str(refusal.value).endswith(said)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_sparse_terabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    for read in (read_plain, read_given):
        with pytest.raises(ManifestError, match="sparse: more than 268435456 bytes"):
            read(tmp_path / "sparse", 2**28)


def test_what_is_no_text_is_named_with_its_line() -> None:
    assert plain_text(b"\xef\xbb\xbfa", "f") == "a"
    with pytest.raises(ManifestError, match="f:2: not UTF-8 at byte 2"):
        plain_text(b"a\n\xff", "f")
