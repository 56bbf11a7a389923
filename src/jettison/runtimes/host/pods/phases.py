"""Phase, conditions and container statuses of a pod, as the kubelet derives them from what its containers do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from jettison.engine.node.evictions import PodCondition
from jettison.engine.pods.pod import Pod
from jettison.runtimes.host.pods.records import ContainerRecord, RunRecord
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.protocol import ContainerEnd, ContainerStatus

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = (SUCCEEDED, FAILED)


@dataclass(frozen=True, slots=True)
class Seen:
    """A container as somebody sees it from outside. `has_life` means that there may still be processes."""

    spec: ContainerSpec
    record: ContainerRecord
    is_ready: bool = False
    has_life: bool = False

    @property
    def is_running(self) -> bool:
        """Its program runs, as far as is known."""
        return self.record.state == "running"

    @property
    def is_up(self) -> bool:
        """Running, and its startup probe is satisfied."""
        return self.is_running and self.record.is_started

    @property
    def has_succeeded(self) -> bool:
        """It ended, and well."""
        return self.record.state == "terminated" and self.record.exit_code == 0


def is_initialized(inits: Iterable[Seen]) -> bool:
    """Every init container has succeeded, every sidecar is up."""
    return all(each.is_up if each.spec.is_sidecar else each.has_succeeded for each in inits)


def phase(regulars: Iterable[Seen], *, was_initialized: bool) -> str:
    """Of a pod that lives: pending until each regular container has started once. How it ends, its end tells."""
    if not was_initialized:
        return PENDING
    has_started = all(each.record.run > 0 or each.record.state in ("running", "terminated") for each in regulars)
    return RUNNING if has_started else PENDING


def final_phase(inits: Iterable[Seen], regulars: Iterable[Seen]) -> str:
    """Of a pod that runs no more, whether or not it was meant to."""
    plain = (each for each in inits if not each.spec.is_sidecar)
    return SUCCEEDED if all(each.has_succeeded for each in (*plain, *regulars)) else FAILED


def conditions(
    pod: Pod, its_phase: str, inits: Sequence[Seen], regulars: Sequence[Seen], *, was_initialized: bool
) -> tuple[PodCondition, ...]:
    """In the kubelet's order. A pod that has ended is not ready, and the reason says how it ended."""
    if its_phase in TERMINAL:
        reason, unready = ("PodCompleted" if its_phase == SUCCEEDED else "PodFailed"), ""
    else:
        reason = "ContainersNotReady"
        names = [each.spec.name for each in (*inits, *regulars) if not each.is_ready and _must_be_ready(each)]
        unready = f"containers with unready status: [{' '.join(names)}]" if names else ""
    is_ready = its_phase not in TERMINAL and was_initialized and not unready
    return (
        _initialized(pod, its_phase, inits, was_initialized=was_initialized),
        _condition(pod, "Ready", reason, unready, is_true=is_ready),
        _condition(pod, "ContainersReady", reason, unready, is_true=is_ready),
        _true("PodScheduled", pod.generation),
    )


def _must_be_ready(each: Seen) -> bool:
    return each.spec.is_sidecar or not each.spec.is_init


def _initialized(pod: Pod, its_phase: str, inits: Sequence[Seen], *, was_initialized: bool) -> PodCondition:
    if was_initialized:
        return _condition(pod, "Initialized", "", "", is_true=True)
    if its_phase == FAILED:
        return _condition(pod, "Initialized", "PodFailed", "", is_true=False)
    names = [each.spec.name for each in inits if not is_initialized([each])]
    message = f"containers with incomplete status: [{' '.join(names)}]"
    return _condition(pod, "Initialized", "ContainersNotInitialized", message, is_true=False)


def _condition(pod: Pod, kind: str, reason: str, message: str, *, is_true: bool) -> PodCondition:
    return _true(kind, pod.generation) if is_true else PodCondition(kind, "False", reason, message, pod.generation)


@lru_cache(maxsize=64)
def _true(kind: str, generation: int) -> PodCondition:
    """The same for all pods that are well, which is nearly all of them nearly all the time."""
    return PodCondition(kind, "True", observed_generation=generation)


def container_status(
    pod: Pod, each: Seen, *, will_restart: bool, is_initializing: bool, reason: str = "", trouble: str = ""
) -> ContainerStatus:
    """`trouble` is what keeps the whole pod from starting, and `reason` what that is called."""
    record = each.record
    told = ContainerStatus(
        record.name,
        record.state,
        restarts=max(record.run, 0),
        is_ready=each.is_ready or (each.has_succeeded and each.spec.is_init and not each.spec.is_sidecar),
        is_init=each.spec.is_init,
        is_started=each.is_up,
        container_id=_container_id(pod, record.name, record.run) if record.run >= 0 else "",
        last=None if record.last is None else _end(pod, record.name, record.last),
    )
    if record.state in ("waiting", "starting"):
        usual = "PodInitializing" if is_initializing else "ContainerCreating"
        return replace(told, state="waiting", reason=reason or usual, message=trouble)
    if record.state == "terminated" and will_restart and record.back_off:
        identity = f"container={record.name} pod={pod.name}_{pod.namespace}({pod.uid})"
        message = f"back-off {_short(record.back_off)} restarting failed {identity}"
        last = _end(pod, record.name, record)
        return replace(told, state="waiting", reason="CrashLoopBackOff", message=message, last=last)
    return replace(
        told,
        reason=record.reason,
        message=record.message,
        exit_code=record.exit_code,
        started_ns=record.started_ns,
        finished_ns=record.finished_ns,
    )


def _container_id(pod: Pod, container: str, run: int) -> str:
    """Another one for each run, as with a container runtime, and the name of its log."""
    return f"jettison://{pod.uid}/{container}/{run}"


def _end(pod: Pod, container: str, run: ContainerRecord | RunRecord) -> ContainerEnd:
    return ContainerEnd(
        run.exit_code,
        run.reason,
        run.message,
        run.started_ns,
        run.finished_ns,
        _container_id(pod, container, run.run),
    )


def _short(seconds: int) -> str:
    """As Go prints a duration: `40s`, `1m20s`, `5m0s`."""
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m{seconds % 60}s"
