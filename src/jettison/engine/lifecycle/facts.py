"""What a pod's life has to say. Log lines, Kubernetes Events, metrics and the journal are made from these."""

from __future__ import annotations

from jettison.engine.pods.pod import Pod
from jettison.values import frozen

NOT_STARTED = "StartError"
"""The reason of a container that finished because it could not be started; containerd's word."""


@frozen
class DeadlineExceeded:
    """It was active for as long as its document allows, and is told to end."""

    pod: Pod
    seconds: int


@frozen
class PodCleanedUp:
    """Processes, cgroup, volumes and writable directories are gone."""

    pod: Pod


@frozen
class PodWaiting:
    """It may run here, and something that it asks for is not to be had; it is tried again in so many seconds.

    `reason` is what its status says of its containers, `event_reason` is of the Kubernetes Event.
    """

    pod: Pod
    reason: str
    message: str
    event_reason: str
    seconds: float


@frozen
class ContainerStarted:
    """A container's main process runs."""

    pod: Pod
    container: str
    restarts: int


@frozen
class ContainerStopping:
    """A container is told to end."""

    pod: Pod
    container: str


@frozen
class ContainerFinished:
    """A container's main process is gone, or never came to be; `message` tells why, where the node knows more."""

    pod: Pod
    container: str
    exit_code: int
    reason: str
    message: str = ""


@frozen
class ContainerBackOff:
    """A container that keeps failing waits before it is started again."""

    pod: Pod
    container: str
    seconds: int


@frozen
class ProbeFailed:
    """A readiness, liveness or startup probe failed as often as it may."""

    pod: Pod
    container: str
    probe: str
    why: str


@frozen
class HookFailed:
    """A postStart or preStop hook did not do its work."""

    pod: Pod
    container: str
    # `postStart` or `preStop`.
    hook: str
    why: str


LifeFact = (
    DeadlineExceeded
    | PodCleanedUp
    | PodWaiting
    | ContainerStarted
    | ContainerStopping
    | ContainerFinished
    | ContainerBackOff
    | ProbeFailed
    | HookFailed
)
