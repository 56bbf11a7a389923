"""From what a pod asks for to what its cgroups allow, as the kubelet translates it."""

from __future__ import annotations

from collections.abc import Iterable

from jettison.engine.config.allocatable import MachineCapacity, cpu_shares, node_allocatable
from jettison.engine.config.policy import Policy
from jettison.engine.numbers.quantity import ZERO
from jettison.engine.pods.pod import CPU, MEMORY, Container, Pod, Qos, limits, requests
from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits

_PERIOD_US = 100_000


def kubepods_limits(machine: MachineCapacity, policy: Policy) -> Limits:
    """What all pods together may use: without what is reserved if that is enforced, else everything there is."""
    found = node_allocatable(machine, policy)
    is_enforced = policy.config.cgroups_per_qos and "pods" in policy.config.enforce_node_allocatable
    amounts = found.enforced if is_enforced else found.measured
    pids = amounts.get("pid")
    return Limits(
        memory=amounts[MEMORY].value,
        cpu_shares=cpu_shares(amounts[CPU].milli),
        pids=None if pids is None else pids.value,
    )


def burstable_limits(pods: Iterable[Pod]) -> Limits:
    """Burstable pods share processor time with the Guaranteed ones by what they asked for together."""
    milli = sum(requests(pod).get(CPU, ZERO).milli for pod in pods if pod.qos == Qos.BURSTABLE)
    return Limits(cpu_shares=cpu_shares(milli))


def best_effort_limits() -> Limits:
    """They get what is left over."""
    return Limits(cpu_shares=cpu_shares(0))


def pod_limits(pod: Pod, most_pids: int) -> Limits:
    """A pod is capped as a whole only when each of its containers is, or when the pod itself says so."""
    capped = limits(pod)
    return Limits(
        memory=capped[MEMORY].value if _is_capped(pod, MEMORY) else UNLIMITED,
        cpu_shares=cpu_shares(0 if pod.qos == Qos.BEST_EFFORT else requests(pod).get(CPU, ZERO).milli),
        cpu_quota_us=_quota(capped[CPU].milli) if _is_capped(pod, CPU) else UNLIMITED,
        pids=most_pids if most_pids > 0 else UNLIMITED,
    )


def container_limits(container: Container) -> Limits:
    """A container that names only a limit has asked for that much."""
    memory, cpu = container.limits.get(MEMORY, ZERO), container.limits.get(CPU, ZERO)
    return Limits(
        memory=memory.value if memory.sign > 0 else UNLIMITED,
        cpu_shares=cpu_shares(container.requests.get(CPU, cpu).milli),
        cpu_quota_us=_quota(cpu.milli) if cpu.sign > 0 else UNLIMITED,
    )


def _is_capped(pod: Pod, resource: str) -> bool:
    if pod.resources is not None and pod.resources.limits.get(resource, ZERO).sign > 0:
        return True
    containers = (*pod.containers, *pod.init_containers)
    return bool(containers) and all(each.limits.get(resource, ZERO).sign > 0 for each in containers)


def _quota(milli: int) -> int:
    return milli * _PERIOD_US // 1000
