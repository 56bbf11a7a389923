"""Where a container begins, made when it is missing: below its own directory or a volume of its pod, never elsewhere.

A volume outlives the container that left a symbolic link in it, and we make directories as root. So the way down is
gone one step at a time, and no link is followed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePath

from jettison.errors import ActionFailed
from jettison.runtimes.host.environment import working_directory
from jettison.runtimes.host.spec import ContainerSpec
from jettison.runtimes.host.volumes import Volume
from jettison.runtimes.linux import kernel_files

_MODE = 0o755
_UNCHANGED = -1
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def make_working_dir(spec: ContainerSpec, writable_dir: Path, volumes: Mapping[str, Volume]) -> None:
    """Raises ActionFailed. A path of the host is left to itself; that it is missing, the start will tell."""
    wanted = working_directory(spec, writable_dir)
    if not wanted.is_relative_to(writable_dir) or wanted.is_dir():
        return
    base, rest = _way(spec, writable_dir, wanted, volumes)
    try:
        if ".." in rest.parts:
            raise ActionFailed(f"cannot make workingDir `{spec.working_dir}`: allowed is one without `..`")
        _make(base, rest, spec)
    except OSError as error:
        raise ActionFailed(f"cannot make workingDir `{spec.working_dir}`: {kernel_files.reason(error)}") from error


def _way(spec: ContainerSpec, writable_dir: Path, wanted: Path, volumes: Mapping[str, Volume]) -> tuple[Path, PurePath]:
    inside = wanted.relative_to(writable_dir)
    for mount in spec.mounts:
        if inside.is_relative_to(mount.path):
            return volumes[mount.volume].path, mount.sub_path / inside.relative_to(mount.path)
    return writable_dir, inside


def _make(base: Path, rest: PurePath, spec: ContainerSpec) -> None:
    """Raises OSError."""
    here = os.open(base, _DIRECTORY)
    try:
        for name in rest.parts:
            below = _descend(here, name, spec)
            os.close(here)
            here = below
    finally:
        os.close(here)


def _descend(here: int, name: str, spec: ContainerSpec) -> int:
    """A directory that was there belongs to whom it did; ours is the container's."""
    try:
        os.mkdir(name, _MODE, dir_fd=here)
    except FileExistsError:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    os.fchown(below, *(_UNCHANGED if each is None else each for each in (spec.user, spec.group)))
    return below
