"""May this pod start here? Under pressure (spec §10.4) and by what the node has left (spec §13.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jettison.engine.node.evictions import EVICTED
from jettison.engine.node.signals import Condition
from jettison.engine.numbers.quantity import ZERO, Quantity, wrapped
from jettison.engine.pods.pod import CPU, Pod, Qos, requests
from jettison.engine.scheduling.placement import NO_SCHEDULE, Taint, bearing_toleration
from jettison.values import frozen

PRESSURE_TAINTS: Mapping[Condition, Taint] = {
    Condition.MEMORY_PRESSURE: Taint("node.kubernetes.io/memory-pressure", "", NO_SCHEDULE),
    Condition.DISK_PRESSURE: Taint("node.kubernetes.io/disk-pressure", "", NO_SCHEDULE),
    Condition.PID_PRESSURE: Taint("node.kubernetes.io/pid-pressure", "", NO_SCHEDULE),
}


@frozen
class Admission:
    """Yes, or no with the reason and the message of the pod's event."""

    is_admitted: bool
    reason: str = ""
    message: str = ""

    @property
    def status_message(self) -> str:
        """What a rejected pod's status says."""
        return f"Pod was rejected: {self.message}"


ADMITTED = Admission(True)


def admit_under_pressure(pod: Pod, conditions: Sequence[Condition]) -> Admission:
    """Against the reported conditions, in their order, because the message repeats it.

    Memory pressure alone turns only BestEffort pods away, and those not if they tolerate its taint. Any other pressure
    turns every pod away that is not critical, DaemonSet pods that tolerate all taints included.
    """
    if not conditions or pod.is_critical:
        return ADMITTED
    if list(conditions) == [Condition.MEMORY_PRESSURE]:
        taint = PRESSURE_TAINTS[Condition.MEMORY_PRESSURE]
        if pod.qos != Qos.BEST_EFFORT or bearing_toleration(taint, pod.tolerations) is not None:
            return ADMITTED
    return Admission(False, EVICTED, f"The node had condition: [{' '.join(conditions)}]. ")


@frozen
class Shortage:
    """More was requested than is left; integers, cpu in thousandths."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """What would have to be freed."""
        return wrapped(self.requested - (self.capacity - self.used))

    @property
    def predicate(self) -> str:
        """What the failed check is called among other failures."""
        return f"Insufficient {self.resource}"

    @property
    def refusal(self) -> Admission:
        """What a pod is told that cannot be helped."""
        message = (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )
        return Admission(False, f"OutOf{self.resource}", message)


def shortages(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, Quantity]) -> list[Shortage]:
    """What keeps the pod from fitting beside the others: the count of pods first, then each resource.

    Resources that the node does not know are not asked for here; a device that was not announced cannot be short.
    """
    wanted = requests(pod)
    others = list(others)
    found = []
    room = allocatable.get("pods", ZERO).value
    if len(others) + 1 > room:
        found.append(Shortage("pods", 1, len(others), room))
    used: dict[str, Quantity] = {}
    for other in others:
        for name, amount in requests(other).items():
            used[name] = used.get(name, ZERO) + amount
    for name in sorted(wanted, key=_check_order):
        if not wanted[name] or name not in allocatable:
            continue
        asked, taken, limit = (_integer(name, amounts.get(name, ZERO)) for amounts in (wanted, used, allocatable))
        if asked > limit - taken:
            found.append(Shortage(name, asked, taken, limit))
    return found


_FIRST = ("cpu", "memory", "ephemeral-storage")


def _check_order(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST)), name


def _integer(name: str, amount: Quantity) -> int:
    return amount.milli if name == CPU else amount.value
