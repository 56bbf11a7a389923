"""One sync of the disruption controller: how many pods of a budget are healthy, needed, and free to go?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from jettison.engine.budgets.budget import (
    DISRUPTION_ALLOWED,
    EXACT,
    SYNC_FAILED,
    ApiSwitches,
    Budget,
    BudgetCondition,
    BudgetStatus,
    scaled,
)
from jettison.engine.budgets.headcount import Headcount
from jettison.engine.labels.selectors import select
from jettison.engine.numbers.strconv import quote
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.owners import OwnerReference, Workloads
from jettison.errors import InputError
from jettison.values import frozen

DELETION_TIMEOUT_NS: Final = 120 * 10**9
"""A pod whose eviction was granted two minutes ago and which is still there counts again."""

_UNMANAGED: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the "
    "status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these "
    'pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


@frozen
class Notice:
    """A Kubernetes event to send, about a pod or, without `pod`, about the budget."""

    reason: str
    message: str
    is_warning: bool = True
    pod: str | None = None


@frozen
class Sync:
    """What came out: the status to write (None: it is right already), the events, and when to look again."""

    status: BudgetStatus | None
    notices: tuple[Notice, ...] = ()
    recheck_ns: int | None = None


@frozen
class _Demand:
    expected: int
    desired: int
    has_unmanaged: bool = False


def sync_budget(
    budget: Budget, pods: Iterable[ApiPod], workloads: Workloads, now_ns: int, switches: ApiSwitches = EXACT
) -> Sync:
    """Compute a budget's status from the pods of the cluster."""
    try:
        guarded = guarded_pods(budget, pods)
    except InputError:
        guarded = []  # the sync says why
    return sync_headcount(budget, Headcount.of(guarded), workloads, now_ns, switches)


def sync_headcount(
    budget: Budget, pods: Headcount, workloads: Workloads, now_ns: int, switches: ApiSwitches = EXACT
) -> Sync:
    """The same from the pods that the budget guards, counted beforehand.

    When that fails, nothing but the permission is withdrawn: all numbers and even `observed_generation` stay, so
    that a budget whose first sync fails never looks processed; unless `observe_failed_syncs`.
    """
    if switches.observe_failed_syncs:
        observed = budget.with_status(replace(budget.status, observed_generation=budget.generation))
    else:
        observed = budget
    try:
        select(budget.selector)
    except InputError as error:
        return _failed(observed, error, [Notice("NoPods", f"Failed to get pods: {error}")], now_ns)
    notices = [] if pods.total else [Notice("NoPods", "No matching pods found", is_warning=False)]
    try:
        demand = _demand(budget, pods, workloads)
    except InputError as error:
        message = f"Failed to calculate the number of expected pods: {error}"
        return _failed(observed, error, [*notices, Notice("CalculateExpectedPodCountFailed", message)], now_ns)
    if demand.has_unmanaged:
        notices.append(Notice("UnmanagedPods", _UNMANAGED.format(selector=budget.selector)))
    disrupted, overdue = _disrupted(budget.status, pods, now_ns)
    # Kubernetes prints the namespace twice where it means namespace and name.
    message = f"Pod was expected by PDB {budget.namespace}/{budget.namespace} to be deleted but it wasn't"
    notices += [Notice("NotDeleted", message, pod=name) for name in overdue]
    status = _status(budget, demand, _healthy(pods, disrupted, now_ns), disrupted)
    return Sync(
        status=None if _is_current(budget.status, status) else status.with_condition(status.allowance(now_ns)),
        notices=tuple(notices),
        recheck_ns=min(disrupted.values()) + DELETION_TIMEOUT_NS if disrupted else None,
    )


def guarded_pods(budget: Budget, pods: Iterable[ApiPod]) -> list[ApiPod]:
    """The pods of the budget's namespace that its selector matches, whatever their phase."""
    selector = select(budget.selector)
    guarded: list[ApiPod] = []
    # Pods of one workload come together, and have the same labels: the selector is asked once for all of them.
    labels: Mapping[str, str] | None = None
    is_selected = False
    for pod in pods:
        if pod.namespace == budget.namespace:
            if pod.labels != labels:
                labels = pod.labels
                is_selected = selector.matches(labels)
            if is_selected:
                guarded.append(pod)
    return guarded


