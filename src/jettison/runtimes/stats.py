"""What a client may want to know of a node beyond what is decided on: what there is to measure, and the measurements.

A runtime says what there is, which is quick; `runtimes/machine/stats_reader` measures it in a thread, when a client
asks. The guarding loop uses nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jettison.engine.node.snapshot import FsStats
from jettison.runtimes.linux.cgroups.counters import Counters
from jettison.runtimes.linux.network import Network

KUBELET, RUNTIME, PODS = "kubelet", "runtime", "pods"
"""System containers, by a kubelet's names for them."""


class StatsSubject(NamedTuple):
    """A cgroup; where `cgroup` is None, these processes."""

    cgroup: str | None
    processes: tuple[int, ...] | None = None
    # By the wall clock.
    started_ns: int | None = None


class PodSubject(NamedTuple):
    """One pod with its running containers, by name."""

    uid: str
    whole: StatsSubject
    containers: Mapping[str, StatsSubject]
    # A process of it; 0 where none runs. Its network counts only if it is not the machine's.
    pid: int = 0
    # Directories of volumes that are filesystems of their own, by name.
    volumes: Mapping[str, str] = {}


class NodeSubject(NamedTuple):
    """Everything."""

    whole: StatsSubject
    system: Mapping[str, StatsSubject]
    # Gone through once, in the thread that measures.
    pods: Iterable[PodSubject]


class Details(NamedTuple):
    """What one subject has counted. `nano_cores` is None until there are two looks."""

    time_ns: int
    counters: Counters
    nano_cores: int | None = None
    started_ns: int | None = None


class PodDetails(NamedTuple):
    """Of one pod. `network` is None where it has the machine's."""

    whole: Details | None
    containers: Mapping[str, Details]
    network: Network | None
    volumes: Mapping[str, FsStats]
    started_ns: int | None = None


class NodeDetails(NamedTuple):
    """Of the node; times are the wall clock's."""

    time_ns: int
    whole: Details | None
    network: Network | None
    system: Mapping[str, Details]
    # By uid.
    pods: Mapping[str, PodDetails]
    started_ns: int | None = None
