"""Plans of drains where the replacements of some pods have no node to go to."""

from __future__ import annotations

from tests.engine.drain.test_plan import budget, only, plan, pod, shape

NO_NODE = (
    "no other node can take the replacement of default/a{more}: uncordon one, or add one that is Ready and that the "
    "pod's node selector and tolerations allow"
)


def test_a_budget_does_not_recover_from_pods_whose_replacements_have_no_node() -> None:
    guard = budget(allowed=1, healthy=2, desired=1, least=None, most=1)
    found = plan([pod("a"), pod("b")], [guard], stranded="ab")
    assert shape(found) == {"a": ("goes", 1), "b": ("blocked", 0)}
    assert not found.is_complete
    assert only(found, "b").why == "The disruption budget web needs 1 healthy pods and has 1 currently"
    assert only(found, "b").remedy == NO_NODE.format(more="")
    assert [only(found, name).is_stranded for name in "ab"] == [True, False]
    assert found.stranded == 1


def test_several_missing_replacements_are_counted() -> None:
    guard = budget(allowed=3, healthy=4, desired=1)
    found = plan([pod(name) for name in "abcd"], [guard], stranded="abcd")
    assert only(found, "d").remedy == NO_NODE.format(more=" and 2 more")


def test_room_is_lost_on_one_node_for_the_next() -> None:
    guard = budget(allowed=1, healthy=2, desired=1)
    found = plan([pod("a"), pod("b", node="n2")], [guard], stranded="ab")
    assert shape(found) == {"a": ("goes", 1), "b": ("blocked", 0)}
    assert only(found, "b").remedy == NO_NODE.format(more="")


def test_no_pod_waits_for_a_replacement_that_cannot_come() -> None:
    guard = budget(allowed=2, healthy=4, desired=2, least=2)
    found = plan([pod(name) for name in "abc"], [guard], stranded="a")
    assert shape(found) == {"a": ("goes", 1), "b": ("goes", 1), "c": ("waits", 2)}
    assert only(found, "c").waits_for == ("default/b",)


def test_without_a_budget_no_pod_is_kept_for_want_of_a_node() -> None:
    found = plan([pod("a"), pod("b", owner=None), pod("c", phase="Succeeded")], [], stranded="abc")
    assert shape(found) == {"a": ("goes", 1), "b": ("goes", 1), "c": ("goes", 1)}
    # Of the others there would be no replacement anyway.
    assert [only(found, name).is_stranded for name in "abc"] == [True, False, False]
    assert found.is_complete


def test_a_node_is_no_remedy_where_the_budget_never_had_room() -> None:
    found = plan([pod("a")], [budget(allowed=0, healthy=1, desired=1)], stranded="a")
    assert only(found, "a").remedy == "add 1 pod or lower minAvailable `1`: 1 healthy pod must remain"
