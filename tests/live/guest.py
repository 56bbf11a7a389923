"""A small emulated machine with cgroup v2, where tests have a kernel and its controllers for themselves.

It boots by pure emulation (QEMU's TCG): no hardware virtualisation and no privilege is needed. Its clock is the host's
and its processor is some ten times slower, so it shows how code behaves, never how fast it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from tests.live import debian, initramfs
from tests.live.debian import GuestUnavailableError

SOURCE = Path(__file__).parents[2] / "src"
_RESULT = "RESULT "
_UNUSED_DAYS = 30
# All that an x86-64-v2 distribution needs. With `max` the same run takes half as much processor time again: five levels
# of page tables and wide registers are dear to emulate.
_PROCESSOR = "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt"
# Its programs are ours: without what protects a kernel from programs a run takes a tenth less processor time.
_UNPROTECTED = "mitigations=off init_on_alloc=0 nokaslr audit=0 lsm="


class GuestFailedError(Exception):
    """The guest ended without an exit code, or not in time; the message ends with what it said last."""


@dataclass(frozen=True, slots=True)
class GuestResult:
    """What one run left: `values` merges the objects of all lines `RESULT {json}`, later ones win."""

    exit_code: int
    output: str
    values: Mapping[str, Any]
    console: str


@dataclass(frozen=True, slots=True)
class Guest:
    """A kernel and a file system, ready to boot as often as wanted; nothing survives from run to run."""

    qemu: str
    kernel: Path
    base: Path

    @classmethod
    def build(cls, cache: Path | None = None) -> Guest:
        """Fetch and pack what is not in the cache yet. Once it is, no run needs root, Debian or a network."""
        if platform.machine() != "x86_64":
            raise GuestUnavailableError(f"the guest is an x86_64 machine, not `{platform.machine()}`")
        folder = cache or debian.cache_home() / "guest"
        folder.mkdir(parents=True, exist_ok=True)
        return cls(debian.qemu(), _kernel(folder), _base(folder))

    def run(
        self,
        script: str,
        files: Mapping[str, bytes] | None = None,
        *,
        timeout: float = 60,
        memory_mib: int = 512,
        disk_mib: int = 0,
        more: bytes = b"",
    ) -> GuestResult:
        """Boot, run `script` as root beside `files` in `/work`, with the checkout's `jettison` importable; power off.

        Boot and power-off take 5–8 s; of 512 MiB some 330 are available when the script starts. A disk is
        `/dev/nvme0n1` and full of zeros: all other files lie in memory, where the kernel has no cache to drop.
        `more` is an archive that is unpacked over all others.
        """
        with tempfile.TemporaryDirectory(prefix="jettison-guest-") as name:
            scratch = Path(name)
            shutil.copyfile(self.base, scratch / "initrd")
            with (scratch / "initrd").open("ab") as initrd:
                initrd.write(_cargo(script, files or {}) + more)
            _boot(self._command(scratch, memory_mib) + _disk(scratch, disk_mib), scratch, timeout)
            return _result(scratch)

    def _command(self, scratch: Path, memory_mib: int) -> list[str]:
        serial = [word for port in ("console", "output", "status") for word in ("-serial", f"file:{scratch / port}")]
        return [
            # A test run that is killed cannot clean up: the kernel ends the emulator together with its parent.
            *("setpriv", "--pdeathsig", "KILL", self.qemu),
            *("-accel", "tcg,thread=multi", "-cpu", _PROCESSOR, "-m", str(memory_mib), "-smp", "1"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", *serial),
            *("-kernel", str(self.kernel), "-initrd", str(scratch / "initrd")),
            *("-append", f"console=ttyS0 quiet panic=-1 psi=1 cgroup_no_v1=all {_UNPROTECTED}"),
        ]


def _disk(scratch: Path, mib: int) -> list[str]:
    """NVMe, because the kernel for clouds has no other driver for disks built in."""
    if not mib:
        return []
    image = scratch / "disk"
    with image.open("wb") as file:
        file.truncate(mib << 20)
    return ["-drive", f"file={image},if=none,format=raw,id=disk", "-device", "nvme,drive=disk,serial=1"]


def _kernel(folder: Path) -> Path:
    """The newest kernel in the cache; Debian is asked only when there is none."""
    if cached := _cached_kernel(folder):
        return cached
    with debian.filling(), tempfile.TemporaryDirectory() as scratch:
        if cached := _cached_kernel(folder):
            return cached
        release = debian.newest_kernel()
        found = debian.unpack(f"linux-image-{release}", "boot/vmlinuz-*", Path(scratch))
        return _keep(folder / f"vmlinuz-{release}", found.read_bytes())


def _cached_kernel(folder: Path) -> Path | None:
    return max(folder.glob("vmlinuz-*"), key=lambda path: debian.kernel_order(path.name), default=None)


def _base(folder: Path) -> Path:
    path = folder / f"base-{platform.python_version()}-{_recipe()}.cpio"
    if path.exists():
        os.utime(path)
        return path
    with debian.filling(), tempfile.TemporaryDirectory() as scratch:
        if path.exists():
            return path
        busybox = debian.unpack("busybox-static", "**/bin/busybox", Path(scratch))
        return _keep(path, initramfs.base(busybox))


def _recipe() -> str:
    """Changes with whatever goes into the base: how it is packed, the interpreter, the requirements."""
    requirements = [f"{each.name} {each.version}" for each in initramfs.distributions()]
    interpreter = [sys.version, str(Path(sys.executable).resolve())]
    text = "\n".join([Path(initramfs.__file__).read_text(), *interpreter, *requirements])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _keep(path: Path, data: bytes) -> Path:
    """Write at once or not at all, as two test runs may build together; drop what no run has used for long."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as scratch:
        new = Path(scratch, path.name)
        new.write_bytes(data)
        new.replace(path)
    for old in path.parent.glob("base-*"):
        if old.stat().st_mtime < time.time() - _UNUSED_DAYS * 86400:
            old.unlink(missing_ok=True)
    return path


