"""What a directory takes, compared with `du`, on trees that misbehave; and what project quotas say."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.files.disk_usage import DirectoryWalk, DiskUsage, NoQuota, measure, project_usage
from tests.runtimes.linux.crowding import crowded

Count = Callable[[], int]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting and becoming another user take root")

_GET, _SET = 0x801C581F, 0x401C5820
_INHERIT = 0x200


def du(path: Path) -> DiskUsage:
    """The judge: coreutils, one filesystem, sizes in bytes, and once more in inodes."""

    def ask(*options: str) -> int:
        run = subprocess.run(["du", "-s", "-x", *options, path], check=True, capture_output=True)
        return int(run.stdout.split()[0])

    return DiskUsage(ask("--block-size=1"), ask("--inodes"))


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """Files, directories, links and odd names; taken away by `rm`, which does not recurse."""
    top = tmp_path / "tree"
    for directory in ("a/b/c", "a/d", "e", "f \udcff\n"):
        (top / directory).mkdir(parents=True)
    (top / "a/big").write_bytes(bytes(300_000))
    (top / "a/b/small").write_bytes(b"x")
    (top / "e/empty").touch()
    yield top
    subprocess.run(["rm", "-rf", top], check=True)


def test_plain_trees_agree_with_du(tree: Path) -> None:
    assert measure(tree) == du(tree)


def test_a_sparse_file_is_small(tree: Path) -> None:
    with (tree / "sparse").open("wb") as file:
        file.truncate(10**12)
    usage = measure(tree)

    assert usage == du(tree)
    assert usage is not None
    assert usage.size < 1 << 20


def test_a_file_of_many_names_counts_once(tree: Path) -> None:
    before = measure(tree)
    for number in range(5):
        os.link(tree / "a/big", tree / f"e/name{number}")
    os.link(tree / "a/b/small", tree.parent / "outside")  # never all of its names are met

    assert measure(tree) == before == du(tree)


def test_links_are_counted_and_not_followed(tree: Path) -> None:
    (tree / "to-root").symlink_to("/")
    (tree / "loop").symlink_to(tree)
    (tree / "dangling").symlink_to("nowhere")
    (tree / "self").symlink_to("self")

    assert measure(tree) == du(tree)


def test_fifos_and_sockets_are_only_looked_at(tree: Path) -> None:
    os.mkfifo(tree / "fifo")

    assert measure(tree) == du(tree)


def test_ten_thousand_levels(tree: Path) -> None:
    place = os.open(tree, os.O_RDONLY)
    for _ in range(10_000):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)

    assert measure(tree) == du(tree)


def test_a_directory_that_does_not_exist_or_is_none_has_no_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)

    assert [measure(tmp_path / name) for name in ("nothing", "file", "link")] == [None, None, None]


def test_a_step_looks_at_no_more_than_it_was_told(tree: Path, open_descriptors: Count) -> None:
    for number in range(500):
        (tree / f"e/{number}").touch()
    steps = 0
    before = open_descriptors()
    with DirectoryWalk(tree) as walk:
        seen = [0]
        while walk.step(10):
            steps += 1
            assert walk.usage is not None
            seen.append(walk.usage.inodes)
        assert max(now - then for then, now in pairwise(seen)) <= 10
        assert steps >= 50
        assert walk.usage == du(tree)
        assert walk.step() is False
    assert open_descriptors() == before


def test_a_walk_may_be_given_up(tree: Path, open_descriptors: Count) -> None:
    before = open_descriptors()
    walk = DirectoryWalk(tree)
    walk.step(3)
    walk.close()

    assert walk.step() is False
    assert open_descriptors() == before


@pytest.mark.parametrize("free", [0, 1, 2])
def test_a_full_table_of_descriptors_is_no_crash(tree: Path, open_descriptors: Count, free: int) -> None:
    before = open_descriptors()

    with crowded(free), pytest.raises(ObservationError, match=r"cannot read .*tree`: too many open files"):
        measure(tree)
    assert open_descriptors() == before


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_table_of_descriptors_that_gets_full_ends_the_walk(tree: Path, open_descriptors: Count, steps: int) -> None:
    before = open_descriptors()
    walk = DirectoryWalk(tree)
    for _ in range(steps):
        walk.step(1)

    def go_on() -> None:
        while True:
            with crowded(0):
                walk.step(1)

    with pytest.raises(ObservationError, match="too many open files"):
        go_on()
    assert open_descriptors() == before


@pytest.mark.parametrize("steps", range(14))
def test_a_tree_may_vanish_at_any_moment(tree: Path, steps: int) -> None:
    with DirectoryWalk(tree) as walk:
        for _ in range(steps):
            walk.step(1)
        shutil.rmtree(tree)
        while walk.step(1):
            continue

        assert walk.usage is not None
        assert walk.usage.inodes <= 9


@pytest.mark.parametrize("steps", range(14))
def test_a_directory_may_become_a_link_to_everything(tree: Path, steps: int) -> None:
    with DirectoryWalk(tree) as walk:
        for _ in range(steps):
            walk.step(1)
        (tree / "a").rename(tree.parent / "moved")
        (tree / "a").symlink_to("/usr")
        while walk.step(1):
            continue

        assert walk.usage is not None
        assert walk.usage.inodes <= 10


@needs_root
def test_what_is_mounted_below_is_not_counted(tree: Path) -> None:
    before = measure(tree)
    subprocess.run(["mount", "-t", "tmpfs", "none", tree / "a/d"], check=True)
    try:
        (tree / "a/d/file").write_bytes(bytes(100_000))
        during = measure(tree)
        judge = du(tree)
    finally:
        subprocess.run(["umount", tree / "a/d"], check=True)

    assert before is not None
    assert during is not None
    assert during == judge
    assert during.inodes == before.inodes - 1  # the mount point is hidden


@needs_root
def test_what_may_not_be_read_is_counted_as_such() -> None:
    """As a user that may enter the top but not the directory in it."""
    program = (
        "import os, sys\n"
        "sys.path[:0] = {path!r}\n"
        "from pathlib import Path\n"
        "from jettison.runtimes.linux.files.disk_usage import measure\n"
        "os.setgroups([])\nos.setuid(65534)\n"
        "print(measure(Path({top!r})))\n"
    )
    top = Path(tempfile.mkdtemp())  # not tmp_path, whose parents are closed to others
    try:
        (top / "closed").mkdir(mode=0o700)
        (top / "closed/file").touch()
        top.chmod(0o755)
        as_root = measure(top)
        run = subprocess.run(
            [sys.executable, "-c", program.format(path=sys.path, top=str(top))],
            check=True,
            capture_output=True,
            text=True,
        )
    finally:
        shutil.rmtree(top)

    assert as_root is not None
    assert (as_root.inodes, as_root.unreadable) == (3, 0)
    assert "inodes=2, unreadable=1" in run.stdout


def _give_project(directory: Path, project: int) -> bool:
    """As an administrator does with `chattr -p`; False where the filesystem has no project ids."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flags, *sizes = struct.unpack("=IIIII8x", fcntl.ioctl(fd, _GET, bytes(28)))
        fcntl.ioctl(fd, _SET, struct.pack("=IIIII8x", flags | _INHERIT, sizes[0], sizes[1], project, sizes[3]))
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def test_a_directory_without_project_is_not_counted(tmp_path: Path) -> None:
    usage = project_usage(tmp_path)

    assert isinstance(usage, NoQuota)
    assert usage.reason.startswith(("the directory has no project id", "the filesystem counts no projects: "))


