"""Records are read back as they were written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jettison.clock import Instant
from jettison.engine.lifecycle.state import PodLife, Verdict
from jettison.engine.node.evictions import PodCondition
from jettison.errors import ManifestError
from jettison.runtimes.host.pods.records import (
    BoxRecord,
    ContainerRecord,
    EndingRecord,
    PodRecord,
    PodRecorder,
    RunRecord,
    encode,
    in_this_boot,
    life_of,
)
from jettison.runtimes.linux.proc import boot_id
from jettison.runtimes.machine.order_records import OrderRecord
from tests.builders import pod as make_pod
from tests.engine.lifecycle.strategies import orders, worlds
from tests.engine.lifecycle.virtual import PodSpec, Program, Spec, World, saved_part
from tests.runtimes.host.scenes import container, document, eviction

NO_LIFE = PodLife(make_pod("a"), PodSpec(()), ())


class Running(NamedTuple):
    """A container whose main process is this one."""

    identity: tuple[int, int]
    box: BoxRecord | None = None


@pytest.mark.parametrize("length", [10, 100_000])
def test_a_document_that_is_written_once_is_read_back(length: int) -> None:
    record = PodRecord("uid", document(container(["sleep", "1"], env=[{"name": "ä", "value": "x" * length}])))
    kept = PodRecorder(record).record(NO_LIFE, {})
    assert isinstance(kept.document, msgspec.Raw) is (length > 10)
    assert msgspec.json.decode(encode(kept, "uid"), type=PodRecord) == record


def test_a_document_that_cannot_be_written_is_refused_when_it_is_to_be() -> None:
    record = PodRecorder(PodRecord("uid", {"x": chr(0xD800)})).record(NO_LIFE, {})
    with pytest.raises(ManifestError, match="pod `uid` cannot be written as JSON"):
        encode(record, "uid")


def test_everything_survives_being_written() -> None:
    record = PodRecord(
        "uid",
        document(container(["sleep", "1"], env=[{"name": "ä", "value": "\n"}])),
        "file.yaml",
        "boot",
        10**18,
        2,
        3,
        (
            ContainerRecord(
                "c", "running", 3, 4, 5, 6, 7, 8, 9, 1, "r", "m", 10, True, True, 2, RunRecord(2, 1, "r", "m", 3, 4)
            ),
        ),
        True,
        True,
        EndingRecord(11, 12, 13, OrderRecord.of(eviction(make_pod("a"), None)), True),
        Verdict("Failed", "Evicted", "why", (PodCondition("Ready", "False", "r", "m", 3),)),
        True,
    )
    assert msgspec.json.decode(msgspec.json.encode(record), type=PodRecord) == record


@settings(max_examples=40)
@given(worlds(), st.integers(0, 60), st.none() | orders, st.integers(0, 20))
def test_a_life_survives_being_written(world: World, before: int, order: dict[str, Any] | None, after: int) -> None:
    """All that an agent which takes over needs, at any moment; and of each process its number."""
    world.ask()
    world.pass_seconds(before)
    if order is not None:
        world.end(**order)
    world.pass_seconds(after)
    life = world.life
    identities = {each.name: (number + 1, 7) for number, each in enumerate(life.containers) if each.is_running}
    held = {name: Running(identity) for name, identity in identities.items()}
    written = encode(PodRecorder(PodRecord(life.pod.uid, {})).record(life, held), life.pod.uid)
    record = msgspec.json.decode(written, type=PodRecord)
    found = life_of(record, life.pod, life.rules)
    expected = saved_part(life)
    if expected.ending is not None:
        # When the last order came only the agent that gave it needs to know; `is_at_once` stands beside the order.
        ending = expected.ending
        ordered = None if ending.order is None else replace(ending.order, is_at_once=ending.is_at_once)
        ending = replace(ending, order=ordered, ordered_monotonic_ns=ending.began_monotonic_ns)
        expected = expected._replace(ending=ending)
    assert found == expected
    assert {each.name: each.identity for each in record.containers if each.identity is not None} == identities


def test_what_is_kept_of_a_crowd_is_what_would_be_written_anew() -> None:
    """At each step of 32 containers that start, crash, start again and are evicted, with processes and without."""
    specs = tuple(Spec(f"c{number}") for number in range(32))
    programs = {each.name: Program(lasts=5 + number % 3, code=1) for number, each in enumerate(specs)}
    world = World(PodSpec(specs), programs)
    first = PodRecord(world.life.pod.uid, {"kind": "Pod"})
    recorder = PodRecorder(first)
    world.ask()
    texts = set[bytes]()
    for second in range(40):
        if second == 30:
            world.end(order=eviction(world.life.pod, 5))
        world.pass_seconds(1)
        held = {each.name: Running((7, each.run + 1)) for each in world.life.containers if each.is_running}
        text = encode(recorder.record(world.life, held, ("10.0.0.1",)), "uid")
        assert text == encode(PodRecorder(first).record(world.life, held, ("10.0.0.1",)), "uid")
        texts.add(text)
    assert len(texts) > 10


def test_a_record_from_before_last_runs_were_kept_is_still_one() -> None:
    old = (
        b'{"uid":"uid","document":{},"containers":[{"name":"c","state":"running","run":3,"pid":4,"start_ticks":5,'
        b'"created_ns":6,"started_ns":7,"finished_ns":null,"exit_code":null,"reason":"","message":"","back_off":10,'
        b'"is_started":true,"is_doomed":false}]}'
    )
    found = msgspec.json.decode(old, type=PodRecord).containers[0]
    assert (found.run, found.is_started, found.last) == (3, True, None)


def test_an_order_comes_back_as_it_was_given() -> None:
    order = eviction(make_pod("a"), 5)
    assert OrderRecord.of(order).eviction(order.pod) == order


def test_a_boot_has_an_id() -> None:
    assert len(boot_id()) == 36


HOUR = 3600 * 10**9
ENDED = ContainerRecord(
    "c", "terminated", begun_monotonic_ns=2 * HOUR, ended_monotonic_ns=3 * HOUR, started_ns=100 * HOUR, finished_ns=1
)
OLD = PodRecord(
    "uid",
    {},
    boot_id="boot",
    started_ns=100 * HOUR,
    started_monotonic_ns=2 * HOUR,
    containers=(ENDED,),
    ending=EndingRecord(30, 3 * HOUR, 3 * HOUR + 30 * 10**9),
)


@pytest.mark.parametrize("wall_ns", [0, 102 * HOUR, 10**6 * HOUR])
def test_within_a_boot_the_wall_clock_does_not_matter(wall_ns: int) -> None:
    """Two hours after its start, whatever the wall clock shows: back-offs, grace periods and deadlines go on."""
    assert in_this_boot(OLD, "boot", Instant(wall_ns, 4 * HOUR)) == OLD


@pytest.mark.parametrize(("wall_ns", "age_ns"), [(103 * HOUR, 3 * HOUR), (0, HOUR), (100 * HOUR, HOUR)])
def test_after_another_boot_the_wall_clock_is_believed_as_far_as_can_be(wall_ns: int, age_ns: int) -> None:
    """The machine was booted an hour ago, and the pod was started before that."""
    found = in_this_boot(OLD, "another", Instant(wall_ns, HOUR))
    assert (found.boot_id, found.started_monotonic_ns) == ("another", HOUR - age_ns)
    assert found.containers[0].begun_monotonic_ns == HOUR - age_ns
    # Nothing of it has survived, so there is nothing to wait for.
    assert found.ending == EndingRecord(30, HOUR, HOUR)


def test_an_older_versions_record_has_times_too() -> None:
    """Its deadline counts by the wall clock; the grace period of an ending begins once more."""
    old = replace(OLD, started_monotonic_ns=None, ending=EndingRecord(30))
    found = in_this_boot(old, "boot", Instant(101 * HOUR, 4 * HOUR))
    assert found.started_monotonic_ns == 3 * HOUR
    assert found.ending == EndingRecord(30, 4 * HOUR, 4 * HOUR + 30 * 10**9)
    assert in_this_boot(old, "boot", Instant(10**6 * HOUR, 4 * HOUR)).started_monotonic_ns == 0
    assert in_this_boot(old, "boot", Instant(0, 4 * HOUR)).started_monotonic_ns == 4 * HOUR
