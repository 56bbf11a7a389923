"""Image collection (spec §7.2, §7.3, §16 examples 33 to 36)."""

from __future__ import annotations

from collections.abc import Collection as Names

import pytest

from jettison.engine.config.policy import ImageCollection
from jettison.engine.node.facts import RemovalReason
from jettison.engine.node.image_collection import (
    Collected,
    Collection,
    Image,
    PresentImage,
    check_image_policy,
    collect_images,
    detect_images,
    free_space,
    is_collecting,
)
from tests.builders import GI, SECOND_NS

NOW = 10**6 * SECOND_NS
MINUTE, HOUR = 60 * SECOND_NS, 3600 * SECOND_NS
DEFAULTS = ImageCollection()


def image(name: str, size: int, *, detected: int, used: int | None = None, **more: bool) -> Image:
    """Detected and last used so many nanoseconds ago."""
    return Image(name, size, NOW - detected, None if used is None else NOW - used, **more)


def carry_out(talk: Collection, failing: Names[str] = ()) -> tuple[list[str], Collected]:
    """Removes what it is told to, except what fails; the removed images with the letter of their reason."""
    removed: list[str] = []
    failure: str | None = None
    try:
        removal = next(talk)
        while True:
            name = removal.image.id
            failure = f"{name} is busy" if name in failing else None
            if failure is None:
                removed.append(f"{name}:{removal.reason}")
            removal = talk.send(failure)
    except StopIteration as stop:
        result: Collected = stop.value
        return removed, result


