"""What a hosting runtime asks of a container runtime, as values and one protocol.

The host keeps the rules of a pod's life, its cgroup, its volumes and its records; a container runtime is asked for
images, sandboxes and containers and keeps its own books about them. What stops a container is the kernel, by the
descriptor of its main process and by its cgroup, so nothing urgent ever waits for a runtime.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, Protocol

from jettison.engine.node.dead_containers import DeadContainer, Sandbox
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.values import frozen

NO_CONTAINERS: frozenset[str] = frozenset()

BOX_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""What the id of a container or a sandbox may be: another program gives it, cgroups are named after it, and messages
show it."""

_BOX_ID = re.compile(BOX_ID)


@frozen
class RuntimePace:
    """How long a container runtime is waited for, and how often it is looked at, in seconds."""

    # For its version, when an agent starts.
    answer: float = 5.0
    # The same where its answer decides what kind of cgroups a new node has. One that has just been started takes
    # seconds; one that was ended refuses at once.
    first_answer: float = 30.0
    # Between two looks whether it answers, and the same once it has failed to.
    heartbeat: float = 10.0
    anxious: float = 1.0


RUNTIME_PACE = RuntimePace()


def is_box_id(text: str) -> bool:
    """Whether a container can be spoken of by it."""
    return _BOX_ID.fullmatch(text) is not None


class HeldImage(NamedTuple):
    """One that a runtime or an engine has; `names` are its tags, or its digests where it has no tag."""

    id: str
    names: tuple[str, ...]
    size: int
    is_pinned: bool = False


class ImageStore(Protocol):
    """Where images are kept. Every call has a deadline and raises RuntimeFailure."""

    async def held_images(self) -> Sequence[HeldImage]:
        """All of them."""

    async def used_images(self, without: Collection[str] = NO_CONTAINERS) -> Collection[str]:
        """Ids of those that a container has, also one that has ended or was not started yet; but for some of them."""

    async def remove_image(self, image: str) -> None:
        """By its id. Harmless when it is gone."""


@frozen
class FoundImage:
    """An image that is there. `user` is None where it names its user in letters, or names none, which is root."""

    # As the pod has it, and by which the runtime knows it.
    name: str
    reference: str
    user: int | None = None
    user_name: str = ""
    stop_signal: str = ""


class PortMapping(NamedTuple):
    """A port of the host that leads to one of the pod."""

    port: int
    host_port: int
    # `TCP`, `UDP` or `SCTP`.
    protocol: str = "TCP"
    host_ip: str = ""


class ReadySandbox(NamedTuple):
    """What a runtime has made for a pod. Without a network of its own it has no addresses."""

    id: str
    has_own_network: bool = False
    addresses: tuple[str, ...] = ()


@frozen
class SandboxOrder:
    """What the containers of a pod share. `cgroup` is the pod's, from the root of the hierarchies."""

    namespace: str
    name: str
    uid: str
    cgroup: str
    log_dir: str
    has_host_processes: bool = False
    shares_processes: bool = False
    # It gets one where the runtime has a network for pods.
    wants_own_network: bool = False
    hostname: str = ""
    ports: tuple[PortMapping, ...] = ()


@frozen
class BoxMount:
    """A directory of the host that a container sees."""

    host_path: str
    path: str
    is_read_only: bool = False


@frozen
class BoxSecurity:
    """What a container may do. Capabilities are named as in the pod's document, without `CAP_`."""

    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    is_privileged: bool = False
    has_read_only_root: bool = False
    has_no_new_privileges: bool = False
    # Of the runtime's default profile; without it nothing is filtered, as in Kubernetes.
    has_seccomp: bool = False
    must_not_be_root: bool = False
    # The image's, where a group needs one: a runtime takes no group without a user.
    user_name: str = ""


@frozen
class BoxLimits:
    """0 sets none."""

    memory: int = 0
    cpu_shares: int = 0
    cpu_quota_us: int = 0
    cpu_period_us: int = 0
    oom_score_adj: int = 0
    # Whether all of it dies when the kernel has to kill in it. Not asked for where the kernel has cgroups of version 1.
    is_killed_as_one: bool = False


@frozen
class BoxOrder:
    """One run of one container. Without a command the image's own is run; `log` is relative to the sandbox's."""

    name: str
    run: int
    image: FoundImage
    log: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    mounts: tuple[BoxMount, ...] = ()
    security: BoxSecurity = field(default_factory=BoxSecurity)
    limits: BoxLimits = field(default_factory=BoxLimits)
    # Whether clients that attach may write to it, only the first of them, and whether it has a terminal.
    has_input: bool = False
    has_input_once: bool = False
    has_terminal: bool = False
    # The container whose processes it shares; empty for none.
    target: str = ""


class MadeBox(NamedTuple):
    """A container that the runtime has made: its id, and what its cgroup is going to be called inside the pod's."""

    id: str
    cgroup: str


@frozen
class BoxEnd:
    """How a container ended, by the runtime's books."""

    exit_code: int
    is_oom: bool


@frozen
class BoxAddress:
    """Where a run of a container can be entered: the socket of its runtime, and its id there."""

    endpoint: str
    id: str


class ContainerRuntime(ImageStore, Protocol):
    """Every method that waits has a deadline and raises StartError, or what it says."""

    @property
    def name(self) -> str:
        """For people: program and version."""

    @property
    def pid(self) -> int:
        """The process that answers; 0 while none does."""

    @property
    def has_network(self) -> bool:
        """Whether pods can have a network of their own: the runtime says that it is ready."""

    @property
    def endpoint(self) -> str:
        """The path of its socket."""

    async def storage(self) -> StorageDirs | None:
        """Where it keeps images and writable layers; None where it does not tell. Raises RuntimeFailure."""

    async def remains(self) -> tuple[list[DeadContainer], list[Sandbox]]:
        """Containers of the node that do not run, and its sandboxes. Raises RuntimeFailure."""

    async def remove(self, container: DeadContainer) -> None:
        """Take it off the books; one in an unknown state is killed first. Raises RuntimeFailure."""

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Stop it and take it off the books. Raises RuntimeFailure."""

    async def find_image(self, image: str, policy: str) -> FoundImage:
        """Pull it if the policy says so: `Always`, `IfNotPresent` or `Never`. Raises ImageError."""

    async def sandbox(self, order: SandboxOrder) -> ReadySandbox:
        """The pod's, made when there is none that is ready."""

    async def create(self, sandbox: ReadySandbox, order: SandboxOrder, box: BoxOrder) -> MadeBox:
        """A new container. Nothing of it runs yet."""

    async def start(self, box: str) -> int | None:
        """Run it; returns the number of its main process: 0 where it has ended by now, None where it is not told."""

    async def end_of(self, box: str, seconds: float) -> BoxEnd | None:
        """How it ended; None where that does not come out within this time. Raises nothing."""

    async def run_command(self, box: str, command: tuple[str, ...], seconds: int | None) -> int:
        """A command inside, to its end; its exit code. The caller cancels it after so many seconds, if any: it ends
        then, or a second later.
        """

    def discard(self, box: str) -> None:
        """Its processes are gone: take it off the books, now or as soon as the runtime answers. Its log stays."""

    def discard_pod(self, uid: str) -> None:
        """The same for everything of a pod."""

    def has_cleared(self, uid: str) -> bool:
        """Whether nothing of the pod is left on its books or, as far as that can be told, on its disk."""

    async def sweep(self, uids: Collection[str]) -> None:
        """Take off the books what belongs to none of these pods of the node. Raises nothing."""
