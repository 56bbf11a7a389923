"""Every fact that can happen on a node, as frozen values, and where facts go.

What a decision has to say is `engine.node.facts`, what a pod's life has to say is `engine.lifecycle.facts`; here is
what happens besides: evictions are carried out, the kernel kills, an observation fails. Log lines, Kubernetes Events,
metrics, the journal and the tests are sinks of this one stream, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jettison.engine.lifecycle.facts import (
    NOT_STARTED,
    ContainerBackOff,
    ContainerFinished,
    ContainerStarted,
    ContainerStopping,
    DeadlineExceeded,
    HookFailed,
    LifeFact,
    PodCleanedUp,
    PodWaiting,
    ProbeFailed,
)
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.facts import Fact as EngineFact
from jettison.engine.node.facts import RemovalReason
from jettison.engine.node.signals import Reclaimable
from jettison.engine.pods.pod import Pod
from jettison.values import frozen

# Facts of a pod's life are facts of the node, and have the same name here.
__all__ = [
    "NOT_STARTED",
    "ContainerBackOff",
    "ContainerFinished",
    "ContainerStarted",
    "ContainerStopping",
    "DeadlineExceeded",
    "HookFailed",
    "PodCleanedUp",
    "PodWaiting",
    "ProbeFailed",
]


@frozen
class AgentStarted:
    """Ready: from here on the node is guarded."""

    node: str
    # What this machine does not permit, one line each; said once.
    lacks: tuple[str, ...] = ()


@frozen
class AgentStopped:
    """The node is guarded no longer. Pods live on."""

    node: str


@frozen
class OrderReceived:
    """The operator ordered something by the node's socket: delete, restart, evict, exec or down."""

    order: str
    # None where it is about the whole node.
    pod: Pod | None = None


@frozen
class ObservationFailed:
    """The node could not be measured; nothing is decided and conditions keep their last value."""

    why: str


@frozen
class AlarmRaised:
    """Something said: look now."""

    source: str


@frozen
class ReclaimFinished:
    """Node resources were freed, or at least that was tried."""

    containers: int
    images: int
    freed_bytes: int
    errors: tuple[str, ...] = ()


@frozen
class ImageRemoved:
    """No container had it, and it was too old, or the disk too full. `size_bytes` is as its runtime counts it."""

    image: str
    names: tuple[str, ...]
    size_bytes: int
    reason: RemovalReason


@frozen
class CollectionFailed:
    """Unneeded files were to be removed, as they are from time to time, and some could not be.

    `event_reason` is that of the Kubernetes Event where it is a special one.
    """

    what: Reclaimable
    why: str
    event_reason: str = ""


@frozen
class BallastKept:
    """Space is held, to be given up when a disk is full."""

    directory: str
    size_bytes: int


@frozen
class BallastGivenUp:
    """The disk had not a byte, or not an inode, left: what was held is room for clean-up now."""

    directory: str


@frozen
class LimitsEnforced:
    """The pods together can use no more than is theirs."""

    cgroup: str


@frozen
class LimitsRefused:
    """They can: the kernel does not take a limit below what is in use. It is tried again."""

    cgroup: str
    why: str


@frozen
class ContainerRuntimeLost:
    """It does not answer. Containers run on and are guarded through the kernel; none is started until it answers."""

    runtime: str
    why: str


@frozen
class ContainerRuntimeAnswered:
    """Again, after it was lost."""

    runtime: str


@frozen
class EvictionStarted:
    """A pod is told to end. `decided_ns` is the time from the alarm or tick to the first signal sent.

    It is None where an agent told the pod and died before it could say so: then the next one does.
    """

    eviction: Eviction
    decided_ns: int | None


@frozen
class PodEvicted:
    """All its containers have stopped. `took_ns` is the time since the first signal."""

    eviction: Eviction
    took_ns: int


@frozen
class WouldEvict:
    """The pod would be told to end now, were this no dry run. Said once for as long as it stays the choice."""

    eviction: Eviction


@frozen
class EvictionTimedOut:
    """Its containers did not stop in time; it counts as evicted, and the killing goes on."""

    eviction: Eviction


@frozen
class EvictionWithdrawn:
    """The pod lives on: an API that was asked to evict it refused."""

    eviction: Eviction
    why: str


@frozen
class PodEndSeen:
    """Not our doing: the kubelet beside us evicted a pod, or the kernel killed one of its containers (`OOMKilled`)."""

    pod: Pod
    reason: str
    message: str


@frozen
class KillFailed:
    """A process survived SIGKILL; the kill is repeated until none is left. `container` is empty for the whole pod."""

    pod: Pod
    container: str
    why: str


@frozen
class PodAdmitted:
    """It may run here."""

    pod: Pod


@frozen
class PodRejected:
    """It may not, and why."""

    pod: Pod
    reason: str
    message: str


@frozen
class OutOfMemoryKill:
    """The kernel's OOM killer was faster than us. `pod` is None when the victim belongs to no pod: then it is named."""

    pod: Pod | None
    container: str
    kills: int
    process: str = ""
    pid: int | None = None


@frozen
class SettingChanged:
    """The configuration was read again, and this is otherwise from now on."""

    key: str
    old: str
    new: str


@frozen
class RestartNeeded:
    """The configuration was read again, and this is otherwise in it, but takes a restart: the old value stays."""

    key: str
    old: str
    new: str


@frozen
class Reloaded:
    """Everything was read again: how many settings have changed, how many take a restart, and what was odd."""

    changed: int = 0
    unchanged: int = 0
    remarks: tuple[str, ...] = ()


@frozen
class ReloadFailed:
    """What there is to read again has a mistake: nothing was changed."""

    why: str


@frozen
class ServingCertificateTaken:
    """The node's own server shows a certificate of the cluster's authority from now on, until then at most."""

    ends_ns: int


@frozen
class Noted:
    """Something worth knowing that is no failure, such as that another process holds the lease."""

    what: str
    text: str


@frozen
class ActionFailed:
    """Something we wanted to do could not be done; it is tried again."""

    what: str
    why: str


Fact = (
    EngineFact
    | LifeFact
    | AgentStarted
    | AgentStopped
    | OrderReceived
    | ObservationFailed
    | AlarmRaised
    | ReclaimFinished
    | ImageRemoved
    | CollectionFailed
    | BallastKept
    | BallastGivenUp
    | LimitsEnforced
    | ServingCertificateTaken
    | Noted
    | LimitsRefused
    | ContainerRuntimeLost
    | ContainerRuntimeAnswered
    | EvictionStarted
    | WouldEvict
    | PodEvicted
    | EvictionTimedOut
    | EvictionWithdrawn
    | PodEndSeen
    | KillFailed
    | PodAdmitted
    | PodRejected
    | OutOfMemoryKill
    | SettingChanged
    | RestartNeeded
    | Reloaded
    | ReloadFailed
    | ActionFailed
)

Emit = Callable[[Fact], None]


class Sink(Protocol):
    """Where facts go. A sink must return at once and must not raise: a starving node has no patience."""

    def take(self, fact: Fact, time_ns: int) -> None:
        """Note this fact."""
