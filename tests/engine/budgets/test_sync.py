"""One sync of the disruption controller."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.budgets.budget import (
    DISRUPTION_ALLOWED,
    Budget,
    BudgetCondition,
    BudgetStatus,
)
from jettison.engine.budgets.headcount import Headcount
from jettison.engine.budgets.sync import (
    DELETION_TIMEOUT_NS,
    Notice,
    Sync,
    sync_budget,
    unlisted_owners,
)
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.owners import OwnerReference, ScaleFailure, Workload, Workloads

SECOND = 10**9
NOW = 10_000 * SECOND
ALL = SelectorObject()


def owner(kind: str, name: str, api_version: str = "apps/v1") -> OwnerReference:
    return OwnerReference(api_version, kind, name, f"uid-{name}")


def replicas(count: int, ready: int, controller: OwnerReference | None, prefix: str = "p") -> list[ApiPod]:
    return [
        ApiPod(f"{prefix}{number}", controller=controller, phase="Running", is_ready=number < ready)
        for number in range(count)
    ]


def stateful(size: int) -> Workloads:
    return Workloads(stateful_sets={"db": Workload("uid-db", size)})


def deployed(**sizes: int) -> Workloads:
    """One Deployment of each size; the ReplicaSets `<name>-1` and `<name>-2` belong to it."""
    return Workloads(
        deployments={name: Workload(f"uid-{name}", size) for name, size in sizes.items()},
        replica_sets={
            f"{name}-{number}": Workload(f"uid-{name}-{number}", 99, owner("Deployment", name))
            for name in sizes
            for number in (1, 2)
        },
    )


def numbers(sync: Sync) -> tuple[int, int, int, int]:
    assert sync.status is not None
    status = sync.status
    return status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed


DB = owner("StatefulSet", "db")
WEB = owner("ReplicaSet", "web-1")
WEB_2 = owner("ReplicaSet", "web-2")
API = owner("ReplicaSet", "api-1")
LONE = owner("ReplicaSet", "lone")


@pytest.mark.parametrize(
    ("budget", "pods", "workloads", "expected"),
    [
        pytest.param(
            Budget("b", max_unavailable="30%"), replicas(7, 7, WEB), deployed(web=7), (7, 4, 7, 3), id="30% of 7 are 3"
        ),
        pytest.param(
            Budget("b", min_available="30%"), replicas(7, 6, WEB), deployed(web=7), (7, 3, 6, 3), id="min rounds up too"
        ),
        pytest.param(
            Budget("b", min_available="67%"), replicas(3, 3, DB), stateful(3), (3, 3, 3, 0), id="67% of 3 is all"
        ),
        pytest.param(
            Budget("b", min_available="66%"), replicas(3, 3, DB), stateful(3), (3, 2, 3, 1), id="66% of 3 is two"
        ),
        pytest.param(
            Budget("b", max_unavailable=8), replicas(5, 5, DB), stateful(5), (5, 0, 5, 5), id="never below zero"
        ),
        pytest.param(
            Budget("b", max_unavailable="1%"),
            replicas(4, 4, LONE),
            Workloads(replica_sets={"lone": Workload("uid-lone", 4)}),
            (4, 3, 4, 1),
            id="ReplicaSet without a Deployment",
        ),
        pytest.param(
            Budget("b", min_available="50%"),
            replicas(4, 4, WEB) + replicas(6, 5, API, "q"),
            deployed(web=4, api=6),
            (10, 5, 9, 4),
            id="two Deployments under one budget",
        ),
        pytest.param(
            Budget("b", max_unavailable=2),
            replicas(4, 4, WEB) + replicas(4, 3, WEB_2, "q"),
            deployed(web=6),
            (6, 4, 7, 3),
            id="a rollout counts the Deployment once",
        ),
        pytest.param(
            Budget("b", max_unavailable=1), replicas(3, 3, WEB), deployed(web=0), (0, 0, 3, 0), id="scaled to zero"
        ),
        pytest.param(
            Budget("b", max_unavailable=1),
            replicas(3, 3, None),
            Workloads(),
            (0, 0, 3, 0),
            id="bare pods are not expected",
        ),
        pytest.param(
            Budget("b", min_available="50%"),
            replicas(4, 4, DB) + replicas(2, 2, None, "q"),
            stateful(4),
            (4, 2, 6, 4),
            id="bare pods count as healthy all the same",
        ),
        pytest.param(Budget("b"), replicas(4, 4, DB), stateful(4), (0, 0, 4, 0), id="no rule allows nothing"),
        pytest.param(
            Budget("b", min_available=4),
            replicas(6, 6, None),
            Workloads(),
            (6, 4, 6, 2),
            id="an integer needs no owner",
        ),
        pytest.param(
            Budget("b", min_available=9, max_unavailable=1),
            replicas(3, 3, DB),
            stateful(3),
            (3, 2, 3, 1),
            id="maxUnavailable wins",
        ),
        pytest.param(
            Budget("b", max_unavailable=0),
            replicas(2, 2, DB),
            stateful(2**31 + 1),
            (1 - 2**31, 0, 2, 0),
            id="pods are counted in 32 bits",
        ),
    ],
)
def test_the_numbers(
    budget: Budget, pods: list[ApiPod], workloads: Workloads, expected: tuple[int, int, int, int]
) -> None:
    """Expected, desired, healthy and allowed, as a real controller computed them."""
    assert numbers(sync_budget(replace(budget, selector=ALL), pods, workloads, NOW)) == expected


def test_terminating_pods_are_expected_but_not_healthy() -> None:
    """With an integer minAvailable every selected pod is expected, whatever its state."""
    pods = [replace(pod, is_terminating=pod.name == "p0") for pod in replicas(5, 4, DB)]
    budget = Budget("b", selector=ALL, min_available=2)
    assert numbers(sync_budget(budget, pods, Workloads(), NOW)) == (5, 2, 3, 1)


@pytest.mark.parametrize(("selector", "expected"), [(ALL, (6, 4, 6, 2)), (None, (0, 4, 0, 0))])
def test_an_empty_selector_guards_all_and_an_absent_one_none(
    selector: SelectorObject | None, expected: tuple[int, int, int, int]
) -> None:
    """Pods of other namespaces never count."""
    pods = [*replicas(6, 6, None), ApiPod("far", namespace="other", is_ready=True)]
    sync = sync_budget(Budget("b", selector=selector, min_available=4), pods, Workloads(), NOW)
    assert numbers(sync) == expected
    is_lonely = Notice("NoPods", "No matching pods found", is_warning=False) in sync.notices
    assert is_lonely is (selector is None)


def test_granted_evictions_count_as_gone_for_two_minutes() -> None:
    """p0 and p2 wait, p1 is overdue and complained about, the ghost is dropped; p0's time is up next."""
    granted = {"p0": NOW - 30 * SECOND, "p1": NOW - 150 * SECOND, "p2": NOW, "ghost": NOW}
    budget = Budget("b", "ns", selector=ALL, min_available=3, status=BudgetStatus(disrupted_pods=granted))
    pods = [replace(pod, namespace="ns") for pod in replicas(5, 5, None)]
    sync = sync_budget(budget, pods, Workloads(), NOW)
    assert numbers(sync) == (5, 3, 3, 0)
    assert sync.status is not None
    assert sync.status.disrupted_pods == {"p0": NOW - 30 * SECOND, "p2": NOW}
    assert sync.recheck_ns == NOW + 90 * SECOND
    message = "Pod was expected by PDB ns/ns to be deleted but it wasn't"
    assert sync.notices == (Notice("NotDeleted", message, pod="p1"),)


