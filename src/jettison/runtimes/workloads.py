"""What was found running that Jettison did not start, as its source tells of it.

Sources are adapters of their own (`adopted`, `cri`, `containerd`); `runtimes/adopted` makes pods of what they find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.values import frozen

OUR_LABEL = "jettison.dev/"
"""How the names of labels begin that say how important a workload is."""


@frozen
class AdoptedWorkload:
    """One container, or one cgroup that no container engine knows. Texts are as foreign as they come."""

    # `docker`, `podman`, `cri`, `containerd` or `cgroup`.
    kind: str
    # The engine's id of a container. A cgroup made anew under its old name has another one.
    id: str
    name: str
    # Below the root of the memory hierarchy.
    cgroup: str
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    # Bytes and thousandths of a core; None where there is no limit and no reservation.
    memory_limit: int | None = None
    memory_request: int | None = None
    cpu_limit_milli: int | None = None
    # Seconds between the engine's signal and SIGKILL.
    stop_seconds: int | None = None
    started_ns: int | None = None
    # What it writes outside volumes, and its log; empty where that is not known.
    writable_dir: str = ""
    log_dir: str = ""
    # What its source knows of its pod: nothing, unless a kubelet has started it.
    priority: int | None = None
    is_static: bool = False


class WorkloadSource(Protocol):
    """Lists workloads of one kind, and ends them in the way of their kind."""

    # Whether it knows more about a cgroup than its path tells.
    is_engine: bool

    @property
    def name(self) -> str:
        """For messages: a socket, or a pattern."""

    @property
    def pid(self) -> int | None:
        """The process that must outlive what it runs, where there is one and it has answered."""

    def close(self) -> None:
        """Let go of a connection, where there is one."""

    async def storage(self) -> StorageDirs | None:
        """Where it keeps images and writable layers; None where it has none or does not tell. Raises RuntimeFailure."""

    async def running(self) -> Sequence[AdoptedWorkload]:
        """What runs now. Raises UnreachableError, ObservationError; both mean that what was known stays known."""

    async def stop(self, workload: AdoptedWorkload, grace_seconds: int) -> None:
        """Ask it to end within the grace period; returns when it was asked or has ended. Raises ActionError."""
