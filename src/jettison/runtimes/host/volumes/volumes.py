"""The volumes of a pod, as directories that its containers can reach.

A container sees its volumes at their mountPath where the node may mount (`processes.mounting`). Everywhere a process
also has them as symbolic links in its writable directory, at the mountPath, and as paths in its environment,
`JETTISON_VOLUME_<NAME>`. An emptyDir of medium Memory is a tmpfs where mounting is permitted and an ordinary directory
where it is not. Everything here may wait for a disk: call it from a thread.

The way down into a directory that pods write in is gone one step at a time, and no symbolic link is followed: a volume
outlives the container that left a link in it, and directories and links are made as root.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath

from jettison.errors import MountError
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.specs.volumes import MountSpec, VolumeSpec
from jettison.runtimes.linux.files import kernel_files
from jettison.values import frozen

# Whatever users the containers run as, they share their volumes.
_SHARED = 0o777
_UNCHANGED = -1

_MODE, _OWNER_ONLY = 0o755, 0o700
# Not the name of a volume, and gone with them.
_SHARED_MEMORY, _STICKY = ".shm", 0o1777
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@frozen
class Volume:
    """A volume that is there. `is_memory` tells what it is, not what was asked for."""

    name: str
    path: Path
    is_memory: bool = False
    # A hostPath is not ours to measure as the pod's, and not ours to remove.
    is_host: bool = False
    # Its files are the node's: pods only read them.
    is_content: bool = False


def prepare(volumes_dir: Path, specs: Iterable[VolumeSpec], group: int | None = None) -> tuple[Volume, ...]:
    """Make what is missing; what is there from before is kept. Raises MountError.

    An emptyDir belongs to `group`, the pod's fsGroup, and so does what is made in it; a hostPath is left as it is, and
    not looked at (`check_host_paths`): without a type it need not even exist.
    """
    return tuple(_prepare(volumes_dir, spec, group) for spec in specs)


def check_host_paths(specs: Iterable[VolumeSpec]) -> None:
    """Each is what its type says; what a type wants made is made. Raises MountError.

    May never return: a network file system whose server is gone makes each question about it wait.
    """
    for spec in specs:
        if spec.host_path is not None and spec.host_path_type:
            try:
                _check_host_path(spec, Path(spec.host_path))
            except OSError as error:
                raise _not_set_up(spec, error) from error


def shared_memory(volumes_dir: Path) -> Path | None:
    """A tmpfs that a pod's processes have as `/dev/shm`; None where it cannot be mounted. Raises MountError.

    What lies in the host's stays there when the pod has ended: no eviction would free that memory.
    """
    path = volumes_dir / _SHARED_MEMORY
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not path.is_mount() and not _mount(path, None):
            return None
        path.chmod(_STICKY)
    except OSError as error:
        raise MountError(f"cannot set up `/dev/shm`: {kernel_files.reason(error)}") from error
    return path


def link(
    writable_dir: Path, mounts: Iterable[MountSpec], volumes: Mapping[str, Volume], *, are_mounted: bool = False
) -> None:
    """Let a container see its volumes. Raises MountError.

    With `are_mounted` the links lead to where it has them mounted, so that a read-only one is read-only here, too.
    """
    done: list[MountSpec] = []
    for mount in mounts:
        volume = volumes[mount.volume].path
        # A mount below another one lies in that volume.
        outer = next((each for each in reversed(done) if mount.path.is_relative_to(each.path)), None)
        base, rest = writable_dir, mount.path
        if outer is not None:
            base, rest = volumes[outer.volume].path, outer.sub_path / mount.path.relative_to(outer.path)
        try:
            ensure_sub_path(volumes[mount.volume], mount.sub_path)
            with descended(base, rest.parent) as directory:
                at_mount = are_mounted and outer is None
                _link(directory, rest.name, Path("/", mount.path) if at_mount else volume / mount.sub_path)
        except OSError as error:
            why = kernel_files.reason(error)
            raise MountError(f"cannot mount volume `{mount.volume}` on `/{mount.path}`: {why}") from error
        done.append(mount)


def ensure_sub_path(volume: Volume, sub_path: PurePath) -> None:
    """That it is there, made as a directory where it is missing. Raises OSError; no link in it leads out."""
    if not sub_path.parts:
        return
    base = os.open(volume.path, _DIRECTORY)
    try:
        os.close(system_calls.open_inside(base, str(sub_path)))
    except OSError as error:
        if volume.is_content or error.errno not in (errno.ENOENT, errno.ENOSYS):
            raise
        # As open as the volume itself, as a kubelet makes it: the container may be any user.
        with descended(volume.path, sub_path, mode=stat.S_IMODE(os.fstat(base).st_mode)):
            pass
    finally:
        os.close(base)


def show_sub_path(volume: Volume, sub_path: PurePath, place: Path) -> None:
    """Mount what is there at a place that no pod can write in: a container runtime knows paths only, and a link that a
    pod has put there meanwhile would lead it elsewhere. Raises OSError.
    """
    ensure_sub_path(volume, sub_path)
    base = os.open(volume.path, _DIRECTORY)
    try:
        found = system_calls.open_inside(base, str(sub_path))
        try:
            if stat.S_ISDIR(os.fstat(found).st_mode):
                place.mkdir(mode=_OWNER_ONLY, parents=True)
            else:
                place.parent.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
                place.touch(_OWNER_ONLY)
            system_calls.bind(f"/proc/self/fd/{found}", str(place))
        finally:
            os.close(found)
    finally:
        os.close(base)


def _link(directory: int, name: str, target: Path) -> None:
    """Raises OSError."""
    try:
        os.symlink(target, name, dir_fd=directory)
    except FileExistsError:
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        if not is_link or Path(os.readlink(name, dir_fd=directory)) != target:
            raise


def variable(volume: str) -> str:
    """The name of the environment variable that holds the volume's path."""
    return f"JETTISON_VOLUME_{volume.upper().replace('-', '_')}"


