"""A pod as eviction sees it: what it asked for, how important it is, what may not be done to it.

Whatever depends only on the pod's spec is computed once per pod and kept on it, because the same pods come back in
every snapshot: a pass over 10,000 pods must not parse 40,000 quantities. That is why `Pod` has a `__dict__` where
other values have slots. Containers and volumes are named tuples, which are made three times as fast as dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from jettison.engine.numbers.quantity import ZERO, Format, Quantity
from jettison.engine.scheduling.placement import Toleration

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
HUGEPAGES_PREFIX = "hugepages-"

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
ENDED_PHASES = (SUCCEEDED, FAILED)
"""Phases that no pod leaves again."""

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
SYSTEM_NODE_CRITICAL = "system-node-critical"

Resources = Mapping[str, Quantity]
NO_RESOURCES: Resources = MappingProxyType({})


class Qos(StrEnum):
    """The QoS classes, from most to least protected against the kernel's OOM killer."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class Container(NamedTuple):
    """One container of the spec; `is_sidecar` marks an init container that keeps running."""

    name: str
    requests: Resources = NO_RESOURCES
    limits: Resources = NO_RESOURCES
    is_sidecar: bool = False


class Volume(NamedTuple):
    """A volume as local storage sees it: does it lie on the node's disks, and may it grow without end?"""

    name: str
    is_local: bool = False
    size_limit: Quantity | None = None


class PodResources(NamedTuple):
    """Resources set on the pod itself rather than on its containers."""

    requests: Resources = NO_RESOURCES
    limits: Resources = NO_RESOURCES


@dataclass(frozen=True)
class Pod:
    """One pod of the node.

    Fields and kept answers together are fewer than 30: with more, Python keeps a table of their names for each pod
    instead of one for all, 1.3 kB.
    """

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    priority: int | None = None
    priority_class: str = ""
    is_static: bool = False
    is_mirror: bool = False
    reported_qos: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = field(default_factory=lambda: NO_RESOURCES)
    resources: PodResources | None = None
    volumes: tuple[Volume, ...] = ()
    grace_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    phase: str = ""
    node_name: str = ""
    # The API knows a static pod by its mirror, the node's measurements by its own uid; this is the latter.
    static_uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @cached_property
    def effective_priority(self) -> int:
        """No priority counts as 0."""
        return self.priority or 0

    @cached_property
    def order(self) -> tuple[str, str, str]:
        """Decides where nothing else does, so that an order never depends on the order of the input."""
        return self.namespace, self.name, self.uid

    @cached_property
    def is_critical(self) -> bool:
        """Never evicted under pressure, always admitted: every static pod, whatever its priority, is among them."""
        return self.is_static or self.is_mirror or self.effective_priority >= SYSTEM_CRITICAL_PRIORITY

    @property
    def is_node_critical(self) -> bool:
        """The kernel spares it as far as it can, too."""
        return self.is_critical and self.priority_class == SYSTEM_NODE_CRITICAL

    @cached_property
    def qos(self) -> str:
        """The class in status wins: it was right when the pod was admitted, and a resize cannot change it."""
        return self.reported_qos or computed_qos(self)

    @property
    def has_pod_level_resources(self) -> bool:
        """Whether the pod itself names cpu, memory or huge pages, which makes its containers' requests not count."""
        resources = self.resources
        return resources is not None and any(
            is_pod_level_resource(name) for names in (resources.requests, resources.limits) for name in names
        )

    @property
    def memory_request(self) -> Quantity:
        """What memory rankings subtract from the usage."""
        return ranking_request(self, MEMORY)

    @property
    def storage_request(self) -> Quantity:
        """What disk rankings subtract from the usage, for inodes as well."""
        return ranking_request(self, EPHEMERAL_STORAGE)

    @cached_property
    def memory_request_nanos(self) -> int:
        """Exact and as fast as an integer: a request may be a fraction of a byte."""
        return self.memory_request.nanos

    @cached_property
    def storage_request_nanos(self) -> int:
        """Exact and as fast as an integer."""
        return self.storage_request.nanos

    def container_requests(self, resource: str) -> dict[str, tuple[int, str]]:
        """What each regular and init container asked for, in 10⁻⁹ and as text.

        Of two with one name the regular one counts, then the first.
        """
        known = self._container_requests.get(resource)
        if known is None:
            known = {}
            for container in (*self.containers, *self.init_containers):
                request = container.requests.get(resource, ZERO)
                known.setdefault(container.name, (request.nanos, str(request)))
            self._container_requests[resource] = known
        return known

    @cached_property
    def _container_requests(self) -> dict[str, dict[str, tuple[int, str]]]:
        return {}

    @cached_property
    def local_volumes(self) -> frozenset[str]:
        """Names of the volumes whose files lie on the node's own disks."""
        return frozenset(volume.name for volume in self.volumes if volume.is_local)

    @property
    def storage_limit(self) -> Quantity | None:
        """All containers' limits on ephemeral storage together; None when none has one."""
        return limits(self).get(EPHEMERAL_STORAGE)

    @property
    def container_storage_limits(self) -> dict[str, Quantity]:
        """Limits of regular containers only: upstream never checks a sidecar's."""
        own = ((container.name, container.limits.get(EPHEMERAL_STORAGE)) for container in self.containers)
        return {name: limit for name, limit in own if limit is not None and limit.value != 0}

    @cached_property
    def has_storage_limits(self) -> bool:
        """Lets a pass skip the many pods that set no limit."""
        return (
            self.storage_limit is not None
            or bool(self.container_storage_limits)
            or any(volume.size_limit is not None for volume in self.volumes)
        )


