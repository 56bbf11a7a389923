"""Filesystems of a few megabytes, mounted from files: what can be filled to the last byte and the last inode."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(mount: Path, mebibytes: int, inodes: int) -> Iterator[Path]:
    """ext4 without anything reserved, in a file beside the directory that it is mounted at."""
    image = mount.with_suffix(".img")
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(mebibytes * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-N", str(inodes), "-m", "0", str(image)], check=True)
    command = ["mount", "-o", "loop", str(image), str(mount)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no loop device to be had: {mounted.stderr.strip()}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)