def unlisted_owners(budget: Budget, pods: Headcount, workloads: Workloads) -> tuple[OwnerReference, ...]:
    """The owners whose scale must be read and put into `workloads` before `sync_headcount` can count them."""
    try:
        owners = pods.owners if _counts_workloads(budget) else ()
        return tuple(owner for owner in owners if owner is not None and workloads.listed_scale(owner) is None)
    except InputError:
        return ()  # the sync will fail anyway, and say why


def _counts_workloads(budget: Budget) -> bool:
    return budget.max_unavailable is not None or isinstance(budget.min_available, str)


def _demand(budget: Budget, pods: Headcount, workloads: Workloads) -> _Demand:
    """How many pods there should be and how many must be healthy. Both percentages round up.

    An integer `minAvailable` is the only rule that counts the pods that are there, in whatever state, instead of
    asking their workloads. Without any rule nothing is expected.
    """
    if budget.max_unavailable is not None:
        expected = _expected(pods, workloads)
        unavailable = _int32(scaled(budget.max_unavailable, expected, round_up=True))
        return _Demand(expected, max(_int32(expected - unavailable), 0), None in pods.owners)
    if isinstance(budget.min_available, str):
        expected = _expected(pods, workloads)
        available = _int32(scaled(budget.min_available, expected, round_up=True))
        return _Demand(expected, available, None in pods.owners)
    return _Demand(0, 0) if budget.min_available is None else _Demand(pods.total, budget.min_available)


def _expected(pods: Headcount, workloads: Workloads) -> int:
    """The sizes of all distinct controllers together. One owner that cannot be sized fails them all."""
    scales: dict[str, int] = {}
    for owner, names in pods.owners.items():
        if owner is None or owner.uid in scales:
            continue
        scale = workloads.scale_of(owner)
        if scale is None:
            raise InputError(f"found no controllers for pod {quote(next(iter(names)))}")
        scales[scale.uid] = scale.replicas
    return _int32(sum(scales.values()))


def _disrupted(status: BudgetStatus, pods: Headcount, now_ns: int) -> tuple[dict[str, int], list[str]]:
    """The granted evictions that are still to come, and the pods whose time for it is over.

    Entries of pods that are terminating or gone are dropped. Keys are names: a StatefulSet's new pod inherits the
    entry of the old one, if that vanished unseen.
    """
    waiting: dict[str, int] = {}
    overdue: list[str] = []
    for name, granted_ns in status.disrupted_pods.items():
        if name not in pods.staying:
            continue
        if granted_ns + DELETION_TIMEOUT_NS < now_ns:
            overdue.append(name)
        else:
            waiting[name] = granted_ns
    return waiting, overdue


def _healthy(pods: Headcount, disrupted: Mapping[str, int], now_ns: int) -> int:
    """At exactly two minutes a pod counts again although its entry stays for this sync."""
    going = {name for name, granted_ns in disrupted.items() if granted_ns + DELETION_TIMEOUT_NS > now_ns}
    return len(pods.healthy) - len(going & pods.healthy)


def _status(budget: Budget, demand: _Demand, healthy: int, disrupted: Mapping[str, int]) -> BudgetStatus:
    # Where nothing is expected nothing is allowed: a budget without pods must be safe when its first pods appear.
    surplus = _int32(healthy - demand.desired) if demand.expected > 0 else 0
    return replace(
        budget.status,
        observed_generation=budget.generation,
        disruptions_allowed=max(surplus, 0),
        current_healthy=healthy,
        desired_healthy=demand.desired,
        expected_pods=demand.expected,
        disrupted_pods=disrupted,
    )


def _is_current(old: BudgetStatus, new: BudgetStatus) -> bool:
    """Of the condition only status and reason matter: an old message alone is not worth a write."""
    had, has = old.disruption_allowed, new.allowance()
    return old == new and had is not None and (had.status, had.reason) == (has.status, has.reason)


def _failed(budget: Budget, error: InputError, notices: Iterable[Notice], now_ns: int) -> Sync:
    condition = BudgetCondition(
        kind=DISRUPTION_ALLOWED,
        status="False",
        reason=SYNC_FAILED,
        message=str(error),
        observed_generation=budget.status.observed_generation,
        changed_ns=now_ns,
    )
    status = replace(budget.status, disruptions_allowed=0).with_condition(condition)
    return Sync(status, tuple(notices))


def _int32(number: int) -> int:
    """Kubernetes counts pods in 32 bits, and wraps around."""
    return (number + 2**31) % 2**32 - 2**31