def _prepare(volumes_dir: Path, spec: VolumeSpec, group: int | None) -> Volume:
    try:
        if spec.host_path is not None:
            return Volume(spec.name, Path(spec.host_path), is_host=True)
        found = _empty_dir(spec, volumes_dir / spec.name)
        if spec.content is not None:
            found.path.chmod(_MODE)
            return replace(found, is_content=True)
        if group is not None:
            os.chown(found.path, _UNCHANGED, group)
        found.path.chmod(_SHARED if group is None else _SHARED | stat.S_ISGID)
        return found
    except OSError as error:
        raise _not_set_up(spec, error) from error


def _not_set_up(spec: VolumeSpec, error: OSError) -> MountError:
    return MountError(f"cannot set up volume `{spec.name}`: {kernel_files.reason(error)}")


def _empty_dir(spec: VolumeSpec, path: Path) -> Volume:
    path.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise MountError(f"cannot set up volume `{spec.name}`: `{path}` is a symbolic link")
    if spec.is_memory and (path.is_mount() or _mount(path, spec.size_limit)):
        return Volume(spec.name, path, is_memory=True)
    return Volume(spec.name, path)


def _mount(path: Path, size: int | None) -> bool:
    try:
        system_calls.mount_tmpfs(path, size)
    except MountError as failure:
        if isinstance(failure.__cause__, PermissionError):
            return False
        raise
    return True


# What each type is, and how Kubernetes calls it.
_KINDS: Mapping[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def _check_host_path(spec: VolumeSpec, path: Path) -> None:
    """What is there is not opened: a pipe would be waited for."""
    kind = spec.host_path_type
    mode = _mode_of(path)
    if mode is None and kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif mode is None and kind == "FileOrCreate":
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, mode=0o644))
    mode = _mode_of(path)
    is_kind, name = _KINDS[kind]
    if mode is None or not is_kind(mode):
        raise MountError(f"cannot set up volume `{spec.name}`: hostPath type check failed: {path} is not a {name}")


def _mode_of(path: Path) -> int | None:
    """None where there is nothing."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def descended(
    base: Path, rest: PurePath, user: int | None = None, group: int | None = None, mode: int = _MODE
) -> Iterator[int]:
    """A descriptor of `rest` below `base`, which is trusted. What is missing is made so.

    Raises OSError; `rest` must not go up.
    """
    owner = (_UNCHANGED if user is None else user, _UNCHANGED if group is None else group)
    here = os.open(base, _DIRECTORY)
    try:
        for name in rest.parts:
            below = _step(here, name, owner, mode)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _step(here: int, name: str, owner: tuple[int, int], mode: int) -> int:
    """A directory that was there keeps its owner."""
    try:
        os.mkdir(name, _OWNER_ONLY, dir_fd=here)
    except FileExistsError:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    try:
        os.fchown(below, *owner)
        os.fchmod(below, mode)
    except OSError:
        os.close(below)
        raise
    return below
