"""Phase, conditions and container statuses of a pod, as the kubelet derives them from what its containers do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache

from jettison.engine.lifecycle import runs
from jettison.engine.lifecycle.state import ContainerLife, FinishedRun, PodLife, Verdict
from jettison.engine.node.evictions import PodCondition
from jettison.engine.pods.pod import ENDED_PHASES, FAILED, PENDING, RUNNING, SUCCEEDED, Pod
from jettison.values import frozen

Identify = Callable[[str, int], str]
"""What a run of a container is called in its runtime, which says so in statuses: another name for each run."""


@frozen
class ContainerEnd:
    """How a run of a container ended, after which another one came or will come."""

    exit_code: int | None
    reason: str = ""
    message: str = ""
    started_ns: int | None = None
    finished_ns: int | None = None
    container_id: str = ""


@frozen
class ContainerStatus:
    """One container as Kubernetes' containerStatuses tell it. `state` is waiting, running or terminated."""

    name: str
    state: str
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    started_ns: int | None = None
    finished_ns: int | None = None
    restarts: int = 0
    is_ready: bool = False
    is_init: bool = False
    is_ephemeral: bool = False
    # It runs, and its startup probe has nothing against it.
    is_started: bool = False
    # Of the latest run; empty before the first.
    container_id: str = ""
    # Of a container that waits to be started again: the latest run. Of all others: the one before it.
    last: ContainerEnd | None = None


def verdict(life: PodLife) -> Verdict:
    """Phase, reason and conditions. While a pod is on its way out it keeps the phase it had."""
    if life.verdict is not None:
        return life.verdict
    was_initialized = life.is_initialized or (bool(life.regulars) and not life.inits)
    its_phase = phase(life.regulars, was_initialized=was_initialized)
    # A pod that is too large to be read has no containers here whose statuses could say why it waits.
    trouble = None if life.containers else life.trouble
    reason, message = ("", "") if trouble is None else (trouble.reason, trouble.message)
    return Verdict(its_phase, reason, message, conditions(life, its_phase, was_initialized=was_initialized))


def phase(regulars: Iterable[ContainerLife], *, was_initialized: bool) -> str:
    """Of a pod that lives: pending until each regular container has started once. How it ends, its end tells."""
    if not was_initialized:
        return PENDING
    has_started = all(each.run > 0 or each.state in ("running", "terminated") for each in regulars)
    return RUNNING if has_started else PENDING


def final_phase(life: PodLife) -> str:
    """Of a pod that runs no more, whether or not it was meant to."""
    is_well = all(each.has_succeeded for each in (*life.inits, *life.regulars) if not each.rules.is_sidecar)
    return SUCCEEDED if is_well else FAILED


def conditions(life: PodLife, its_phase: str, *, was_initialized: bool) -> tuple[PodCondition, ...]:
    """In the kubelet's order. A pod that has ended is not ready, and the reason says how it ended."""
    pod = life.pod
    if its_phase in ENDED_PHASES:
        reason, unready = ("PodCompleted" if its_phase == SUCCEEDED else "PodFailed"), ""
    else:
        reason = "ContainersNotReady"
        names = [each.name for each in life.containers if not each.is_ready and _must_be_ready(each)]
        unready = f"containers with unready status: [{' '.join(names)}]" if names else ""
    is_ready = its_phase not in ENDED_PHASES and was_initialized and not unready
    has_place = life.set_up == "done" or any(each.state == "running" for each in life.containers)
    return (
        _condition(pod, "PodReadyToStartContainers", "", "", is_true=has_place and its_phase not in ENDED_PHASES),
        _initialized(life, its_phase, was_initialized=was_initialized),
        _condition(pod, "Ready", reason, unready, is_true=is_ready),
        _condition(pod, "ContainersReady", reason, unready, is_true=is_ready),
        _true("PodScheduled", pod.generation),
    )


def _must_be_ready(each: ContainerLife) -> bool:
    return each.rules.is_sidecar or each.is_regular


def _initialized(life: PodLife, its_phase: str, *, was_initialized: bool) -> PodCondition:
    if was_initialized:
        return _condition(life.pod, "Initialized", "", "", is_true=True)
    if its_phase == FAILED:
        return _condition(life.pod, "Initialized", "PodFailed", "", is_true=False)
    names = [each.name for each in life.inits if not (each.is_up if each.rules.is_sidecar else each.has_succeeded)]
    message = f"containers with incomplete status: [{' '.join(names)}]"
    return _condition(life.pod, "Initialized", "ContainersNotInitialized", message, is_true=False)


def _condition(pod: Pod, kind: str, reason: str, message: str, *, is_true: bool) -> PodCondition:
    return _true(kind, pod.generation) if is_true else PodCondition(kind, "False", reason, message, pod.generation)


@lru_cache(maxsize=64)
def _true(kind: str, generation: int) -> PodCondition:
    """The same for all pods that are well, which is nearly all of them nearly all the time."""
    return PodCondition(kind, "True", observed_generation=generation)


def container_statuses(life: PodLife, identify: Identify) -> tuple[ContainerStatus, ...]:
    """Init containers first, ephemeral ones last."""
    return tuple(_container_status(life, each, identify) for each in life.containers)


def _container_status(life: PodLife, each: ContainerLife, identify: Identify) -> ContainerStatus:
    told = ContainerStatus(
        each.name,
        each.state,
        restarts=max(each.run, 0),
        is_ready=_is_ready(each),
        is_init=each.rules.is_init,
        is_ephemeral=each.rules.is_ephemeral,
        is_started=each.is_up,
        container_id=identify(each.name, each.run) if each.run >= 0 else "",
        last=None if each.last is None else _end(each.name, each.last, identify),
    )
    if each.state in ("waiting", "starting"):
        is_initializing = bool(life.inits) and not life.is_initialized and each.is_regular
        usual = "PodInitializing" if is_initializing else "ContainerCreating"
        trouble = each.trouble or life.trouble
        reason, message = (usual, "") if trouble is None else (trouble.reason, trouble.message)
        return replace(told, state="waiting", reason=reason, message=message)
    goes_on = (life.ending is None or life.ending.is_natural) and life.verdict is None
    will_restart = goes_on and runs.is_to_restart(each, life.rules.restart_policy)
    if each.state == "terminated" and will_restart and each.back_off:
        pod = life.pod
        identity = f"container={each.name} pod={pod.name}_{pod.namespace}({pod.uid})"
        message = f"back-off {_short(each.back_off)} restarting failed {identity}"
        last = _end(each.name, each, identify)
        return replace(told, state="waiting", reason="CrashLoopBackOff", message=message, last=last)
    return replace(
        told,
        reason=each.reason,
        message=each.message,
        exit_code=each.exit_code,
        started_ns=each.started_ns,
        finished_ns=each.finished_ns,
    )


def _is_ready(each: ContainerLife) -> bool:
    """A kubelet asks no ephemeral container, and calls none ready."""
    if each.rules.is_ephemeral:
        return False
    return each.is_ready or (each.has_succeeded and each.rules.is_init and not each.rules.is_sidecar)


def _end(container: str, run: ContainerLife | FinishedRun, identify: Identify) -> ContainerEnd:
    return ContainerEnd(
        run.exit_code, run.reason, run.message, run.started_ns, run.finished_ns, identify(container, run.run)
    )


def _short(seconds: int) -> str:
    """As Go prints a duration: `40s`, `1m20s`, `5m0s`."""
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m{seconds % 60}s"
