"""`--controllers` by the rules of kube-controller-manager."""

from __future__ import annotations

import pytest

from jettison.cli.cluster.controller_options import choose_controllers
from jettison.controllers.settings import CONTROLLERS
from jettison.errors import InputError

ALL = frozenset(CONTROLLERS)
DISRUPTION = "disruption-controller"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["*"], ALL),
        ([], frozenset()),
        ([""], frozenset()),
        (["-"], frozenset()),
        ([" - "], frozenset()),
        (["disruption"], {DISRUPTION}),
        (["disruption-controller, job"], {DISRUPTION, "job-controller"}),
        (["*,-disruption"], ALL - {DISRUPTION}),
        (["-disruption,*"], ALL - {DISRUPTION}),
        (["*", "-disruption", "-podgc"], ALL - {DISRUPTION, "pod-garbage-collector-controller"}),
        (["disruption,-disruption"], {DISRUPTION}),
        (["*,-disruption,disruption"], ALL - {DISRUPTION}),
        (["-disruption"], frozenset()),
    ],
)
def test_the_first_word_about_a_controller_counts(texts: list[str], expected: frozenset[str]) -> None:
    assert choose_controllers(texts) == expected


@pytest.mark.parametrize("texts", [["*,-"], ["-", "disruption"], ["-,-"]])
def test_none_stands_alone(texts: list[str]) -> None:
    """`*,-` could mean all or none, so it is refused."""
    with pytest.raises(InputError, match="`-` is none of them"):
        choose_controllers(texts)


@pytest.mark.parametrize("text", ["nonsense", "-nonsense", "--disruption", "-*", "*disruption"])
def test_an_unknown_one_is_named(text: str) -> None:
    with pytest.raises(InputError, match="is not in the list of known controllers"):
        choose_controllers([f"*,{text}"])
