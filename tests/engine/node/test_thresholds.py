"""Threshold maps to records, when a record is met, and the derived container filesystem ones (spec §2, §5.4).

Examples 1 to 8, 14 to 16 and 23 of §16; and where the kernel's memory alarm is set (spec §4, §16 example 58).
"""

from __future__ import annotations

import pytest

from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Layout, MemoryStats, Reading
from jettison.engine.node.thresholds import (
    REARM_NS,
    Percentage,
    Threshold,
    for_layout,
    is_watched,
    list_room,
    memory_alarm_usage,
    parse_thresholds,
)
from jettison.engine.numbers.quantity import parse
from jettison.errors import PolicyError
from tests.builders import DEDICATED, GI, MI, SECOND_NS, SHARED, SPLIT, policy, threshold

MEMORY, ALLOCATABLE = Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE
NODEFS, NODEFS_INODES = Signal.NODEFS_AVAILABLE, Signal.NODEFS_INODES_FREE
IMAGEFS, IMAGEFS_INODES = Signal.IMAGEFS_AVAILABLE, Signal.IMAGEFS_INODES_FREE
CONTAINERFS, CONTAINERFS_INODES = Signal.CONTAINERFS_AVAILABLE, Signal.CONTAINERFS_INODES_FREE

MEMORY, ALLOCATABLE = Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE
NUMBERS = {"available": 3 * GI, "usage": 7 * GI, "working_set": 5 * GI}
FULL = MemoryStats(**NUMBERS)


def complaints(
    hard: dict[str, str] | None = None,
    soft: dict[str, str] | None = None,
    grace: dict[str, str] | None = None,
    reclaim: dict[str, str] | None = None,
) -> list[str]:
    with pytest.raises(PolicyError) as refusal:
        parse_thresholds(hard or {}, soft or {}, grace or {}, reclaim or {}, guards_allocatable=True)
    return [each.text for each in refusal.value.complaints]


def reading(available: int, capacity: int = 8 * GI) -> Reading:
    return Reading(available, capacity, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-1%", "eviction percentage threshold memory.available must be >= 0%: -1%"),
        ("101%", "eviction percentage threshold memory.available must be <= 100%: 101%"),
        ("inf%", "eviction percentage threshold memory.available must be <= 100%: inf%"),
        ("-100Mi", "eviction threshold memory.available must be positive: -100Mi"),
        ("0", "eviction threshold memory.available must be positive: 0"),
        ("Mi", "eviction threshold memory.available must be positive: 0"),
        ("1K", "unable to parse quantity's suffix"),
        (" 5%", 'strconv.ParseFloat: parsing " 5": invalid syntax'),
        ("5 %", 'strconv.ParseFloat: parsing "5 ": invalid syntax'),
    ],
)
def test_a_bad_threshold_in_kubernetes_words(text: str, complaint: str) -> None:
    """The same for hard and soft ones."""
    assert complaints(hard={"memory.available": text}) == [complaint]
    assert complaints(soft={"memory.available": text}, grace={"memory.available": "1s"}) == [complaint]


@pytest.mark.parametrize("text", ["1GiB", "1 Gi", "", "<1Gi"])
def test_a_bad_quantity_is_the_regular_expressions_fault(text: str) -> None:
    """No trimming is done on values from a file."""
    (complaint,) = complaints(hard={"memory.available": text})
    assert complaint.startswith("quantities must match the regular expression")


@pytest.mark.parametrize("name", ["memory.Available", "memory", "", "cpu.available", " memory.available"])
def test_an_unknown_signal(name: str) -> None:
    """Names are case sensitive, in every map."""
    said = [f"unsupported eviction signal {name}"]
    assert complaints(hard={name: "1Gi"}) == said
    assert complaints(soft={name: "1Gi"}) == said
    assert complaints(grace={name: "1s"}) == said
    assert complaints(reclaim={name: "1Gi"}) == said


@pytest.mark.parametrize("text", ["0%", "100%"])
def test_the_documented_way_to_switch_a_signal_off(text: str) -> None:
    """Exactly these two texts drop the entry, and with it the copy for allocatable memory."""
    assert parse_thresholds({"memory.available": text}, {}, {}, {}, guards_allocatable=True) == ()


