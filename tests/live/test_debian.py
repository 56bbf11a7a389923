"""Programs of packages are fetched together and once, however many processes want them. The archive is a directory."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import debian
from tests.live.debian import GuestUnavailableError

WANTED = {"first": ("usr/bin/one", "usr/bin/two"), "second": ("usr/bin/three",)}
FETCH = f"from tests.live import debian; print(debian.programs('pair', {WANTED!r}))"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each call of apt-get is a line of this file. Its lists, its archive and the cache are the test's own."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        pytest.skip("only root of a Debian machine renews lists")
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "Packages").write_text("".join(add(archive, package, WANTED[package]) for package in WANTED))
    state = tmp_path / "apt"
    (state / "lists" / "partial").mkdir(parents=True)
    (state / "sources.list").write_text(f"deb [trusted=yes] file:{archive} ./\n")
    (state / "apt.conf").write_text(
        f'Dir::State::lists "{state}/lists"; Dir::Etc::sourcelist "{state}/sources.list"; Dir::Etc::sourceparts "-";\n'
        f'Dir::Cache "{state}"; APT::Sandbox::User "root"; APT::Update::Post-Invoke-Success ""; #clear APT::Update;\n'
    )
    told = tmp_path / "calls"
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "apt-get").write_text(f'#!/bin/sh\necho "$1" >> {told}\nexec {shutil.which("apt-get")} "$@"\n')
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("APT_CONFIG", str(state / "apt.conf"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return told


def add(archive: Path, package: str, files: tuple[str, ...]) -> str:
    """A package, and its paragraph in the list."""
    tree = archive.parent / package
    for file in files:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / file).write_text(file)
    about = (
        f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: tests <tests@localhost>\nDescription: one\n"
    )
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN" / "control").write_text(about)
    built = archive / f"{package}.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(built)], check=True, capture_output=True)
    data = built.read_bytes()
    return f"{about}Filename: ./{built.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"


def test_processes_that_want_the_same_fetch_it_once(calls: Path, tmp_path: Path) -> None:
    """One renewal of the lists and one download for both packages; the processes that waited find the directory."""
    root = Path(__file__).parents[2]
    running = [
        subprocess.Popen([sys.executable, "-c", FETCH], cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    told = [process.communicate()[0].strip() for process in running]
    target = tmp_path / "cache" / "jettison" / "pair"
    assert told == [str(target)] * 3
    assert {path.name: path.read_text() for path in target.iterdir()} == {
        "one": "usr/bin/one",
        "two": "usr/bin/two",
        "three": "usr/bin/three",
    }
    assert calls.read_text().split() == ["update", "download"]


def test_a_file_that_no_package_has_is_named_and_nothing_is_kept(calls: Path, tmp_path: Path) -> None:
    """The next run would take half a directory for a whole one."""
    with pytest.raises(GuestUnavailableError, match=r"no `usr/bin/none` in the package `second`"):
        debian.programs("pair", {**WANTED, "second": ("usr/bin/none",)})
    with pytest.raises(GuestUnavailableError, match=r"apt-get download -qq missing"):
        debian.programs("pair", {"missing": ("usr/bin/one",)})
    assert not (tmp_path / "cache" / "jettison" / "pair").exists()
    assert calls.read_text().split() == ["update", "download", "download"]
