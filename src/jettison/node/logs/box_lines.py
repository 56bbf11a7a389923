"""What a container runtime writes down of a container: CRI's format, back to what the container wrote.

Each line is `<time> <stdout or stderr> <tag> <text>`; the tag `P` says that the line goes on in the next one, as it
does after 16 KiB. Times are the runtime's own and exact, and shown as a kubelet shows them, whichever way they are
written: containerd leaves out zeros at the end (`.25Z`), and CRI-O writes the offset of the machine's zone (`+00:00`).
"""

from __future__ import annotations

import re
from datetime import datetime

_STREAMS = (b"stdout", b"stderr")
_PARTIAL, _FULL = b"P", b"F"
# No runtime writes longer ones: what goes on beyond is no line of this format, and must not fill our memory.
_LONGEST = 1024 * 1024
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_UTC = (b"Z", b"+00:00", b"-00:00")


class BoxLines:
    """One log, in pieces of any size. With `has_times` each line begins with its own."""

    def __init__(self, *, has_times: bool, since_ns: int | None = None) -> None:
        # Bytes at the end of what was read that are no whole line yet.
        self.rest = b""
        self._has_times = has_times
        self._since_ns = since_ns
        self._is_inside_line = False

    def read(self, data: bytes) -> bytes:
        """What the container wrote in the lines that are whole by now."""
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        if len(self.rest) > _LONGEST:
            lines.append(self.rest)
            self.rest = b""
        return b"".join(self._text(line) for line in lines)

    def _text(self, line: bytes) -> bytes:
        time, _, others = line.partition(b" ")
        stream, _, others = others.partition(b" ")
        tags, _, text = others.partition(b" ")
        tag = tags.partition(b":")[0]
        if stream not in _STREAMS or tag not in (_PARTIAL, _FULL):
            return line + b"\n"  # damaged, or not the runtime's: shown as it is
        if self._since_ns is not None and _time_ns(time) < self._since_ns:
            return b""
        head = _shown(time) + b" " if self._has_times and not self._is_inside_line else b""
        self._is_inside_line = tag == _PARTIAL
        return head + text + (b"" if self._is_inside_line else b"\n")


def _shown(time: bytes) -> bytes:
    """With nine digits, and `Z` for UTC. What is no time stays as it is."""
    found = _TIME.fullmatch(time)
    if found is None:
        return time
    second, fraction, zone = found.groups()
    return second + b"." + (fraction or b"").ljust(9, b"0") + (b"Z" if zone in _UTC else bytes(zone))


def _time_ns(text: bytes) -> int:
    """0 for what is no time. To the microsecond: finer parts are cut off."""
    try:
        found = datetime.fromisoformat(text.decode("ascii"))
        return round(found.timestamp() * 10**6) * 1000
    except (ValueError, OverflowError):
        return 0