@pytest.mark.parametrize(("text", "fraction"), [("0.0%", 0.0), ("00%", 0.0), ("-0%", 0.0), ("100.0%", 1.0)])
def test_other_spellings_of_nothing_and_everything_stay(text: str, fraction: float) -> None:
    """A threshold of nothing is never met; one of everything whenever anything at all is used."""
    (found,) = parse_thresholds({"memory.available": text}, {}, {}, {}, guards_allocatable=False)
    assert found.amount == Percentage(fraction)
    assert found.is_crossed(reading(999, 1000)) is bool(fraction)
    assert not found.is_crossed(reading(1000, 1000))


def test_nan_slips_through_and_is_never_met() -> None:
    """Upstream's comparisons with 0 and 1 are both false for it."""
    found = parse_thresholds({"memory.available": "NaN%"}, {}, {}, {}, guards_allocatable=False)
    assert not found[0].is_crossed(reading(0))
    assert found == parse_thresholds({"memory.available": "nan%"}, {}, {}, {}, guards_allocatable=False)


@pytest.mark.parametrize(
    ("grace", "complaint"),
    [
        ("30", 'time: missing unit in duration "30"'),
        ("-30s", "invalid eviction grace period specified: -30s, must be a positive value"),
    ],
)
def test_a_bad_grace_period(grace: str, complaint: str) -> None:
    """Said for the grace period; the soft threshold itself is then not said to lack one."""
    assert complaints(soft={"memory.available": "1Gi"}, grace={"memory.available": grace}) == [complaint]


def test_a_soft_threshold_needs_a_grace_period() -> None:
    """Each one that has none is named; a grace period without a threshold is ignored."""
    soft = {"memory.available": "1Gi", "nodefs.available": "10%"}
    assert complaints(soft=soft, grace={"pid.available": "1s"}) == [
        "grace period must be specified for the soft eviction threshold memory.available",
        "grace period must be specified for the soft eviction threshold nodefs.available",
    ]


def test_a_grace_period_of_zero_makes_a_soft_threshold_hard() -> None:
    """In every respect: it even gets a copy that guards the pods' own limit."""
    found = policy(soft={"memory.available": "1Gi"}, grace="0s", guards_allocatable=True).thresholds
    assert found == (threshold(MEMORY, "1Gi"), threshold(ALLOCATABLE, "1Gi"))
    assert all(each.is_hard for each in found)


@pytest.mark.parametrize("text", ["0Mi", "5%", "150%", "0", "1n"])
def test_minimum_reclaims_that_are_fine(text: str) -> None:
    """Nothing is allowed as a quantity, and more than everything as a percentage."""
    (found,) = policy({"imagefs.available": "1Gi"}, reclaim={"imagefs.available": text}).thresholds
    assert found.minimum_reclaim is not None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0%", "eviction percentage minimum reclaim imagefs.available must be positive: 0%"),
        ("-5%", "eviction percentage minimum reclaim imagefs.available must be positive: -5%"),
        ("-1Mi", "negative eviction minimum reclaim specified for imagefs.available"),
    ],
)
def test_minimum_reclaims_that_are_not(text: str, complaint: str) -> None:
    """`0%` switches a threshold off but is a mistake here."""
    assert complaints(reclaim={"imagefs.available": text}) == [complaint]


def test_every_mistake_is_reported_with_its_place() -> None:
    """Kubernetes stops at one of the first map's; `leading` are those it could have stopped at."""
    with pytest.raises(PolicyError) as refusal:
        parse_thresholds(
            {"pid.available": "x", "cpu": "1"},
            {"memory.available": "-1"},
            {},
            {"nodefs.available": "0%"},
            guards_allocatable=True,
        )
    assert [each.key for each in refusal.value.complaints] == [
        "evictionHard.cpu",
        "evictionHard.pid.available",
        "evictionSoft.memory.available",
        "evictionMinimumReclaim.nodefs.available",
    ]
    assert [each.key for each in refusal.value.leading] == ["evictionHard.cpu", "evictionHard.pid.available"]


