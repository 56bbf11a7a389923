"""Records are read back as they were written."""

from __future__ import annotations

import msgspec

from jettison.engine.evictions import PodCondition
from jettison.runtimes.host.records import (
    ContainerRecord,
    EndingRecord,
    OrderRecord,
    PodRecord,
    RunRecord,
    Verdict,
)
from jettison.runtimes.linux.proc import boot_id
from tests.builders import pod as make_pod
from tests.runtimes.host.pods import container, document, eviction


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
