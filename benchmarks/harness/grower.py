"""What grower.c does, for machines without a C compiler: the same arguments, the same notes, steps a little less even.

Run as a program of its own, with nothing but the standard library.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import time

SECONDS_TO_LIVE = 20
NUMBER = struct.Struct("q")
ROW = struct.Struct("qq")
GO, TOLD, COUNT, ROWS = 0, 8, 16, 24


def main(notes_path: str, pipe_path: str, usage_path: str, step_kib: str, rate_mib: str, most_mib: str) -> None:
    step, most = int(step_kib) << 10, int(most_mib) << 20
    period_ns = step * 10**9 // (int(rate_mib) << 20)
    end_ns = time.monotonic_ns() + SECONDS_TO_LIVE * 10**9
    with open(notes_path, "r+b") as file:  # noqa: PTH123  pathlib would be one more import in every growing process
        notes = mmap.mmap(file.fileno(), 0)
    pipe, usage = os.open(pipe_path, os.O_WRONLY), os.open(usage_path, os.O_RDONLY)
    memory = mmap.mmap(-1, most, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    page = b"\1" * step

    def told(_number: int, _frame: object) -> None:
        NUMBER.pack_into(notes, TOLD, time.monotonic_ns())
        os._exit(143)

    signal.signal(signal.SIGTERM, told)
    os.write(pipe, b"\n")
    while not NUMBER.unpack_from(notes, GO)[0] and time.monotonic_ns() < end_ns:
        time.sleep(0.001)
    begin_ns = time.monotonic_ns()
    for row in range(min(most // step, (len(notes) - ROWS) // ROW.size)):
        memory[row * step : (row + 1) * step] = page
        ROW.pack_into(notes, ROWS + row * ROW.size, time.monotonic_ns(), used(usage, usage_path))
        NUMBER.pack_into(notes, COUNT, row + 1)
        time.sleep(max(begin_ns + (row + 1) * period_ns - time.monotonic_ns(), 0) / 1e9)
    time.sleep(max(end_ns - time.monotonic_ns(), 0) / 1e9)


def used(usage: int, path: str) -> int:
    data = os.pread(usage, 4096, 0)
    if path != "/proc/meminfo":
        return int(data)
    return -1024 * int(data.partition(b"MemAvailable:")[2].split()[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