@pytest.mark.parametrize(
    ("age", "is_kept", "is_healthy"),
    [(DELETION_TIMEOUT_NS - 1, True, False), (DELETION_TIMEOUT_NS, True, True), (DELETION_TIMEOUT_NS + 1, False, True)],
)
def test_at_exactly_two_minutes_an_entry_stays_but_its_pod_counts(age: int, is_kept: bool, is_healthy: bool) -> None:
    """Upstream compares with `before` in one place and with `after` in the other."""
    status = BudgetStatus(disrupted_pods={"p0": NOW - age})
    sync = sync_budget(
        Budget("b", selector=ALL, min_available=0, status=status), replicas(1, 1, None), Workloads(), NOW
    )
    assert sync.status is not None
    assert ("p0" in sync.status.disrupted_pods) is is_kept
    assert sync.status.current_healthy == is_healthy


def test_unmanaged_pods_are_announced_only_where_owners_matter() -> None:
    """The text tells the remedy: an integer minAvailable."""
    pods = replicas(1, 1, None)
    percent = sync_budget(Budget("b", selector=ALL, min_available="50%"), pods, Workloads(), NOW)
    assert [notice.reason for notice in percent.notices] == ["UnmanagedPods"]
    assert "(selector: &LabelSelector{MatchLabels:map[string]string{}," in percent.notices[0].message
    assert sync_budget(Budget("b", selector=ALL, min_available=1), pods, Workloads(), NOW).notices == ()


JOB = owner("Job", "j", "batch/v1")
ODD = owner("StatefulSet", "db", "a/b/c")


