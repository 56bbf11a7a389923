"""Files that have changed since the last look, told by the kernel (inotify): what does not change costs nothing.

Each file is told once and has to be followed again, so that one that changes a thousand times a second costs as much as
one that changes once. The kernel does not tell of writes through a mapping, through another hard link of a file in a
directory, or on the other side of a network file system; so a caller looks at everything now and then all the same.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

# From <sys/inotify.h>.
_MODIFY, _ATTRIBUTES, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _OVERFLOW = 0x400, 0x800, 0x4000
_DO_NOT_FOLLOW, _ONCE = 0x02000000, 0x80000000
_ANY: Final = (
    _MODIFY | _ATTRIBUTES | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _DO_NOT_FOLLOW
)
_EVENT: Final = struct.Struct("iIII")
# Some 250 events of files; at least one of a directory, with a name of 255 bytes. So much is set aside for each read.
_AT_ONCE: Final = 4096


class FileChanges:
    """Of files and directories by their paths; of a directory that something in it has changed. Raises OSError where
    this user has too many of these already (`fs.inotify.max_user_instances`, usually 128).
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._add = libc.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._descriptor = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._paths: dict[int, str] = {}

    def follow(self, path: str) -> None:
        """Tell its next change; raises OSError where that is not possible. A symbolic link is not followed."""
        self._paths[_checked(self._add(self._descriptor, os.fsencode(path), _ANY | _ONCE))] = path

    def take(self) -> set[str] | None:
        """What has changed since it was followed; None where so much has that the kernel has lost count."""
        found: set[str] = set()
        is_all = False
        while True:
            try:
                data = os.read(self._descriptor, _AT_ONCE)
            except BlockingIOError:
                return None if is_all else found
            place = 0
            while place < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, place)
                place += _EVENT.size + length
                is_all |= bool(mask & _OVERFLOW)
                # The second event of each says that it is no longer followed.
                if (path := self._paths.pop(number, None)) is not None:
                    found.add(path)

    def close(self) -> None:
        """Tell no more."""
        os.close(self._descriptor)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
