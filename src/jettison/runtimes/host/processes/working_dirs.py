"""Where a container begins, made when it is missing: in its own directory or a volume of its pod, never elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from jettison.errors import StartError
from jettison.runtimes.host.processes.environment import working_directory
from jettison.runtimes.host.specs.security import NO_SECURITY, SecuritySpec
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.host.volumes.descent import descended
from jettison.runtimes.host.volumes.volumes import Volume
from jettison.runtimes.linux.files import kernel_files


def make_working_dir(
    spec: ContainerSpec, writable_dir: Path, volumes: Mapping[str, Volume], owner: SecuritySpec = NO_SECURITY
) -> None:
    """Raises StartError. A path of the host is left to itself; that it is missing, the start will tell."""
    wanted = working_directory(spec, writable_dir)
    if not wanted.is_relative_to(writable_dir) or wanted.is_dir():
        return
    base, rest = _way(spec, writable_dir, wanted, volumes)
    try:
        if ".." in rest.parts:
            raise StartError(f"cannot make workingDir `{spec.working_dir}`: allowed is one without `..`")
        with descended(base, rest, owner.user, owner.group):
            return
    except OSError as error:
        raise StartError(f"cannot make workingDir `{spec.working_dir}`: {kernel_files.reason(error)}") from error


def _way(spec: ContainerSpec, writable_dir: Path, wanted: Path, volumes: Mapping[str, Volume]) -> tuple[Path, PurePath]:
    inside = wanted.relative_to(writable_dir)
    for mount in spec.mounts:
        if inside.is_relative_to(mount.path):
            return volumes[mount.volume].path, mount.sub_path / inside.relative_to(mount.path)
    return writable_dir, inside
