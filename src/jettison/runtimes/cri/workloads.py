"""Containers of a kubelet, or of another program that speaks CRI, as workloads that others started.

What a pod asked for is not in the runtime's books. Its limit is its cgroup's; for a Burstable pod the request is read
back from oom_score_adj, which a kubelet makes of it: 1000 minus its share of the machine's memory in thousandths.

Nor is its priority. The sandbox has the pod's labels and annotations, though: ours may say how important it is, and the
kubelet's own tells static pods, which are critical. And the score of Guaranteed pods, -997, is given besides only to
pods of the class system-node-critical, so in a cgroup of the other classes it tells those.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from jettison.engine.pods.oom_scores import GUARANTEED_SCORE
from jettison.engine.pods.pod import SYSTEM_NODE_CRITICAL
from jettison.errors import ContainerRuntimeError, ObservationError, StillRunning, UnreachableError
from jettison.manifests.files.documents import SYSTEM_CLASSES
from jettison.manifests.pods import CONFIG_SOURCE
from jettison.runtimes.containers import HeldImage
from jettison.runtimes.cri.client import CriClient, Listed
from jettison.runtimes.cri.messages import RUNNING
from jettison.runtimes.cri.store import CONTAINER, CriStore
from jettison.runtimes.linux.cgroups.mounts import Hierarchy
from jettison.runtimes.linux.cgroups.usage import memory_limit
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.filesystems import upper_dir
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.runtimes.workloads import OUR_LABEL, AdoptedWorkload, PlacedStore, SourceLook, container_cgroup

KIND = "cri"
# From 2, for a pod that asks for nearly everything, to 999, for one that asks for a little.
_BURSTABLE = range(2, 1000)
# Cgroups of pods that are not Guaranteed: `kubepods/burstable/…`, or `kubepods-burstable.slice` of systemd.
_OTHER_CLASSES = re.compile(r"kubepods[-/](burstable|besteffort)\b")
_NODE_CRITICAL = SYSTEM_CLASSES[SYSTEM_NODE_CRITICAL]


class _PlacedStore(CriStore):
    """One that remembers where its images are."""

    top: Path | None = None

    async def storage(self) -> StorageDirs | None:
        """As the runtime names them."""
        found = await super().storage()
        self.top = None if found is None else Path(found.images)
        return found

    async def held_images(self) -> list[HeldImage]:
        """The same as of every runtime."""
        if self.top is None:
            await self.storage()
        return await super().held_images()


class CriWorkloads:
    """Of one runtime. `memory_total` is the machine's."""

    is_engine = True

    def __init__(self, path: Path, memory: Hierarchy, memory_total: int) -> None:
        self._client = CriClient(path)
        self.store: PlacedStore | None = _PlacedStore(self._client, str(path))
        self._memory = memory
        self._total = memory_total
        self._known: dict[str, AdoptedWorkload] = {}
        self._pid = 0
        self._look: SourceLook | None = None
        self.complaints: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The socket."""
        return str(self._client.path)

    @property
    def pid(self) -> int | None:
        """Of the runtime, once it has answered; the last one while it does not."""
        self._pid = self._client.pid or self._pid
        return self._pid or None

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    async def storage(self) -> StorageDirs | None:
        """Where it keeps images and writable layers."""
        return None if self.store is None else await self.store.storage()

    async def running(self) -> Sequence[AdoptedWorkload]:
        """All that run; a container is asked about when it is new."""
        found, pods = {}, None
        self._look = look = SourceLook(self._look)
        for each in await self._listed(self._client.containers):
            if each.state != RUNNING:
                continue
            known = self._known.get(each.id)
            if known is not None and not (self._memory.mount_point / known.cgroup).is_dir():
                known = None
            if known is None and look.may_ask(each.id):
                if pods is None:
                    pods = {pod.id: pod for pod in await self._listed(self._client.sandboxes)}
                try:
                    known = await self._workload(each, pods.get(each.sandbox))
                except ContainerRuntimeError as error:
                    look.left_out(each.id, error)
            if known is not None:
                found[each.id] = self._known[each.id] = known
        self._known, self.complaints = found, look.complaints
        return list(found.values())

    async def stop(self, workload: AdoptedWorkload, grace_seconds: int) -> None:
        """By the runtime, so that its books are right. Waits until it has ended."""
        try:
            await self._client.stop_container(workload.id, grace_seconds)
        except ContainerRuntimeError as error:
            raise StillRunning(f"{self.name}: cannot stop container `{workload.name}`: {error}") from error

    async def _listed(self, ask: Callable[[Mapping[str, str]], Awaitable[Sequence[Listed]]]) -> Sequence[Listed]:
        try:
            return await ask({})
        except ContainerRuntimeError as error:
            raise UnreachableError(f"{self.name}: {error}") from error

    async def _workload(self, listed: Listed, pod: Listed | None) -> AdoptedWorkload | None:
        status = await self._client.status(listed.id)
        if status is None or status.pid <= 0:
            return None
        cgroup = container_cgroup(listed.id, status.pid, self._memory)
        if cgroup is None:
            return None
        score = _oom_score(status.pid)
        annotations = {} if pod is None else pod.annotations
        ours = {name: value for name, value in annotations.items() if name.startswith(OUR_LABEL)}
        return AdoptedWorkload(
            KIND,
            listed.id,
            listed.labels.get(CONTAINER) or listed.id[:12],
            cgroup,
            {**({} if pod is None else pod.labels), **ours, **listed.labels},
            listed.image,
            memory_limit(self._memory, cgroup),
            (1000 - score) * self._total // 1000 if score in _BURSTABLE else None,
            priority=told_priority(score, cgroup),
            is_static=annotations.get(CONFIG_SOURCE, "api") != "api",
            started_ns=listed.created_ns or None,
            writable_dir=upper_dir(status.pid),
        )


def told_priority(score: int, cgroup: str) -> int | None:
    """What the oom_score_adj of a container in this cgroup tells of its pod's priority; None where it tells nothing."""
    return _NODE_CRITICAL if score == GUARANTEED_SCORE and _OTHER_CLASSES.search(cgroup) else None


def _oom_score(pid: int) -> int:
    """0, which no kubelet gives, where the process is gone."""
    try:
        return kernel_files.read_number(PROC / str(pid) / "oom_score_adj") or 0
    except ObservationError:
        return 0
