"""The numbers that one change could be made to: what a pod asks for and uses, its priority, thresholds, limits.

A lever is one such number, how far it may go, and the case that there would be with another value. It knows nothing of
what comes of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeVar

from jettison.engine.config.policy import Policy, build_policy
from jettison.engine.config.provenance import (
    GRACE,
    HARD,
    RECLAIM,
    SOFT,
    Provenance,
    thresholds_with_provenance,
)
from jettison.engine.foresight.cases import Case, amount_of
from jettison.engine.node.local_storage import CONTAINER, EMPTY_DIR, Violation, broken_limit
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import ROWS, Part, Resource, Signal, readings
from jettison.engine.node.snapshot import ContainerUsage, Layout, PodUsage, Snapshot, VolumeUsage
from jettison.engine.node.thresholds import Amount, Percentage, Threshold
from jettison.engine.numbers.durations import SECOND_NS, duration_text
from jettison.engine.numbers.quantity import ZERO, Quantity, binary, decimal
from jettison.engine.pods.pod import EPHEMERAL_STORAGE, MEMORY, Container, Pod, PodResources
from jettison.values import frozen

PartUsage = TypeVar("PartUsage", ContainerUsage, VolumeUsage)

HIGHEST_PRIORITY = 10**9
"""Of a PriorityClass that users may make; above it are those of the system."""

_LOWEST_PRIORITY = -(2**31)
_LONGEST_GRACE = 24 * 3600
# Percentages are moved by hundredths.
_FULL = 100 * 100


class What(StrEnum):
    """Which number it is."""

    REQUEST = "request"
    PRIORITY = "priority"
    USAGE = "usage"
    THRESHOLD = "threshold"
    GRACE = "gracePeriod"
    RECLAIM = "minimumReclaim"
    RESERVED = "reserved"
    LIMIT = "limit"


class Unit(StrEnum):
    """What a lever's numbers count."""

    BYTES = "bytes"
    INODES = "inodes"
    PROCESSES = "processes"
    SECONDS = "seconds"
    HUNDREDTHS = "hundredths of a percent"
    POINTS = "points"


UNITS: Mapping[Resource, Unit] = {
    Resource.MEMORY: Unit.BYTES,
    Resource.EPHEMERAL_STORAGE: Unit.BYTES,
    Resource.INODES: Unit.INODES,
    Resource.PIDS: Unit.PROCESSES,
}


@frozen
class Lever:
    """One number: what it is now, the furthest that it may be moved to, and the case that follows from a value."""

    what: What
    # A resource, a key of the configuration, or the name of a container or volume.
    subject: str
    unit: Unit
    now: int
    furthest: int
    apply: Callable[[int], Case]


def levers(case: Case, pod: Pod, signal: Signal, *, spares: bool) -> Iterator[Lever]:
    """Every number that may spare the pod, or make it the victim, when `signal` is or would be starved."""
    yield from _request(case, pod, signal, spares=spares)
    yield from _priority(case, pod, spares=spares)
    yield from _usage(case, pod, signal, spares=spares)
    for each in thresholds_with_provenance(case.policy, case.snapshot.layout):
        if each.threshold.signal is signal:
            yield from _threshold(case, each, spares=spares)
    if signal is Signal.ALLOCATABLE_MEMORY_AVAILABLE:
        yield from _reserved(case, spares=spares)


