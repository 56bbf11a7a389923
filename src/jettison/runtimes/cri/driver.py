"""Containers of one node on a CRI runtime: what the host asks for, in the words of the interface.

What is to be taken off the runtime's books is remembered and tried again until it has answered: a pod's end never waits
for that. Everything carries the node's label, so that several nodes share a runtime, and so that what an earlier agent
left is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from contextlib import suppress
from typing import TypeVar
from weakref import WeakValueDictionary

from jettison import events
from jettison.engine.node.dead_containers import DeadContainer, Sandbox
from jettison.errors import ContainerRuntimeError, ImageError, RuntimeFailure, StartError, UnreachableError
from jettison.runtimes.containers import (
    NO_CONTAINERS,
    RUNTIME_PACE,
    BoxEnd,
    BoxOrder,
    FoundImage,
    MadeBox,
    PortMapping,
    ReadySandbox,
    RuntimePace,
    SandboxOrder,
)
from jettison.runtimes.cri.client import CriClient
from jettison.runtimes.cri.messages import (
    CRIO,
    EXITED,
    OF_NODE,
    OF_POD,
    OF_TARGET,
    OWN_PROCESSES,
    RUNNING,
    RUNTIME_DEFAULT,
    SANDBOX_READY,
    SHARED_PROCESSES,
    UNCONFINED,
)
from jettison.runtimes.cri.store import CONTAINER, POD, CriStore
from jettison.runtimes.grpc.wire import Message

T = TypeVar("T")

NODE = "jettison.dev/node"
"""The label of everything that an agent has made here."""

# Between two attempts to clear up.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_PING_SECONDS = 5.0
_CLOSING_SECONDS = 5.0
# Of a command without a deadline of its own, such as a hook.
_COMMAND_SECONDS = 3600
# The caller's time is over before the runtime's: a probe without an answer has failed, one with an error has not.
_MARGIN_SECONDS = 1
_NETWORK = "NetworkReady"
_MADE_AT_ONCE = 8
# By whether the node's are slices of systemd.
_MISFITS = tuple(
    f"the container runtime {differs}: restart the agent when none of its pods runs"
    for differs in (
        "leaves cgroups to systemd, and those of this node were made without",
        "makes cgroups itself, and those of this node are slices of systemd",
    )
)
# In the order of their numbers.
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_PAUSE = 0.01
# A pod that was given an image makes a container of it within this time, or asks again.
_HANDED_SECONDS = 300.0
# How long a runtime may take to delete layers that it has taken off its books; measured up to 1 s.
_DELETION_SECONDS = 2.0

_AS_ONE = {"memory.oom.group": "1"}

# As Docker and the kubelet have them: what of /proc and /sys a container neither sees nor writes.
_MASKED = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


class CriDriver(CriStore):
    """One node's part of a runtime. `open` it before use; it belongs to one event loop."""

    def __init__(
        self, client: CriClient, name: str, node: str, emit: events.Emit, *, pace: RuntimePace = RUNTIME_PACE
    ) -> None:
        """`node` is the node's cgroup, which no other agent of this machine has."""
        super().__init__(client, name)
        self.endpoint = str(client.path)
        self._node = node
        self._emit = emit
        self._pace = pace
        # All pods of a node may begin at once: what is under way takes memory, here and in the runtime.
        self._making = asyncio.Semaphore(_MADE_AT_ONCE)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unwanted: dict[tuple[str, str], None] = {}
        # Pods that have asked for a sandbox.
        self._wanted: set[str] = set()
        self._has_work = asyncio.Event()
        # Set where a call found no answer.
        self._is_doubtful = asyncio.Event()
        self._lost = ""
        # When each image was last asked for, which is before a container has it.
        self._handed: dict[str, float] = {}
        # When pods were taken off the books whose layers may still be on the disk.
        self._cleared: dict[str, float] = {}
        self.has_network = False
        # Whether systemd makes the cgroups of its containers, as scopes; those of the node are made for that.
        self.uses_systemd = False
        self.knows_cgroups = False
        # Why its containers do not fit into the node's cgroups.
        self._misfit = ""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def pid(self) -> int:
        """The process that answers; 0 while none does."""
        return self.client.pid

    @property
    def lack(self) -> str:
        """Why it does not answer; empty while it does."""
        return self._lost

    def open(self) -> None:
        """Begin to look after it."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._clear_for_ever()), loop.create_task(self._watch_for_ever())]

    async def close(self) -> None:
        """What is to be cleared up gets some seconds; the rest is found by the next agent."""
        deadline = asyncio.get_running_loop().time() + _CLOSING_SECONDS
        while self._unwanted and not self._lost and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_PAUSE)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.client.close()

    async def used_images(self, without: Collection[str] = NO_CONTAINERS) -> frozenset[str]:
        """Also those that a container is being made of right now. Raises RuntimeFailure."""
        now = asyncio.get_running_loop().time()
        self._handed = {image: at for image, at in self._handed.items() if now - at < _HANDED_SECONDS}
        return await super().used_images(without) | self._handed.keys()

    async def remains(self) -> tuple[list[DeadContainer], list[Sandbox]]:
        """Of this node, but for what is being made for one of its pods. Raises RuntimeFailure."""
        return await self.ended({NODE: self._node}, self._wanted)

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Not while its pod asks for one. Raises RuntimeFailure."""
        async with self._turn(sandbox.pod_uid):
            await super().remove_sandbox(sandbox)

    async def find_image(self, image: str, policy: str) -> FoundImage:
        """Pulled if the policy says so. Raises ImageError, and StartError where the runtime does not answer."""
        found = None if policy == "Always" else await self._image(image)
        if found is None:
            if policy == "Never":
                why = f'Container image "{image}" is not present with pull policy of Never'
                raise ImageError(image, why, is_never_pulled=True)
            try:
                await self.client.pull_image(image)
            except ContainerRuntimeError as error:
                raise ImageError(image, str(error)) from error
            except UnreachableError as error:
                raise StartError(str(error)) from error
            found = await self._image(image)
        if found is None:
            raise ImageError(image, "the runtime has pulled it and does not have it")
        return found

    async def _image(self, image: str) -> FoundImage | None:
        found = await _translated(self.client.image(image), f"look for image `{image}`")
        if found is None:
            return None
        stored, config = found
        self._handed[stored.id] = asyncio.get_running_loop().time()
        return FoundImage(image, stored.id, stored.user, stored.user_name, config.stop_signal)

    def compare_cgroups(self, *, uses_systemd: bool) -> None:
        """What the runtime has told: another one may have come, or one that was silent at the start."""
        self.knows_cgroups = True
        is_fit = uses_systemd == self.uses_systemd
        was_fit, self._misfit = not self._misfit, "" if is_fit else _MISFITS[self.uses_systemd]
        if self._misfit and was_fit:
            self._emit(events.ActionFailed("run containers", self._misfit))

    async def look_at_network(self) -> None:
        """Whether there is one for pods. Raises ContainerRuntimeError and UnreachableError."""
        conditions = await self.client.conditions(_PING_SECONDS)
        self.has_network = any(each.kind == _NETWORK and each.is_met for each in conditions)

    async def sandbox(self, order: SandboxOrder) -> ReadySandbox:
        """The pod's. One that has died is replaced; one that is there keeps the network that it has."""
        if self._misfit:
            raise StartError(self._misfit)
        async with self._turn(order.uid), self._making:
            self._wanted.add(order.uid)
            if ("pod", order.uid) in self._unwanted:
                # Of an earlier life of the pod, whose sandbox may still look alive.
                await _translated(self._clear_pod(order.uid), "remove the pod's former sandbox")
                del self._unwanted["pod", order.uid]
            found = await _translated(self.client.sandboxes(self._labels(order.uid)), "look for the pod's sandbox")
            for each in found:
                if each.state == SANDBOX_READY:
                    return await self._known(each.id)
                await _translated(self.end_sandbox(each.id), "remove the pod's dead sandbox")
            config = self._sandbox_config(order, has_own_network=order.wants_own_network and self.has_network)
            return await self._known(await _translated(self.client.run_sandbox(config), "failed to create pod sandbox"))

    async def _known(self, sandbox: str) -> ReadySandbox:
        found = await _translated(self.client.sandbox_network(sandbox), "cannot look at the pod's sandbox")
        return ReadySandbox(sandbox, *found)

    async def create(self, sandbox: ReadySandbox, order: SandboxOrder, box: BoxOrder) -> MadeBox:
        """Its cgroup is named after the program that answers now: another one may have come at the same socket."""
        labels = {**self._labels(order.uid), CONTAINER: box.name}
        is_own = sandbox.has_own_network
        async with self._making:
            config = _container_config(order, box, labels, has_own_network=is_own)
            sandbox_config = self._sandbox_config(order, has_own_network=is_own)
            runtime = await _translated(self.client.version(), "cannot create the container")
            making = self.client.create_container(sandbox.id, config, sandbox_config)
            made = await _translated(making, "cannot create the container")
        return MadeBox(made, cgroup_name(runtime.name, made, is_scope=self.uses_systemd))

    async def start(self, box: str) -> int | None:
        """The number of its main process; 0 where it has ended by now.

        None where it runs and the runtime does not tell: CRI leaves that to what a runtime adds for people to read.
        """
        async with self._making:
            await _translated(self.client.start_container(box), "cannot start the container")
        status = await _translated(self.client.status(box), "cannot find the container's process")
        return (status.pid or None) if status is not None and status.state == RUNNING else 0

    async def end_of(self, box: str, seconds: float) -> BoxEnd | None:
        """The books follow the kernel after some milliseconds. CRI-O may know the end before it knows the code: -1."""
        try:
            async with asyncio.timeout(seconds):
                while (status := await self.client.status(box)) is not None:
                    if status.state == EXITED and status.exit_code >= 0:
                        return BoxEnd(status.exit_code, status.reason == "OOMKilled")
                    await asyncio.sleep(_PAUSE)
        except (TimeoutError, RuntimeFailure):
            return None
        return None

    async def run_command(self, box: str, command: tuple[str, ...], seconds: int | None) -> int:
        """Its exit code. containerd ends a command whose caller has gone; CRI-O does so only after its own time-out."""
        limit = _COMMAND_SECONDS if seconds is None else seconds + _MARGIN_SECONDS
        output = await _translated(self.client.run_command(box, command, limit), f"cannot run `{command[0]}`")
        if output is None:
            raise StartError(f"`{command[0]}` has not ended within {limit} s")
        return output.exit_code

    def discard(self, box: str) -> None:
        """Soon."""
        self._discard("container", box)

    def discard_pod(self, uid: str) -> None:
        """Soon."""
        self._wanted.discard(uid)
        self._discard("pod", uid)

    def has_cleared(self, uid: str) -> bool:
        """Layers are deleted up to a second after the runtime has answered: until then the disk looks full."""
        now = asyncio.get_running_loop().time()
        self._cleared = {each: at for each, at in self._cleared.items() if now - at < _DELETION_SECONDS}
        return ("pod", uid) not in self._unwanted and uid not in self._cleared

    async def sweep(self, uids: Collection[str]) -> None:
        """What an earlier agent left."""
        try:
            found = await self.client.sandboxes({NODE: self._node})
        except RuntimeFailure as failure:
            self._emit(events.ActionFailed("look for containers that belong to no pod", str(failure)))
            return
        # A pod may have come while the runtime took its time to answer.
        for uid in {each.labels.get(POD, "") for each in found} - set(uids) - self._wanted:
            self.discard_pod(uid)

    def _labels(self, uid: str) -> dict[str, str]:
        return {NODE: self._node, POD: uid}

    def _sandbox_config(self, order: SandboxOrder, *, has_own_network: bool) -> Message:
        return {
            "metadata": {"name": order.name, "uid": order.uid, "namespace": order.namespace},
            # With the host's network the sandbox has the host's name, and runc refuses to set another one.
            "hostname": order.hostname if has_own_network else "",
            "port_mappings": [_port_mapping(each) for each in order.ports] if has_own_network else (),
            "log_directory": order.log_dir,
            "labels": {
                **self._labels(order.uid),
                "io.kubernetes.pod.name": order.name,
                "io.kubernetes.pod.namespace": order.namespace,
            },
            "linux": {
                "cgroup_parent": f"/{order.cgroup}",
                "security_context": {
                    "namespace_options": _namespaces(order, has_own_network=has_own_network),
                    "seccomp": {"profile_type": RUNTIME_DEFAULT},
                },
            },
        }

    def _discard(self, kind: str, name: str) -> None:
        self._unwanted[kind, name] = None
        self._has_work.set()

    async def _clear_for_ever(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._has_work.wait()
            for kind, name in list(self._unwanted):
                try:
                    await (self._clear_pod_in_turn(name) if kind == "pod" else self._clear_container(name))
                except UnreachableError:
                    self._is_doubtful.set()
                    break
                except ContainerRuntimeError as failure:
                    self._emit(events.ActionFailed(f"remove {kind} {name} from the container runtime", str(failure)))
                    continue
                self._unwanted.pop((kind, name), None)
                if kind == "pod":
                    self._cleared[name] = asyncio.get_running_loop().time()
                pause = _FIRST_PAUSE
            if not self._unwanted:
                self._has_work.clear()
                continue
            # Until then, or until it answers again.
            self._has_work.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._has_work.wait()
            self._has_work.set()
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _turn(self, uid: str) -> asyncio.Lock:
        """One at a time may make or remove the sandbox of a pod."""
        turn = self._turns.get(uid)
        if turn is None:
            turn = self._turns[uid] = asyncio.Lock()
        return turn

    async def _clear_container(self, box: str) -> None:
        """Stopped first: containerd removes none that runs by its books, which follow the kernel after a moment."""
        await self.client.stop_container(box)
        await self.client.remove_container(box)

    async def _clear_pod_in_turn(self, uid: str) -> None:
        async with self._turn(uid):
            if ("pod", uid) in self._unwanted:
                await self._clear_pod(uid)

    async def _clear_pod(self, uid: str) -> None:
        for each in await self.client.sandboxes(self._labels(uid)):
            await self.end_sandbox(each.id)

    async def _watch_for_ever(self) -> None:
        """Say when the runtime stops to answer, and when it does again."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.anxious if self._lost else self._pace.heartbeat):
                    await self._is_doubtful.wait()
            self._is_doubtful.clear()
            try:
                await self.look_at_network()
                if self._lost or not self.knows_cgroups:
                    self.compare_cgroups(uses_systemd=await self.client.uses_systemd())
            except RuntimeFailure as failure:
                if not self._lost:
                    self._emit(events.ContainerRuntimeLost(self.name, str(failure)))
                self._lost = str(failure)
            else:
                if self._lost:
                    self._emit(events.ContainerRuntimeAnswered(self.name))
                    self._has_work.set()
                self._lost = ""


def cgroup_name(runtime: str, box: str, *, is_scope: bool) -> str:
    """What a runtime calls the cgroup of a container. CRI does not tell; containerd and CRI-O each have their way."""
    is_crio = runtime == CRIO
    if is_scope:
        return f"{'crio' if is_crio else 'cri-containerd'}-{box}.scope"
    return f"crio-{box}" if is_crio else box


async def _translated(call: Awaitable[T], what: str) -> T:
    try:
        return await call
    except (ContainerRuntimeError, UnreachableError) as failure:
        raise StartError(f"{what}: {failure}") from failure


def _port_mapping(mapping: PortMapping) -> Message:
    return {
        "protocol": _PROTOCOLS.index(mapping.protocol),
        "container_port": mapping.port,
        "host_port": mapping.host_port,
        "host_ip": mapping.host_ip,
    }


def _namespaces(order: SandboxOrder, *, has_own_network: bool) -> Message:
    pid = SHARED_PROCESSES if order.shares_processes else OWN_PROCESSES
    network = OF_POD if has_own_network else OF_NODE
    return {"network": network, "pid": OF_NODE if order.has_host_processes else pid}


def _box_namespaces(order: SandboxOrder, box: BoxOrder, *, has_own_network: bool) -> Message:
    """Those of its pod. Where each container has process ids of its own, it may share those of another one."""
    found = _namespaces(order, has_own_network=has_own_network)
    if not box.target or found["pid"] != OWN_PROCESSES:
        return found
    return {**found, "pid": OF_TARGET, "target_id": box.target}


def _container_config(order: SandboxOrder, box: BoxOrder, labels: dict[str, str], *, has_own_network: bool) -> Message:
    return {
        "metadata": {"name": box.name, "attempt": box.run},
        # CRI-O checks signatures by the name that the pod has, and makes no container without it.
        "image": {"image": box.image.reference, "user_specified_image": box.image.name},
        "command": box.command,
        "args": box.args,
        "working_dir": box.working_dir,
        "envs": [{"key": key, "value": value} for key, value in box.env.items()],
        "mounts": [
            {"container_path": each.path, "host_path": each.host_path, "readonly": each.is_read_only}
            for each in box.mounts
        ],
        "labels": labels,
        "log_path": box.log,
        "stdin": box.has_input,
        "stdin_once": box.has_input_once,
        "tty": box.has_terminal,
        "linux": {"resources": _resources(box), "security_context": _security(order, box, has_own_network)},
    }


def _resources(box: BoxOrder) -> Message:
    limits = box.limits
    return {
        "cpu_period": limits.cpu_period_us,
        "cpu_quota": limits.cpu_quota_us,
        "cpu_shares": limits.cpu_shares,
        "memory_limit_in_bytes": limits.memory,
        "oom_score_adj": limits.oom_score_adj,
        # By the runtime, as for a kubelet: systemd undoes what is only written into the cgroup of its scope.
        "unified": _AS_ONE if limits.is_killed_as_one else {},
    }


def _security(order: SandboxOrder, box: BoxOrder, has_own_network: bool) -> Message:
    wanted = box.security
    is_open = wanted.is_privileged
    has_filter = wanted.has_seccomp and not is_open
    return {
        "capabilities": {"add_capabilities": wanted.added, "drop_capabilities": wanted.dropped},
        "privileged": is_open,
        "namespace_options": _box_namespaces(order, box, has_own_network=has_own_network),
        "run_as_user": None if wanted.user is None else {"value": wanted.user},
        "run_as_username": wanted.user_name,
        "run_as_group": None if wanted.group is None else {"value": wanted.group},
        "readonly_rootfs": wanted.has_read_only_root,
        "supplemental_groups": wanted.groups,
        "no_new_privs": wanted.has_no_new_privileges,
        "masked_paths": () if is_open else _MASKED,
        "readonly_paths": () if is_open else _READ_ONLY,
        "seccomp": {"profile_type": RUNTIME_DEFAULT if has_filter else UNCONFINED},
    }
