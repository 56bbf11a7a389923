"""What runs on the node at this moment: what supervision hands over to be measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.protocol import PodManifest


@dataclass(frozen=True, slots=True)
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


class ActiveVolume(NamedTuple):
    """A volume that has a directory; `is_memory` ones are charged to the memory of the writer."""

    name: str
    path: str
    is_memory: bool


@dataclass(frozen=True, slots=True)
class ActivePod:
    """A pod that has not ended, whether or not it has started (spec §5.3)."""

    manifest: PodManifest
    containers: list[ActiveContainer]
    volumes: list[ActiveVolume]
    pod_dir: str
