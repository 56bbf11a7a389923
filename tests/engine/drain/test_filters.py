"""Which pods go, which stay, which make a drain refuse. Texts and precedence were observed with kubectl v1.36."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.drain.filters import (
    DaemonSetTrouble,
    Remark,
    aggregated,
    daemon_set_of,
    overdue,
    select_pods,
)
from jettison.engine.drain.rules import DrainRules
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.owners import OwnerReference

NOW = 1_700_000_000 * 10**9
SECOND = 10**9
REPLICA_SET = OwnerReference("apps/v1", "ReplicaSet", "rs", "u1")
DAEMON_SET = OwnerReference("apps/v1", "DaemonSet", "ds", "u2")
ALL = DrainRules(force=True, ignores_daemon_sets=True, deletes_empty_dirs=True)
NO_RULES = DrainRules()
MANAGED = ApiPod("web", controller=REPLICA_SET, phase="Running")
BARE = ApiPod("solo", phase="Running")
DAEMON = ApiPod("agent", controller=DAEMON_SET, phase="Running")
LOCAL = replace(MANAGED, has_empty_dir=True)
MIRROR = replace(MANAGED, is_mirror=True)
THERE = {("default", "ds"): None}


def finished(pod: ApiPod, phase: str = "Succeeded") -> ApiPod:
    return replace(pod, phase=phase)


@pytest.mark.parametrize("pod", [MANAGED, finished(BARE), finished(BARE, "Failed"), finished(LOCAL), finished(DAEMON)])
def test_a_managed_or_finished_pod_goes_without_a_word(pod: ApiPod) -> None:
    selection = select_pods([pod], NO_RULES, {}, NOW)
    assert (selection.going, selection.warning, selection.errors) == ((pod,), "", ())


@pytest.mark.parametrize(
    ("pod", "error"),
    [
        (DAEMON, "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): default/agent"),
        (LOCAL, "cannot delete Pods with local storage (use --delete-emptydir-data to override): default/web"),
        (BARE, "cannot delete Pods that declare no controller (use --force to override): default/solo"),
    ],
)
def test_what_needs_a_flag_is_an_error_without_it(pod: ApiPod, error: str) -> None:
    selection = select_pods([MANAGED, pod], NO_RULES, THERE, NOW)
    assert selection.errors == (error,)
    assert selection.going == (MANAGED,)


@pytest.mark.parametrize(
    ("pod", "goes", "warning"),
    [
        (DAEMON, False, "ignoring DaemonSet-managed Pods: default/agent"),
        (BARE, True, "deleting Pods that declare no controller: default/solo"),
        # Its warning is made and then overwritten by the next filter, which finds nothing to say.
        (LOCAL, True, ""),
        (replace(BARE, has_empty_dir=True), True, "deleting Pods that declare no controller: default/solo"),
        (MIRROR, False, ""),
    ],
)
def test_with_every_flag_nothing_is_an_error(pod: ApiPod, goes: bool, warning: str) -> None:
    selection = select_pods([pod], ALL, THERE, NOW)
    assert (bool(selection.going), selection.warning, selection.errors) == (goes, warning, ())


def test_pods_are_grouped_by_complaint_in_alphabetical_order() -> None:
    other = replace(BARE, name="solo2", namespace="ns")
    selection = select_pods([LOCAL, other, BARE], NO_RULES, {}, NOW)
    assert selection.errors == (
        "cannot delete Pods that declare no controller (use --force to override): ns/solo2, default/solo",
        "cannot delete Pods with local storage (use --delete-emptydir-data to override): default/web",
    )
    warned = select_pods([DAEMON, BARE], ALL, THERE, NOW)
    assert warned.warning == (
        "deleting Pods that declare no controller: default/solo; ignoring DaemonSet-managed Pods: default/agent"
    )


def test_a_missing_daemon_set_is_forgiven_with_force_and_without_a_word() -> None:
    """kubectl has a warning for it, which the filters behind overwrite."""
    missing = {("default", "ds"): DaemonSetTrouble('daemonsets.apps "ds" not found', is_missing=True)}
    refused = select_pods([DAEMON], DrainRules(ignores_daemon_sets=True), missing, NOW)
    assert refused.errors == ('cannot delete daemonsets.apps "ds" not found: default/agent',)
    forced = select_pods([DAEMON], DrainRules(force=True), missing, NOW)
    assert (forced.going, forced.warning, forced.errors) == ((DAEMON,), "", ())


def test_an_unreadable_daemon_set_is_an_error_even_with_force() -> None:
    forbidden = {("default", "ds"): DaemonSetTrouble("forbidden", is_missing=False)}
    assert select_pods([DAEMON], ALL, forbidden, NOW).errors == ("cannot delete forbidden: default/agent",)


@pytest.mark.parametrize("api_version", ["apps/v1beta2", "extensions/v1beta1", "example.com/v1"])
def test_only_a_daemon_set_of_apps_v1_counts(api_version: str) -> None:
    owner = replace(DAEMON_SET, api_version=api_version)
    pod = replace(DAEMON, controller=owner)
    assert daemon_set_of(pod) is None
    assert select_pods([pod], NO_RULES, {}, NOW).going == (pod,)


@pytest.mark.parametrize(
    ("overdue_ns", "seconds", "expected"),
    [
        (10 * SECOND, 0, False),
        (10 * SECOND, 10, False),
        (11 * SECOND - 1, 10, False),
        (11 * SECOND, 10, True),
        (-30 * SECOND, 1, False),
    ],
)
def test_whole_seconds_beyond_the_grace_period_count(overdue_ns: int, seconds: int, expected: bool) -> None:
    assert overdue(NOW - overdue_ns, seconds, NOW) is expected
    pod = replace(BARE, deadline_ns=NOW - overdue_ns)
    selection = select_pods([pod], DrainRules(skip_wait_seconds=seconds), {}, NOW)
    assert bool(selection.errors) is not expected


def test_a_pod_that_is_not_terminating_is_never_overdue() -> None:
    assert not overdue(None, 1, NOW)


def test_several_errors_are_one_line_and_equal_ones_count_once() -> None:
    assert aggregated(["a"]) == "a"
    assert aggregated(["a", "a"]) == "a"
    assert aggregated(["b", "a", "b"]) == "[b, a]"


PODS = st.builds(
    ApiPod,
    name=st.sampled_from("abc"),
    controller=st.sampled_from([None, REPLICA_SET, DAEMON_SET]),
    phase=st.sampled_from(["Running", "Pending", "Succeeded", "Failed", ""]),
    is_mirror=st.booleans(),
    has_empty_dir=st.booleans(),
    deadline_ns=st.sampled_from([None, NOW, NOW - 100 * SECOND]),
)
RULES = st.builds(DrainRules, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0, 5]))


@given(st.lists(PODS), RULES)
def test_more_flags_never_take_fewer_pods_or_raise_more_errors(pods: list[ApiPod], rules: DrainRules) -> None:
    fewer = select_pods(pods, replace(NO_RULES, skip_wait_seconds=rules.skip_wait_seconds), THERE, NOW)
    more = select_pods(pods, rules, THERE, NOW)
    most = select_pods(pods, replace(ALL, skip_wait_seconds=rules.skip_wait_seconds), THERE, NOW)
    assert len(fewer.going) <= len(more.going) <= len(most.going)
    assert len(fewer.errors) >= len(more.errors) >= len(most.errors) == 0
    for choice in more.choices:
        assert not (choice.goes and (choice.remark is Remark.ERROR or choice.pod.is_mirror))
