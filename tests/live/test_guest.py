"""The emulated machine is what live tests take it for: a real kernel with cgroup v2, and this checkout's code in it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import select
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.live.conftest import without_guest
from tests.live.debian import GuestUnavailableError
from tests.live.guest import SOURCE, Guest, GuestFailedError, GuestResult

MIB = 1024 * 1024
EVERY_BYTE = bytes(range(256))


@pytest.fixture(scope="module")
def probed(guest: Guest) -> GuestResult:
    """One boot answers all questions."""
    here = Path(__file__).parent
    files = {"cargo/bytes": EVERY_BYTE, "tests/live/guest_side.py": (here / "guest_side.py").read_bytes()}
    return guest.run((here / "guest_probe.py").read_text(), files, timeout=300)


def test_the_exit_code_and_the_files_pass_through(probed: GuestResult) -> None:
    """A script's failure is seen as such: the probe ends with 7, which only its own last line can produce."""
    assert probed.exit_code == 7, probed.output
    assert bytes.fromhex(probed.values["cargo"]) == EVERY_BYTE


def test_cgroup_v2_alone_with_the_controllers_of_a_node(probed: GuestResult) -> None:
    """The cgroup v2 machine: one unified hierarchy, no v1 beside it, memory, cpu and pids in it."""
    assert probed.values["cgroup_mounts"] == ["cgroup2"]
    assert {"memory", "cpu", "pids"} <= set(probed.values["controllers"])


def test_the_interpreter_and_the_code_are_those_under_test(probed: GuestResult) -> None:
    """What runs inside is this checkout on this interpreter, with its requirements and their compiled parts."""
    own = SOURCE / "jettison" / "__init__.py"
    assert probed.values["python"] == sys.version
    assert probed.values["jettison"] == ["/src/jettison/__init__.py", hashlib.sha256(own.read_bytes()).hexdigest()]
    assert probed.values["engine"] == ["/src/jettison/engine"]
    assert probed.values["bytecode_flags"] == 1, "compiled inside the guest, which costs seconds"
    for name, version in probed.values["requirements"].items():
        assert version == importlib.metadata.version(name)
    assert probed.values["answers"] == ["plain", [1], [1]]


def test_the_clock_and_the_loopback_work(probed: GuestResult) -> None:
    """An agent writes times and serves on a local socket; a machine without either would hide that."""
    assert abs(probed.values["time"] - time.time()) < 3600
    assert probed.values["loopback"]


def test_memory_max_is_enforced(probed: GuestResult) -> None:
    """The memory controller acts: a process past its limit of 20 MiB is ended by the kernel and counted."""
    assert probed.values["capped_exit"] == -9
    assert probed.values["capped_events"]["oom_kill"] == 1
    assert probed.values["capped_peak"] <= 20 * MIB


def test_cgroup_kill_ends_a_whole_cgroup(probed: GuestResult) -> None:
    """Ending a pod on v2: cgroup.kill takes what ignores SIGTERM and what left its session."""
    assert probed.values["killed_exit"] == -9
    assert probed.values["killed_events"]["populated"] == 0


def test_a_negative_oom_score_adj_is_allowed(probed: GuestResult) -> None:
    """Per-container oom_score_adj reaches below 0 here, as it does for root with CAP_SYS_RESOURCE."""
    assert probed.values["oom_score_adj"] == -900


def test_a_pressure_trigger_with_a_short_window_fires(probed: GuestResult) -> None:
    """The PSI alarm: a window of 500 ms is accepted, silent while nothing stalls, and reports the first stall."""
    assert probed.values["calm_events"] == []
    assert probed.values["stall_events"] == [select.POLLPRI]
    assert probed.values["stall_seconds"] < 10


def test_a_guest_that_hangs_is_ended_and_leaves_nothing(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run is bounded: past its time the emulator is gone, and so are its files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(GuestFailedError, match="did not end within 2 s"):
        guest.run("import time; time.sleep(600)", timeout=2)
    assert list(tmp_path.iterdir()) == []
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in running if str(tmp_path).encode() in line]


def test_a_file_cannot_leave_the_work_folder(guest: Guest) -> None:
    """A slip in a test must not replace the guest's own programs."""
    with pytest.raises(ValueError, match="not a path below `/work`"):
        guest.run("", {"../init": b""})
    with pytest.raises(ValueError, match=r"`work/script.py` is in the archive already"):
        guest.run("", {"script.py": b""})


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that cannot provide the guest gives a reason, not a traceback: here neither QEMU nor apt-get exists."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GuestUnavailableError, match=r"`(apt-get|qemu-system-x86_64)` is missing"):
        Guest.build(cache=tmp_path)


def test_a_failing_download_is_named(guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where apt cannot download, the reason names what it could not get, and no half file is left in the cache."""
    settings = tmp_path / "apt.conf"
    settings.write_text(f'Dir::Bin::Methods "{tmp_path}";')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    with pytest.raises(GuestUnavailableError, match="linux-image-"):
        Guest.build(cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_missing_guest_fails_only_where_it_must_exist() -> None:
    """A skip is for other people's machines; root in continuous integration gets a failure."""
    with pytest.raises(pytest.fail.Exception, match="no guest: why"):
        without_guest("why", {"CI": "true"}, is_root=True)
    for environment, is_root in (({"CI": "true"}, False), ({}, True)):
        with pytest.raises(pytest.skip.Exception, match="no guest: why"):
            without_guest("why", environment, is_root=is_root)
