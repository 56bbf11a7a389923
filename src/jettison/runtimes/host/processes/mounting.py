"""What a container's process sees of the filesystems: arranged by itself, in a mount namespace of its own.

It sees the host's, with its volumes at their mountPath and a `/tmp` of its own. What else there is on disks it cannot
write to (`closing`), unless the node is told so: then it writes to the host's, or to a layer of its own (`layering`).
Nothing of that is seen by any other process, and it ends with the last process that is in it. It does not see what the
host mounts later: that would come as the host has it, writable.

A mountPath that the host does not have is made in the container's own `/tmp`, in its layer, or in a mirror of the
directory above it: a small tmpfs in which every entry of that directory is mounted again. So no empty directory is left
on the host.

Whatever fails is an OSError whose text begins with the mountPath. Paths are texts, because pathlib is a megabyte in the
process that starts containers.
"""

from __future__ import annotations

import errno
import os
import stat

from jettison.runtimes.host.processes import closing, layering, system_calls
from jettison.runtimes.linux.files.kernel_texts import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jettison.runtimes.host.processes.orders import Layer, MountPlan, MountPoint

    # Where it is mounted, without links in it, and whether that lies in the place of another one before it.
    Spot = tuple[str, bool, MountPoint]

_ROOT = "/"
_PASSABLE = 0o755
_PATH_ONLY = os.O_PATH | os.O_CLOEXEC
# A directory with more entries than this is not mirrored: each is a mount for the kernel.
_MOST_MIRRORED = 2000


def arrange(plan: MountPlan) -> None:
    """In the child, as root. Raises OSError."""
    system_calls.unshare_mounts()
    spots = _spots(plan)
    if plan.layer is not None:
        _arrange_on(plan.layer, spots, plan.staging)
    else:
        _make_all(spots, plan.staging)
        # Not before: when the root is replaced, what was opened is of another tree.
        _mount_all(spots, _open_all(spots))
    with _About("read-only files"):
        closing.close(plan.closed, {target: point.is_read_only for target, _, point in spots})


def _spots(plan: MountPlan) -> list[Spot]:
    """In the order in which they can be mounted: what lies in the place of another one follows it."""
    found: list[Spot] = []
    above: list[str] = []
    for target, point in sorted(
        ((os.path.realpath(point.target), point) for point in plan.points), key=lambda each: each[0].split("/")
    ):
        while above and not target.startswith(f"{above[-1]}/"):
            above.pop()
        found.append((target, bool(above), point))
        above.append(target)
    return found


def _arrange_on(layer: Layer, spots: list[Spot], staging: str) -> None:
    # Of the host's tree: below the layer a hostPath would be the pod's own.
    sources = _open_all(spots)
    with _About("private files"):
        layering.cover(layer, staging)
        is_former_there = system_calls.enter_root(staging)
    _make_all(spots, staging, sources)
    _mount_all(spots, sources)
    if is_former_there:
        system_calls.leave_former_root()
    os.chdir(_ROOT)


def _make_all(spots: list[Spot], staging: str, sources: Sequence[int] = ()) -> None:
    """A place to mount at for each point, where the host has none."""
    ours: set[str] = set()
    layer = os.stat(_ROOT).st_dev if sources else None
    for number, (target, is_inside, point) in enumerate(spots):
        if is_inside or os.path.exists(target):
            continue
        with _About(point.target):
            place = _make_way(target, staging, ours, layer)
            _make_entry(place, is_directory=_is_directory(point, sources[number] if sources else None))


def _open_all(spots: list[Spot]) -> list[int]:
    sources = []
    for _, _, point in spots:
        with _About(point.target):
            sources.append(_open(point))
    return sources


def _mount_all(spots: list[Spot], sources: list[int]) -> None:
    for (target, is_inside, point), source in zip(spots, sources, strict=True):
        with _About(point.target):
            if is_inside and not os.path.exists(target):
                _make_inside(target, point, source)
            system_calls.bind(f"/proc/self/fd/{source}", target)
        os.close(source)


def _make_inside(target: str, point: MountPoint, source: int) -> None:
    """In a directory of the container's own: volumes do not lie inside one another."""
    missing, parent = _divided(target)
    if point.base == point.target and len(missing) > 1:
        # The way to its writable directory is none of its files, so it is no part of what it uses.
        first = os.path.join(parent, missing[0])
        os.mkdir(first, _PASSABLE)
        system_calls.mount_mirror(first, system_calls.OURS)
    os.makedirs(os.path.dirname(target), _PASSABLE, exist_ok=True)
    _make_entry(target, is_directory=_is_directory(point, source))


class _About:
    """What goes wrong inside of it begins with this text."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            raise OSError(error.errno, f"{self._what}: {reason(error)}") from error


def _open(point: MountPoint) -> int:
    base = os.open(point.base, _PATH_ONLY)
    if not point.source:
        return base
    try:
        return system_calls.open_inside(base, point.source)
    finally:
        os.close(base)


def _make_way(target: str, staging: str, ours: set[str], layer: int | None) -> str:
    """The target, once the directory for it is there. `ours` are directories that are not the host's; `layer` is a
    device of which none is.
    """
    missing, parent = _divided(target)
    place = os.path.realpath(parent)
    if place not in ours and os.stat(place).st_dev != layer:
        _mirror(place, staging)
        ours.add(place)
    *parents, last = missing
    for name in parents:
        place = os.path.join(place, name)
        os.mkdir(place, _PASSABLE)
        ours.add(place)
    return os.path.join(place, last)


def _divided(target: str) -> tuple[list[str], str]:
    """The last parts of the path that are not there, and the directory for the first of them."""
    missing: list[str] = []
    while not os.path.lexists(target):
        target, name = os.path.split(target)
        missing.insert(0, name)
    if not missing:
        # Links in a circle.
        target, name = os.path.split(target)
        missing.append(name)
    return missing, target


def _is_directory(point: MountPoint, source: int | None) -> bool:
    if source is not None:
        return stat.S_ISDIR(os.fstat(source).st_mode)
    opened = _open(point)
    try:
        return stat.S_ISDIR(os.fstat(opened).st_mode)
    finally:
        os.close(opened)


def _make_entry(path: str, *, is_directory: bool) -> None:
    if is_directory:
        os.mkdir(path, _PASSABLE)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _mirror(directory: str, staging: str) -> None:
    """Replace the directory by a tmpfs in which all of its entries are mounted, and more can be made."""
    names = os.listdir(directory)
    if len(names) > _MOST_MIRRORED:
        raise OSError(errno.E2BIG, f"`{directory}` has more than {_MOST_MIRRORED} entries, so nothing is mounted in it")
    found = os.stat(directory)
    # One of a directory in memory is as open as that: pods whose tokens are below /run write other files there.
    system_calls.mount_mirror(staging, b"tmpfs" if closing.is_in_memory(found.st_dev) else system_calls.OURS)
    for name in names:
        try:
            _show(os.path.join(directory, name), os.path.join(staging, name))
        except FileNotFoundError:
            continue  # gone meanwhile
    os.chown(staging, found.st_uid, found.st_gid)
    os.chmod(staging, stat.S_IMODE(found.st_mode))
    if directory == _ROOT:
        system_calls.become_root(staging)
    else:
        system_calls.move_mount(staging, directory)


def _show(entry: str, target: str) -> None:
    if os.path.islink(entry):
        os.symlink(os.readlink(entry), target)
        return
    _make_entry(target, is_directory=os.path.isdir(entry))
    system_calls.bind(entry, target)
