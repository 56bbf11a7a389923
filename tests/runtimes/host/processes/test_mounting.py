"""What a process sees once its mounts are arranged, and that the host sees nothing of it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jettison.runtimes.host.processes import closing, mounting, system_calls
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
    closed: str = closing.NOTHING,
    layer: Layer | None = None,
) -> Any:
    """What `look` finds in a process with these mounts, or why it has none."""
    staging = tmp_path / "staging"
    staging.mkdir(exist_ok=True)
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            mounting.arrange(MountPlan(points, str(staging), closed, layer))
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

    found = seen(tmp_path, look, MountPoint(str(volume), "/missing"), closed, closed=closing.ALL)
    assert found == [True, True, False, True, False]


def write(path: str) -> str:
    """What becomes of an attempt to write there."""
    try:
        Path(path).write_text("x")
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "written"


@pytest.fixture(params=["by an attribute of the mount", "by a remount"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The second is what a kernel before 5.12 takes: there is no such system call."""
    if request.param == "by a remount":
        monkeypatch.setattr(system_calls, "_MOUNT_SETATTR", 99_999)
    return str(request.param)


@needs_root
@pytest.mark.usefixtures("way")
def test_the_hosts_files_are_read_only_but_for_its_places_and_memory(tmp_path: Path, volume: Path) -> None:
    """On every disk of the host and on its other mounts; a place that is missing is made, and nothing beside it."""
    host, disk, memory, own = (tmp_path / name for name in ("host", "disk", "memory", "own"))
    for path in (host, memory, own):
        path.mkdir()
    with small_disk(disk, 16, 500), mounted("tmpfs", memory, "-t", "tmpfs", "-o", "nosuid,noexec"):
        (disk / "below").mkdir()
        with mounted("tmpfs", disk / "below", "-t", "tmpfs"):
            points = [
                MountPoint(str(own), str(own)),
                MountPoint(str(volume), "/missing/far"),
                MountPoint(str(volume), "/closed", is_read_only=True),
                MountPoint(str(volume), "/run/missing/token", is_read_only=True),
                MountPoint(str(disk), "/opt"),
            ]

            def look() -> Any:
                places = {
                    "/etc/x": "EROFS",
                    "/x": "EROFS",
                    "/missing/x": "EROFS",
                    f"{host}/x": "EROFS",
                    f"{disk}/x": "EROFS",
                    "/closed/x": "EROFS",
                    "/run/missing/token/x": "EROFS",
                    f"{own}/x": "written",
                    "/missing/far/x": "written",
                    "/opt/x": "written",
                    "/opt/below/x": "written",
                    f"{disk}/below/x": "written",
                    f"{memory}/x": "written",
                    "/dev/shm/jettison-test-x": "written",
                    "/dev/null": "written",
                    "/proc/self/comm": "written",
                }
                found = {path: (write(path), wanted) for path, wanted in places.items()}
                Path("/dev/shm/jettison-test-x").unlink()
                table = Path("/proc/self/mountinfo").read_text().splitlines()
                (options,) = (line.split()[5] for line in table if line.split()[4] == str(memory))
                return [{path: both for path, both in found.items() if both[0] != both[1]}, options]

            wrong, options = seen(tmp_path, look, *points, closed=closing.DISKS)
            assert wrong == {}
            assert options == "rw,nosuid,noexec,relatime"
    assert not list(host.iterdir())


@needs_root
@pytest.mark.usefixtures("way")
def test_what_the_host_has_read_only_is_so_in_its_volumes(tmp_path: Path) -> None:
    """Also one disk on top of another, a disk that memory hides, and flags of mounts besides."""
    host = tmp_path / "host"
    for name in ("kept", "open", "stack", "hidden"):
        (host / name).mkdir(parents=True)
    with (
        mounted(str(host / "kept"), host / "kept", "--bind", "-o", "ro"),
        mounted(str(host / "open"), host / "open", "--bind", "-o", "nosuid,nodev,noexec,noatime"),
        mounted("tmpfs", host / "stack", "-t", "tmpfs"),
        mounted(str(host / "open"), host / "stack", "--bind"),
        mounted(str(host / "open"), host / "hidden", "--bind"),
        mounted("tmpfs", host / "hidden", "-t", "tmpfs"),
    ):

        def look() -> Any:
            names = ("kept", "open", "stack", "hidden")
            table = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
            flags = {line[4]: line[5] for line in table}[f"{host}/open"]
            return [[write(f"{place}/{name}/x") for name in names] for place in (host, "/volume")], flags

        found, flags = seen(tmp_path, look, MountPoint(str(host), "/volume"), closed=closing.DISKS)
        assert found == [["EROFS", "EROFS", "EROFS", "written"], ["EROFS", "written", "written", "written"]]
        assert flags == "ro,nosuid,nodev,noexec,noatime"


@needs_root
def test_what_lies_inside_a_place_of_its_own_is_made_there(tmp_path: Path, volume: Path) -> None:
    """A `/tmp` of its own, though its directory and volumes lie below `/tmp`, also by way of a link."""
    own, link = tmp_path / "own", tmp_path / "link"
    (own / "tmp").mkdir(parents=True)
    link.symlink_to(tmp_path)
    points = [
        MountPoint(str(link / "own"), str(link / "own")),
        MountPoint(str(own / "tmp"), "/tmp"),
        MountPoint(str(volume), "/tmp/deep/cache"),
        MountPoint(str(volume), "/tmp/one.conf", "link", is_read_only=True),
    ]

    def look() -> Any:
        places = ("/tmp/x", f"{own}/y", "/tmp/deep/cache/z", "/tmp/one.conf", f"{tmp_path}/beside")
        return [[write(path) for path in places], sorted(names("/tmp")), names(str(tmp_path))]

    found, below, beside = seen(tmp_path, look, *points, closed=closing.DISKS)
    assert found == ["written", "written", "written", "EROFS", "written"]
    assert below == sorted({"x", "deep", "one.conf", tmp_path.parts[2]})
    assert set(beside) == {"own", "beside"}
    assert not (tmp_path / "beside").exists()
    assert {path.name for path in (own / "tmp").rglob("*")} == {"x", "deep", "cache", "one.conf", tmp_path.parts[2]}


@needs_root
def test_what_the_host_mounts_later_is_not_seen(tmp_path: Path) -> None:
    """Even below a mount that passes new ones on: it would be writable."""
    shared = tmp_path / "shared"
    (shared / "later").mkdir(parents=True)
    ready, go = os.pipe(), os.pipe()

    def look() -> Any:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        return [names(str(shared / "later")), write(f"{shared}/later/x")]

    with mounted(str(shared), shared, "--bind"):
        subprocess.run(["mount", "--make-shared", str(shared)], check=True)

        def mount_later() -> None:
            os.read(ready[0], 1)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(shared / "later")], check=True)
            (shared / "later" / "file").write_text("")
            os.write(go[1], b"x")

        thread = threading.Thread(target=mount_later)
        thread.start()
        assert seen(tmp_path, look, closed=closing.DISKS) == [[], "EROFS"]
        thread.join()
        subprocess.run(["umount", str(shared / "later")], check=True)


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
    assert rehearse_mounts(tmp_path / "mounts", layer=layer) == ""
    with mounted("tmpfs", tmp_path / "mounts", "-t", "tmpfs", "-o", "nr_inodes=5"):
        full = Layer(str(tmp_path / "mounts" / "layer"), layer.hidden)
        why = rehearse_mounts(tmp_path / "mounts" / "x", layer=full)
        assert why == "no private mounts: private files: no space left on device"
