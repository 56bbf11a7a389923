"""Runs of the emulated machine are bounded, and a machine that cannot have one says why."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.conftest import without_guest
from tests.live.debian import GuestUnavailableError
from tests.live.guest import Guest, GuestFailedError


def test_a_guest_that_hangs_is_ended_and_leaves_nothing(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run is bounded: past its time the emulator is gone, and so are its files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(GuestFailedError, match="did not end within 2 s"):
        guest.run("import time; time.sleep(600)", timeout=2)
    assert list(tmp_path.iterdir()) == []
    running = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            running.append(path.read_bytes())
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
    package = "Package: linux-image-9.9.9-cloud-amd64\nVersion: 1\nArchitecture: amd64\nFilename: k.deb\nSize: 1\n"
    places = {"Etc::SourceList": "sources", "Etc::SourceParts": "none", "State::Lists": "lists", "Bin::Methods": "none"}
    settings = tmp_path / "apt.conf"
    settings.write_text("".join(f'Dir::{name} "{tmp_path / place}";\n' for name, place in places.items()))
    # One package, and not Debian's 60,000, whose lists take apt 4 s.
    (tmp_path / "sources").write_text("deb [trusted=yes] http://127.0.0.1/ ./\n")
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "127.0.0.1_._Packages").write_text(f"{package}SHA256: {'0' * 64}\nDescription: a kernel\n")
    monkeypatch.setenv("APT_CONFIG", str(settings))
    with pytest.raises(GuestUnavailableError, match=r"download.* linux-image-9\.9\.9"):
        Guest.build(cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_missing_guest_fails_only_where_it_must_exist() -> None:
    """A skip is for other people's machines; root in continuous integration gets a failure."""
    with pytest.raises(pytest.fail.Exception, match="no guest: why"):
        without_guest("why", {"CI": "true"}, is_root=True)
    for environment, is_root in (({"CI": "true"}, False), ({}, True)):
        with pytest.raises(pytest.skip.Exception, match="no guest: why"):
            without_guest("why", environment, is_root=is_root)
