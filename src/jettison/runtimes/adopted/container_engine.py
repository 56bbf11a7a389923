"""Containers of Docker and of Podman that run: listed and stopped by the API that both serve on a socket."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from jettison.errors import ObservationError, PodGone, StillRunning, UnreachableError
from jettison.manifests.times import time_or_none
from jettison.runtimes.adopted.engine_socket import DEADLINE, EngineSocket, said
from jettison.runtimes.adopted.engine_store import EngineStore
from jettison.runtimes.containers import is_box_id
from jettison.runtimes.linux.cgroups.mounts import Hierarchy
from jettison.runtimes.machine.node_disks import StorageDirs, told_path
from jettison.runtimes.workloads import LOOK_PACE, AdoptedWorkload, LookPace, PlacedStore, SourceLook, container_cgroup


class _Listed(msgspec.Struct, rename="pascal"):
    id: str


class _State(msgspec.Struct, rename="pascal"):
    pid: int = 0
    running: bool = False
    started_at: str = ""


class _HostConfig(msgspec.Struct, rename="pascal"):
    memory: int = 0
    memory_reservation: int = 0
    nano_cpus: int = 0


class _Config(msgspec.Struct, rename="pascal"):
    image: str = ""
    labels: dict[str, str] | None = None
    stop_timeout: int | None = None


class _Driver(msgspec.Struct, rename="pascal"):
    data: dict[str, Any] | None = None


class _Inspected(msgspec.Struct, rename="pascal"):
    name: str = ""
    state: _State = msgspec.field(default_factory=_State)
    host_config: _HostConfig = msgspec.field(default_factory=_HostConfig)
    config: _Config = msgspec.field(default_factory=_Config)
    graph_driver: _Driver | None = None
    log_path: str = ""


_LIST = msgspec.json.Decoder(list[_Listed])
_INSPECT = msgspec.json.Decoder(_Inspected)


class ContainerEngine:
    """One engine. A container is inspected when it is new or was started again, and remembered as long as it runs."""

    is_engine = True

    def __init__(
        self,
        path: Path,
        memory: Hierarchy,
        owners: frozenset[int],
        deadline: float = DEADLINE,
        *,
        pace: LookPace = LOOK_PACE,
    ) -> None:
        self.socket = EngineSocket(path, owners, deadline)
        self.store: PlacedStore | None = EngineStore(path, owners)
        self._memory = memory
        self._pace = pace
        self._kind = ""
        self._known: dict[str, AdoptedWorkload] = {}
        self._look: SourceLook | None = None
        self.complaints: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The socket."""
        return str(self.socket.path)

    @property
    def pid(self) -> int | None:
        """Of the engine, once it has answered."""
        return self.socket.pid

    async def running(self) -> Sequence[AdoptedWorkload]:
        """All that run. One that vanishes meanwhile is left out."""
        self._kind = await self.socket.kind()
        found = {}
        self._look = look = SourceLook(self._look, pace=self._pace)
        for each in await self.socket.ask(_LIST, "/containers/json"):
            known = self._known.get(each.id)
            if known is not None and not self._is_there(known.cgroup):
                known = None
            if known is None and is_box_id(each.id) and look.may_ask(each.id):
                try:
                    known = await self._inspected(each.id)
                except (ObservationError, UnreachableError) as error:
                    look.left_out(each.id, error)
            if known is not None:
                # At once: a look that takes too long is broken off, and the next one goes on from here.
                found[each.id] = self._known[each.id] = known
        self._known, self.complaints = found, look.complaints
        return list(found.values())

    def close(self) -> None:
        """Every question has a connection of its own: nothing is open."""

    async def storage(self) -> StorageDirs | None:
        """Where its images are. Raises UnreachableError, ObservationError."""
        return await self.socket.storage()

    async def stop(self, workload: AdoptedWorkload, grace_seconds: int) -> None:
        """By the engine, so that its restart policy knows that this was meant. Waits until it has ended."""
        path = f"/containers/{quote(workload.id, safe='')}/stop?t={grace_seconds}"
        status, body = await self.socket.exchange("POST", path, grace_seconds)
        if status == 404:
            raise PodGone(f"container `{workload.name}` is gone")
        # 304 means that it had stopped already.
        if status not in (204, 304):
            raise StillRunning(f"{self.name}: cannot stop container `{workload.name}`: {said(status, body)}")

    async def _inspected(self, container: str) -> AdoptedWorkload | None:
        path = f"/containers/{quote(container, safe='')}/json"
        status, body = await self.socket.exchange("GET", path)
        if status == 404:
            return None
        found = self.socket.decoded(_INSPECT, path, status, body)
        if not found.state.running or found.state.pid <= 0:
            return None
        cgroup = container_cgroup(container, found.state.pid, self._memory)
        if cgroup is None:
            # There is no way to tell it from other processes of the machine.
            return None
        limits, config = found.host_config, found.config
        driver = (found.graph_driver.data if found.graph_driver is not None else None) or {}
        upper = driver.get("UpperDir", "")
        return AdoptedWorkload(
            self._kind,
            container,
            found.name.removeprefix("/") or container[:12],
            cgroup,
            config.labels or {},
            config.image,
            limits.memory or None,
            limits.memory_reservation or None,
            limits.nano_cpus // 10**6 or None,
            config.stop_timeout,
            time_or_none(found.state.started_at),
            told_path(upper) if isinstance(upper, str) else "",
            str(Path(log).parent) if (log := told_path(found.log_path)) else "",
        )

    def _is_there(self, cgroup: str) -> bool:
        return (self._memory.mount_point / cgroup).is_dir()
