"""Which pods does a drain take off a node, which does it leave, and which make it refuse? The filters of kubectl.

Texts are kubectl's of v1.36. A pod passes the filters in order; the first that keeps it ends the matter, otherwise the
word of the *last* filter counts. Hence kubectl's promised warning about lost `emptyDir` data never appears: the filter
after it has nothing to say, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Final

from jettison.engine.drain.rules import DrainRules
from jettison.engine.pods.api_pod import ApiPod
from jettison.values import frozen

_SECOND_NS: Final = 10**9
_DAEMON_SET_ERROR: Final = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
_DAEMON_SET_WARNING: Final = "ignoring DaemonSet-managed Pods"
_LOCAL_STORAGE_ERROR: Final = "Pods with local storage (use --delete-emptydir-data to override)"
_LOCAL_STORAGE_WARNING: Final = "deleting Pods with local storage"
_UNMANAGED_ERROR: Final = "Pods that declare no controller (use --force to override)"
_UNMANAGED_WARNING: Final = "deleting Pods that declare no controller"


@frozen
class DaemonSetTrouble:
    """The DaemonSet of a pod could not be read: the API's words, and whether they say that there is none."""

    message: str
    is_missing: bool


DaemonSets = Mapping[tuple[str, str], DaemonSetTrouble | None]
"""What reading each DaemonSet gave, by namespace and name; None: it is there."""


class Remark(Enum):
    """How loudly a filter speaks."""

    NONE = auto()
    WARNING = auto()
    ERROR = auto()


@frozen
class Choice:
    """What the filters made of one pod. An error about any pod stops the drain of the whole node."""

    pod: ApiPod
    goes: bool
    remark: Remark = Remark.NONE
    message: str = ""


@frozen
class DrainSelection:
    """All pods of a node with what becomes of each."""

    choices: tuple[Choice, ...]

    @property
    def going(self) -> tuple[ApiPod, ...]:
        """The pods to evict, in the order of the list."""
        return tuple(each.pod for each in self.choices if each.goes)

    @property
    def warning(self) -> str:
        """All warnings in one line, empty if there is none. kubectl's order is random; ours is alphabetical."""
        return "; ".join(_grouped(self.choices, Remark.WARNING))

    @property
    def errors(self) -> tuple[str, ...]:
        """Why nothing may be evicted from the node; empty: go on."""
        return tuple(f"cannot delete {text}" for text in _grouped(self.choices, Remark.ERROR))


def overdue(deadline_ns: int | None, seconds: int, now_ns: int) -> bool:
    """Has a pod been due to be gone for more than these whole seconds? 0 seconds switch the question off."""
    return seconds > 0 and deadline_ns is not None and (now_ns - deadline_ns) // _SECOND_NS > seconds


def daemon_set_of(pod: ApiPod) -> tuple[str, str] | None:
    """Namespace and name of the DaemonSet that must be read before the filters can judge this pod.

    Only one of `apps/v1` counts; up to v1.32 anything of the kind DaemonSet did.
    """
    owner = pod.controller
    if owner is None or pod.is_ended or (owner.api_version, owner.kind) != ("apps/v1", "DaemonSet"):
        return None
    return pod.namespace, owner.name


def select_pods(pods: Iterable[ApiPod], rules: DrainRules, daemon_sets: DaemonSets, now_ns: int) -> DrainSelection:
    """Run every pod of the node through the filters."""
    return DrainSelection(tuple(_choose(pod, rules, daemon_sets, now_ns) for pod in pods))


def aggregated(errors: Iterable[str]) -> str:
    """Several complaints as Go prints them in one line: `[one, other]`; equal ones count once."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _choose(pod: ApiPod, rules: DrainRules, daemon_sets: DaemonSets, now_ns: int) -> Choice:
    if overdue(pod.deadline_ns, rules.skip_wait_seconds, now_ns):
        return Choice(pod, goes=False)
    choice = _daemon_set(pod, rules, daemon_sets)
    for judge in _FILTERS:
        if not choice.goes:
            break
        choice = judge(pod, rules)
    return choice


def _daemon_set(pod: ApiPod, rules: DrainRules, daemon_sets: DaemonSets) -> Choice:
    key = daemon_set_of(pod)
    if key is None:
        return Choice(pod, goes=True)
    trouble = daemon_sets[key]
    if trouble is not None:
        if trouble.is_missing and rules.force:
            return Choice(pod, True, Remark.WARNING, trouble.message)
        return Choice(pod, False, Remark.ERROR, trouble.message)
    if rules.ignores_daemon_sets:
        return Choice(pod, False, Remark.WARNING, _DAEMON_SET_WARNING)
    return Choice(pod, False, Remark.ERROR, _DAEMON_SET_ERROR)


def _mirror(pod: ApiPod, _: DrainRules) -> Choice:
    """A static pod's reflection: evicting that would stop nothing."""
    return Choice(pod, goes=not pod.is_mirror)


def _local_storage(pod: ApiPod, rules: DrainRules) -> Choice:
    """Data in an emptyDir dies with the pod; a hostPath is never looked at."""
    if not pod.has_empty_dir or pod.is_ended:
        return Choice(pod, goes=True)
    if rules.deletes_empty_dirs:
        return Choice(pod, True, Remark.WARNING, _LOCAL_STORAGE_WARNING)
    return Choice(pod, False, Remark.ERROR, _LOCAL_STORAGE_ERROR)


def _unmanaged(pod: ApiPod, rules: DrainRules) -> Choice:
    """A pod without a controller never comes back. Whether a named controller exists is not checked."""
    if pod.is_ended or pod.controller is not None:
        return Choice(pod, goes=True)
    if rules.force:
        return Choice(pod, True, Remark.WARNING, _UNMANAGED_WARNING)
    return Choice(pod, False, Remark.ERROR, _UNMANAGED_ERROR)


_FILTERS: Final[tuple[Callable[[ApiPod, DrainRules], Choice], ...]] = (_mirror, _local_storage, _unmanaged)


def _grouped(choices: Iterable[Choice], remark: Remark) -> list[str]:
    pods: dict[str, list[str]] = {}
    for choice in choices:
        if choice.remark is remark:
            pods.setdefault(choice.message, []).append(str(choice.pod))
    return [f"{message}: {', '.join(names)}" for message, names in sorted(pods.items())]