def _cargo(script: str, files: Mapping[str, bytes]) -> bytes:
    """The second archive, which differs from run to run and is unpacked over the base."""
    archive = initramfs.Archive()
    archive.source("work/script.py", script.encode())
    for name, data in files.items():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"`{name}` is not a path below `/work`")
        if name.endswith(".py"):
            archive.source(f"work/{name}", data)
        else:
            archive.add(f"work/{name}", data)
    return _checkout() + bytes(archive)


@cache
def _checkout() -> bytes:
    """Compiling it takes 2 s, once for all runs of a process."""
    archive = initramfs.Archive()
    archive.tree("src", SOURCE)
    return bytes(archive)


def _boot(command: list[str], scratch: Path, timeout: float) -> None:
    with (
        (scratch / "complaints").open("wb") as complaints,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=complaints, stderr=complaints) as emulator,
    ):
        try:
            emulator.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise GuestFailedError(f"the guest did not end within {timeout:g} s\n{_last_words(scratch)}") from error
        finally:
            emulator.kill()


def _result(scratch: Path) -> GuestResult:
    status = _read(scratch / "status").strip()
    if not status.isdigit():
        raise GuestFailedError(f"the guest ended without an exit code\n{_last_words(scratch)}")
    output = _read(scratch / "output")
    values: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith(_RESULT):
            values |= json.loads(line.removeprefix(_RESULT))
    return GuestResult(int(status), output, values, _read(scratch / "console"))


def _last_words(scratch: Path) -> str:
    return "\n".join(f"{name}: {_read(scratch / name)[-2000:]}" for name in ("complaints", "console", "output"))


def _read(path: Path) -> str:
    """Serial lines carry any byte, and the file is missing when the emulator did not even start."""
    return path.read_bytes().decode(errors="replace") if path.exists() else ""