def test_allocatable_copies_come_last_and_only_of_hard_memory() -> None:
    """With the same amount and minimum reclaim; percentages are later of the pods' limit."""
    hard = {"memory.available": "10%", "pid.available": "5%"}
    found = policy(
        hard,
        {"memory.available": "1Gi"},
        reclaim={"memory.available": "1Mi"},
        guards_allocatable=True,
    ).thresholds
    assert found == (
        threshold(MEMORY, "10%", reclaim="1Mi"),
        threshold(Signal.PID_AVAILABLE, "5%"),
        threshold(MEMORY, "1Gi", grace_s=30, reclaim="1Mi"),
        threshold(ALLOCATABLE, "10%", reclaim="1Mi"),
    )
    assert len(policy(hard, guards_allocatable=False).thresholds) == 2


@pytest.mark.parametrize(
    ("available", "is_crossed"), [(1073741824, False), (1073741823, True), (-5 * MI, True), (8 * GI, False)]
)
def test_met_means_strictly_below(available: int, is_crossed: bool) -> None:
    """To have exactly the threshold is enough; a cgroup over its limit has less than nothing."""
    assert threshold(MEMORY, "1Gi").is_crossed(reading(available)) is is_crossed


@pytest.mark.parametrize(
    ("amount", "reclaim", "capacity", "unresolved", "resolved"),
    [
        ("1Gi", "500Mi", 8 * GI, 1523 * MI, 1524 * MI),
        ("10%", "5%", 200, 29, 30),
        ("1Gi", "0", 8 * GI, GI - 1, GI),
        ("1Gi", None, 8 * GI, GI - 1, GI),
        ("1", "500m", 10, 1, 2),
    ],
)
def test_resolved_means_threshold_plus_minimum_reclaim(
    amount: str, reclaim: str | None, capacity: int, unresolved: int, resolved: int
) -> None:
    """Exactly, fractions of a byte included."""
    found = threshold(NODEFS, amount, reclaim=reclaim)
    assert found.is_unresolved(reading(unresolved, capacity))
    assert not found.is_unresolved(reading(resolved, capacity))
    assert found.target(capacity) >= found.quantity(capacity)


def test_the_same_wish_whatever_the_minimum_reclaim() -> None:
    """By number, not by spelling; a percentage is never the same as a quantity."""
    base = threshold(MEMORY, "1Gi", grace_s=30)
    assert base.is_same(threshold(MEMORY, "1024Mi", grace_s=30, reclaim="5%"))
    assert not base.is_same(threshold(MEMORY, "1Gi"))
    assert not base.is_same(threshold(ALLOCATABLE, "1Gi", grace_s=30))
    assert not base.is_same(threshold(MEMORY, "10%", grace_s=30))


def test_a_threshold_prints_as_an_operator_would_write_it() -> None:
    """Soft ones say for how long."""
    assert str(threshold(MEMORY, "1.5Gi")) == "memory.available<1536Mi"
    assert str(threshold(NODEFS, "10%", grace_s=90)) == "nodefs.available<10% for 1m30s"


def test_containerfs_copies_the_node_filesystem_where_there_is_one_filesystem() -> None:
    """A configured slot is replaced in place, the others are appended, inert where there is nothing to copy."""
    given = policy(
        {
            "nodefs.available": "10%",
            "imagefs.available": "15%",
            "imagefs.inodesFree": "5%",
            "containerfs.available": "3Gi",
        },
        {"nodefs.available": "20%"},
        grace="1m",
        reclaim={"nodefs.available": "1Gi"},
    ).thresholds
    derived = for_layout(given, SHARED)
    hard = threshold(CONTAINERFS, "10%", reclaim="1Gi")
    assert derived.conflicts
    assert derived.first == tuple(hard if each.signal is CONTAINERFS else each for each in given)
    assert derived.all[len(given) :] == (
        threshold(CONTAINERFS, "20%", grace_s=60, reclaim="1Gi"),
        Threshold(CONTAINERFS_INODES, Percentage(0.0), is_inert=True),
        Threshold(CONTAINERFS_INODES, Percentage(0.0), is_inert=True),
    )


