"""What the node has: its machine, or the part of it that the operator cut out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from jettison.engine.config.allocatable import HugePages, MachineCapacity
from jettison.engine.numbers.quantity import binary
from jettison.errors import InputError
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux import proc
from jettison.runtimes.linux.files import filesystems, kernel_files

_HUGE_PAGES = Path("/sys/kernel/mm/hugepages")


def measure_capacity(settings: HostSettings, host: proc.Machine, huge_pages: Path = _HUGE_PAGES) -> MachineCapacity:
    """Read once: a node that grows while it runs is told so by a restart, as with a kubelet.

    Raises InputError when the node is said to have more memory or process ids than the machine.
    """
    most = host.most_tasks()
    if settings.node_pids is not None and most is not None and settings.node_pids > most:
        raise InputError(f"invalid node pids `{settings.node_pids}`: this machine has at most {most}")
    total = host.memory().total
    if settings.node_memory is not None and settings.node_memory > total:
        # Its thresholds would be crossed long after the kernel's OOM killer has struck.
        raise InputError(f"invalid node memory `{settings.node_memory}`: this machine has {total}")
    disk = filesystems.read_filesystem(settings.node_dir)
    return MachineCapacity(
        cores=os.cpu_count() or 1,
        memory=settings.node_memory or total,
        ephemeral_storage=None if disk is None else binary(disk.capacity),
        huge_pages=tuple(_huge_pages(huge_pages, is_cut_out=settings.node_memory is not None)),
        pids=settings.node_pids or most,
    )


def _huge_pages(directory: Path, *, is_cut_out: bool) -> Iterator[HugePages]:
    # `hugepages-2048kB/nr_hugepages`. Those there are were set aside by the machine and are charged to the memory of no
    # cgroup: a smaller node knows their sizes, as every node does, and has none of them.
    for size in sorted(directory.glob("hugepages-*kB")):
        count = kernel_files.read_number(size / "nr_hugepages")
        if count is not None:
            yield HugePages(int(size.name[len("hugepages-") : -len("kB")]), 0 if is_cut_out else count)