@pytest.mark.parametrize(
    ("budget", "controller", "workloads", "message"),
    [
        (
            Budget("b", max_unavailable=1),
            JOB,
            Workloads(scales={JOB: ScaleFailure("jobs.batch does not implement the scale subresource")}),
            "jobs.batch does not implement the scale subresource",
        ),
        (Budget("b", max_unavailable=1), JOB, Workloads(scales={JOB: None}), 'found no controllers for pod "p0"'),
        (Budget("b", max_unavailable=1), ODD, stateful(3), "unexpected GroupVersion string: a/b/c"),
        (
            Budget("b", min_available="x"),
            DB,
            stateful(3),
            "invalid value for IntOrString: invalid type: string is not a percentage",
        ),
    ],
)
def test_one_owner_that_cannot_be_sized_withdraws_the_permission(
    budget: Budget, controller: OwnerReference, workloads: Workloads, message: str
) -> None:
    """All other numbers stay, even the observed generation: a budget that never worked looks unprocessed."""
    old = BudgetStatus(observed_generation=1, disruptions_allowed=5, current_healthy=7, disrupted_pods={"x": 1})
    broken = replace(budget, selector=ALL, generation=2, status=old)
    sync = sync_budget(broken, replicas(2, 2, controller), workloads, NOW)
    condition = BudgetCondition(DISRUPTION_ALLOWED, "False", "SyncFailed", message, 1, NOW)
    assert sync.status == replace(old, disruptions_allowed=0, conditions=(condition,))
    text = f"Failed to calculate the number of expected pods: {message}"
    assert sync.notices == (Notice("CalculateExpectedPodCountFailed", text),)
    assert sync.recheck_ns is None


def test_a_selector_without_sense_withdraws_the_permission() -> None:
    """The event is a warning with the reason that otherwise announces that no pod matches."""
    selector = SelectorObject(match_expressions=(MatchExpression("a", "Bogus"),))
    sync = sync_budget(Budget("b", selector=selector, min_available=1), replicas(1, 1, None), Workloads(), NOW)
    assert sync.notices == (Notice("NoPods", 'Failed to get pods: "Bogus" is not a valid label selector operator'),)
    assert sync.status is not None
    assert sync.status.disruptions_allowed == 0


def test_scales_are_asked_for_only_where_they_matter() -> None:
    """Once for each owner that no cache knows; never for an integer minAvailable."""
    pods = Headcount.of(replicas(3, 3, JOB) + replicas(2, 2, DB, "q"))
    odd = Headcount.of(replicas(1, 1, ODD))
    assert unlisted_owners(Budget("b", selector=ALL, max_unavailable=1), pods, stateful(2)) == (JOB,)
    assert unlisted_owners(Budget("b", selector=ALL, min_available=1), pods, stateful(2)) == ()
    assert unlisted_owners(Budget("b", selector=ALL, max_unavailable=1), odd, stateful(2)) == ()


def test_an_old_message_is_not_worth_a_write() -> None:
    """Numbers, map, generation and the condition's status and reason decide; its message and generation do not."""
    condition = BudgetCondition(DISRUPTION_ALLOWED, "True", "SufficientPods", "old", observed_generation=1)
    status = BudgetStatus(3, 1, 2, 1, 2, {}, (condition,))
    budget = Budget("b", generation=3, selector=ALL, min_available=1, status=status)
    pods = replicas(2, 2, None)
    assert sync_budget(budget, pods, Workloads(), NOW).status is None
    renamed = replace(status, conditions=(replace(condition, reason="Other"),))
    assert sync_budget(replace(budget, status=renamed), pods, Workloads(), NOW).status is not None
    assert sync_budget(replace(budget, generation=4), pods, Workloads(), NOW).status is not None


pods = st.lists(
    st.builds(
        ApiPod,
        name=st.sampled_from("abcdef"),
        controller=st.sampled_from([None, DB, WEB]),
        is_ready=st.booleans(),
        is_terminating=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda pod: pod.name,
)
rules = st.none() | st.integers(0, 5) | st.sampled_from(["0%", "50%", "100%"])
granted = st.dictionaries(st.sampled_from("abcxyz"), st.integers(NOW - 2 * DELETION_TIMEOUT_NS, NOW + SECOND))


@given(pods, rules, rules, granted, st.integers(0, 4))
def test_a_sync_settles(
    selected: list[ApiPod], minimum: int | str | None, maximum: int | str | None, times: dict[str, int], size: int
) -> None:
    """A second sync at the same moment changes nothing, and never is more allowed than healthy pods can spare."""
    workloads = replace(deployed(web=size), stateful_sets=stateful(size).stateful_sets)
    budget = Budget("b", "default", 1, ALL, minimum, maximum, status=BudgetStatus(disrupted_pods=times))
    status = sync_budget(budget, selected, workloads, NOW).status
    assert status is not None
    assert 0 <= status.disruptions_allowed <= max(status.current_healthy - status.desired_healthy, 0)
    assert set(status.disrupted_pods) <= {pod.name for pod in selected if not pod.is_terminating} & set(times)
    assert sync_budget(replace(budget, status=status), selected, workloads, NOW).status is None
