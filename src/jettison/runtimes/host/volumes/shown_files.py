"""Files that a node shows in a volume, and replaces together.

They lie in a directory of their own to which `..data` points, and that link is replaced in one step, as kubelets do it:
a program that reads while a ConfigMap changes sees all of the old files or all of the new. Everything here may wait for
a disk: call it from a thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path, PurePosixPath

from jettison.errors import MountError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.tree_removal import remove_tree
from jettison.values import frozen

_DATA, _NEW_DATA = "..data", "..data_tmp"
_OWN_PREFIX = ".."
_STAMP = re.compile(r"\.\.[0-9a-f]{16}")
_DIRECTORY_MODE, _OWNER_ONLY, _NEW_FILE = 0o755, 0o700, 0o600
_READ_BY_GROUP, _ENTER_BY_GROUP, _SET_GID = 0o440, 0o550, 0o2000
_UNCHANGED = -1


@frozen
class ContentFile:
    """A file to be written; `user` None leaves it to root."""

    data: bytes = field(repr=False)
    mode: int
    user: int | None = None


Files = Mapping[PurePosixPath, ContentFile]


def has_content(directory: Path) -> bool:
    """Whether files were written there before, by this agent or an earlier one."""
    return (directory / _DATA).is_symlink()


def write(directory: Path, files: Files, group: int | None) -> None:
    """Show these files in the directory, all at once. May wait for a disk. Raises MountError.

    Only the node writes there: pods see it read-only, or through a copy of their own.
    """
    try:
        new = f"{_OWN_PREFIX}{os.urandom(8).hex()}"
        (directory / new).mkdir(mode=_OWNER_ONLY)
        _write_files(directory / new, files, group)
        (directory / _NEW_DATA).unlink(missing_ok=True)
        (directory / _NEW_DATA).symlink_to(new)
        (directory / _NEW_DATA).replace(directory / _DATA)
        _show(directory, {path.parts[0] for path in files})
        _drop_others(directory, new)
    except OSError as error:
        raise MountError(kernel_files.reason(error)) from error


def _write_files(top: Path, files: Files, group: int | None) -> None:
    for path, file in files.items():
        target = top / path
        for parent in reversed(path.parents[:-1]):
            (top / parent).mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _NEW_FILE)
        with os.fdopen(opened, "wb") as stream:
            stream.write(file.data)
            os.fchown(opened, _UNCHANGED if file.user is None else file.user, _UNCHANGED if group is None else group)
            os.fchmod(opened, file.mode | (0 if group is None else _READ_BY_GROUP))
    for directory in {top, *(top / parent for path in files for parent in path.parents)}:
        if group is not None:
            os.chown(directory, _UNCHANGED, group)
        directory.chmod(_DIRECTORY_MODE | (0 if group is None else _ENTER_BY_GROUP | _SET_GID))


def _show(directory: Path, names: Iterable[str]) -> None:
    """A link for each name at the top; those that are no longer wanted go."""
    wanted = set(names)
    for entry in list(directory.iterdir()):
        if not entry.name.startswith(_OWN_PREFIX) and entry.name not in wanted:
            entry.unlink()
    for name in wanted:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")


def _drop_others(directory: Path, current: str) -> None:
    """What an interrupted write has left goes with the former files."""
    for entry in list(directory.iterdir()):
        if _STAMP.fullmatch(entry.name) and entry.name != current:
            remove_tree(directory, PurePosixPath(entry.name))
