"""Which nodes a pod asks for, and which of them by name."""

from __future__ import annotations

import pytest

from jettison.engine.labels.selectors import Operator, Requirement
from jettison.engine.scheduling.node_affinity import ANYWHERE, NAME_FIELD, NOWHERE, NodeAffinity, NodeTerm, Preference


def _labelled(key: str, value: str) -> Requirement:
    return Requirement(key, Operator.IN, (value,))


def _named(name: str, operator: Operator = Operator.IN) -> Requirement:
    return Requirement(NAME_FIELD, operator, (name,))


SSD, ZONE = _labelled("disk", "ssd"), _labelled("zone", "a")
LABELS = {"disk": "ssd", "zone": "b"}

CASES: list[tuple[str, NodeAffinity, bool, frozenset[str] | None]] = [
    ("nothing is asked", ANYWHERE, True, None),
    ("no alternative is left", NOWHERE, False, None),
    ("a term that asks for nothing", NodeAffinity(required=(NodeTerm(),)), False, None),
    ("the selector and a term", NodeAffinity((("disk", "ssd"),), (NodeTerm((SSD,)),)), True, None),
    ("the selector but no term", NodeAffinity((("disk", "ssd"),), (NodeTerm((ZONE,)),)), False, None),
    ("a term but not the selector", NodeAffinity((("zone", "a"),), (NodeTerm((SSD,)),)), False, None),
    ("one of two terms", NodeAffinity(required=(NodeTerm((ZONE,)), NodeTerm((SSD,)))), True, None),
    ("one of two expressions", NodeAffinity(required=(NodeTerm((ZONE, SSD)),)), False, None),
    ("its name", NodeAffinity(required=(NodeTerm((), (_named("n"),)),)), True, frozenset({"n"})),
    (
        "its name, but not its labels",
        NodeAffinity(required=(NodeTerm((ZONE,), (_named("n"),)),)),
        False,
        frozenset("n"),
    ),
    ("a name or a label", NodeAffinity(required=(NodeTerm((), (_named("m"),)), NodeTerm((SSD,)))), True, None),
    (
        "one of two names",
        NodeAffinity(required=(NodeTerm((), (_named("m"),)), NodeTerm((), (_named("n"),)))),
        True,
        frozenset({"m", "n"}),
    ),
    ("two names at once", NodeAffinity(required=(NodeTerm((), (_named("m"), _named("n"))),)), False, frozenset()),
    ("any other name", NodeAffinity(required=(NodeTerm((), (_named("m", Operator.NOT_IN),)),)), True, None),
]


@pytest.mark.parametrize(("case", "affinity", "admits", "pinned"), CASES, ids=[each[0] for each in CASES])
def test_may_a_pod_run_there(case: str, affinity: NodeAffinity, admits: bool, pinned: frozenset[str] | None) -> None:
    """On a node `n` with an SSD; and which names alone come into question."""
    assert affinity.admits(LABELS, "n") is admits
    assert affinity.pinned() == pinned


def test_likings_add_up() -> None:
    """Each preference that holds counts with its weight."""
    wishes = (Preference(5, NodeTerm((SSD,))), Preference(7, NodeTerm((ZONE,))), Preference(2, NodeTerm((SSD,))))
    assert NodeAffinity(preferred=wishes).liking(LABELS, "n") == 7
