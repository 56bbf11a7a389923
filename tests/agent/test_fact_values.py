"""Names and values of facts are what users search for; they change on purpose or not at all."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

import msgspec
import pytest

from jettison import events
from jettison.agent.fact_values import name_of, pods_of, value_pairs, values_of
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.facts import Fact as EngineFact
from jettison.events import Fact
from tests.builders import pod

NAMES = """
    action_failed agent_started agent_stopped alarm_raised ballast_given_up ballast_kept
    collection_failed condition_changed container_back_off
    container_finished container_runtime_answered container_runtime_lost container_started container_stopping
    critical_pod_spared deadline_exceeded eviction_started eviction_timed_out eviction_withdrawn grace_cut_short
    hook_failed image_removed kill_failed limits_enforced limits_refused noted nothing_to_evict observation_failed
    order_received out_of_memory_kill pod_admitted pod_cleaned_up pod_end_seen pod_evicted pod_rejected pod_waiting
    pods_ranked
    probe_failed reclaim_attempted reclaim_finished reclaim_sufficed reload_failed reloaded restart_needed
    serving_certificate_taken setting_changed threshold_crossed threshold_met threshold_resolved
    would_evict
"""


def test_every_fact_has_the_name_it_always_had() -> None:
    kinds = {*get_args(Fact), *get_args(EngineFact)}

    assert {name_of(kind.__new__(kind)) for kind in kinds} == set(NAMES.split())


def test_no_value_of_a_fact_is_called_as_what_stands_before_it() -> None:
    """In a line of the log and in a record of the journal."""
    kinds = {*get_args(Fact), *get_args(EngineFact)}

    names = {field.name for kind in kinds for field in fields(kind)}
    assert not names & {"time", "level", "event", "kind", "pods"}


def test_which_pod_a_fact_is_about() -> None:
    assert pods_of(events.PodAdmitted(pod("a"))) == [pod("a")]
    assert pods_of(events.PodEvicted(Eviction(pod("b"), "", None, ""), 1)) == [pod("b")]
    assert pods_of(events.OutOfMemoryKill(None, "", 1)) == []
    assert pods_of(events.AlarmRaised("psi")) == []


def test_json_can_hold_whatever_a_fact_says() -> None:
    fact = events.ReclaimFinished(1, 2, 2**70, ("cannot remove `\udcff`", "ü"))

    values = values_of(fact)

    assert values["errors"] == ["cannot remove `\\udcff`", "ü"]
    assert msgspec.json.decode(msgspec.json.encode(values)) == values


@pytest.mark.parametrize(
    ("values", "pairs"),
    [
        (
            {"threshold": "memory.available<100Mi", "available": 99 * 2**20},
            ["threshold=memory.available<100Mi", "available=99Mi"],
        ),
        ({"threshold": "pid.available<10", "available": 2**20}, ["threshold=pid.available<10", "available=1048576"]),
        ({"available": 2**20}, ["available=1048576"]),
        ({"decided_ns": 1_400_000, "freed_bytes": 2048}, ["decided=1.4ms", "freed_bytes=2Ki"]),
        ({"why": 'say "a"=\\b'}, [r'why="say \"a\"=\\b"']),
        ({"why": "one\ntwo\x1b[2J"}, [r'why="one\ntwo\x1b[2J"']),
        (
            {"why": "", "which": None, "all": [], "is_hard": True, "list": ["a b", "c"]},
            ["is_hard=true", 'list="a b; c"'],
        ),
    ],
)
def test_a_value_is_one_word_and_says_its_unit(values: dict[str, object], pairs: list[str]) -> None:
    """Whatever it holds: a program that splits a line at blanks and equals signs must not be led astray by a pod."""
    assert value_pairs(values) == pairs
