"""The guest's whole file system: an archive that the kernel unpacks into memory, with no disk and no module.

Layout inside: BusyBox and its commands in `/bin`, the interpreter that runs the tests in `/usr`, what the project
requires in `/site`, the project in `/src`, the script and its files in `/work`. Nothing else of the host gets in.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import marshal
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

PYTHON = f"usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
STDLIB = f"usr/lib/python{sys.version_info.major}.{sys.version_info.minor}"

# Serial ports: 0 is the kernel's console, 1 what the script says, 2 its exit code. One for each, because the kernel
# reports every OOM kill in the middle of other people's lines. Controllers stay off, as the kernel leaves them.
INIT = f"""#!/bin/sh
export PATH=/bin:/usr/bin HOME=/root PYTHONPATH=/src:/site PYTHONUNBUFFERED=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
stty -F /dev/ttyS1 raw
cd /work
/{PYTHON} script.py </dev/null >/dev/ttyS1 2>&1
echo $? >/dev/ttyS2
poweroff -f
"""

_UNWANTED_FOLDERS = {
    "__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tests",
    "tkinter", "turtledemo",
}  # fmt: skip
_UNWANTED_FILES = re.compile(r"_tkinter\..*|_(ctypes_)?test.*\.so|xx.*\.so|.*\.(a|exe|pyc|pyi)")


class Archive:
    """A cpio archive in the one dialect the kernel reads, "newc"; writing it ourselves needs no root for devices."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._names: set[str] = set()

    def add(
        self, name: str, data: bytes = b"", mode: int = stat.S_IFREG | 0o644, device: tuple[int, int] = (0, 0)
    ) -> None:
        """Add one entry, its folders first; the kernel would quietly let a second one of the same name win."""
        if name in self._names:
            raise ValueError(f"`{name}` is in the archive already")
        folder = name.rpartition("/")[0]
        if folder and folder not in self._names:
            self.folder(folder)
        self._names.add(name)
        self._parts.append(_entry(name, data, mode, device))

    def folder(self, name: str) -> None:
        self.add(name, mode=stat.S_IFDIR | 0o755)

    def symlink(self, name: str, target: str) -> None:
        self.add(name, target.encode(), stat.S_IFLNK | 0o777)

    def program(self, name: str, data: bytes) -> None:
        self.add(name, data, stat.S_IFREG | 0o755)

    def source(self, name: str, data: bytes, path: Path | None = None) -> None:
        """Add a Python file with its bytecode: the emulated processor would spend seconds on compiling.

        With the `path` that the data came from, bytecode that an import has left there is taken.
        """
        self.add(name, data)
        bytecode = _bytecode(name, data, path)
        if bytecode is not None:
            self.add(importlib.util.cache_from_source(name), bytecode)

    def file(self, name: str, path: Path) -> None:
        if path.suffix == ".py":
            self.source(name, path.read_bytes(), path)
        else:
            self.add(name, path.read_bytes())

    def binary(self, name: str, path: Path) -> None:
        """A program or library, without symbols and debugging data where the machine has `strip`.

        Those are 26 of 78 MB where the interpreter was built from source, and the kernel copies all at boot.
        """
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch, "stripped")
            command = ["strip", "--strip-unneeded", "-o", str(target), str(path)]
            if shutil.which("strip") and not subprocess.run(command, capture_output=True, check=False).returncode:
                path = target
            self.program(name, path.read_bytes())

    def tree(self, name: str, root: Path) -> None:
        for path in wanted(root):
            if path.suffix == ".so":
                self.binary(f"{name}/{path.relative_to(root)}", path)
            else:
                self.file(f"{name}/{path.relative_to(root)}", path)

    def __bytes__(self) -> bytes:
        return b"".join(self._parts) + _entry("TRAILER!!!", b"", 0, (0, 0))