def limit_levers(case: Case, pod: Pod) -> Iterator[Lever]:
    """For a pod that holds more local storage than it may: the limit that it broke, and what it holds."""
    usage = case.snapshot.usages.get(pod.uid)
    violation = None if usage is None else broken_limit(pod, usage, case.snapshot.layout)
    if usage is None or violation is None:
        return
    limit = -(-violation.limit.nanos // 10**9)
    changed = _raised_limit(case, pod, violation)
    if changed is not None:
        now, apply = changed
        yield Lever(What.LIMIT, violation.what, Unit.BYTES, now, now + violation.used - limit, apply)
    shrunk = _held_less(case, pod, usage, violation)
    yield Lever(What.USAGE, violation.what, Unit.BYTES, violation.used, 0, shrunk)


def _request(case: Case, pod: Pod, signal: Signal, *, spares: bool) -> Iterator[Lever]:
    resource = ROWS[signal].resource
    if resource is Resource.PIDS or (resource is Resource.INODES and case.policy.switches.rank_inodes_by_inodes):
        return
    name = MEMORY if resource is Resource.MEMORY else EPHEMERAL_STORAGE
    sizes = readings(case.snapshot.node)
    size_of = signal if resource is not Resource.INODES else Signal.NODEFS_AVAILABLE
    most = sizes[size_of].capacity if size_of in sizes else 0
    if name == MEMORY and pod.has_pod_level_resources and pod.resources is not None:
        resources = pod.resources
        now = _whole(resources.requests.get(name, ZERO))

        def of_pod(value: int) -> Case:
            asked = {**resources.requests, name: binary(value)}
            return case.with_pod(replace(pod, resources=PodResources(asked, resources.limits)))

        yield Lever(What.REQUEST, name, Unit.BYTES, now, max(most, now) if spares else 0, of_pod)
        return
    if not pod.containers:
        return
    index = _to_change(case, pod, name, spares=spares)
    now = _whole(pod.containers[index].requests.get(name, ZERO))

    def of_container(value: int) -> Case:
        container = pod.containers[index]
        changed = container._replace(requests={**container.requests, name: binary(value)})
        return case.with_pod(replace(pod, containers=_put(pod.containers, index, changed)))

    subject = f"{name} of container {pod.containers[index].name}" if len(pod.containers) > 1 else name
    yield Lever(What.REQUEST, subject, Unit.BYTES, now, max(most, now) if spares else 0, of_container)


def _to_change(case: Case, pod: Pod, name: str, *, spares: bool) -> int:
    """The container that uses most above its request; to make the pod worse off, the one that asks for most."""
    usage = case.snapshot.usages.get(pod.uid) or PodUsage()
    used = {each.name: _used_by(each, name) for each in usage.containers}
    asked = [_whole(each.requests.get(name, ZERO)) for each in pod.containers]
    if not spares:
        return max(range(len(asked)), key=lambda index: asked[index])
    return max(range(len(asked)), key=lambda index: used.get(pod.containers[index].name, 0) - asked[index])


def _used_by(usage: ContainerUsage, name: str) -> int:
    return (usage.working_set or 0) if name == MEMORY else (usage.rootfs_bytes or 0) + (usage.logs_bytes or 0)


def _priority(case: Case, pod: Pod, *, spares: bool) -> Iterator[Lever]:
    now = pod.effective_priority
    furthest = max(now, HIGHEST_PRIORITY) if spares else _LOWEST_PRIORITY
    yield Lever(
        What.PRIORITY, "", Unit.POINTS, now, furthest, lambda value: case.with_pod(replace(pod, priority=value))
    )


def _usage(case: Case, pod: Pod, signal: Signal, *, spares: bool) -> Iterator[Lever]:
    usage = case.snapshot.usages.get(pod.uid)
    used = amount_of(pod, usage, signal, case.snapshot)
    reading = readings(case.snapshot.node).get(signal)
    if usage is None or used is None or reading is None:
        return
    row = ROWS[signal]
    parts = None if row.parts is None else row.parts[case.snapshot.layout.disks]
    resource = row.resource

    def apply(value: int) -> Case:
        return case.with_usage(pod, _using(pod, usage, resource, parts, value - used))

    yield Lever(
        What.USAGE, resource.value, UNITS[resource], used, 0 if spares else used + max(reading.available, 0), apply
    )


def _using(pod: Pod, usage: PodUsage, resource: Resource, parts: frozenset[Part] | None, more: int) -> PodUsage:
    """The usage with so much more, or less, of a resource; on disk the first parts that count change."""
    if resource is Resource.PIDS:
        return usage._replace(processes=(usage.processes or 0) + more)
    if parts is None:
        return usage._replace(working_set=(usage.working_set or 0) + more)
    kind = "inodes" if resource is Resource.INODES else "bytes"
    containers = list(usage.containers)
    for index in range(len(containers)):
        for part, name in ((Part.ROOTFS, f"rootfs_{kind}"), (Part.LOGS, f"logs_{kind}")):
            if part in parts:
                containers[index], more = _moved_in(containers[index], name, more)
    volumes = list(usage.volumes)
    wanted = set(pod.local_volumes) if Part.VOLUMES in parts else set()
    for index, volume in enumerate(volumes):
        if volume.name in wanted:
            wanted.discard(volume.name)
            volumes[index], more = _moved_in(volume, f"used_{kind}", more)
    return usage._replace(containers=containers, volumes=volumes)


def _moved_in(part: PartUsage, name: str, more: int) -> tuple[PartUsage, int]:
    held, left = _moved(getattr(part, name), more)
    changed: dict[str, Any] = {name: held}
    return part._replace(**changed), left


def _moved(held: int | None, more: int) -> tuple[int | None, int]:
    """What a part holds afterwards, and what is left to move: it takes all that is added, and gives all that it has."""
    if more >= 0:
        return (held or 0) + more if more else held, 0
    given = min(max(held or 0, 0), -more)
    return (held if held is None else held - given), more + given


def _threshold(case: Case, each: Provenance, *, spares: bool) -> Iterator[Lever]:
    threshold = each.threshold
    reading = readings(case.snapshot.node).get(threshold.signal)
    if reading is None:
        return
    yield from _amount(case, each, each.field, threshold.amount, reading.capacity, What.THRESHOLD, spares=spares)
    if spares and threshold.minimum_reclaim is not None:
        amount = threshold.minimum_reclaim
        yield from _amount(case, each, RECLAIM, amount, reading.capacity, What.RECLAIM, spares=True)
    if not threshold.is_hard:
        seconds = threshold.grace_ns // SECOND_NS

        def waits(value: int) -> Case:
            return _configured(case, GRACE, each.signal, duration_text(value * SECOND_NS))

        # A period of 0 would make it a hard threshold.
        furthest = max(_LONGEST_GRACE, seconds) if spares else min(1, seconds)
        yield Lever(What.GRACE, each.key_in(GRACE), Unit.SECONDS, seconds, furthest, waits)


def _amount(
    case: Case, each: Provenance, field: str, amount: Amount, capacity: int, what: What, *, spares: bool
) -> Iterator[Lever]:
    """In the unit that the operator wrote it in: a share stays a share."""
    signal = each.signal
    if isinstance(amount, Percentage):
        # What is no number, or more than all, is no share to begin from.
        if not 0 <= amount.fraction <= 1:
            return
        now = round(amount.fraction * _FULL)
        yield Lever(
            what,
            each.key_in(field),
            Unit.HUNDREDTHS,
            now,
            1 if spares else _FULL - 1,
            lambda value: _configured(case, field, signal, f"{value // 100}.{value % 100:02d}%"),
        )
        return
    resource = ROWS[signal].resource
    text = binary if UNITS[resource] is Unit.BYTES else decimal
    least = 0 if what is What.RECLAIM else 1
    now = _whole(amount)
    yield Lever(
        what,
        each.key_in(field),
        UNITS[resource],
        now,
        min(least, now) if spares else max(capacity, now),
        lambda value: _configured(case, field, signal, str(text(value))),
    )


def _reserved(case: Case, *, spares: bool) -> Iterator[Lever]:
    """What is reserved for the system is taken from the pods; given back, their own limit is so much higher."""
    policy = case.policy
    kept = {"systemReserved": policy.system_reserved, "kubeReserved": policy.kube_reserved}
    for key, amounts in kept.items() if spares else ():
        now = _whole(amounts.get(MEMORY, ZERO))
        if now > 0:
            yield Lever(What.RESERVED, f"{key}.{MEMORY}", Unit.BYTES, now, 0, _Reserving(case, key, now))


@frozen
class _Reserving:
    case: Case
    key: str
    now: int

    def __call__(self, value: int) -> Case:
        def grown(seen: Snapshot) -> Snapshot:
            memory = seen.node.pods_memory
            if memory is None or memory.available is None:
                return seen
            grown = memory._replace(available=memory.available + self.now - value)
            return replace(seen, node=seen.node._replace(pods_memory=grown))

        return _configured(self.case, self.key, MEMORY, str(binary(value))).changed(grown)


_ATTRIBUTES = {
    HARD: "eviction_hard",
    SOFT: "eviction_soft",
    GRACE: "eviction_soft_grace_period",
    RECLAIM: "eviction_minimum_reclaim",
    "systemReserved": "system_reserved",
    "kubeReserved": "kube_reserved",
}


def _configured(case: Case, field: str, entry: str, text: str) -> Case:
    """The same with one entry of the configuration changed; what is remembered of a threshold is kept for its heir."""
    before, name = case.policy, _ATTRIBUTES[field]
    changed: dict[str, Any] = {name: {**(getattr(before.config, name) or {}), str(entry): text}}
    after = build_policy(replace(before.config, **changed), before.switches)
    return replace(case, policy=after, history=_inherited(case.history, before, after, case.snapshot.layout))


def _inherited(history: History, before: Policy, after: Policy, layout: Layout) -> History:
    """As if the thresholds had always been these: the clock of a soft one does not start anew with its change."""
    pairs = zip(before.layouts[layout].all, after.layouts[layout].all, strict=False)
    heirs: dict[Threshold, Threshold] = {old: new for old, new in pairs if old != new}
    if not heirs:
        return history
    return replace(
        history,
        first_observed={heirs.get(each, each): since for each, since in history.first_observed.items()},
        met=tuple(heirs.get(each, each) for each in history.met),
    )


def _raised_limit(case: Case, pod: Pod, violation: Violation) -> tuple[int, Callable[[int], Case]] | None:
    """What the limit is now that may be raised, and the case with another one."""
    if violation.label == EMPTY_DIR:

        def of_volume(value: int) -> Case:
            volumes = tuple(
                each._replace(size_limit=binary(value)) if each.name == violation.name else each for each in pod.volumes
            )
            return case.with_pod(replace(pod, volumes=volumes))

        return _whole(violation.limit), of_volume
    names = [each.name for each in pod.containers if EPHEMERAL_STORAGE in each.limits]
    wanted = violation.name or next(iter(names), "")
    index = next((index for index, each in enumerate(pod.containers) if each.name == wanted), None)
    if index is None:
        return None
    container = pod.containers[index]

    def of_container(value: int) -> Case:
        changed = container._replace(limits={**container.limits, EPHEMERAL_STORAGE: binary(value)})
        return case.with_pod(replace(pod, containers=_put(pod.containers, index, changed)))

    return _whole(container.limits.get(EPHEMERAL_STORAGE, ZERO)), of_container


def _held_less(case: Case, pod: Pod, usage: PodUsage, violation: Violation) -> Callable[[int], Case]:
    def apply(value: int) -> Case:
        if violation.label == EMPTY_DIR:
            volumes = [
                each._replace(used_bytes=value) if each.name == violation.name else each for each in usage.volumes
            ]
            changed = usage._replace(volumes=volumes)
        elif violation.label == CONTAINER:
            changed = usage._replace(containers=[_shrunk(each, violation, value) for each in usage.containers])
        else:
            changed = usage._replace(ephemeral_storage_bytes=value)
        return case.with_usage(pod, changed)

    return apply


def _shrunk(usage: ContainerUsage, violation: Violation, value: int) -> ContainerUsage:
    if usage.name != violation.name:
        return usage
    logs, more = _moved(usage.logs_bytes, value - violation.used)
    rootfs, _ = _moved(usage.rootfs_bytes, more)
    return usage._replace(logs_bytes=logs, rootfs_bytes=rootfs)


def _put(containers: tuple[Container, ...], index: int, container: Container) -> tuple[Container, ...]:
    return (*containers[:index], container, *containers[index + 1 :])


def _whole(quantity: Quantity) -> int:
    """Rounded up."""
    return -(-quantity.nanos // 10**9)
