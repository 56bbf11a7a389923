"""Which pod goes when, and what blocks; the forecast is checked against a small cluster that does what it foretells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jettison.engine.budgets.budget import (
    ALWAYS_ALLOW,
    DISRUPTION_ALLOWED,
    SYNC_FAILED,
    Budget,
    BudgetCondition,
    BudgetStatus,
)
from jettison.engine.budgets.sync import sync_budget
from jettison.engine.budgets.verdict import Allowed, judge_eviction
from jettison.engine.drain.filters import select_pods
from jettison.engine.drain.plan import DrainPlan, PodFate, PodPlan, plan_drain
from jettison.engine.drain.rules import DrainRules
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.owners import OwnerReference, Workload, Workloads

NOW = 1_700_000_000 * 10**9
OWNER = OwnerReference("apps/v1", "ReplicaSet", "web", "u-web")
ALL = DrainRules(force=True, ignores_daemon_sets=True, deletes_empty_dirs=True)


def pod(
    name: str,
    *,
    node: str = "n1",
    app: str = "web",
    ready: bool = True,
    phase: str = "Running",
    owner: OwnerReference | None = OWNER,
    terminating: bool = False,
) -> ApiPod:
    return ApiPod(
        name,
        uid=f"uid-{name}",
        labels={"app": app},
        controller=owner,
        node=node,
        phase=phase,
        is_terminating=terminating,
        is_ready=ready,
    )


def budget(
    name: str = "web",
    *,
    allowed: int,
    healthy: int,
    desired: int,
    expected: int | None = None,
    app: str = "web",
    least: int | str | None = 1,
    most: int | str | None = None,
    policy: str = "",
    observed: int = 1,
) -> Budget:
    status = BudgetStatus(observed, allowed, healthy, desired, healthy if expected is None else expected)
    selector = SelectorObject({"app": app})
    return Budget(name, "default", 1, selector, least, most, policy, status)


def plan(
    pods: Sequence[ApiPod],
    budgets: Sequence[Budget],
    *,
    elsewhere: Sequence[ApiPod] = (),
    stranded: Collection[str] = (),
) -> DrainPlan:
    nodes = list(dict.fromkeys(each.node for each in pods))
    selections = [(node, select_pods([each for each in pods if each.node == node], ALL, {}, NOW)) for node in nodes]
    return plan_drain(selections, [*pods, *elsewhere], budgets, NOW, [f"default/{name}" for name in stranded])


def only(found: DrainPlan, name: str) -> PodPlan:
    (one,) = [each for node in found.nodes for each in node.pods if each.pod.name == name]
    return one


def shape(found: DrainPlan) -> dict[str, tuple[str, int]]:
    return {each.pod.name: (each.fate.value, each.wave) for node in found.nodes for each in node.pods}


def test_without_budgets_every_pod_goes_at_once() -> None:
    found = plan([pod("a"), pod("b")], [])
    assert shape(found) == {"a": ("goes", 1), "b": ("goes", 1)}
    assert (found.waves, found.is_complete) == (1, True)
    assert only(found, "a").why == "no budget"


def test_an_empty_node_takes_no_wave() -> None:
    found = plan_drain([("n1", select_pods([], ALL, {}, NOW))], [], [], NOW)
    assert (found.waves, found.is_complete) == (0, True)


def test_a_budget_is_spent_in_order_and_the_rest_waits_for_replacements() -> None:
    pods = [pod("a"), pod("b"), pod("c"), pod("d"), pod("free", app="db")]
    found = plan(pods, [budget(allowed=2, healthy=4, desired=2, least=2)])
    assert shape(found) == {
        "a": ("goes", 1), "b": ("goes", 1), "c": ("waits", 2), "d": ("waits", 2), "free": ("goes", 1),
    }  # fmt: skip
    assert only(found, "a").why == "the budget has room (allows 2)"
    assert only(found, "c").waits_for == ("default/a", "default/b")
    assert only(found, "d").budgets == ("default/web",)
    assert found.is_complete


def test_each_wave_waits_for_the_one_before() -> None:
    found = plan([pod("a"), pod("b"), pod("c")], [budget(allowed=1, healthy=3, desired=2, least=2)])
    assert [only(found, name).waits_for for name in "abc"] == [(), ("default/a",), ("default/b",)]
    assert found.waves == 3


def test_the_next_node_begins_with_a_wave_of_its_own() -> None:
    pods = [pod("a"), pod("b"), pod("c", node="n2"), pod("x", node="n2", app="db")]
    found = plan(pods, [budget(allowed=1, healthy=3, desired=2, least=2)])
    assert shape(found) == {"a": ("goes", 1), "b": ("waits", 2), "c": ("goes", 3), "x": ("goes", 3)}


def test_budgets_that_others_are_spending_recover_too() -> None:
    """An eviction granted to another client, not yet counted: when its replacement is Ready there is room again."""
    held = budget(allowed=0, healthy=3, desired=2, least=2)
    held = replace(held, status=replace(held.status, disrupted_pods={"other": NOW}))
    found = plan([pod("a")], [held], elsewhere=[pod("other", node="n9")])
    assert shape(found) == {"a": ("waits", 2)}
    assert only(found, "a").waits_for == ("default/other",)


def test_pods_without_a_controller_are_lost_to_the_budget() -> None:
    pods = [pod(name, owner=None) for name in "abc"]
    found = plan(pods, [budget(allowed=2, healthy=3, desired=1, least=1)])
    assert shape(found) == {"a": ("goes", 1), "b": ("goes", 1), "c": ("blocked", 0)}
    assert only(found, "c").remedy == (
        "add 1 pod or lower minAvailable `1`: 1 healthy pod must remain and no controller replaces default/a, default/b"
    )
    assert not found.is_complete


@pytest.mark.parametrize(
    ("guard", "others", "why", "remedy"),
    [
        (
            budget(allowed=0, healthy=1, desired=1),
            [],
            "The disruption budget web needs 1 healthy pods and has 1 currently",
            "add 1 pod or lower minAvailable `1`: 1 healthy pod must remain",
        ),
        (
            budget(allowed=0, healthy=1, desired=1, least=None, most=0),
            [],
            "The disruption budget web needs 1 healthy pods and has 1 currently",
            "raise maxUnavailable `0`: 1 healthy pod must remain",
        ),
        (
            budget(allowed=0, healthy=1, desired=1, least="100%"),
            [],
            "The disruption budget web needs 1 healthy pods and has 1 currently",
            "lower minAvailable `100%`: 1 healthy pod must remain",
        ),
        (
            budget(allowed=0, healthy=2, desired=2, expected=4, least=2),
            [pod("b", node="n2"), pod("c", node="n2", ready=False), pod("d", node="n3", ready=False)],
            "The disruption budget web needs 2 healthy pods and has 2 currently",
            "1 more Ready pod, not Ready now: default/c, default/d",
        ),
        (
            budget(allowed=0, healthy=1, desired=3, expected=4, least=3),
            [pod("b", node="n2", ready=False), pod("c", node="n2", ready=False)],
            "The disruption budget web needs 3 healthy pods and has 1 currently",
            "add 1 pod or lower minAvailable `3`: 3 healthy pods must remain",
        ),
        (
            budget(allowed=0, healthy=1, desired=0, expected=0, least=None, most=1),
            [],
            "The disruption budget web does not allow evicting pods currently",
            "scale up the workload or delete the pod, the workload wants no pods at all",
        ),
        (
            budget(allowed=0, healthy=1, desired=0, expected=0, least=None),
            [],
            "The disruption budget web does not allow evicting pods currently",
            "set minAvailable or maxUnavailable, a budget with neither allows nothing",
        ),
        (
            budget(allowed=0, healthy=3, desired=1, expected=3, observed=0),
            [],
            "The disruption budget web is still being processed by the server.",
            "the disruption controller must process the budget (generation 1, it has seen 0): does it run?",
        ),
        (
            budget(allowed=-1, healthy=0, desired=1, expected=0),
            [],
            'poddisruptionbudget.policy "web" is forbidden: pdb disruptions allowed is negative',
            "the disruption controller must count again, the budget allows -1",
        ),
    ],
)
def test_what_blocks_and_what_would_help(guard: Budget, others: list[ApiPod], why: str, remedy: str) -> None:
    found = only(plan([pod("a")], [guard], elsewhere=others), "a")
    assert (found.fate, found.why, found.remedy) == (PodFate.BLOCKED, why, remedy)
    assert found.budgets == ("default/web",)


def test_bare_pods_need_a_number() -> None:
    guard = budget(allowed=0, healthy=1, desired=0, expected=0, least=None, most=1)
    found = only(plan([pod("a", owner=None)], [guard]), "a")
    assert found.remedy == "set minAvailable to a number, maxUnavailable `1` does not count pods without a controller"


def test_a_failing_sync_is_named() -> None:
    guard = budget(allowed=0, healthy=3, desired=1)
    message = "jobs.batch does not implement the scale subresource"
    failed = BudgetCondition(DISRUPTION_ALLOWED, "False", SYNC_FAILED, message)
    guard = replace(guard, status=replace(guard.status, conditions=(failed,)))
    found = only(plan([pod("a")], [guard]), "a")
    assert found.fate is PodFate.BLOCKED
    assert found.remedy == f"mend what the disruption controller complains about: {message}"


def test_unconfirmed_evictions_fill_a_budget() -> None:
    guard = budget(allowed=5, healthy=9, desired=4)
    guard = replace(
        guard, generation=1, status=replace(guard.status, disrupted_pods={str(n): NOW for n in range(2001)})
    )
    found = only(plan([pod("a")], [guard]), "a")
    assert found.fate is PodFate.BLOCKED
    assert found.remedy == "the disruption controller must confirm 2001 evictions, more than 2000: does it run?"


def test_two_budgets_for_one_pod_block_it_whatever_they_allow() -> None:
    found = only(
        plan([pod("a")], [budget("x", allowed=5, healthy=9, desired=4), budget(allowed=5, healthy=9, desired=4)]), "a"
    )
    assert found.fate is PodFate.BLOCKED
    assert found.budgets == ("default/x", "default/web")
    assert found.remedy == "let only one budget select the pod, now default/x and default/web do"


def test_an_unready_pod_is_blocked_with_a_way_out_of_its_own() -> None:
    guard = budget(allowed=0, healthy=1, desired=2, expected=3, least=2)
    found = only(plan([pod("a", ready=False)], [guard], elsewhere=[pod("b"), pod("c", ready=False)]), "a")
    assert found.remedy == (
        "2 more Ready pods, not Ready now: default/a, default/c, "
        "or set unhealthyPodEvictionPolicy to AlwaysAllow, for this pod is not Ready"
    )


@pytest.mark.parametrize(
    ("going", "guard"),
    [
        (pod("a", phase="Pending", ready=False), budget(allowed=0, healthy=0, desired=1)),
        (pod("a", terminating=True), budget(allowed=0, healthy=1, desired=1)),
        (pod("a", phase="Failed", ready=False), budget(allowed=0, healthy=1, desired=1)),
        (pod("a", ready=False), budget(allowed=0, healthy=2, desired=2)),
        (pod("a", ready=False), budget(allowed=0, healthy=0, desired=2, policy=ALWAYS_ALLOW)),
    ],
)
def test_some_pods_go_without_spending_anything(going: ApiPod, guard: Budget) -> None:
    """Nor is their replacement counted on: the Ready pod beside them stays blocked."""
    found = plan([going, pod("b")], [guard])
    assert shape(found) == {"a": ("goes", 1), "b": ("blocked", 0)}


def test_a_budget_whose_selector_makes_no_sense_guards_no_pod() -> None:
    guard = replace(
        budget(allowed=0, healthy=1, desired=1), selector=SelectorObject({}, (MatchExpression("a", "Like", ()),))
    )
    assert shape(plan([pod("a")], [guard])) == {"a": ("goes", 1)}


def test_a_node_that_refuses_is_not_planned_and_the_next_one_is() -> None:
    bare, managed, mirror = pod("solo", owner=None), pod("a"), replace(pod("static"), is_mirror=True)
    other = pod("b", node="n2")
    selections = [
        ("n1", select_pods([bare, managed, mirror], DrainRules(), {}, NOW)),
        ("n2", select_pods([other], DrainRules(), {}, NOW)),
    ]
    found = plan_drain(selections, [], [], NOW)
    assert shape(found) == {"solo": ("refused", 0), "a": ("blocked", 0), "static": ("stays", 0), "b": ("goes", 1)}
    assert [node.is_emptied for node in found.nodes] == [False, True]
    assert only(found, "solo").why == "cannot delete Pods that declare no controller (use --force to override)"


@dataclass
class Cluster:
    """Evicts through real verdicts, replaces what has a controller, and lets the real controller count."""

    replicas: int
    stranded: frozenset[str]
    budgets: list[Budget]
    pods: list[ApiPod]
    workloads: Workloads = field(init=False)

    def __post_init__(self) -> None:
        self.workloads = Workloads(replica_sets={"web": Workload("u-web", self.replicas)})
        self.count()

    def count(self) -> None:
        for index, each in enumerate(self.budgets):
            synced = sync_budget(each, self.pods, self.workloads, NOW)
            self.budgets[index] = replace(each, status=synced.status or each.status)

    def evict_what_may_go(self) -> set[str]:
        gone = []
        for each in [each for each in self.pods if each.node == "n1"]:
            verdict = judge_eviction(each, self.budgets, NOW)
            if isinstance(verdict, Allowed):
                gone.append(each)
                if verdict.status is not None:
                    spent = replace(self.budgets[0], status=verdict.status)
                    self.budgets[0] = spent
        self.pods = [each for each in self.pods if each not in gone]
        self.pods += [self.replacement(each) for each in gone if each.controller is not None]
        self.count()
        return {each.name for each in gone}

    def replacement(self, gone: ApiPod) -> ApiPod:
        new = replace(gone, name=gone.name + "'", phase="Running", node="n2")
        if gone.name in self.stranded:
            return replace(new, node="", phase="Pending", is_ready=False)
        return new


WORLD_PODS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["web", "db"])),
    min_size=1,
    max_size=8,
)
RULES = st.one_of(
    st.tuples(st.one_of(st.integers(0, 6), st.sampled_from(["0%", "40%", "100%"])), st.none()),
    st.tuples(st.none(), st.one_of(st.integers(0, 6), st.sampled_from(["0%", "40%", "100%"]))),
)


@settings(max_examples=300)
@given(WORLD_PODS, RULES, st.integers(0, 6), st.sampled_from(["", ALWAYS_ALLOW]))
def test_the_cluster_does_what_the_plan_foretells(
    drawn: list[tuple[bool, bool, bool, bool, str]],
    rule: tuple[int | str | None, int | str | None],
    replicas: int,
    policy: str,
) -> None:
    pods = [
        pod(f"p{index}", node="n1" if here else "n2", ready=ready, owner=OWNER if managed else None, app=app)
        for index, (here, ready, managed, _, app) in enumerate(drawn)
    ]
    stranded = frozenset(f"p{index}" for index, (*_, is_stranded, _) in enumerate(drawn) if is_stranded)
    guard = Budget("web", "default", 1, SelectorObject({"app": "web"}), rule[0], rule[1], policy)
    cluster = Cluster(replicas, stranded, [guard], pods)
    here, elsewhere = ([each for each in pods if (each.node == "n1") is wanted] for wanted in (True, False))
    found = plan(here, cluster.budgets, elsewhere=elsewhere, stranded=stranded)
    for wave in range(1, found.waves + 1):
        expected = {each.pod.name for node in found.nodes for each in node.pods if each.wave == wave}
        assert cluster.evict_what_may_go() == expected
    assert cluster.evict_what_may_go() == set()
    blocked = {each.pod.name for node in found.nodes for each in node.pods if each.fate is PodFate.BLOCKED}
    assert {each.name for each in cluster.pods if each.node == "n1"} == blocked
    assert all(each.remedy for node in found.nodes for each in node.pods if each.fate is PodFate.BLOCKED)
