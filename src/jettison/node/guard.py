"""A watch over workloads that others started: all that `jettison guard` is once its command line has been read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import msgspec

from jettison import events
from jettison.agent.http.server import Answer, Query, Route
from jettison.clock import SystemClock
from jettison.errors import ContainerRuntimeError, UnreachableError
from jettison.node.cluster_settings import GuardSettings, Settings
from jettison.node.guarding import watch_until_told
from jettison.node.watch import Watch
from jettison.runtimes.adopted.runtime import AdoptedRuntime
from jettison.runtimes.linux.cgroups.mounts import Hierarchy
from jettison.runtimes.linux.proc import Machine
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.runtimes.workloads import WorkloadSource

_CONTAINERD = "containerd"
# Seconds that the start waits for a container runtime to say which it is.
_PATIENCE = 5.0
# Seconds in which the answer to the last order leaves.
_FAREWELL = 0.05


class Guard(Watch):
    """Stops what it did not start, and never starts or removes anything."""

    runtime: AdoptedRuntime

    def __init__(self, settings: GuardSettings, *sinks: events.Sink, owns_process: bool = False) -> None:
        super().__init__(settings.node, *sinks, owns_process=owns_process)
        self._adopted = settings.adopted

    async def _open_runtime(self) -> AdoptedRuntime:
        more = None if self._adopted.runtime is None else self._runtime_sources
        return await AdoptedRuntime.open(self._adopted, self.settings.policy, SystemClock(), self.emit, more)

    async def _runtime_sources(self, memory: Hierarchy) -> list[WorkloadSource]:
        """Pods by CRI, and of containerd what CRI does not show. Either may answer later; each says what it lacks."""
        # Loaded only where there is such a runtime: it costs 2 MB.
        from jettison.runtimes.containerd.workloads import ContainerdWorkloads  # noqa: PLC0415
        from jettison.runtimes.cri.client import CriClient  # noqa: PLC0415
        from jettison.runtimes.cri.workloads import CriWorkloads  # noqa: PLC0415

        path, client = self._adopted.runtime, None
        assert path is not None
        client, has_pods, is_containerd = CriClient(path), True, True
        try:
            is_containerd = (await client.version(_PATIENCE)).name == _CONTAINERD
        except ContainerRuntimeError:
            # containerd as Docker brings it, without CRI.
            has_pods = False
        except UnreachableError as failure:
            self.emit(events.ActionFailed(f"ask `{path}` what it is", str(failure)))
        finally:
            client.close()
        found: list[WorkloadSource] = []
        if has_pods:
            found.append(CriWorkloads(path, memory, Machine().memory().total))
        if is_containerd:
            found.append(ContainerdWorkloads(path, memory, has_pods=has_pods))
        return found

    def _runtimes(self) -> Mapping[str, str]:
        return self.runtime.engines()

    def _orders(self) -> Mapping[str, Route]:
        return {"/orders/down": self._down}

    def _down(self, _: Query) -> Answer:
        """Only the agent ends: what it guards is not its own."""
        self.emit(events.OrderReceived("down"))
        asyncio.get_running_loop().call_later(_FAREWELL, self._is_told_to_stop.set)
        return Answer(msgspec.json.encode({"node": self.settings.node_name, "pods": 0}))

    def reread(self, settings: Settings) -> None:
        """The rules; engines and cgroups that are named anew take a restart."""
        if isinstance(settings, GuardSettings):
            self.runtime.use_rules(settings.adopted.rules)

    def _image_dirs(self) -> StorageDirs:
        return self.runtime.places.named or super()._image_dirs()

    def _stores(self) -> tuple[str, tuple[str, ...]]:
        runtime = self._adopted.runtime
        return "" if runtime is None else f"unix://{runtime}", tuple(map(str, self._adopted.sockets))

    def _guarded(self) -> str:
        pods = self.runtime.pods()
        kinds = Counter(each.workloads[0].kind for each in pods)
        spared = sum(each.is_protected for each in pods)
        found = ", ".join(f"{number} of {kind}" for kind, number in sorted(kinds.items())) or "none yet"
        mode = "it only observes: --enforce makes it act" if self.settings.is_dry_run else "it stops what must go"
        return f"{found}; {spared} protected; {mode}"


def carry_out(settings: GuardSettings) -> None:
    """Returns when it was told to stop."""
    watch_until_told(settings.node, lambda log: Guard(settings, log, owns_process=True))
