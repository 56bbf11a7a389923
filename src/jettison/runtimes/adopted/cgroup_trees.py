"""Any cgroup as a workload: services of systemd, tasks of Nomad, and what was made by hand.

A pattern is a path below the root of the memory hierarchy, each part of which may be a shell's pattern:
`system.slice/*.service`. What it matches counts with everything below it. It is ended by signals to its processes, or
by systemd where a rule says so: systemd then knows that this was meant, and does not restart the service.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from jettison.errors import ObservationError, PodGone, SignalError, StartError
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.mounts import Hierarchy
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.runtimes.workloads import AdoptedWorkload, PlacedStore

MOST_CGROUPS = 4096
"""That are looked at for one pattern; a machine has some hundred."""

UNIT_SECONDS = 10.0
"""In which systemd takes an order; it carries it out later."""

_WILD = frozenset("*?[")


class CgroupTree:
    """All cgroups that match one pattern and hold processes."""

    is_engine = False
    pid: int | None = None
    complaints: Sequence[str] = ()
    store: PlacedStore | None = None

    def __init__(self, pattern: str, memory: Hierarchy) -> None:
        self.pattern = pattern
        self._memory = memory

    @property
    def name(self) -> str:
        """The pattern."""
        return f"cgroup {self.pattern}"

    def close(self) -> None:
        """Nothing is open."""

    async def storage(self) -> StorageDirs | None:
        """A cgroup has no images."""
        return None

    async def running(self) -> Sequence[AdoptedWorkload]:
        """What matches now."""
        found = [""]
        for part in self.pattern.split("/"):
            found = [name for parent in found for name in self._below(parent, part)]
            if len(found) > MOST_CGROUPS:
                raise ObservationError(f"{self.name}: matches more than {MOST_CGROUPS} cgroups")
        return [workload for name in found if (workload := self._workload(name)) is not None]

    def _below(self, parent: str, part: str) -> list[str]:
        if not _WILD & set(part):
            name = f"{parent}/{part}" if parent else part
            return [name] if (self._memory.mount_point / name).is_dir() else []
        top = self._memory.mount_point / parent
        names = sorted(name for name in cgroup_tree.children(top) if fnmatchcase(name, part))
        return [f"{parent}/{name}" if parent else name for name in names]

    def _workload(self, name: str) -> AdoptedWorkload | None:
        directory = self._memory.mount_point / name
        try:
            found = directory.stat()
        except OSError as error:
            if error.errno in kernel_files.GONE:
                return None
            raise kernel_files.unreadable(directory, error) from error
        if not cgroup_tree.count_processes(directory):
            return None
        # A cgroup that is made anew under the same name is another one, and its inode number tells.
        return AdoptedWorkload(
            "cgroup", f"cgroup-{found.st_ino:x}", PurePosixPath(name).name, name, started_ns=found.st_ctime_ns
        )

    async def stop(self, workload: AdoptedWorkload, grace_seconds: int) -> None:  # noqa: ARG002  the killing is the runtime's
        """SIGTERM to every process in it."""
        signal_all(self._memory, workload)


def signal_all(memory: Hierarchy, workload: AdoptedWorkload) -> None:
    """SIGTERM to each process of its cgroup. Raises PodGone where there is none, SignalError."""
    directory = memory.mount_point / workload.cgroup
    pids = sorted(set(cgroup_tree.processes(directory)))
    if not pids:
        raise PodGone(f"no process is left in cgroup `{workload.cgroup}`")
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        except OSError as error:
            raise SignalError(f"cannot signal process {pid}: {kernel_files.reason(error)}") from error
        try:
            # Read again while the descriptor is held: the number may belong to another process by now.
            if pid in cgroup_tree.processes(directory):
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        except ProcessLookupError:
            continue
        except OSError as error:
            raise SignalError(f"cannot signal process {pid}: {kernel_files.reason(error)}") from error
        finally:
            os.close(descriptor)


async def stop_unit(workload: AdoptedWorkload, *, within_seconds: float = UNIT_SECONDS) -> None:
    """Ask systemd to stop the unit whose cgroup it is; does not wait until that is done. Raises StartError."""
    unit, none = PurePosixPath(workload.cgroup).name, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            "systemctl", "stop", "--no-block", "--", unit, stdin=none, stdout=none, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise StartError(f"cannot run systemctl: {kernel_files.reason(error)}") from error
    try:
        async with asyncio.timeout(within_seconds):
            _, said = await process.communicate()
    except TimeoutError:
        raise StartError(f"systemctl stop {unit}: no answer within {within_seconds:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise StartError(f"systemctl stop {unit}: {said.decode(errors='replace').strip()[:200]}")
