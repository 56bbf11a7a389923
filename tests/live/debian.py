"""What the emulated machine is made of, taken from Debian's archive without installing more than QEMU itself.

A kernel package would run hooks and rebuild the boot menu of the machine that tests, and `busybox-static` throws out an
installed `busybox`; both are therefore only unpacked. QEMU comes with many libraries and has to be installed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# Meta packages such as `linux-image-6.12-cloud-amd64` hold no kernel; two dots in the version tell a real one.
_KERNEL = re.compile(r"linux-image-(\d+\.\d+\.\d+\S*-cloud-amd64)")
_APT_SECONDS = 300


class GuestUnavailableError(Exception):
    """This machine cannot provide the emulated machine; the message says what is missing."""


def qemu() -> str:
    """Find the emulator; as root, install it when it is missing."""
    binary = "qemu-system-x86_64"
    if shutil.which(binary) is None:
        if os.geteuid() != 0:
            raise GuestUnavailableError(f"`{binary}` is missing and only root can install `qemu-system-x86`")
        _renew_lists()
        _run("apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120", "qemu-system-x86")
    return binary


def newest_kernel() -> str:
    """The release of the newest kernel for clouds: the small flavour, with all that we need built in."""
    _renew_lists()
    listing = _run("apt-cache", "search", "--names-only", "^linux-image-[0-9].*-cloud-amd64$")
    releases = [match[1] for line in listing.splitlines() if (match := _KERNEL.fullmatch(line.split(" ")[0]))]
    if not releases:
        raise GuestUnavailableError("no `linux-image-*-cloud-amd64` in the package lists")
    return max(releases, key=kernel_order)


def kernel_order(release: str) -> tuple[int, ...]:
    """Sort key, oldest first: 6.12.9 comes before 6.12.115, which the alphabet has the other way round."""
    return tuple(int(number) for number in re.findall(r"\d+", release))


def unpack(package: str, wanted: str, scratch: Path) -> Path:
    """Unpack a package below `scratch` and name the one file in it that matches the glob `wanted`."""
    folder = scratch / package
    folder.mkdir()
    _renew_lists()
    _run("apt-get", "download", "-qq", package, cwd=folder)
    for archive in folder.glob("*.deb"):
        _run("dpkg", "-x", archive.name, "content", cwd=folder)
    found = next((folder / "content").glob(wanted), None)
    if found is None:
        raise GuestUnavailableError(f"no `{wanted}` in the package `{package}`")
    return found


def programs(name: str, packages: Mapping[str, Sequence[str]]) -> Path:
    """A directory of this name with these files of these packages, kept in a cache for later runs."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jettison"
    target = home / name
    if not target.exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            folder = Path(scratch, "programs")
            folder.mkdir()
            for package, wanted in packages.items():
                content = unpack(package, wanted[0], Path(scratch)).parents[len(Path(wanted[0]).parts) - 1]
                for each in wanted:
                    shutil.copy2(content / each, folder)
            try:
                # Atomic: two runs at once must not see half of it.
                folder.rename(target)
            except OSError:
                if not target.exists():
                    raise
    return target


@functools.cache
def _renew_lists() -> None:
    """Once per process: an old list names files that the archive no longer has, a container image has none at all.

    A failure is no verdict, because one dead third-party source fails the whole update; the download decides.
    """
    if os.geteuid() == 0:
        with contextlib.suppress(GuestUnavailableError):
            _run("apt-get", "update", "-qq")


def _run(*command: str, cwd: Path | None = None) -> str:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=_APT_SECONDS, check=True
        )
    except FileNotFoundError as error:
        raise GuestUnavailableError(f"`{command[0]}` is missing: this is not a Debian machine") from error
    except subprocess.TimeoutExpired as error:
        raise GuestUnavailableError(f"`{shown}` did not end within {_APT_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["no message"]
        complaint = next((line for line in lines if line.startswith("E:")), lines[-1])  # apt ends with notices
        raise GuestUnavailableError(f"`{shown}` failed: {complaint}") from error
    return done.stdout
