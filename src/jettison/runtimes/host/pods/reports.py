"""A pod as others want to see it: its status for the API and the operator, its parts for the observer.

Both are asked for every second and change a few times a day; to make them anew for 110 pods takes 3 ms each time, which
is most of what an idle agent may use. So an answer is given again as long as it would be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Generic, NamedTuple, TypeVar

from jettison.engine.lifecycle import phases
from jettison.engine.lifecycle.state import PodLife
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.volumes.pod_directories import PodDirectories
from jettison.runtimes.protocol import PodManifest, PodStatus
from jettison.values import frozen

T = TypeVar("T")


@frozen
class ActiveContainer:
    """A container of an active pod. `pid` is 0 while it does not run.

    Directories are texts here, as the code that measures them wants them; and a Path takes 400 bytes instead of 150.
    """

    name: str
    place: Place
    pid: int
    writable_dir: str
    log_dir: str
    is_running: bool
    # The container runtime's id of it; empty for a process.
    box: str = ""


class ActiveVolume(NamedTuple):
    """A volume that has a directory; `is_memory` ones are charged to the memory of the writer."""

    name: str
    path: str
    is_memory: bool


@frozen
class ActivePod:
    """A pod that has not ended, whether or not it has started (spec §5.3)."""

    manifest: PodManifest
    containers: list[ActiveContainer]
    volumes: list[ActiveVolume]
    pod_dir: str


class KeptAnswer(Generic[T]):
    """Made from parts that are replaced and never changed, so that the same objects mean the same answer."""

    __slots__ = ("_answer", "_parts")

    def __init__(self) -> None:
        self._parts: Sequence[object] | None = None
        self._answer: T | None = None

    def get(self, parts: Sequence[object], make: Callable[[], T]) -> T:
        """The answer to these parts."""
        kept = self._parts
        if self._answer is None or kept is None or len(kept) != len(parts) or not all(map(is_, kept, parts)):
            self._parts, self._answer = parts, make()
        return self._answer


def pod_status(manifest: PodManifest, life: PodLife, addresses: tuple[str, ...] = ()) -> PodStatus:
    """As Kubernetes would tell it."""
    uid, verdict = life.pod.uid, phases.verdict(life)
    return PodStatus(
        manifest.pod,
        verdict.phase,
        verdict.reason,
        verdict.message,
        verdict.conditions,
        # Another id for each run, as with a container runtime, and the name of its log.
        phases.container_statuses(life, lambda container, run: f"jettison://{uid}/{container}/{run}"),
        life.started_ns,
        is_ending=life.is_ending,
        document=manifest.document,
        addresses=addresses,
    )


def active_pod(manifest: PodManifest, directories: PodDirectories, containers: list[ActiveContainer]) -> ActivePod:
    """What there is to be measured."""
    mounted = [
        ActiveVolume(each.name, str(each.path), each.is_memory) for each in directories.volumes if not each.is_host
    ]
    return ActivePod(manifest, containers, mounted, str(directories.pod_dir))
