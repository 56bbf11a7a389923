"""What a pod's document says about its life: restart policy, probes, grace period, deadline.

A runtime reads the document into a specification of its own, which also says how a container is started. The life needs
the part below and no more, so any specification with these attributes will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

SECOND_NS = 10**9


class Pauses(NamedTuple):
    """First and longest pause between two attempts, in seconds; each is twice the one before. Those of a kubelet."""

    restart: tuple[int, int] = (10, 300)
    # What a runtime does not have it will hardly have soon.
    refusal: tuple[float, float] = (10, 300)
    # What may still come is asked for sooner: an API server that has just bound the pod may refuse its token.
    set_up: tuple[float, float] = (0.5, 10)


PAUSES = Pauses()

DEFAULT_GRACE = 30
"""Seconds between SIGTERM and SIGKILL for a pod that does not say; Kubernetes' API fills in the same."""


class RestartPolicy(StrEnum):
    """Whether a container that has ended is started again."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class ProbeKind(StrEnum):
    """What the answer is used for."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


class HookKind(StrEnum):
    """When a hook runs: beside the main process as soon as that has started, or before SIGTERM."""

    POST_START = "postStart"
    PRE_STOP = "preStop"


class Moment(Protocol):
    """When something happened: `wall_ns` is shown, `monotonic_ns` is measured with."""

    @property
    def wall_ns(self) -> int:
        """Nanoseconds since the epoch. It jumps whenever the clock is set."""

    @property
    def monotonic_ns(self) -> int:
        """Nanoseconds since the machine was booted; never jumps."""


class ProbeRules(Protocol):
    """Times are seconds; `successes` and `failures` are how many in a row it takes to change the verdict."""

    @property
    def kind(self) -> ProbeKind:
        """What the answer is used for."""

    @property
    def initial_delay(self) -> int:
        """Counts from the start of the container."""

    @property
    def period(self) -> int:
        """From one question to the next."""

    @property
    def successes(self) -> int:
        """In a row."""

    @property
    def failures(self) -> int:
        """In a row."""

    @property
    def grace(self) -> int | None:
        """How long a container that failed may take to end; None: the pod's own period."""


class ContainerRules(Protocol):
    """One container."""

    @property
    def name(self) -> str:
        """Unique in its pod."""

    @property
    def probes(self) -> Sequence[ProbeRules]:
        """At most one of each kind."""

    @property
    def post_start(self) -> object | None:
        """What is done once it has started, in the words of the runtime; None for nothing."""

    @property
    def pre_stop(self) -> object | None:
        """What is done before SIGTERM; None for nothing."""

    @property
    def is_init(self) -> bool:
        """It runs before the regular containers."""

    @property
    def is_sidecar(self) -> bool:
        """An init container that is kept running."""

    @property
    def is_ephemeral(self) -> bool:
        """It was added to a running pod, for debugging: it runs once, and its pod does not depend on it."""


class PodRules(Protocol):
    """One pod."""

    @property
    def containers(self) -> Sequence[ContainerRules]:
        """The regular ones."""

    @property
    def init_containers(self) -> Sequence[ContainerRules]:
        """In the order in which they run."""

    @property
    def ephemeral_containers(self) -> Sequence[ContainerRules]:
        """In the order in which they were added. None of them is ever taken back or changed."""

    @property
    def restart_policy(self) -> RestartPolicy:
        """Of all containers but sidecars and ephemeral ones."""

    @property
    def grace_seconds(self) -> int:
        """Between SIGTERM and SIGKILL."""

    @property
    def deadline_seconds(self) -> int | None:
        """How long the pod may be active on the node; None for as long as it likes."""


def every_container(pod: PodRules) -> tuple[ContainerRules, ...]:
    """In the order in which they start."""
    return (*pod.init_containers, *pod.containers, *pod.ephemeral_containers)


def probe_of(container: ContainerRules, kind: ProbeKind) -> ProbeRules | None:
    """The container's probe of this kind."""
    return next((each for each in container.probes if each.kind is kind), None)