def wanted(root: Path) -> Iterator[Path]:
    """The files of a Python tree that can be imported or read, in a fixed order."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in _UNWANTED_FOLDERS and not f.startswith("config-"))
        for file in sorted(files):
            path = Path(folder, file)
            if not _UNWANTED_FILES.fullmatch(file) and path.is_file():
                yield path


def base(busybox: Path) -> bytes:
    """Everything that stays the same from run to run: 2 s to pack, 52 MB."""
    archive = Archive()
    archive.add("dev/console", mode=stat.S_IFCHR | 0o600, device=(5, 1))
    for mount_point in ("proc", "sys", "tmp", "run"):
        archive.folder(mount_point)
    archive.program("init", INIT.encode())
    archive.program("bin/busybox", busybox.read_bytes())
    for command in set(subprocess.check_output([busybox, "--list"], text=True).split()) - {"busybox"}:
        archive.symlink(f"bin/{command}", "busybox")
    _add_python(archive)
    return bytes(archive)


def distributions(extra: str = "") -> list[importlib.metadata.Distribution]:
    """What the project requires at run time, with this extra, and what that requires; development tools stay out."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = ["jettison"]
    while waiting:
        distribution = importlib.metadata.distribution(waiting.pop())
        for requirement in map(Requirement, distribution.requires or ()):
            needed = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            if needed and requirement.name not in found:
                found[requirement.name] = importlib.metadata.distribution(requirement.name)
                waiting.append(requirement.name)
    return [found[name] for name in sorted(found)]


def _add_python(archive: Archive) -> None:
    executable = Path(sys.executable).resolve()
    archive.binary(PYTHON, executable)
    archive.symlink("usr/bin/python3", "/" + PYTHON)
    stdlib = Path(sysconfig.get_path("stdlib"))
    archive.tree(STDLIB, stdlib)
    binaries = [executable, *(path for path in wanted(stdlib) if path.suffix == ".so")]
    for distribution in distributions():
        binaries += add_distribution(archive, distribution)
    add_libraries(archive, binaries)


def add_distribution(archive: Archive, distribution: importlib.metadata.Distribution) -> list[Path]:
    """Below `/site`; returns its compiled parts."""
    binaries = []
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file))).resolve()
        if ".." not in file.parts and not _UNWANTED_FILES.fullmatch(file.name) and path.is_file():
            archive.file(f"site/{file}", path)
            binaries += [path] if ".so" in path.suffixes else []
    return binaries


def add_libraries(archive: Archive, binaries: Iterable[Path]) -> None:
    """Put all libraries into the loader's default folder: wherever they came from, they are found without a cache."""
    listing = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    for name, path in dict(re.findall(r"^\t(\S+) => (/\S+) ", listing, re.MULTILINE)).items():
        archive.binary(f"lib/x86_64-linux-gnu/{name}", Path(path))
    for loader in set(re.findall(r"^\t/(\S+) \(", listing, re.MULTILINE)):
        archive.program(loader, Path("/", loader).read_bytes())


def _bytecode(name: str, data: bytes, path: Path | None) -> bytes | None:
    """Bytecode that is never checked against its source; None for a file that is a template or a bad example."""
    code = None if path is None else _imported(path)
    if code is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                code = marshal.dumps(compile(data, f"/{name}", "exec", dont_inherit=True, optimize=0))
            except (SyntaxError, ValueError):
                return None
    flags = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(data) + code


def _imported(path: Path) -> bytes | None:
    """The code that an import has left beside its source, where it is the source's by its time and size.

    It names another file than it will lie in; an import puts that right.
    """
    try:
        kept = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        about = path.stat()
    except OSError:
        return None
    moment = int(about.st_mtime) & 0xFFFFFFFF
    expected = b"".join(number.to_bytes(4, "little") for number in (0, moment, about.st_size & 0xFFFFFFFF))
    return kept[16:] if kept[:16] == importlib.util.MAGIC_NUMBER + expected else None


def _entry(name: str, data: bytes, mode: int, device: tuple[int, int]) -> bytes:
    encoded = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
