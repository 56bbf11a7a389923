"""What was found running that Jettison did not start, as its source tells of it.

Sources are adapters of their own (`adopted`, `cri`, `containerd`); `runtimes/adopted` makes pods of what they find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

from jettison.errors import RuntimeFailure
from jettison.runtimes.linux.cgroups.mounts import Hierarchy, cgroup_of
from jettison.runtimes.machine.garbage import GarbageStore
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.values import frozen

OUR_LABEL = "jettison.dev/"
"""How the names of labels begin that say how important a workload is."""

_MOST_COMPLAINTS = 8
_SCOPE = ".scope"


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


@frozen
class LookPace:
    """How long a source asks about containers that are new, in seconds."""

    # About all of them: 500 take Docker as long.
    longest: float = 5.0
    # From then on a container that could not be read has held up all behind it. A healthy engine takes 10 ms.
    slow: float = 0.5
    # Until such a one is asked about again.
    spared: float = 60.0


LOOK_PACE = LookPace()


class SourceLook:
    """One look of a source at what runs. What cannot be read, or not in time, is left out, and the rest counts.

    A container about which the engine does not answer takes all the time that a look has. After the look before, it is
    asked about again only in a minute: those behind it would never be known.
    """

    def __init__(self, before: SourceLook | None = None, *, pace: LookPace = LOOK_PACE) -> None:
        self._pace = pace
        self._now = asyncio.get_running_loop().time
        self._until = self._now() + pace.longest
        self._asked = self._until
        self._complaints: list[str] = []
        self._is_late = False
        # Until when each that has held up a look is spared, and what was wrong.
        self.held_up: dict[str, tuple[float, str]] = {}
        self._before = {} if before is None else before.held_up

    def may_ask(self, container: str) -> bool:
        """Whether this one is to be asked about; if not, a later look goes on with it."""
        self._asked = self._now()
        until, why = self._before.get(container, (0.0, ""))
        if self._asked < until:
            self.held_up[container] = until, why
            self._complain(why)
            return False
        self._is_late = self._is_late or self._asked >= self._until
        return not self._is_late

    def left_out(self, container: str, failure: RuntimeFailure) -> None:
        """This one, asked about just now, could not be read."""
        why = f"container `{container}`: {failure}"
        self._complain(why)
        now = self._now()
        if now - self._asked >= self._pace.slow:
            self.held_up[container] = now + self._pace.spared, why

    def _complain(self, why: str) -> None:
        if len(self._complaints) < _MOST_COMPLAINTS:
            self._complaints.append(why)

    @property
    def complaints(self) -> Sequence[str]:
        """A few sentences, whatever was wrong."""
        longest = self._pace.longest
        late = f"to ask about each container takes more than {longest:g} s: those that are left are not known yet"
        return [*self._complaints, *([late] if self._is_late else [])]


def container_cgroup(container: str, pid: int, memory: Hierarchy) -> str | None:
    """The cgroup of a container whose process has this number, by its source's word; None where that has none.

    Every engine names it after the container: `<id>`, `docker-<id>.scope`, `libpod-<id>`. Where the process is in no
    such one it is another process, or shares its cgroup with what is not the container's (`--cgroups=disabled`), and to
    end that would end a user's session. A process may be further down: systemd in a container makes cgroups of its own.
    """
    parts = (cgroup_of(pid, memory) or "").split("/")
    for count in range(len(parts), 0, -1):
        name = parts[count - 1].removesuffix(_SCOPE)
        if name == container or name.endswith(f"-{container}"):
            return "/".join(parts[:count])
    return None


class PlacedStore(GarbageStore, Protocol):
    """One that knows, once it has told of its images, where they are."""

    top: Path | None


class WorkloadSource(Protocol):
    """Lists workloads of one kind, and ends them in the way of their kind."""

    # Whether it knows more about a cgroup than its path tells.
    is_engine: bool
    # Of the last look, which is good for the rest.
    complaints: Sequence[str]
    # Where it keeps images; None where it has none.
    store: PlacedStore | None

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
