"""The watch beside a kubelet that `jettison relieve` is once its API has been asked for the first time (`relief`)."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from jettison import events
from jettison.agent.http.server import Route
from jettison.agent.journal.policy_records import policy_of_kubelet
from jettison.agent.sinks.log import LogSink
from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import Signal
from jettison.engine.numbers.quantity import parse
from jettison.errors import ApiError, InputError, JettisonError, ObservationError, QuantityError, RuntimeFailure
from jettison.node.guarding import say_where
from jettison.node.process.frame import greet
from jettison.node.relief_settings import ReliefSettings
from jettison.node.watch import Watch
from jettison.relief.policy import kubelet_thresholds, relief_policy
from jettison.relief.runtime import KubeletNode, ReliefRuntime, kubepods_of
from jettison.runtimes.kube.cache import RESYNC_SECONDS, Cache
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import NODES, PODS
from jettison.runtimes.kube.leases import HeldLease
from jettison.runtimes.kube.node_proxy import read_proxied
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.linux.proc import Machine
from jettison.runtimes.machine.background_tasks import until_one_ends

if TYPE_CHECKING:
    from jettison.node.cluster_settings import Settings

_LIST_SECONDS: Final = 30.0
_CONFIG_SECONDS: Final = 300.0
"""Between two looks at the kubelet's configuration: a kubelet that was restarted may have another."""
_LEASE_LOOK_SECONDS: Final = 0.5


class Relief(Watch):
    """Evicts through the API what the kubelet would evict, earlier. Everything that it measures it reads itself."""

    runtime: ReliefRuntime

    def __init__(
        self, settings: ReliefSettings, client: KubeClient, *sinks: events.Sink, owns_process: bool = False
    ) -> None:
        super().__init__(settings.node, *sinks, owns_process=owns_process)
        self._relief = settings
        self._client = client
        self._capacity: Mapping[Signal, int] = {}
        # The kubelet's own thresholds, in words.
        self._kubelet = ""
        name = settings.node.node_name
        self._pods = Cache(client, PODS, "", SystemClock(), RESYNC_SECONDS, f"spec.nodeName={name}")
        identity = f"{socket.gethostname()}_{os.getpid()}"
        self._lease = HeldLease(client, settings.lease_namespace, f"jettison-relieve-{name}", identity, SystemClock())

    async def _open_runtime(self) -> ReliefRuntime:
        settings = self.settings
        kubelet, root, self._capacity = await self._ask_kubelet()
        policy = relief_policy(kubelet, self._capacity, self._relief.at)
        self._kubelet = ", ".join(map(str, kubelet_thresholds(kubelet).values()))
        # All that is made from settings follows these thresholds.
        self.settings = replace(settings, policy=policy)
        memory = self._capacity[Signal.MEMORY_AVAILABLE]
        _check_cgroups(self._relief.within, root)
        node = KubeletNode(settings.node_name, memory, self._relief.within, root)
        runtime = ReliefRuntime(
            node, policy, self._client, self._pods, SystemClock(), self.emit, self._relief.most_a_minute
        )
        runtime.may_act = False
        return runtime

    async def _ask_kubelet(self) -> tuple[Policy, str, Mapping[Signal, int]]:
        """Its policy, where its cgroups are, and what its node has."""
        name = self.settings.node_name
        try:
            node = await self._client.get(NODES, name)
            configz = await read_proxied(self._client, name, "configz")
        except ApiError as error:
            message = f"node `{name}` cannot be asked for its configuration: {error}"
            raise ApiError(message, code=error.code, reason=error.reason) from error
        text = ((node.get("status") or {}).get("capacity") or {}).get("memory")
        try:
            memory = parse(text).value if isinstance(text, str) else 0
        except QuantityError as error:
            raise ObservationError(f"node `{name}` has no memory: {error}") from error
        if memory <= 0:
            raise ObservationError(f"node `{name}` does not say how much memory it has")
        machine = Machine()
        try:
            pids = machine.most_tasks()
        finally:
            machine.close()
        kubelet = policy_of_kubelet(configz, "kubelet")
        own = str((configz.get("kubeletconfig") or {}).get("cgroupRoot") or "").strip("/")
        root = "/".join(part for part in (self._relief.within, own) if part)
        capacity = {Signal.MEMORY_AVAILABLE: memory}
        return kubelet, root, capacity if pids is None else {**capacity, Signal.PID_AVAILABLE: pids}

    def _orders(self) -> Mapping[str, Route]:
        return {}

    def _work(self) -> Sequence[Coroutine[Any, Any, Any]]:
        work: list[Coroutine[Any, Any, Any]] = [self._pods.run(), self._follow_configuration()]
        if not self.settings.is_dry_run:
            work += [self._lease.run(), self._follow_lease()]
        return work

    async def _is_ready(self) -> None:
        async with asyncio.timeout(_LIST_SECONDS):
            await self._pods.listed()
        await super()._is_ready()

    async def _follow_lease(self) -> None:
        while True:
            self.runtime.may_act = self._lease.is_held
            await asyncio.sleep(_LEASE_LOOK_SECONDS)

    async def _follow_configuration(self) -> None:
        while True:
            await asyncio.sleep(_CONFIG_SECONDS)
            try:
                kubelet, _, _ = await self._ask_kubelet()
                policy = relief_policy(kubelet, self._capacity, self._relief.at)
            except (JettisonError, RuntimeFailure) as error:
                self.emit(events.ActionFailed("read the kubelet's configuration", str(error)))
                continue
            if policy.thresholds != self.agent.policy.thresholds:
                before, after = (", ".join(map(str, each.thresholds)) for each in (self.agent.policy, policy))
                self.use(policy)
                self.emit(events.SettingChanged("thresholds of relief", before, after))

    def reread(self, settings: Settings) -> None:
        """Nothing besides thresholds."""

    def _guarded(self) -> str:
        acts = "it only observes: --enforce makes it act" if self.settings.is_dry_run else "it asks for evictions"
        return f"{self.runtime.count()} of the API; the kubelet evicts at {self._kubelet or 'no threshold'}; {acts}"


def _check_cgroups(within: str, root: str) -> None:
    """Without the cgroups of its pods none of them could be measured, and a pod without numbers is the first to go."""
    memory = discover().holding("memory")
    if memory is None:
        raise InputError("cannot relieve: the memory controller of cgroups is not mounted")
    mount = memory.mount_point
    memory.check_within(within)
    if kubepods_of(mount, root) is None:
        below = mount / root if root else mount
        raise InputError(
            f"no kubelet has its pods below `{below}`: there is neither `kubepods` nor `kubepods.slice`; relief runs "
            "on the machine of the kubelet, and sees the cgroups of the host"
        )


async def watch_until_told(settings: ReliefSettings, client: KubeClient, log: LogSink, watches: list[Watch]) -> None:
    """Relief through a client that has been used; it is among the watches as soon as it is open."""
    relief = Relief(settings, client, log, owns_process=True)
    await relief.open()
    watches.append(relief)
    try:
        say_where(relief)
        await until_one_ends(relief.run(lambda greeting: greet(greeting, sys.stdout)))
    finally:
        await relief.close()