def test_containerfs_copies_the_image_filesystem_where_it_holds_the_writable_layers() -> None:
    """With a filesystem for both, the soft slots are inert here because imagefs has no soft threshold."""
    given = policy(
        {"nodefs.available": "10%", "imagefs.available": "15%", "imagefs.inodesFree": "5%"},
        {"nodefs.available": "20%"},
        grace="1m",
    ).thresholds
    added = for_layout(given, DEDICATED).all[len(given) :]
    assert [(str(each), each.is_inert) for each in added] == [
        ("containerfs.available<15%", False),
        ("containerfs.available<0%", True),
        ("containerfs.inodesFree<5%", False),
        ("containerfs.inodesFree<0%", True),
    ]


@pytest.mark.parametrize(
    ("layout", "amounts"),
    [
        (SHARED, ["1Gi", "0%", "0%", "0%"]),
        (DEDICATED, ["2Gi", "0%", "0%", "0%"]),
        (SPLIT, ["1Gi", "0%", "0%", "0%"]),
        (Layout(has_image_fs=False, is_split=True), []),
    ],
)
def test_where_containerfs_thresholds_come_from(layout: Layout, amounts: list[str]) -> None:
    """From nodefs, but from imagefs where that alone holds the writable layers; split without imagefs adds none."""
    given = policy({"nodefs.available": "1Gi", "imagefs.available": "2Gi"}).thresholds
    derived = for_layout(given, layout)
    assert [str(each.amount) for each in derived.all[len(given) :]] == amounts
    assert derived.first == given
    assert not derived.conflicts


SIX = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)


@pytest.mark.parametrize(
    ("hard", "soft", "is_enforced", "room", "seen"),
    [
        # Alone, the list has place for one; the hard record that is appended first moves it.
        ({}, {"containerfs.available": "3Gi"}, False, 1, "3Gi"),
        ({"containerfs.available": "3Gi"}, {}, False, 1, "0%"),
        # Three and one: place for twice three.
        (
            {"nodefs.available": "1Gi", "imagefs.available": "2Gi", "pid.available": "5"},
            {"containerfs.available": "3Gi"}, False, 6, "0%",
        ),
        # A copy of the memory threshold moves the list before, and leaves place.
        ({"memory.available": "1Gi"}, {"containerfs.available": "3Gi"}, True, 4, "0%"),
        ({"memory.available": "1Gi"}, {"containerfs.inodesFree": "9"}, True, 4, "9"),
        # The operator's own threshold on allocatable memory is no copy: four and one, place for twice four.
        (
            {"memory.available": "1Gi", "allocatableMemory.available": "1Gi", "imagefs.available": "2Gi"},
            {"containerfs.inodesFree": "9"}, True, 8, "0%",
        ),
        # Six and six: place for 13, so the hard record that is appended first moves nothing.
        (
            dict.fromkeys(SIX, "1Gi"),
            {**dict.fromkeys(SIX[1:], "2Gi"), "containerfs.available": "3Gi"}, False, 13, "2Gi",
        ),
        # Seven and six: place for 15, for the two records that are appended.
        (
            {**dict.fromkeys(SIX, "1Gi"), "containerfs.available": "3Gi"}, dict.fromkeys(SIX, "2Gi"), False, 15, "1Gi"
        ),
    ],
)  # fmt: skip
def test_what_the_first_step_sees_of_the_operators_own(
    hard: dict[str, str], soft: dict[str, str], is_enforced: bool, room: int, seen: str
) -> None:
    """As Go's lists have it: a record that is appended before may have moved the list to another place."""
    config: dict[str, object] = {"evictionHard": hard, "evictionSoft": soft}
    config["evictionSoftGracePeriod"] = dict.fromkeys(soft, "1m")
    config["enforceNodeAllocatable"] = ["pods"] if is_enforced else ["none"]
    made = Policy.of(config)
    assert list_room(hard, soft, made.thresholds, guards_allocatable=is_enforced) == room
    derived = made.layouts[SHARED]
    own = next(index for index, each in enumerate(made.thresholds) if str(each.signal).startswith("containerfs"))
    assert str(derived.first[own].amount) == seen
    assert derived.all[own].is_inert is ("nodefs.available" not in soft)


