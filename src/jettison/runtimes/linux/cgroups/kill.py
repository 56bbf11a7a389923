"""Ending everything in a cgroup so that nothing survives: not a fork bomb, not a double fork, not what froze itself.

Version 2 does it in one write that also catches children being born. Version 1 can only be swept: freeze, so that
no process forks, signal all, thaw, so that they die. A frozen process of version 1 does not die of SIGKILL, not even
of cgroup.kill, until it is thawed; a pod may have frozen a cgroup of its own, so thawing goes all the way down.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from jettison.errors import SignalError, WriteError
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import CgroupV1, CgroupV2
from jettison.runtimes.linux.files import kernel_files

# Descriptors of processes held at once: a fork bomb has more processes than we may have descriptors.
_BATCH = 256
# Passes over the list while frozen. The second normally finds no new process; a tree that takes more than this is being
# filled from outside, and the next call goes on.
_PASSES = 8


def kill(cgroup: Cgroup) -> frozenset[int]:
    """Send SIGKILL to all; returns those that were still there. Does not wait: most are dead a millisecond later."""
    reached = _kill_unified(cgroup)
    if cgroup.processes() - reached:
        _freeze(cgroup)
        try:
            _sweep(cgroup)
        finally:
            _thaw(cgroup)
    elif reached:
        _thaw(cgroup)
    return cgroup.processes()


def _sweep(cgroup: Cgroup) -> None:
    signalled = set[int]()
    for _ in range(_PASSES):
        fresh = cgroup.processes() - signalled
        if not fresh:
            return
        ordered = sorted(fresh)
        for start in range(0, len(ordered), _BATCH):
            _signal(cgroup, ordered[start : start + _BATCH])
        signalled |= fresh


def _signal(cgroup: Cgroup, pids: Iterable[int]) -> None:
    """SIGKILL to the processes that are members while we hold a descriptor of them.

    A number read from a list may belong to another process a moment later. A descriptor cannot change its process, and
    a number that is listed again while the descriptor is open is either that process or makes the signal fail.
    """
    held = dict[int, int]()
    try:
        for pid in pids:
            try:
                held[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
        members = cgroup.processes()
        for pid, descriptor in held.items():
            if pid in members:
                _send(descriptor, pid)
    except OSError as error:
        raise SignalError(f"cannot hold the processes of `{cgroup.name}`: {kernel_files.reason(error)}") from error
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _send(descriptor: int, pid: int) -> None:
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    except OSError as error:
        raise SignalError(f"cannot kill process `{pid}`: {kernel_files.reason(error)}") from error


def _kill_unified(cgroup: Cgroup) -> frozenset[int]:
    """Kill the unified hierarchy's members, and return those that this will have reached."""
    directory = cgroup.unified_directory
    if directory is None:
        return frozenset()
    members = frozenset(cgroup_tree.processes(directory))
    return members if _try(directory / CgroupV2.KILL, b"1") else frozenset()


def _freeze(cgroup: Cgroup) -> None:
    freezer = cgroup.directory("freezer")
    if freezer is not None:
        _try(freezer / CgroupV1.FREEZER_STATE, b"FROZEN")
    elif (unified := cgroup.unified_directory) is not None:
        _try(unified / CgroupV2.FREEZE, b"1")


def _thaw(cgroup: Cgroup) -> None:
    freezer = cgroup.directory("freezer")
    if freezer is not None:
        for place in cgroup_tree.bottom_up(freezer):
            kernel_files.write(CgroupV1.FREEZER_STATE, b"THAWED", dir_fd=place.fd)
    elif (unified := cgroup.unified_directory) is not None:
        _try(unified / CgroupV2.FREEZE, b"0")


def _try(path: Path, value: bytes) -> bool:
    """The short cuts: an old kernel, a threaded cgroup or a foreign owner refuses them, and the sweep does without."""
    try:
        return kernel_files.write(path, value)
    except WriteError:
        return False