@pytest.mark.parametrize(
    ("capacity", "available", "freed"),
    [
        (100 * GI, 16 * GI, 0),
        (100 * GI, 15 * GI, 5 * GI),
        (100 * GI, 5 * GI, 15 * GI),
        (1000, 151, 49),
        (1000, 159, 41),
        (1000, 160, 0),
        (1000, 2000, 0),
    ],
)
def test_from_the_high_mark_to_the_low_one(capacity: int, available: int, freed: int) -> None:
    """Percent used is 100 minus a floor, so 84.9 % counts as 85; more available than there is counts as all."""
    unit = [image(f"i{number}", max(freed // 10, 1), detected=HOUR + number) for number in range(20)]
    _, result = carry_out(collect_images(unit, DEFAULTS, NOW, NOW, capacity, available))
    assert result.freed >= freed
    assert result.freed < freed + max(freed // 10, 1)
    assert result.error is None


@pytest.mark.parametrize(
    ("capacity", "available", "removed"),
    [
        (2**57, 2**56, []),
        (2**62, 2**61, ["old:space"]),
        (10 * GI, 2**64 - 1, ["old:space"]),
        (2**63, 2**63, ["old:space"]),
        (2**63 - 1, 2**63 - 1, ["old:space"]),
    ],
)
def test_sums_that_64_bits_do_not_hold(capacity: int, available: int, removed: list[str]) -> None:
    """From 93 PB on a hundredfold wraps, and upstream decides by what is left of it."""
    old = image("old", GI, detected=HOUR)
    assert carry_out(collect_images([old], DEFAULTS, NOW, NOW, capacity, available))[0] == removed


def test_never_used_ones_go_first_and_young_ones_stay() -> None:
    """a, b, c in this order; b is a minute old and passed over."""
    images = [
        image("c", 2 * GI, detected=3 * HOUR, used=2 * HOUR),
        image("a", GI, detected=HOUR),
        image("b", 3 * GI, detected=MINUTE),
    ]
    removed, result = carry_out(free_space(images, DEFAULTS, NOW, 5 * GI // 2))
    assert removed == ["a:space", "c:space"]
    assert (result.freed, result.passed_over, result.error) == (3 * GI, ("b",), None)


def test_the_order_is_by_last_use_then_by_detection_then_by_name() -> None:
    """The last key is ours: an order must not depend on the order of the input."""
    images = [
        image("recent", 1, detected=9 * HOUR, used=HOUR),
        image("old", 1, detected=3 * HOUR, used=2 * HOUR),
        image("unused", 1, detected=HOUR),
        image("older unused", 1, detected=2 * HOUR),
        image("also unused", 1, detected=HOUR),
    ]
    removed, _ = carry_out(free_space(reversed(images), DEFAULTS, NOW))
    assert [each.partition(":")[0] for each in removed] == ["older unused", "also unused", "unused", "old", "recent"]


def test_used_and_pinned_images_are_never_candidates() -> None:
    """Not even passed over; one that was in use this very moment is."""
    images = [
        image("used", 1, detected=HOUR, is_used=True),
        image("pinned", 1, detected=HOUR, is_pinned=True),
        image("just now", 1, detected=HOUR, used=0),
        image("free", 1, detected=HOUR),
    ]
    removed, result = carry_out(free_space(images, DEFAULTS, NOW))
    assert removed == ["free:space"]
    assert result.passed_over == ("just now",)


def test_too_little_freed_is_an_event_on_the_node() -> None:
    """With the texts since 1.35."""
    _, result = carry_out(collect_images([image("a", GI, detected=HOUR)], DEFAULTS, NOW, NOW, 100 * GI, 5 * GI))
    assert result.event == "FreeDiskSpaceFailed"
    assert result.error == (
        "Insufficient free disk space on the node's image filesystem (95% of 100.0 GiB used). "
        "Failed to free sufficient space by deleting unused images (freed 1073741824 bytes). "
        "Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
    )


@pytest.mark.parametrize(
    ("capacity", "text"),
    [
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (2**20, "1.0 MiB"),
        (5 * 2**20, "5.0 MiB"),
        (3 * 2**40, "3.0 TiB"),
        (2**51, "2048.0 TiB"),
    ],
)
def test_sizes_in_the_event(capacity: int, text: str) -> None:
    """One decimal, and nothing above tebibytes."""
    _, result = carry_out(collect_images([], DEFAULTS, NOW, NOW, capacity, 0))
    assert result.error is not None
    assert f"(100% of {text} used)" in result.error


@pytest.mark.parametrize("capacity", [None, 0])
def test_a_disk_without_a_size(capacity: int | None) -> None:
    """An event of its own, and nothing is removed."""
    removed, result = carry_out(collect_images([image("a", 1, detected=HOUR)], DEFAULTS, NOW, NOW, capacity, 5))
    assert (removed, result.event) == ([], "InvalidDiskCapacity")
    assert result.error == "invalid capacity 0 on image filesystem"


@pytest.mark.parametrize(("up_hours", "removed"), [(25, ["never:age", "long:age"]), (23, []), (24, [])])
def test_images_unused_for_too_long(up_hours: int, removed: list[str]) -> None:
    """Only once the collector itself has run for longer; never-used ones qualify at once, whatever their age."""
    policy = ImageCollection(maximum_age_ns=24 * HOUR)
    images = [
        image("never", 1, detected=SECOND_NS),
        image("long", 1, detected=90 * HOUR, used=25 * HOUR),
        image("lately", 1, detected=90 * HOUR, used=24 * HOUR),
    ]
    done, result = carry_out(collect_images(images, policy, NOW, NOW - up_hours * HOUR, 100, 90))
    assert (done, result) == (removed, Collected())


def test_a_failed_removal_for_age_ends_the_collection() -> None:
    """The text names the age; disk usage is not looked at."""
    policy = ImageCollection(maximum_age_ns=HOUR)
    images = [image("a", 1, detected=HOUR), image("b", 1, detected=HOUR + 1)]
    removed, result = carry_out(collect_images(images, policy, NOW, 0, 100, 0), failing={"a"})
    assert removed == ["b:age"]
    assert result == Collected(
        error="wanted to free images older than 1h0m0s, encountered errors in image deletion: a is busy"
    )


def test_failed_removals_for_space_are_collected() -> None:
    """The rest is still removed; equal errors are said once and several in brackets."""
    images = [image(name, 10, detected=HOUR + offset) for offset, name in enumerate("cba")]
    removed, result = carry_out(free_space(images, DEFAULTS, NOW, 25), failing={"a", "b"})
    assert removed == ["c:space"]
    assert (result.freed, result.passed_over) == (10, None)
    assert result.error == (
        "wanted to free 25 bytes, but freed 10 bytes space with errors in image deletion: [a is busy, b is busy]"
    )


def test_a_target_of_nothing_still_removes_one() -> None:
    """Upstream looks at what was freed only after a removal."""
    removed, _ = carry_out(free_space([image("a", 1, detected=HOUR), image("b", 1, detected=HOUR)], DEFAULTS, NOW, 0))
    assert len(removed) == 1


@pytest.mark.parametrize(
    ("high", "low", "objection"),
    [
        (85, 80, None),
        (80, 80, None),
        (100, 0, None),
        (-1, -1, "invalid HighThresholdPercent -1, must be in range [0-100]"),
        (101, 80, "invalid HighThresholdPercent 101, must be in range [0-100]"),
        (85, -1, "invalid LowThresholdPercent -1, must be in range [0-100]"),
        (80, 85, "LowThresholdPercent 85 can not be higher than HighThresholdPercent 80"),
    ],
)
def test_the_collectors_own_objections(high: int, low: int, objection: str | None) -> None:
    """Unlike the configuration's, they allow equal marks."""
    assert check_image_policy(ImageCollection(high, low)) == objection


def test_reasons_are_the_metrics_labels() -> None:
    """kubelet_image_garbage_collected_total{reason}."""
    assert [str(reason) for reason in RemovalReason] == ["age", "space"]


def test_what_is_remembered_of_images() -> None:
    """A new one is detected now, one in use was used now, size and pin are as listed, one that is gone is forgotten."""
    known = {
        "kept": image("kept", 5, detected=HOUR, used=MINUTE),
        "ended": image("ended", 5, detected=HOUR, used=HOUR, is_used=True),
        "gone": image("gone", 5, detected=HOUR),
    }
    present = [PresentImage("kept", 7), PresentImage("ended", 5, is_pinned=True), PresentImage("new", 1)]
    assert detect_images(known, present, {"new"}, NOW) == {
        "kept": image("kept", 7, detected=HOUR, used=MINUTE),
        "ended": image("ended", 5, detected=HOUR, used=HOUR, is_pinned=True),
        "new": image("new", 1, detected=0, used=0, is_used=True),
    }
    again = detect_images({}, [PresentImage("gone", 5)], (), NOW)
    assert again["gone"].first_detected_ns == NOW


@pytest.mark.parametrize(
    ("high", "oldest", "wanted"), [(100, 0, False), (100, HOUR, True), (99, 0, True), (0, 0, True)]
)
def test_whether_images_are_ever_collected_in_time(high: int, oldest: int, wanted: bool) -> None:
    assert is_collecting(ImageCollection(high, 0, maximum_age_ns=oldest)) is wanted
