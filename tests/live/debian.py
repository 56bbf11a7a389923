"""What the emulated machine is made of, taken from Debian's archive without installing more than QEMU itself.

A kernel package would run hooks and rebuild the boot menu of the machine that tests, and `busybox-static` throws out an
installed `busybox`; both are therefore only unpacked. QEMU comes with many libraries and has to be installed.

apt takes 4 s of a processor to read its lists, whatever it is asked for, where a container image keeps no cache of
them. So one call downloads all packages of a directory, and one process at a time fills a cache: the others wait for
it, without a processor, and find it full.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# Meta packages such as `linux-image-6.12-cloud-amd64` hold no kernel; two dots in the version tell a real one.
_KERNEL = re.compile(r"linux-image-(\d+\.\d+\.\d+\S*-cloud-amd64)")
_APT_SECONDS = 300
# For which lists are new: as long as a run of the suite, in which each process would renew them otherwise.
_LIST_SECONDS = 600


class GuestUnavailableError(Exception):
    """This machine cannot provide the emulated machine; the message says what is missing."""


def cache_home() -> Path:
    """Where all that was unpacked is kept for later runs."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jettison"
    home.mkdir(parents=True, exist_ok=True)
    return home


@contextlib.contextmanager
def filling() -> Iterator[None]:
    """For one process at a time: look again whether there is still something to fetch. The lock ends with its process.

    One lock for all caches, because apt has only one of its lists.
    """
    with (cache_home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def qemu() -> str:
    """Find the emulator; as root, install it when it is missing."""
    binary = "qemu-system-x86_64"
    if shutil.which(binary) is None:
        if os.geteuid() != 0:
            raise GuestUnavailableError(f"`{binary}` is missing and only root can install `qemu-system-x86`")
        with filling():
            if shutil.which(binary) is None:
                _renew_lists()
                options = ("-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120")
                _run("apt-get", "install", *options, "qemu-system-x86")
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
    (content,) = _unpacked([package], scratch).values()
    found = next(content.glob(wanted), None)
    if found is None:
        raise GuestUnavailableError(f"no `{wanted}` in the package `{package}`")
    return found


def programs(name: str, packages: Mapping[str, Sequence[str]]) -> Path:
    """A directory of this name with these files of these packages, kept in a cache for later runs."""
    home = cache_home()
    target = home / name
    if target.exists():
        return target
    with filling(), tempfile.TemporaryDirectory(dir=home) as scratch:
        if target.exists():
            return target
        folder = Path(scratch, "programs")
        folder.mkdir()
        contents = _unpacked(list(packages), Path(scratch))
        for package, wanted in packages.items():
            for each in wanted:
                if not (contents[package] / each).exists():
                    raise GuestUnavailableError(f"no `{each}` in the package `{package}`")
                shutil.copy2(contents[package] / each, folder)
        # Atomic: a process that does not take the lock must not see half of it.
        folder.rename(target)
    return target


def _unpacked(packages: Sequence[str], scratch: Path) -> dict[str, Path]:
    """By package the directory with its files."""
    archives = scratch / "archives"
    archives.mkdir()
    _renew_lists()
    _run("apt-get", "download", "-qq", *packages, cwd=archives)
    contents = {}
    for package in packages:
        contents[package] = scratch / f"{package}.content"
        contents[package].mkdir()
        for archive in archives.glob(f"{package}_*.deb"):
            _run("dpkg", "-x", str(archive), str(contents[package]))
    return contents


def _renew_lists() -> None:
    """Once in a while: an old list names files that the archive no longer has, a container image has none at all.

    A failure is no verdict, because one dead third-party source fails the whole update; the download decides.
    """
    stamp = cache_home() / "lists-renewed"
    if os.geteuid() != 0 or (stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < _LIST_SECONDS):
        return
    with contextlib.suppress(GuestUnavailableError):
        _run("apt-get", "update", "-qq")
        stamp.touch()


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
