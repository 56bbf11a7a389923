"""Which nodes a pod asks for, which tainted ones it may be on, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.labels.requirements import Operator, Requirement
from jettison.engine.scheduling.placement import (
    ANYWHERE,
    LONGEST_SECONDS,
    NAME_FIELD,
    NO_EXECUTE,
    NO_SCHEDULE,
    NOWHERE,
    PREFER_NO_SCHEDULE,
    NodeAffinity,
    NodeTerm,
    Preference,
    Stay,
    Taint,
    Toleration,
    bearing_toleration,
    first_untolerated,
    no_execute_stay,
    tolerates,
)

GPU = Taint("dedicated", "gpu", NO_SCHEDULE)
FOREVER = Stay(is_tainted=True, is_tolerated=True, seconds=None)

words = st.sampled_from(["", "a", "b", "7", "-3", "07"])
effects = st.sampled_from([NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE])
taints = st.builds(Taint, words, words, effects)
tolerations = st.builds(
    Toleration,
    key=words,
    operator=st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "exists"]),
    value=words,
    effect=st.sampled_from(["", NO_SCHEDULE, NO_EXECUTE]),
    seconds=st.none() | st.integers(-5, 5),
)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("dedicated", "Equal", "gpu", NO_SCHEDULE), True),
        (Toleration("dedicated", "", "gpu"), True),
        (Toleration("dedicated", "Equal", "cpu"), False),
        (Toleration("dedicated", "Exists", "ignored"), True),
        (Toleration("dedicated", "exists"), False),
        (Toleration("dedicated", "Exists", effect=NO_EXECUTE), False),
        (Toleration("other", "Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(value="gpu"), True),
        (Toleration(), False),
    ],
)
def test_effect_key_and_operator_must_all_agree(toleration: Toleration, expected: bool) -> None:
    """An empty effect or key agrees with all; an empty operator is Equal; case matters."""
    assert tolerates(toleration, GPU) is expected


def test_the_empty_toleration_bears_a_taint_without_a_value() -> None:
    """`{}` compares empty value with empty value: it bears memory pressure, which has none."""
    assert tolerates(Toleration(), Taint("node.kubernetes.io/memory-pressure", "", NO_SCHEDULE))


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Lt", "10", "9", True),
        ("Lt", "10", "10", False),
        ("Gt", "-3", "0", True),
        ("Gt", "10", "10", False),
        ("Lt", "10", "07", False),
        ("Gt", "-0", "5", False),
        ("Gt", "+1", "5", False),
        ("Lt", "9223372036854775808", "5", False),
        ("Gt", "1.5", "5", False),
        ("Gt", "", "5", False),
        ("Gt", "٣", "5", False),
        ("Lt", "9" * 10_000, "5", False),
    ],
)
def test_numeric_tolerations_need_canonical_64_bit_integers(
    operator: str, bound: str, value: str, expected: bool
) -> None:
    """The taint's value is the left side; what is no canonical number on either side is not tolerated."""
    toleration = Toleration("cores", operator, bound)
    assert tolerates(toleration, Taint("cores", value), comparison_operators=True) is expected
    assert tolerates(toleration, Taint("cores", value)) is False


def test_the_first_untolerated_taint_is_one_that_forbids() -> None:
    """PreferNoSchedule and tolerated taints are passed over, then the order of the node decides."""
    wish = Taint("wish", "", PREFER_NO_SCHEDULE)
    borne = Taint("borne", "", NO_EXECUTE)
    late = Taint("late", "", NO_EXECUTE)
    assert first_untolerated([wish, borne, GPU, late], [Toleration("borne", "Exists")]) == GPU
    assert first_untolerated([wish], []) is None


@pytest.mark.parametrize(
    ("seconds", "stay"),
    [
        ([None], FOREVER),
        ([30], Stay(True, True, 30)),
        ([30, 5], Stay(True, True, 30)),
        ([0], Stay(True, True, 0)),
        ([-7], Stay(True, True, 0)),
        ([LONGEST_SECONDS], Stay(True, True, LONGEST_SECONDS)),
        ([LONGEST_SECONDS + 1], FOREVER),
        ([], Stay(True, False, 0)),
    ],
)
def test_only_the_first_bearing_toleration_sets_the_wait(seconds: list[int | None], stay: Stay) -> None:
    """The second toleration of one taint is ignored even where it is shorter; 292 years have no end."""
    granted = [Toleration("gone", "Exists", seconds=each) for each in seconds]
    assert no_execute_stay([Taint("gone", "", NO_EXECUTE)], granted) == stay


def test_the_shortest_wait_of_several_taints_wins() -> None:
    """A for 20 s and B for 90 s: the pod leaves after 20 s. A taint tolerated without limit adds nothing."""
    node = [Taint(key, "", NO_EXECUTE) for key in "ABC"]
    pod = [Toleration("B", "Exists", seconds=90), Toleration("A", "Exists", seconds=20)]
    assert no_execute_stay(node, [*pod, Toleration("C", "Exists")]) == Stay(True, True, 20)
    assert no_execute_stay(node, pod) == Stay(True, False, 0)


def test_other_effects_end_no_stay() -> None:
    """Without a NoExecute taint the controller leaves the pod alone."""
    assert no_execute_stay([GPU], []) == Stay(is_tainted=False, is_tolerated=True, seconds=None)


@given(st.lists(taints, max_size=4), st.lists(tolerations, max_size=4))
def test_the_three_views_agree(node: list[Taint], pod: list[Toleration]) -> None:
    """A pod that nothing keeps off a node is not evicted from it for lack of a toleration."""
    blocking = first_untolerated(node, pod)
    stay = no_execute_stay(node, pod)
    if blocking is None:
        assert stay.is_tolerated
    if not stay.is_tolerated:
        assert blocking is not None
        assert stay.seconds == 0
    assert blocking is None or bearing_toleration(blocking, pod) is None
    assert stay.seconds is None or 0 <= stay.seconds <= LONGEST_SECONDS


@given(taints, tolerations)
def test_the_gate_only_adds(taint: Taint, toleration: Toleration) -> None:
    """Switching the comparison operators on never withdraws a tolerance."""
    if tolerates(toleration, taint):
        assert tolerates(toleration, taint, comparison_operators=True)


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
