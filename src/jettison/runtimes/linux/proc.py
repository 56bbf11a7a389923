"""The machine as /proc tells it: memory, tasks, and how many tasks there may be."""

from __future__ import annotations

from pathlib import Path

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC, DescriptorBudget, KeptFile
from jettison.values import frozen


def boot_id(proc: Path = PROC) -> str:
    """Another one after every boot; empty where /proc does not tell."""
    return (kernel_files.read(proc / "sys" / "kernel" / "random" / "boot_id") or b"").decode("ascii", "replace").strip()


@frozen
class MemoryInfo:
    """Bytes. `available` is the kernel's estimate, which eviction never looks at; kernels before 3.14 have none."""

    total: int
    free: int
    available: int | None


class Machine:
    """Reads the machine-wide files, and keeps open the two that are read at every step."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        budget = DescriptorBudget(allowed=2)
        self._meminfo = KeptFile(proc / "meminfo", budget)
        self._loadavg = KeptFile(proc / "loadavg", budget)

    def memory(self) -> MemoryInfo:
        """The capacity of a node is `total`."""
        data = b"\n" + _there(self._meminfo.read(), self._meminfo.path)
        total, free = _kibibytes(data, b"\nMemTotal:"), _kibibytes(data, b"\nMemFree:")
        if total is None or free is None:
            raise ObservationError(f"`{self._meminfo.path}` has no line `MemTotal` or `MemFree`")
        return MemoryInfo(
            total=total,
            free=free,
            available=_kibibytes(data, b"\nMemAvailable:"),
        )

    def tasks(self) -> int:
        """All processes and threads of the machine, also when we are inside a pid namespace.

        The number after the slash of the fourth field: `0.20 0.18 0.12 1/80 11206`.
        """
        data = _there(self._loadavg.read(), self._loadavg.path)
        try:
            return int(data.split()[3].partition(b"/")[2])
        except (IndexError, ValueError):
            raise ObservationError(f"`{self._loadavg.path}` holds {data[:60]!r}, not five fields") from None

    def most_tasks(self) -> int | None:
        """The smaller of pid_max and threads-max, whichever can be read.

        pid_max belongs to the pid namespace on recent kernels while `tasks` counts the machine: inside a container
        the two need not fit together.
        """
        limits = [
            kernel_files.read_number(self._proc / "sys" / "kernel" / "pid_max"),
            kernel_files.read_number(self._proc / "sys" / "kernel" / "threads-max"),
        ]
        return min((limit for limit in limits if limit is not None), default=None)

    def close(self) -> None:
        """Close the files that were kept."""
        self._meminfo.close()
        self._loadavg.close()


def _there(data: bytes | None, path: Path | str) -> bytes:
    if data is None:
        raise ObservationError(f"`{path}` does not exist, is /proc mounted?")
    return data


def _kibibytes(data: bytes, key: bytes) -> int | None:
    start = data.find(key)
    if start < 0:
        return None
    value, _, unit = data[start + len(key) : data.find(b"\n", start + len(key))].strip().partition(b" ")
    if unit != b"kB" or not value.isdigit():
        raise ObservationError(f"meminfo says {value!r} {unit!r} for {key!r}, not a number of `kB`")
    return int(value) * 1024
