"""One guarded node of this machine that runs pods: the watch over it, and what starts and keeps its pods.

Here and only here do the parts learn of one another. `up` runs it until it is told to stop, `demo` for a minute.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jettison.agent.admission import Admitter, NodeIdentity
from jettison.agent.http.controls import Controls
from jettison.agent.http.server import Route
from jettison.agent.pods import holds
from jettison.agent.pods.directories import ManifestDirectory
from jettison.agent.pods.holds import Holds
from jettison.agent.pods.keeper import Keeper
from jettison.agent.pods.manifest_objects import ManifestObjects
from jettison.agent.pods.readmission import Readmitter
from jettison.agent.pods.sources import Manifests
from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.numbers.quantity import Quantity
from jettison.events import Sink
from jettison.node.container_runtime import Containers, find_containers
from jettison.node.guarding import watch_until_told
from jettison.node.process.frame import ended
from jettison.node.settings import NodeSettings
from jettison.node.watch import Watch
from jettison.runtimes.host.processes.processes import encode_way_in
from jettison.runtimes.host.runtime import HostRuntime
from jettison.runtimes.host.specs.spec import pod_spec
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.runtimes.protocol import PodStatus, ProbeCount

if TYPE_CHECKING:
    from jettison.node.cluster_settings import Settings
    from jettison.runtimes.cri.client import StoredImage


class Node(Watch):
    """`async with Node(settings) as node:` guards it from when it is ready until the block ends; pods live on."""

    keeper: Keeper
    runtime: HostRuntime

    def __init__(
        self,
        settings: NodeSettings,
        *sinks: Sink,
        owns_process: bool = False,
        is_member: bool = False,
        has_own_api: bool = False,
    ) -> None:
        super().__init__(settings, *sinks, owns_process=owns_process)
        self.is_member = is_member
        # The API of which it is a member ends with it.
        self._has_own_api = has_own_api
        # It was told to leave no pod behind, and has stopped: what runs it ends them.
        self.leaves_empty = False
        self._containers = Containers()
        self._directories: list[ManifestDirectory] = []

    async def _open_runtime(self) -> HostRuntime:
        settings = self.settings
        self._containers = await find_containers(settings, self.emit)
        driver, offer, lack, uses_slices, _ = self._containers
        settings = replace(settings, uses_slices=uses_slices)
        try:
            runtime = await HostRuntime.open(
                settings,
                settings.policy,
                SystemClock(),
                self.emit,
                driver,
                offer,
                removes_images=not settings.is_dry_run,
            )
        except BaseException:
            await self._close_containers()
            raise
        runtime.lacks += (lack,) if lack else ()
        return runtime

    async def close(self) -> None:
        """Let go; pods that run go on running."""
        await super().close()
        for directory in self._directories:
            directory.close()
        await self._close_containers()

    async def _close_containers(self) -> None:
        if self._containers.driver is not None:
            await self._containers.driver.close()

    def _probe_counts(self) -> Sequence[ProbeCount]:
        return self.runtime.probe_counts()

    def _orders(self) -> Mapping[str, Route]:
        self.keeper = self._keeper(SystemClock())
        orders = Controls(
            self.settings.node_name,
            self.runtime,
            self.keeper,
            self.agent,
            self._enter,
            self._is_told_to_stop.set,
            is_member=self.is_member,
            leave_empty=self._leave_empty if self._has_own_api else None,
        ).routes()
        if not self.is_member:
            return orders
        # Only an API has a use for it.
        finder = import_module("jettison.node.kubelet.finding").PodFinder
        found: dict[str, Route] = finder(
            self.settings.node_name, self.runtime.statuses, self._enter, self.emit
        ).routes()
        return orders | found

    def _leave_empty(self) -> None:
        self.leaves_empty = True
        self._is_told_to_stop.set()

    def _enter(self, uid: str, container: str) -> bytes:
        return encode_way_in(self.runtime.way_in(uid, container))

    @property
    def container_runtime(self) -> str:
        """Name and version of what runs containers, as an API is told; empty where none does."""
        return self._containers.version

    def runtime_lack(self) -> str | None:
        """Why its container runtime does not answer; empty while it does, None where there is none."""
        driver = self._containers.driver
        return None if driver is None else driver.lack

    def _runtimes(self) -> Mapping[str, str]:
        driver = self._containers.driver
        return {} if driver is None else {driver.endpoint: driver.lack}

    async def images(self) -> Sequence[StoredImage]:
        """Of its container runtime. Raises RuntimeFailure."""
        driver = self._containers.driver
        return () if driver is None else await driver.client.images()

    def _work(self) -> Sequence[Coroutine[Any, Any, Any]]:
        return (self.keeper.run(),)

    async def _is_ready(self) -> None:
        await self.keeper.has_looked.wait()
        await super()._is_ready()

    def use(self, policy: Policy) -> None:
        """From the next look on. What the machine was divided by at the start stays as it was."""
        super().use(policy)
        self.keeper.admitter.use(policy)

    def told_of_itself(self) -> Mapping[str, Quantity]:
        """What is left for pods, where an API was told."""
        return self.keeper.admitter.allocatable if self.is_member else {}

    def reread(self, settings: Settings) -> None:  # noqa: ARG002  its manifests are where they were
        """All manifests at the next look, whatever their files' times say."""
        for directory in self._directories:
            directory.reread()
        self.keeper.wake()

    def _keeper(self, clock: SystemClock) -> Keeper:
        settings, emit = self.settings, self.emit
        identity = NodeIdentity(settings.node_name, settings.node_labels, settings.taints)
        admitter = Admitter(
            self.runtime,
            settings.policy,
            identity,
            self.conditions,
            emit,
            self.agent.evict,
            lambda manifest: pod_spec(manifest.document, str(manifest.pod), self._containers.offer),
            is_dry_run=settings.is_dry_run,
        )
        directories = self._directories = [ManifestDirectory(path, emit) for path in settings.manifests]
        directories += [ManifestDirectory(path, emit, is_static=True) for path in settings.static_manifests]
        self.runtime.configuration.files = ManifestObjects(directories)
        readmitter = Readmitter(self.runtime, clock, self.conditions, readmits=settings.readmits)
        manifests = Manifests(directories, emit, readmitter, self.runtime.statuses())
        return Keeper(self.runtime, admitter, [manifests], emit, Holds(settings.node_state / holds.NAME, emit))

    def _image_dirs(self) -> StorageDirs:
        return self.runtime.places.named or super()._image_dirs()

    def _uses_slices(self) -> bool:
        return self.runtime.settings.uses_slices

    def _places(self) -> list[str]:
        driver = self._containers.driver
        if driver is None:
            return []
        network = "a network of its own for each pod" if driver.has_network else "the network of the host"
        return [f"  images   run on {driver.name}, with {network}"]

    def _guarded(self) -> str:
        settings, statuses = self.settings, self.runtime.statuses()
        directories = [str(path) for path in (*settings.manifests, *settings.static_manifests)]
        origin = f" from {', '.join(directories)}" if directories else ""
        if self.is_member:
            origin += " and the API" if directories else " from the API"
        elif not directories:
            return f"{_count(statuses)}, and no more will come: --manifests names a directory of some"
        held = f"; deleted by hand, and held: {', '.join(self.keeper.held)}" if self.keeper.held else ""
        others = Counter(each.reason or each.phase for each in statuses if each.phase != "Running")
        told = ", ".join(f"{number} {what}" for what, number in sorted(others.items()))
        return f"{_count(statuses)}{f' ({told})' if told else ''}{origin}{held}"

    async def stop_pods(self) -> None:
        """Guard them no longer, end every pod, all at once, and forget it."""
        if self._guarding is not None:
            await ended(self._guarding)
        await asyncio.gather(*(self.runtime.stop(status.pod.uid) for status in self.runtime.statuses()))


def _count(statuses: Sequence[PodStatus]) -> str:
    return "1 pod" if len(statuses) == 1 else f"{len(statuses) or 'no'} pods"


def carry_out(settings: NodeSettings) -> None:
    """All that `jettison up` is once its command line has been read; returns when it was told to stop."""
    watch_until_told(settings, lambda log: Node(settings, log, owns_process=True))