def test_an_inert_threshold_is_never_met() -> None:
    """Neither crossed nor unresolved, however little is left."""
    inert = Threshold(CONTAINERFS, parse("1Gi"), minimum_reclaim=parse("1Gi"), is_inert=True)
    assert not inert.is_crossed(reading(-GI))
    assert not inert.is_unresolved(reading(-GI))


def test_of_two_sources_in_one_slot_the_last_is_copied() -> None:
    """A hard threshold, and a soft one with a grace period of nothing."""
    given = policy({"nodefs.available": "1Gi"}, {"nodefs.available": "2Gi"}, grace="0s").thresholds
    assert threshold(CONTAINERFS, "2Gi") in for_layout(given, SHARED).all
    assert threshold(CONTAINERFS, "1Gi") not in for_layout(given, SHARED).all


def test_grace_periods_are_kept_in_nanoseconds() -> None:
    """`1.5s` must not become one second."""
    (found,) = policy(soft={"memory.available": "1Gi"}, grace="1.5s").thresholds
    assert found.grace_ns == 3 * SECOND_NS // 2


@pytest.mark.parametrize(
    ("found", "usage"),
    [
        (threshold(MEMORY, "500Mi"), 10213130240),
        (threshold(MEMORY, "500Mi", grace_s=5), 10213130240),
        (threshold(MEMORY, "500Mi", reclaim="1Gi"), 10213130240),
        (threshold(MEMORY, "50%"), 6 * GI),
    ],
)
def test_capacity_minus_threshold_plus_what_is_inactive(found: Threshold, usage: int) -> None:
    """The kernel counts page cache that eviction does not; 8Gi minus 500Mi plus 2Gi. Minimum reclaim plays no part."""
    assert memory_alarm_usage(found, FULL) == usage


def test_less_usage_than_working_set_lowers_the_alarm() -> None:
    """Inactive memory may come out negative when the two were read at different moments."""
    assert memory_alarm_usage(threshold(MEMORY, "1Gi"), MemoryStats(None, 3 * GI, 4 * GI, 5 * GI)) == 6 * GI


@pytest.mark.parametrize("missing", ["available", "usage", "working_set"])
def test_every_number_is_needed(missing: str) -> None:
    """Without one of them there is no alarm."""
    stats = MemoryStats(**{name: number for name, number in NUMBERS.items() if name != missing})
    assert memory_alarm_usage(threshold(MEMORY, "1Gi"), stats) is None
    assert memory_alarm_usage(threshold(MEMORY, "1Gi"), None) is None


def test_alarms_are_set_anew_every_ten_seconds() -> None:
    """What is inactive changes all the time."""
    assert REARM_NS == 10 * SECOND_NS


def test_only_memory_has_an_alarm() -> None:
    """Disks and processes are polled."""
    assert {signal for signal in Signal if is_watched(threshold(signal, "1Gi"))} == {MEMORY, ALLOCATABLE}


def test_a_negative_alarm_is_possible() -> None:
    """A threshold beyond the capacity: the kernel is asked for what it is asked for."""
    usage = memory_alarm_usage(threshold(MEMORY, "11Gi"), FULL)
    assert usage == 8 * GI - 11 * GI + 2 * GI == -1024 * MI


def test_the_alarm_wraps_as_in_go() -> None:
    """Usage below the working set makes what is inactive negative; more than 64 bits of it are cut."""
    stats = MemoryStats(available=GI, working_set=2 * GI, usage=GI)
    assert memory_alarm_usage(threshold(Signal.MEMORY_AVAILABLE, "100Mi"), stats) == 2 * GI - 100 * MI
    stats = MemoryStats(available=2**64 - 1, working_set=2, usage=2)
    assert memory_alarm_usage(threshold(Signal.MEMORY_AVAILABLE, "1"), stats) == 0
