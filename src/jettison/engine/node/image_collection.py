"""Which unused images go, in which order, and how many (spec §7.2, §7.3); dead containers have a module of their own.

Removing can fail, and what was freed decides what comes next. So image collection is a generator: it yields the
image to remove, is sent None for success or the reason of a failure, and returns the result. Its caller removes the
images; the rules stay here.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jettison.engine.node.facts import RemovalReason
from jettison.engine.numbers.durations import duration_text
from jettison.engine.numbers.quantity import wrapped
from jettison.values import frozen

if TYPE_CHECKING:
    from jettison.engine.config.policy import ImageCollection

UNLIMITED = 2**63 - 1


@frozen
class Image:
    """An image as the node remembers it. `is_used` covers exited containers and image volumes too."""

    id: str
    size: int
    first_detected_ns: int
    last_used_ns: int | None = None
    is_used: bool = False
    is_pinned: bool = False


class PresentImage(NamedTuple):
    """An image as its runtime lists it."""

    id: str
    size: int
    is_pinned: bool = False


def detect_images(
    known: Mapping[str, Image], present: Iterable[PresentImage], used: Container[str], now_ns: int
) -> dict[str, Image]:
    """What the node remembers once it has looked again: a new image is detected now, one in use was used now.

    An image that is gone is forgotten, so that one that comes back begins anew.
    """
    found = {}
    for each in present:
        before = known.get(each.id)
        is_used = each.id in used
        found[each.id] = Image(
            each.id,
            each.size,
            now_ns if before is None else before.first_detected_ns,
            now_ns if is_used else None if before is None else before.last_used_ns,
            is_used,
            each.is_pinned,
        )
    return found


def is_collecting(policy: ImageCollection) -> bool:
    """Whether the periodic collection can ever remove anything: a kubelet does not begin it otherwise."""
    return policy.high_percent < 100 or policy.maximum_age_ns > 0


@frozen
class Removal:
    """Remove this image now."""

    image: Image
    reason: RemovalReason


@frozen
class Collected:
    """What a collection came to. `freed` counts recorded sizes: layers shared with other images are counted too."""

    freed: int = 0
    error: str | None = None
    # Reason of the Warning event on the node; the error is its message.
    event: str | None = None
    # Candidates that were passed over; None when the collection did not get that far.
    passed_over: tuple[str, ...] | None = None


Collection = Generator[Removal, str | None, Collected]


def check_image_policy(policy: ImageCollection) -> str | None:
    """The collector's own objections; unlike the configuration's, they allow low and high to be equal."""
    for name, percent in (("High", policy.high_percent), ("Low", policy.low_percent)):
        if not 0 <= percent <= 100:
            return f"invalid {name}ThresholdPercent {percent}, must be in range [0-100]"
    if policy.low_percent > policy.high_percent:
        return (
            f"LowThresholdPercent {policy.low_percent} can not be higher than "
            f"HighThresholdPercent {policy.high_percent}"
        )
    return None


def collect_images(
    images: Iterable[Image],
    policy: ImageCollection,
    now_ns: int,
    began_ns: int,
    capacity: int | None,
    available: int | None,
) -> Collection:
    """The periodic collection: images unused for too long, then enough to come from the high mark to the low one."""
    candidates = _candidates(images)
    if policy.maximum_age_ns and now_ns - began_ns > policy.maximum_age_ns:
        candidates, errors = yield from _remove_old(candidates, policy.maximum_age_ns, now_ns)
        if errors:
            age = duration_text(policy.maximum_age_ns)
            said = f"wanted to free images older than {age}, encountered errors in image deletion: {_joined(errors)}"
            return Collected(error=said)
    size = wrapped(capacity or 0)
    free = min(wrapped(available or 0), size)
    if size == 0:
        return Collected(error="invalid capacity 0 on image filesystem", event="InvalidDiskCapacity")
    used_percent = 100 - _quotient(free * 100, size)
    if used_percent < policy.high_percent:
        return Collected()
    target = wrapped(_quotient(size * (100 - policy.low_percent), 100) - free)
    result = yield from _free(candidates, policy, now_ns, target)
    if result.error is not None or result.freed >= target:
        return result
    return Collected(
        result.freed, _insufficient(used_percent, size, result.freed), "FreeDiskSpaceFailed", result.passed_over
    )


def free_space(images: Iterable[Image], policy: ImageCollection, now_ns: int, target: int = UNLIMITED) -> Collection:
    """Free `target` bytes of unused images, or all of them: what a starved disk asks for.

    The minimum age protects even here, so that an image pulled a moment ago for a pod about to start stays.
    """
    return (yield from _free(_candidates(images), policy, now_ns, target))


def _candidates(images: Iterable[Image]) -> list[Image]:
    """Least recently used first; an image that was never used comes before all others."""
    return sorted(
        (image for image in images if not image.is_used and not image.is_pinned),
        key=lambda image: (
            image.last_used_ns is not None,
            image.last_used_ns or 0,
            image.first_detected_ns,
            image.id,
        ),
    )


def _remove_old(
    candidates: Sequence[Image], age_ns: int, now_ns: int
) -> Generator[Removal, str | None, tuple[list[Image], list[str]]]:
    left, errors = [], []
    for image in candidates:
        if image.last_used_ns is not None and now_ns - image.last_used_ns <= age_ns:
            left.append(image)
            continue
        failure = yield Removal(image, RemovalReason.AGE)
        if failure is not None:
            errors.append(failure)
            left.append(image)
    return left, errors


def _free(candidates: Sequence[Image], policy: ImageCollection, now_ns: int, target: int) -> Collection:
    freed, errors, passed_over = 0, [], []
    for image in candidates:
        is_in_use = image.last_used_ns is not None and image.last_used_ns >= now_ns
        if is_in_use or now_ns - image.first_detected_ns < policy.minimum_age_ns:
            passed_over.append(image.id)
            continue
        failure = yield Removal(image, RemovalReason.SPACE)
        if failure is not None:
            errors.append(failure)
            continue
        freed = wrapped(freed + image.size)
        if freed >= target:
            break
    if errors:
        said = f"wanted to free {target} bytes, but freed {freed} bytes space with errors in image deletion: "
        return Collected(freed, said + _joined(errors))
    return Collected(freed, passed_over=tuple(passed_over))


def _quotient(number: int, divisor: int) -> int:
    """As upstream divides: in 64 bits, which a hundred times a disk of 93 PB overflows, and towards zero."""
    number = wrapped(number)
    return number // divisor if (number < 0) == (divisor < 0) else -(-number // divisor)


def _joined(errors: Sequence[str]) -> str:
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def _insufficient(used_percent: int, size: int, freed: int) -> str:
    return (
        f"Insufficient free disk space on the node's image filesystem ({used_percent}% of {_size_text(size)} used). "
        f"Failed to free sufficient space by deleting unused images (freed {freed} bytes). "
        "Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
    )


def _size_text(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    number = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1024:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TiB"
