"""What the kernel says in its log about killing for want of memory of the whole machine.

Counters tell that a process was killed, not whether a cgroup or the machine had run out, and not which process it was;
the log tells both, in one line since kernel 5.0:

    oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=b,pid=1,uid=0

Reading /dev/kmsg takes root or CAP_SYSLOG, and each read gives one record. A reader that was too slow is told so once
(EPIPE) and goes on with the oldest record that is left.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import NamedTuple

KMSG = Path("/dev/kmsg")

_RECORD_BYTES = 8192
# A flood of other messages must not hold up the look at the node; what is left is read at the next one.
_MOST_RECORDS = 2000
_SYSTEM_KILL = re.compile(
    # A priority of 8 and more is of a program that wrote to the log.
    rb"[0-7],[^;]*;oom-kill:constraint=[A-Z_]+,.*?,global_oom,task_memcg=([^,]*),task=(.*),pid=(\d+),uid=\d+"
)


class SystemKill(NamedTuple):
    """A process that the kernel chose because the machine as a whole had no memory left."""

    cgroup: str
    process: str
    pid: int


class KernelLog:
    """Only what is logged after this was made. Without the right to read it there is never any news."""

    def __init__(self, path: Path = KMSG) -> None:
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()

    def system_kills(self) -> list[SystemKill]:
        """Those since the last call."""
        found = []
        for _ in range(_MOST_RECORDS if self._fd >= 0 else 0):
            try:
                record = os.read(self._fd, _RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue
                break
            if not record:
                break
            found += [parsed for line in record.splitlines() if (parsed := system_kill(line)) is not None]
        return found

    def close(self) -> None:
        """Read nothing any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def system_kill(line: bytes) -> SystemKill | None:
    """What a line of the log says about a kill, if it is about one."""
    match = _SYSTEM_KILL.match(line)
    if match is None:
        return None
    cgroup, process, pid = match.groups()
    return SystemKill(os.fsdecode(cgroup), process.decode(errors="backslashreplace"), int(pid))