def test_a_directory_that_is_gone_has_no_usage(tmp_path: Path) -> None:
    assert project_usage(tmp_path / "nothing") is None


def test_a_link_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    assert project_usage(tmp_path / "link") is None


def test_a_project_is_counted_or_the_reason_is_given(tmp_path: Path) -> None:
    """On a filesystem with project quotas the count must be right, elsewhere the words must be there."""
    has_project = _give_project(tmp_path, 4_000_000_001)
    (tmp_path / "file").write_bytes(bytes(100_000))
    usage = project_usage(tmp_path)

    if has_project and isinstance(usage, DiskUsage):
        assert usage.size >= 100_000
        assert usage.inodes >= 2
    else:
        assert isinstance(usage, NoQuota)
        assert usage.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
@pytest.mark.parametrize("fstype", ["tmpfs", "ramfs"])
def test_filesystems_in_memory_have_no_projects(tmp_path: Path, fstype: str) -> None:
    subprocess.run(["mount", "-t", fstype, "none", tmp_path], check=True)
    try:
        usage = project_usage(tmp_path)
    finally:
        subprocess.run(["umount", tmp_path], check=True)

    assert isinstance(usage, NoQuota)


def test_a_filesystem_that_never_heard_of_projects_says_so() -> None:
    assert isinstance(project_usage(Path("/proc")), NoQuota)
