"""Containers of containerd that no pod and no Docker has: those of `ctr`, nerdctl, buildkit and others."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from jettison.errors import ContainerRuntimeError, PodGone, StillRunning
from jettison.runtimes.containerd.client import PAUSED, RUNNING, ContainerdClient, RunningTask
from jettison.runtimes.containers import is_box_id
from jettison.runtimes.grpc.channel import FAILED_PRECONDITION, NOT_FOUND
from jettison.runtimes.linux.cgroups.mounts import Hierarchy
from jettison.runtimes.linux.cgroups.usage import memory_limit
from jettison.runtimes.linux.files.filesystems import upper_dir
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.runtimes.workloads import AdoptedWorkload, PlacedStore, SourceLook, container_cgroup

PODS, DOCKER = "k8s.io", frozenset({"moby", "plugins.moby"})
"""Namespaces: that of pods, which CRI shows, and those of Docker, which are guarded by Docker's own socket."""

KIND = "containerd"
_NERDCTL_NAME, _STOP_SIGNAL = "nerdctl/name", "io.containerd.image.config.stop-signal"
# What a header of a call may hold; a namespace of another name is none that containerd would have made.
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,75}")
_MOST_NAMESPACES = 64


class ContainerdWorkloads:
    """Of one containerd. With `has_pods` its pods are shown by CRI, and left out here."""

    is_engine = True
    # Its images are those of CRI's namespace, or of programs that look after them.
    store: PlacedStore | None = None

    def __init__(self, path: Path, memory: Hierarchy, *, has_pods: bool) -> None:
        self._client = ContainerdClient(path)
        self._memory = memory
        self._left_out = DOCKER | ({PODS} if has_pods else set())
        self._known: dict[tuple[str, RunningTask], AdoptedWorkload] = {}
        self._pid = 0
        self._look: SourceLook | None = None
        self.complaints: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Told apart from the same socket asked for pods."""
        return f"containerd {self._client.path}"

    @property
    def pid(self) -> int | None:
        """Of containerd, once it has answered; the last one while it does not."""
        self._pid = self._client.pid or self._pid
        return self._pid or None

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    async def storage(self) -> StorageDirs | None:
        """Its own interface does not tell."""
        return None

    async def running(self) -> Sequence[AdoptedWorkload]:
        """All that run. A container is asked about when it is new or was started again."""
        found: dict[tuple[str, RunningTask], AdoptedWorkload] = {}
        self._look = look = SourceLook(self._look)
        for namespace in (await self._client.namespaces())[:_MOST_NAMESPACES]:
            if namespace in self._left_out or not _NAMESPACE.fullmatch(namespace):
                continue
            for task in await self._client.tasks(namespace):
                key = namespace, task
                known = self._known.get(key)
                is_new = known is None and task.status in (RUNNING, PAUSED) and task.pid > 0
                if is_new and is_box_id(task.container) and look.may_ask(task.container):
                    try:
                        known = await self._workload(namespace, task)
                    except ContainerRuntimeError as error:
                        look.left_out(task.container, error)
                if known is not None:
                    found[key] = self._known[key] = known
        self._known, self.complaints = found, look.complaints
        return list(found.values())

    async def stop(self, workload: AdoptedWorkload, grace_seconds: int) -> None:  # noqa: ARG002  the killing is the runtime's
        """The image's stop signal, or SIGTERM, by containerd. Raises PodGone, StillRunning."""
        found = next((key for key, known in self._known.items() if known.id == workload.id), None)
        if found is None:
            raise PodGone(f"container `{workload.name}` is gone")
        namespace, task = found
        try:
            await self._client.kill(namespace, task.container, _stop_signal(workload.labels.get(_STOP_SIGNAL, "")))
        except ContainerRuntimeError as error:
            if error.code in (NOT_FOUND, FAILED_PRECONDITION):
                raise PodGone(f"container `{workload.name}` is gone") from error
            raise StillRunning(f"{self.name}: cannot stop container `{workload.name}`: {error}") from error

    async def _workload(self, namespace: str, task: RunningTask) -> AdoptedWorkload | None:
        cgroup = container_cgroup(task.container, task.pid, self._memory)
        found = await self._client.container(namespace, task.container) if cgroup else None
        if found is None or not cgroup:
            # There is no way to tell it from other processes of the machine.
            return None
        return AdoptedWorkload(
            KIND,
            f"{namespace}.{task.container}",
            found.labels.get(_NERDCTL_NAME) or task.container,
            cgroup,
            found.labels,
            found.image,
            memory_limit(self._memory, cgroup),
            started_ns=found.created_ns or None,
            writable_dir=upper_dir(task.pid),
        )


def _stop_signal(name: str) -> int:
    """`SIGQUIT` or `QUIT`; SIGTERM for what is none."""
    found = signal.Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}")
    return int(found or signal.SIGTERM)
