"""What a hosting runtime asks of a container runtime, as values and one protocol.

The host keeps the rules of a pod's life, its cgroup, its volumes and its records; a container runtime is asked for
images, sandboxes and containers and keeps its own books about them. What stops a container is the kernel, by the
descriptor of its main process and by its cgroup, so nothing urgent ever waits for a runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FoundImage:
    """An image that is there. `user` is None where it names its user in letters, or names none, which is root."""

    reference: str
    user: int | None = None
    user_name: str = ""
    stop_signal: str = ""


@dataclass(frozen=True, slots=True)
class SandboxOrder:
    """What the containers of a pod share. `cgroup` is the pod's, from the root of the hierarchies."""

    namespace: str
    name: str
    uid: str
    cgroup: str
    log_dir: str
    has_host_processes: bool = False
    shares_processes: bool = False


@dataclass(frozen=True, slots=True)
class BoxMount:
    """A directory of the host that a container sees."""

    host_path: str
    path: str
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class BoxLimits:
    """0 sets none."""

    memory: int = 0
    cpu_shares: int = 0
    cpu_quota_us: int = 0
    cpu_period_us: int = 0
    oom_score_adj: int = 0


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class BoxEnd:
    """How a container ended, by the runtime's books."""

    exit_code: int
    is_oom: bool


class ContainerRuntime(Protocol):
    """Every method that waits has a deadline and raises StartError, or what it says."""

    @property
    def name(self) -> str:
        """For people: program and version."""

    async def find_image(self, image: str, policy: str) -> FoundImage:
        """Pull it if the policy says so: `Always`, `IfNotPresent` or `Never`. Raises ImageError."""

    async def sandbox(self, order: SandboxOrder) -> str:
        """The pod's, made when there is none that is ready."""

    async def create(self, sandbox: str, order: SandboxOrder, box: BoxOrder) -> str:
        """The id of a new container. Nothing of it runs yet."""

    async def start(self, box: str) -> int:
        """Run it; returns the number of its main process, which may have ended by now: then 0."""

    async def end_of(self, box: str, seconds: float) -> BoxEnd | None:
        """How it ended; None where that does not come out within this time. Raises nothing."""

    async def run_command(self, box: str, command: tuple[str, ...]) -> int:
        """A command inside, to its end; its exit code. Cancelled, it is ended."""

    def discard(self, box: str) -> None:
        """Its processes are gone: take it off the books, now or as soon as the runtime answers. Its log stays."""

    def discard_pod(self, uid: str) -> None:
        """The same for everything of a pod."""

    async def sweep(self, uids: Collection[str]) -> None:
        """Take off the books what belongs to none of these pods of the node. Raises nothing."""
