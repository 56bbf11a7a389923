"""What the operator says about guarding what others started on this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from jettison.runtimes.adopted.back_off import MOST_A_MINUTE
from jettison.runtimes.adopted.rules import GuardRules


@dataclass(frozen=True, slots=True)
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
