"""Texts of the kernel: why it refuses, and its table of mounts.

Apart from `kernel_files` and `filesystems`, because a process that starts containers reads them as well
(`host/processes/starter_child`). It loads nothing that takes long: neither pathlib nor dataclasses nor `re`.
"""

from __future__ import annotations

import os

_CHUNK = 16 * 1024


def reason(error: OSError) -> str:
    """The kernel's words without Python's decoration: `device or resource busy`."""
    return (error.strerror or str(error)).lower()


def mount_lines(data: bytes) -> list[tuple[list[bytes], list[bytes]]]:
    """Of each line of mountinfo the fields before and after the ` - `, as they are written.

    Empty fields are legal (a tmpfs may have the empty source), so runs of blanks are not folded.
    """
    found = []
    for line in data.split(b"\n"):
        before, separator, after = line.partition(b" - ")
        fields, tail = before.split(b" "), after.split(b" ")
        if separator and len(fields) >= 6 and len(tail) >= 3:
            found.append((fields, tail))
    return found


def read_mount_table() -> bytes:
    """Of this process's namespace. Raises OSError. Without a buffered file, which takes a new process 0.1 ms more."""
    descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def unescaped(field: bytes) -> str:
    r"""A path as it is: the kernel writes blanks and backslashes as `\040`, in octal."""
    if b"\\" not in field:
        return os.fsdecode(field)
    first, *rest = field.split(b"\\")
    parts = [first]
    for each in rest:
        digits = each[:3]
        is_octal = len(digits) == 3 and not digits.strip(b"01234567")
        parts.append(bytes([int(digits, 8) & 0xFF]) + each[3:] if is_octal else b"\\" + each)
    return os.fsdecode(b"".join(parts))
