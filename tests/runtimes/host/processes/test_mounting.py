"""What a process sees once its mounts are arranged, and that the host sees nothing of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jettison.runtimes.host.processes import mounting
from jettison.runtimes.host.processes.forking import rehearse_mounts
from jettison.runtimes.host.processes.orders import Layer, MountPlan, MountPoint
from tests.live.small_disks import small_disk

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


@contextmanager
def mounted(what: str, where: Path, *options: str) -> Iterator[None]:
    subprocess.run(["mount", *options, what, str(where)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(where)], check=True)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """With a file, a link to it, and links that lead out."""
    found = tmp_path / "volume"
    (found / "in").mkdir(parents=True)
    (found / "file").write_text("text")
    (found / "link").symlink_to("file")
    (found / "out").symlink_to("/etc")
    (found / "up").symlink_to("../../../../../../../etc/passwd")
    return found


def seen(
    tmp_path: Path,
    look: Callable[[], Any],
    *points: MountPoint,
    is_sealed: bool = False,
    layer: Layer | None = None,
) -> Any:
    """What `look` finds in a process with these mounts, or why it has none."""
    staging = tmp_path / "staging"
    staging.mkdir(exist_ok=True)
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            mounting.arrange(MountPlan(points, str(staging), is_sealed, layer))
            found = look()
        except OSError as error:
            found = f"{error.strerror}"
        os.write(tell, json.dumps(found).encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as stream:
        answer = json.loads(stream.read())
    os.waitpid(pid, 0)
    return answer


def names(directory: str) -> list[str]:
    return [entry.name for entry in Path(directory).iterdir()]


def is_refused(path: str) -> bool:
    try:
        Path(path).write_text("x")
    except OSError:
        return True
    return False


@needs_root
@pytest.mark.parametrize("target", ["/srv", "/missing-at-the-top", "/missing/far/below", "/usr/local/missing/below"])
def test_a_volume_is_at_its_path_whether_or_not_the_host_has_it(tmp_path: Path, volume: Path, target: str) -> None:
    before = set(names("/"))

    def look() -> Any:
        Path(target, "new").write_text("x")
        beside = names("/")
        return [Path(target, "file").read_text(), beside, Path("/etc/passwd").is_file(), names("/usr/local")]

    text, beside, has_rest, local = seen(tmp_path, look, MountPoint(str(volume), target))
    assert text == "text"
    assert before <= set(beside)
    assert has_rest
    assert set(names("/usr/local")) <= set(local)
    assert (volume / "new").read_text() == "x"
    assert set(names("/")) == before
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@needs_root
def test_a_file_is_mounted_as_a_file_and_a_link_counts_inside(tmp_path: Path, volume: Path) -> None:
    points = [
        MountPoint(str(volume), "/etc/missing.d/one.conf", "link"),
        MountPoint(str(volume), "/missing", "in"),
        MountPoint(str(volume), "/var/run/missing/x", is_read_only=True),
    ]

    def look() -> Any:
        is_link_followed = Path("/run/missing/x/file").is_file()
        return [Path("/etc/missing.d/one.conf").read_text(), is_link_followed, is_refused("/var/run/missing/x/no")]

    assert seen(tmp_path, look, *points) == ["text", True, True]


@needs_root
@pytest.mark.parametrize("part", ["out/passwd", "out", "up", "absent"])
def test_no_link_of_a_pod_leads_out_of_its_volume(tmp_path: Path, volume: Path, part: str) -> None:
    why = seen(tmp_path, lambda: "mounted", MountPoint(str(volume), "/missing", part))
    assert why == "/missing: no such file or directory"


@needs_root
def test_a_sealed_process_writes_into_its_volumes_only(tmp_path: Path, volume: Path) -> None:
    closed = MountPoint(str(volume), "/closed", is_read_only=True)

    def look() -> Any:
        places = (f"{tmp_path}/x", "/tmp/x", "/missing/x", "/closed/x", "/dev/null")
        return [is_refused(path) for path in places]

    found = seen(tmp_path, look, MountPoint(str(volume), "/missing"), closed, is_sealed=True)
    assert found == [True, True, False, True, False]


@needs_root
def test_one_directory_is_put_in_the_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    look = lambda: [names("/var/tmp"), is_refused("/var/tmp/mine")]  # noqa: E731
    assert seen(tmp_path, look, MountPoint(str(tmp_path / "own"), "/var/tmp")) == [[], False]
    assert (tmp_path / "own" / "mine").is_file()


@needs_root
def test_a_rehearsal_says_whether_it_is_permitted(tmp_path: Path) -> None:
    assert rehearse_mounts(tmp_path / "mounts") == ""
    (tmp_path / "file").write_text("")
    assert rehearse_mounts(tmp_path / "file" / "mounts") == "no private mounts: not a directory"


@pytest.fixture
def layer(tmp_path: Path) -> Layer:
    (tmp_path / "a,layer").mkdir()
    return Layer(str(tmp_path / "a,layer"), str(tmp_path / "pods"))


@needs_root
def test_what_a_process_writes_to_the_hosts_files_lies_in_its_layer(tmp_path: Path, layer: Layer) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "kept").write_text("old")

    def look() -> Any:
        (host / "new").write_text("x" * 5000)
        (host / "kept").write_text("changed")
        Path("/opt/new-at-the-top").write_text("x")
        return [(host / "kept").read_text(), is_refused("/dev/null"), Path("/proc/self/stat").is_file(), names("/sys")]

    text, is_device_closed, has_proc, devices = seen(tmp_path, look, layer=layer)
    assert (text, is_device_closed, has_proc) == ("changed", False, True)
    assert "fs" in devices
    assert names(str(host)) == ["kept"]
    assert (host / "kept").read_text() == "old"
    assert not Path("/opt/new-at-the-top").exists()
    written = tmp_path / "a,layer" / "written0"
    assert (written / "opt" / "new-at-the-top").read_text() == "x"
    assert (written / host.relative_to("/") / "new").stat().st_size == 5000


@needs_root
def test_volumes_of_a_layered_process_are_the_real_ones(tmp_path: Path, volume: Path, layer: Layer) -> None:
    """Also at their own path, at one that the host lacks, below a link, and on a filesystem of its own."""
    points = [
        MountPoint(str(volume), str(volume)),
        MountPoint(str(volume), "/missing/far/below", "in"),
        MountPoint(str(volume), "/dev/missing"),
        MountPoint(str(volume), "/etc/missing.conf", "link", is_read_only=True),
    ]
    before = {place: set(names(place)) for place in ("/", "/dev", "/etc")}

    def look() -> Any:
        (volume / "one").write_text("1")
        Path("/missing/far/below/two").write_text("2")
        Path("/dev/missing/three").write_text("3")
        return [Path("/etc/missing.conf").read_text(), is_refused("/etc/missing.conf")]

    assert seen(tmp_path, look, *points, layer=layer) == ["text", True]
    assert [(volume / name).read_text() for name in ("one", "in/two", "three")] == ["1", "2", "3"]
    assert {place: set(names(place)) for place in before} == before
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@needs_root
def test_other_mounts_of_nodefs_are_covered_and_others_are_the_hosts(tmp_path: Path) -> None:
    """Below a nodefs of its own lies a tmpfs, and in that another part of nodefs."""
    disk = tmp_path / "disk"
    with small_disk(disk, 16, 500):
        memory = disk / "memory"
        for path in (memory, disk / "part", disk / "layer", disk / "pods"):
            path.mkdir()
        with mounted("tmpfs", memory, "-t", "tmpfs"):
            (memory / "part").mkdir()
            with mounted(str(disk / "part"), memory / "part", "--bind"):

                def look() -> Any:
                    for path in (disk, memory, memory / "part"):
                        (path / "new").write_text("x")
                    return "written"

                assert seen(tmp_path, look, layer=Layer(str(disk / "layer"), str(disk / "pods"))) == "written"
                assert [(path / "new").exists() for path in (disk, memory, memory / "part")] == [False, True, False]
        found = sorted(str(path.relative_to(disk / "layer")) for path in (disk / "layer").rglob("new"))
        assert found == ["written1/new", "written2/new"]


@needs_root
def test_a_rehearsal_says_why_there_can_be_no_layer(tmp_path: Path, layer: Layer) -> None:
    Path(layer.directory).rmdir()
    assert rehearse_mounts(tmp_path / "mounts", layer) == ""
    with mounted("tmpfs", tmp_path / "mounts", "-t", "tmpfs", "-o", "nr_inodes=5"):
        full = Layer(str(tmp_path / "mounts" / "layer"), layer.hidden)
        why = rehearse_mounts(tmp_path / "mounts" / "x", full)
        assert why == "no private mounts: private root: no space left on device"
