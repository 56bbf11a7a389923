"""What rules look at, and what they say: values of a node's configuration, of workloads and of budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from jettison.engine.budgets.budget import Budget
from jettison.engine.config.allocatable import Allocatable, PodMemory, pod_memory
from jettison.engine.config.kubelet_fields import KubeletConfig
from jettison.engine.config.policy import Policy
from jettison.engine.config.provenance import Provenance, thresholds_with_provenance
from jettison.engine.foresight.trends import Fall
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Layout
from jettison.values import frozen


class Severity(StrEnum):
    """As SARIF names its levels."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@frozen
class Objection:
    """What one rule says about one thing.

    `where` is a key of the configuration (`evictionHard.memory.available`), or an object (`Kind namespace/name`);
    empty where it is about all of it.
    """

    where: str
    message: str
    # What to do about it; empty where the message says that.
    fix: str = ""


@frozen
class ConfiguredNode:
    """A policy on a node of known size."""

    policy: Policy
    layout: Layout
    # By signal; one is missing where its capacity is not known.
    capacities: Mapping[Signal, int]
    # None when the size of memory is not known.
    allocatable: Allocatable | None
    # Keys of the files that are fields of a KubeletConfiguration and have nothing to do with eviction.
    unread: tuple[str, ...] = ()
    # What was odd about the files themselves.
    remarks: tuple[str, ...] = ()
    # A drop-in, and not the file, sets mergeDefaultEvictionSettings.
    merges_in_drop_in: bool = False
    # The largest fall between two looks that is on record, by signal.
    falls: Mapping[Signal, Fall] = field(default_factory=dict)

    @property
    def config(self) -> KubeletConfig:
        """The configuration itself."""
        return self.policy.config

    @property
    def listed(self) -> list[Provenance]:
        """Every threshold that can be met, with where it comes from."""
        return thresholds_with_provenance(self.policy, self.layout)

    @property
    def pod_memory(self) -> PodMemory | None:
        """What pods may use together before the first of them is evicted."""
        return None if self.allocatable is None else pod_memory(self.allocatable, self.policy.thresholds)


@frozen
class PodGroup:
    """Pods of one template: a workload's, or a single pod."""

    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    # None where it depends on something else: the nodes of a DaemonSet, how far a Job has come.
    replicas: int | None
    # Whether the template names a priority class, or a priority itself.
    has_priority: bool
    # Made by another workload, and counted there.
    is_owned: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@frozen
class Objects:
    """Everything of some manifests, or of a cluster, that rules look at."""

    groups: Sequence[PodGroup] = ()
    budgets: Sequence[Budget] = ()
    # A PriorityClass with globalDefault gives every pod a priority.
    has_default_priority: bool = False
