"""The agent must be the last to suffer from the shortage it is there to end.

Its memory stays in memory, the kernel's OOM killer looks elsewhere first, it is not counted among the pods, it need not
wait for a processor, it does not run out of descriptors, and the garbage collector leaves what will never be garbage
alone. None of this is guaranteed to be permitted: each measure takes what it can get and says in one line what it could
not.

And nothing is imported once the agent is ready. An import reads files, compiles and allocates. Under memory pressure
each of these can take seconds, and on a full disk or without descriptors it fails. So whatever is missing is loaded
before, and what was forgotten is found out here.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Self

from jettison.errors import JettisonError, RuntimeFailure
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.cgroups.mounts import Hierarchy, own_cgroup
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.processes import Capability, read_capabilities, set_oom_score_adj

ENOUGH_DESCRIPTORS = 4096
"""A thousand pods with four kept files each."""

# The most there is, for an agent that cannot go first.
_CPU_SHARES = 262_144

# New objects after which the garbage collector looks for cycles among them; how many such looks before one at what they
# have left, and how many of these before one at all objects, which is as rare as by default.
_LOOK_FOR_GARBAGE_AT = 200, 10, 50

# Bytes free at the end of the heap; enough not to ask the kernel for every page anew.
_TRIM_AT = 65536
_M_TRIM_THRESHOLD, _M_ARENA_MAX = -1, -8
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4


def protect(oom_score_adj: int) -> tuple[str, ...]:
    """Everything but the cgroup, which the runtime's layout decides. What is not permitted here, one line each.

    To be called when all that is needed is loaded, and after the runtime was made: it gives its pods the limits that it
    found.
    """
    forget_annotations()
    freeze_garbage_collector()
    give_memory_back()
    lacks = [raise_descriptor_limit(), lower_oom_score(oom_score_adj), lock_memory(), go_first()]
    return tuple(lack for lack in lacks if lack is not None)


def forget_annotations() -> None:
    """The types that our functions name. No call reads them, and the first hundred pods find room where they were."""
    for found in gc.get_objects():
        if type(found) is FunctionType and (found.__module__ or "").startswith("jettison."):
            del found.__annotations__


def lock_memory() -> str | None:
    """Keep what is in memory there, now and later.

    On fault only: to bring in everything that is mapped costs 10 MB, and 8 MB more for each thread's stack. And not
    within a limit: once that is reached, every new allocation fails, which is worse than being swapped out.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and not read_capabilities().has(Capability.IPC_LOCK):
        return f"memory is not locked: no CAP_IPC_LOCK, and at most {soft} bytes may be locked without it"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) != 0:
        return f"memory is not locked: {os.strerror(ctypes.get_errno()).lower()}"
    return None


def give_memory_back() -> None:
    """What loading took for a moment, and from now on what is free at the end of the heap; one heap for all threads.

    glibc would keep it for later: 0.3 MB. Once memory is locked the kernel refuses what lies in between.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_AT)
        libc.mallopt(_M_ARENA_MAX, 1)
    trim_heap()


def trim_heap() -> None:
    """What is free right now, wherever it lies: 6 ms for 45 MB, 0.4 for nothing."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # other C libraries give it back by themselves
        libc.malloc_trim(0)


def lower_oom_score(wanted: int) -> str | None:
    """As near to `wanted` as the kernel lets us: without CAP_SYS_RESOURCE there is a floor, which it does not show."""
    try:
        reached = set_oom_score_adj(os.getpid(), wanted)
    except RuntimeFailure as failure:
        return f"the OOM killer does not know us: {failure}"
    if reached is None:
        return "the OOM killer does not know us: /proc is hidden"
    refused = wanted
    while reached - refused > 1:
        tried = (refused + reached) // 2
        if set_oom_score_adj(os.getpid(), tried) == tried:
            reached = tried
        else:
            refused = tried
    return None if reached <= wanted else f"oom_score_adj is {reached} instead of {wanted}: no CAP_SYS_RESOURCE"


def go_first() -> str | None:
    """Before all ordinary processes, whenever there is something to do: the lowest real-time priority of the kernel.

    An eviction takes 3 ms of processor time. With two processes for each core the signal went out 5 to 22 ms after the
    crossing when the agent had to take turns with them, and 3 to 11 ms when not. Only this thread, and no pod.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError as error:
        return f"the agent has to wait for a processor like any process: {kernel_files.reason(error)}"
    return None


def raise_descriptor_limit() -> str | None:
    """As many as there may be. Pods do not inherit this."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < ENOUGH_DESCRIPTORS:
        return f"at most {hard} files can be open, {ENOUGH_DESCRIPTORS} are enough for a thousand pods"
    return None


def freeze_garbage_collector() -> None:
    """What is loaded now stays: to walk through it at every collection costs 20 ms. What comes later is looked through
    often and in small parts: 700 new objects, the default, take 0.1 ms of whatever the loop does right then, and ten
    times as many, every tenth time, up to a millisecond.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_LOOK_FOR_GARBAGE_AT)


class OwnCgroup:
    """A cgroup for the agent alone, so that neither its memory nor its limits are those of pods, and it goes first."""

    def __init__(self, cgroup: Cgroup) -> None:
        self._cgroup = cgroup
        self._before: list[tuple[Hierarchy, str]] = []

    def enter(self) -> str | None:
        """Make it and move in. What could not be done is told, and then we are where we were."""
        self._before = list(self._places())
        try:
            self._cgroup.create()
            self._cgroup.limit(Limits(cpu_shares=_CPU_SHARES))
            self._cgroup.move(os.getpid())
            self._step_back()
        except RuntimeFailure as failure:
            self.leave()
            return f"the agent has no cgroup of its own: {failure}"
        return None

    def _step_back(self) -> None:
        """Where cgroups have budgets for real-time processes, a new one has none, and no process in it can go first."""
        for tree, name in self._before:
            budget = kernel_files.read(tree.mount_point / name / "cpu.rt_runtime_us")
            if budget is not None and int(budget):
                kernel_files.write(tree.mount_point / name / "cgroup.procs", b"%d" % os.getpid())

    def leave(self) -> str | None:
        """Go back to where we came from and remove it. What could not be done is told."""
        before, self._before = self._before, []
        try:
            for tree, name in before:
                if own_cgroup(tree) != name:
                    # With what we have started and still need, as the process from which containers are forked.
                    for pid in {os.getpid(), *self._cgroup.processes()}:
                        kernel_files.write(tree.mount_point / name / "cgroup.procs", b"%d" % pid)
            is_gone = self._cgroup.remove()
        except RuntimeFailure as failure:
            return f"the agent's own cgroup stays: {failure}"
        return None if is_gone else f"the agent's own cgroup `{self._cgroup.name}` stays: it is still in use"

    def _places(self) -> Iterator[tuple[Hierarchy, str]]:
        for tree in self._cgroup.mounts.used:
            name = own_cgroup(tree)
            if name is not None:
                yield tree, name


class LateImports:
    """While it is in place every import of something new but `expected` is reported; with `is_strict` it fails."""

    def __init__(
        self, report: Callable[[str], None], *, expected: Container[str] = (), is_strict: bool = False
    ) -> None:
        self.names: list[str] = []
        self._report = report
        self._expected = expected
        self._is_strict = is_strict

    def __enter__(self) -> Self:
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  the import system's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Asked by Python for every module that is not loaded yet; we never know where it is."""
        if fullname in self._expected:
            return None
        if self._is_strict:
            raise JettisonError(f"`{fullname}` is imported though the agent is ready")
        if fullname not in self.names:  # to report may import something itself
            self.names.append(fullname)
            self._report(fullname)
        return None
