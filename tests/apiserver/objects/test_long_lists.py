"""Checks of long lists compare each element a few times, not with every other; and refusals do not grow without end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.objects.validation.mistakes import MOST_CHARACTERS, MOST_MISTAKES
from jettison.apiserver.objects.validation.pod.placement import validate_gates, validate_spread
from jettison.apiserver.objects.validation.resources import _validate_claims
from jettison.apiserver.objects.validation.small_kinds import validate_node_status
from tests.apiserver.served import Served
from tests.attacks.long_lists import send_long_lists

COUNT = 500


class Counted(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def names() -> list[Counted]:
    return [Counted(f"x{number}") for number in range(COUNT)]


def addresses() -> Any:
    listed = [{"type": name, "address": name} for name in names()]
    return validate_node_status({"metadata": {}, "status": {"addresses": listed}}, {"metadata": {}})


def gates() -> Any:
    return validate_gates({"schedulingGates": [{"name": name} for name in names()]}, "spec")


def spread() -> Any:
    terms = [{"topologyKey": name, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1} for name in names()]
    return validate_spread(terms, "spread")


def label_keys() -> Any:
    keys = names()
    selector = {"matchExpressions": [{"key": name, "operator": "Exists"} for name in names()]}
    term = {"topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    return validate_spread([{**term, "matchLabelKeys": keys, "labelSelector": selector}], "spread")


def claims() -> Any:
    return _validate_claims([{"name": name} for name in names()], "claims", frozenset(names()))


@pytest.mark.parametrize("check", [addresses, gates, spread, label_keys, claims])
def test_a_list_is_checked_in_linear_time(check: Callable[[], Any]) -> None:
    Counted.comparisons = 0
    assert list(check()) == []
    assert Counted.comparisons < 10 * COUNT


def test_a_refusal_names_so_many_mistakes_and_no_more(api: Served) -> None:
    """An evictor may write events, and each of these labels takes 700 characters to refuse."""
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    labels = {f"-{number}": "-" for number in range(4_000)}
    event = {"metadata": {"name": "e", "labels": labels}, "involvedObject": about}
    answer = api.post("/api/v1/namespaces/default/events", event, token="evictor")
    assert answer.code == 422
    assert len(answer.body["details"]["causes"]) <= MOST_MISTAKES
    assert len(answer.content) < 3 * MOST_CHARACTERS


def test_long_lists_of_many_kinds(tmp_path: Path) -> None:
    send_long_lists(tmp_path, seed=1, tries=12).verify()
