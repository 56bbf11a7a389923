"""What the operator says about guarding what others started on this machine."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from jettison.runtimes.adopted.back_off import MOST_A_MINUTE
from jettison.runtimes.adopted.rules import GuardRules
from jettison.values import frozen


@frozen
class AdoptedSettings:
    """Which engines and cgroups, by which rules."""

    node_name: str
    # On nodefs.
    node_dir: Path
    # What is remembered of stops that are under way.
    records: Path
    sockets: tuple[Path, ...] = ()
    # The operator's, and those that count where they say nothing.
    rules: GuardRules = field(default_factory=GuardRules)
    shipped: GuardRules = field(default_factory=GuardRules)
    # The node, where it is not the whole machine: a cgroup that has all workloads, and how much memory they may use.
    cgroup: str = ""
    memory: int | None = None
    most_a_minute: int = MOST_A_MINUTE
    # Whether unused images, and containers that ended a day ago, are removed from engines.
    collects_images: bool = False
    collects_containers: bool = False
    # Patterns of names of images that are never removed.
    keep_images: tuple[str, ...] = ()
    # The socket of containerd, or of another container runtime.
    runtime: Path | None = None
