"""A history survives being written and read, whatever thresholds it holds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.node.decide import Evict, Nothing, Reclaim, decide
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Percentage, Threshold
from jettison.engine.numbers.quantity import parse
from jettison.errors import ManifestError
from jettison.manifests.history import KIND, SavedHistory, encode_history, parse_history
from tests.builders import GI, MI, filesystem, memory_used, node, pod, policy, snapshot

suffixes = st.sampled_from(["", "n", "m", "k", "E", "Ki", "Mi", "Ei", "e3", "e-2"])
numbers = st.integers(-(10**25), 10**25) | st.decimals(-(10**9), 10**9, places=4)
quantities = st.builds(lambda number, suffix: parse(f"{number}{suffix}"), numbers, suffixes)
instants = st.integers(-(10**18), 4 * 10**18)
fractions = st.floats(width=32, allow_nan=False) | st.just(math.nan)
amounts = quantities | fractions.map(Percentage)
thresholds = st.builds(
    Threshold, st.sampled_from(Signal), amounts, st.integers(0, 10**13), st.none() | amounts, st.booleans()
)
readings = st.builds(Reading, st.integers(-(2**64), 2**64), st.integers(-(2**64), 2**65), st.none() | instants)
histories = st.builds(
    History,
    st.booleans(),
    st.dictionaries(thresholds, instants, max_size=3),
    st.lists(thresholds, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(Condition), instants),
    st.frozensets(st.sampled_from(Condition)),
    st.dictionaries(st.sampled_from(Signal), readings, max_size=3),
)


@given(histories, st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
def test_written_and_read_it_is_the_same(history: History, name: str) -> None:
    assert parse_history(encode_history(SavedHistory(history, name))) == SavedHistory(history, name)


def test_a_threshold_prints_in_messages_as_it_did_before() -> None:
    """It may outlive the configuration that named it, and then its text is all that is left."""
    history = History(met=(Threshold(Signal.MEMORY_AVAILABLE, parse("1024Ki")),))

    (met,) = parse_history(encode_history(SavedHistory(history))).history.met

    assert str(met.amount) == "1Mi"


def test_a_quantity_whose_text_loses_zeros_keeps_its_value() -> None:
    huge = Threshold(Signal.MEMORY_AVAILABLE, parse("1000E"))
    assert str(huge.amount) == "1"

    assert parse_history(encode_history(SavedHistory(History(met=(huge,))))).history.met == (huge,)


def test_a_quantity_of_ten_thousand_digits_is_kept() -> None:
    endless = Threshold(Signal.MEMORY_AVAILABLE, parse("7" * 9_000 + "0" * 1_000))

    assert parse_history(encode_history(SavedHistory(History(met=(endless,))))).history.met == (endless,)


def test_a_reclaim_under_way_is_forgotten_and_nothing_else() -> None:
    wishes = policy(hard={"nodefs.available": "10Gi"})
    full = snapshot(0, node(fs=filesystem(GI)), [pod("a")])
    outcome = decide(wishes, History(), full)
    assert isinstance(outcome.decision, Reclaim)

    saved = parse_history(encode_history(SavedHistory(outcome.history)))

    assert saved.history == replace(outcome.history, reclaiming=None)


def test_a_grace_clock_runs_on_over_a_restart() -> None:
    wishes = policy(soft={"memory.available": "1Gi"}, grace="1m")
    usages = {"a": memory_used(MI)}
    first = decide(wishes, History(), snapshot(0, node(memory=MI, time_s=0), [pod("a")], usages))
    assert isinstance(first.decision, Nothing)

    saved = parse_history(encode_history(SavedHistory(first.history))).history
    second = decide(wishes, saved, snapshot(60, node(memory=MI, time_s=60), [pod("a")], usages))

    assert isinstance(second.decision, Evict)


GOOD: dict[str, Any] = {"kind": KIND, "version": 1}
AMOUNT = {"quantity": "1Gi"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "h: kind is ``, expected `JettisonHistory`"),
        ({"kind": "Pod", "version": 1}, "h: kind is `Pod`, expected `JettisonHistory`"),
        ({**GOOD, "version": 2}, "h: version is `2`, this program reads version 1"),
        ({**GOOD, "met": 3}, "h: expected `array`, got `int` at `met`"),
        ({**GOOD, "conditions": ["Hunger"]}, "h: `Hunger` is not a name that this program knows"),
        ({**GOOD, "met": [{"signal": "cpu", "amount": AMOUNT}]}, "h: `cpu` is not a name that this program knows"),
        ({**GOOD, "met": [{"signal": "pid.available", "amount": {}}]}, "h: an amount has either a quantity or a"),
        (
            {**GOOD, "met": [{"signal": "pid.available", "amount": {"fraction": "half"}}]},
            "h: `half` is not a fraction such as `0.1`",
        ),
        (
            {**GOOD, "met": [{"signal": "pid.available", "amount": AMOUNT, "gracePeriod": "soon"}]},
            'h: time: invalid duration "soon"',
        ),
        ({**GOOD, "conditionObserved": {"DiskPressure": "noon"}}, "h: `noon` is not a time such as"),
    ],
)
def test_what_is_no_history_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_history(json.dumps(document).encode(), "h")

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestError, match=r"^h: "):
        parse_history(data, "h")
