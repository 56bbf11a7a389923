"""What a container's process sees of the filesystems: arranged in the forked child, in a mount namespace of its own.

It sees the host's, with its volumes at their mountPath and a `/tmp` of its own; where the node is told so, what it
writes to the host's is kept in a layer of its own (`layering`). Nothing of that is seen by any other process, and it
ends with the last process that is in it. A mountPath that the host does not have is made in that layer, or in a mirror
of the directory above it: a small tmpfs in which every entry of that directory is mounted again. So no empty directory
is left on the host.

Whatever fails is an OSError whose text begins with the mountPath.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from jettison.runtimes.host.processes import layering, system_calls
from jettison.runtimes.host.processes.layering import Layer
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.processes import fork_quietly
from jettison.values import frozen

_ROOT = Path("/")
_PASSABLE, _OWNER_ONLY = 0o755, 0o700
_PATH_ONLY = os.O_PATH | os.O_CLOEXEC
# A directory with more entries than this is not mirrored: each is a mount for the kernel.
_MOST_MIRRORED = 2000
# What a program must be able to write to, however read-only the rest is.
_NEVER_SEALED = ("/proc", "/dev")


@frozen
class MountPoint:
    """`source` below `base`, which is trusted: what is in it may be a pod's own, and no link in there leads out."""

    base: str
    target: str
    source: str = ""
    is_read_only: bool = False


@frozen
class MountPlan:
    """What to arrange. `staging` is an empty directory; with `is_sealed` all but volumes is read-only, with a `layer`
    all but volumes is written there.
    """

    points: tuple[MountPoint, ...]
    staging: str
    is_sealed: bool = False
    layer: Layer | None = None


def arrange(plan: MountPlan) -> None:
    """In the child, as root. Raises OSError."""
    system_calls.unshare_mounts()
    if plan.layer is not None:
        _arrange_on(plan.layer, plan)
        return
    _make_all(plan)
    # Not before: when the root is replaced, what was opened is of another tree.
    sources = _open_all(plan)
    if plan.is_sealed:
        with _about("readOnlyRootFilesystem"):
            system_calls.set_read_only(str(_ROOT), is_read_only=True)
            for path in _NEVER_SEALED:
                system_calls.set_read_only(path, is_read_only=False)
    _mount_all(plan, sources)


def _arrange_on(layer: Layer, plan: MountPlan) -> None:
    # Of the host's tree: below the layer a hostPath would be the pod's own.
    sources = _open_all(plan)
    with _about("private root"):
        layering.cover(layer, Path(plan.staging))
        is_former_there = system_calls.enter_root(plan.staging)
    _make_all(plan, sources)
    _mount_all(plan, sources)
    if is_former_there:
        system_calls.leave_former_root()
    os.chdir(_ROOT)


def _make_all(plan: MountPlan, sources: Sequence[int] = ()) -> None:
    """A place to mount at for each point, where the host has none."""
    ours: set[Path] = set()
    layer = _ROOT.stat().st_dev if sources else None
    for point, source in zip_longest(plan.points, sources, fillvalue=None):
        if point is None or Path(point.target).exists():
            continue
        with _about(point.target):
            place = _make_way(Path(point.target), Path(plan.staging), ours, layer)
            _make_entry(place, is_directory=_is_directory(point, source))


def _open_all(plan: MountPlan) -> list[int]:
    sources = []
    for point in plan.points:
        with _about(point.target):
            sources.append(_open(point))
    return sources


def _mount_all(plan: MountPlan, sources: list[int]) -> None:
    for point, source in zip(plan.points, sources, strict=True):
        with _about(point.target):
            system_calls.bind(f"/proc/self/fd/{source}", point.target)
            if point.is_read_only or plan.is_sealed:
                system_calls.set_read_only(point.target, is_read_only=point.is_read_only)
        os.close(source)


@contextmanager
def _about(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{what}: {kernel_files.reason(error)}") from error


def _open(point: MountPoint) -> int:
    base = os.open(point.base, _PATH_ONLY)
    if not point.source:
        return base
    try:
        return system_calls.open_inside(base, point.source)
    finally:
        os.close(base)


def _missing(target: Path) -> Path:
    """The first directory on the way to the target that is not there, or the target."""
    missing = target
    while not (target.exists() or target.is_symlink()):
        missing, target = target, target.parent
    return missing


def _make_way(target: Path, staging: Path, ours: set[Path], layer: int | None) -> Path:
    """The target, once the directory for it is there. `ours` are directories that are not the host's; `layer` is a
    device of which none is.
    """
    missing = _missing(target)
    place = missing.parent.resolve()
    if place not in ours and place.stat().st_dev != layer:
        _mirror(place, staging)
        ours.add(place)
    *parents, last = target.relative_to(missing.parent).parts
    for name in parents:
        place /= name
        place.mkdir(_PASSABLE)
        ours.add(place)
    return place / last


def _is_directory(point: MountPoint, source: int | None) -> bool:
    if source is not None:
        return stat.S_ISDIR(os.fstat(source).st_mode)
    opened = _open(point)
    try:
        return stat.S_ISDIR(os.fstat(opened).st_mode)
    finally:
        os.close(opened)


def _make_entry(path: Path, *, is_directory: bool) -> None:
    if is_directory:
        path.mkdir(_PASSABLE)
    else:
        path.touch(0o644, exist_ok=False)


def _mirror(directory: Path, staging: Path) -> None:
    """Replace the directory by a tmpfs in which all of its entries are mounted, and more can be made."""
    entries = list(directory.iterdir())
    if len(entries) > _MOST_MIRRORED:
        raise OSError(errno.E2BIG, f"`{directory}` has more than {_MOST_MIRRORED} entries, so nothing is mounted in it")
    found = directory.stat()
    system_calls.mount_mirror(str(staging))
    for entry in entries:
        try:
            _show(entry, staging / entry.name)
        except FileNotFoundError:
            continue  # gone meanwhile
    os.chown(staging, found.st_uid, found.st_gid)
    staging.chmod(stat.S_IMODE(found.st_mode))
    if directory == _ROOT:
        system_calls.become_root(str(staging))
    else:
        system_calls.move_mount(str(staging), str(directory))


def _show(entry: Path, target: Path) -> None:
    if entry.is_symlink():
        target.symlink_to(entry.readlink())
        return
    _make_entry(target, is_directory=entry.is_dir())
    system_calls.bind(str(entry), str(target))


def rehearse(staging: Path, layer: Layer | None = None) -> str:
    """Try it in a child that is gone afterwards: why processes cannot have mounts of their own, or an empty text."""
    if os.geteuid() != 0:
        return "only root may mount"
    try:
        staging.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        if layer is not None:
            Path(layer.directory).mkdir(mode=_OWNER_ONLY)
        told, tell = os.pipe()
        pid = fork_quietly()
    except OSError as error:
        return f"no private mounts: {kernel_files.reason(error)}"
    if pid == 0:
        try:
            arrange(MountPlan((MountPoint(str(staging), f"/{staging.name}"),), str(staging), layer=layer))
        except OSError as error:
            os.write(tell, f"no private mounts: {kernel_files.reason(error)}".encode("utf-8", "replace")[:500])
        finally:
            os._exit(0)
    os.close(tell)
    try:
        return os.read(told, 1000).decode("utf-8", "replace")
    finally:
        os.close(told)
        os.waitpid(pid, 0)