def is_pod_level_resource(name: str) -> bool:
    """Only these can be set on a pod as a whole; in particular ephemeral storage can not."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)


def requests(pod: Pod) -> dict[str, Quantity]:
    """Everything the pod asks for, as the scheduler and the node's accounting see it."""
    total = aggregate(pod, lambda container: container.requests)
    if pod.resources is not None:
        total |= {name: asked for name, asked in pod.resources.requests.items() if is_pod_level_resource(name)}
    for name, extra in pod.overhead.items():
        total[name] = total[name] + extra if name in total else extra
    return total


def limits(pod: Pod) -> dict[str, Quantity]:
    """Everything the pod is capped to. Overhead raises a limit but does not make one, and a limit of zero is none."""
    total = aggregate(pod, lambda container: container.limits)
    if pod.resources is not None:
        total |= {name: cap for name, cap in pod.resources.limits.items() if is_pod_level_resource(name)}
    for name, extra in pod.overhead.items():
        if total.get(name):
            total[name] = total[name] + extra
    return total


def ranking_request(pod: Pod, resource: str) -> Quantity:
    """The request that rankings and preemption compare with.

    It is not `requests(pod)[resource]`: once the pod itself sets any resource, its containers' requests count for
    nothing here, and overhead is added only to what is not zero.
    """
    empty = Quantity(0, 0, Format.BINARY if resource in (MEMORY, EPHEMERAL_STORAGE) else Format.DECIMAL)
    if pod.has_pod_level_resources and pod.resources is not None:
        own = pod.resources.requests.get(resource) if is_pod_level_resource(resource) else None
    else:
        own = aggregate(pod, lambda container: container.requests).get(resource)
    # A sum and not the request itself, which would print as the manifest spells it: `1E3` is `1e3` here.
    asked = empty if own is None else empty + own
    extra = pod.overhead.get(resource)
    return asked + extra if asked and extra is not None else asked


def integer_request(pod: Pod, resource: str) -> int:
    """Rounded up, cpu in thousandths; every pod counts as one of `pods`."""
    if resource == "pods":
        return 1
    asked = ranking_request(pod, resource)
    return asked.milli if resource == CPU else asked.value


def aggregate(pod: Pod, of: Callable[[Container], Resources]) -> dict[str, Quantity]:
    """What the containers ask for, or are capped to, together.

    Regular containers and sidecars run together; a plain init container runs with the sidecars before it.
    """
    total: dict[str, Quantity] = {}
    for container in pod.containers:
        _add(total, of(container))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in pod.init_containers:
        if container.is_sidecar:
            _add(total, of(container))
            _add(sidecars, of(container))
            _raise(peak, sidecars)
        else:
            alone = dict(of(container))
            _add(alone, sidecars)
            _raise(peak, alone)
    _raise(total, peak)
    return total


def _add(total: dict[str, Quantity], more: Resources) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, Quantity], at_least: Resources) -> None:
    for name, amount in at_least.items():
        present = total.get(name)
        if present is None or present < amount:
            total[name] = amount if present is None else amount.in_form_of(present)


def computed_qos(pod: Pod) -> Qos:
    """From the spec alone. Only cpu and memory count, and only what is more than zero."""
    if pod.resources is not None:
        asked = _positive(pod.resources.requests)
        capped = _positive(pod.resources.limits)
        may_be_guaranteed = not capped or len(capped) == 2
    else:
        asked, capped = {}, {}
        may_be_guaranteed = True
        for container in (*pod.containers, *pod.init_containers):
            _add(asked, _positive(container.requests))
            own = _positive(container.limits)
            _add(capped, own)
            may_be_guaranteed = may_be_guaranteed and len(own) == 2
    if not asked and not capped:
        return Qos.BEST_EFFORT
    if may_be_guaranteed and asked == capped:
        return Qos.GUARANTEED
    return Qos.BURSTABLE


def _positive(resources: Resources) -> dict[str, Quantity]:
    return {name: resources[name] for name in (CPU, MEMORY) if resources.get(name, ZERO).sign > 0}
