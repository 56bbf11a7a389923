"""Usage curves as a scenario names them: a plain amount, or a map with a kind; measured ones from CSV or a recording.

Chance is of the pod: each kind may vary by a share (`jitter`), drawn once per pod from its own seed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from jettison.agent.agent import TapedLook
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import shortened
from jettison.manifests.files.plain_files import read_given
from jettison.runtimes.simulated.curves import Burst, Constant, Curve, Leak, Points, Ramp, Sawtooth, Scaled
from jettison.simulator.recordings import RecordingReader
from jettison.simulator.sections import Section

CurveMaker = Callable[[Random], Curve]
"""The curve of one pod, by its own chance."""

LARGEST_CSV = 64 * 2**20
_SECOND_NS = 10**9
_SHORTEST_CYCLE_NS = 10**6


def curve_of(section: Section, key: str) -> CurveMaker:
    """What stands under the key."""
    if not isinstance(section.anything(key), dict):
        amount = section.amount(key)
        return lambda _: Constant(amount)
    inner = section.section(key)
    assert inner is not None
    kind = inner.choice("kind", _KINDS, "constant")
    made = _KINDS[kind](inner)
    jitter = inner.fraction("jitter")
    inner.done()
    return _varied(made, jitter) if jitter else made


def _varied(made: CurveMaker, jitter: float) -> CurveMaker:
    """Larger or smaller by up to this share, as the pod's chance has it."""

    def vary(chance: Random) -> Curve:
        return Scaled(made(chance), round((1 + chance.uniform(-jitter, jitter)) * 10**6))

    return vary


def _cycle(section: Section, key: str) -> int:
    """The pieces of a curve with millions of cycles a second would never be at an end."""
    found = section.duration_ns(key, 60 * _SECOND_NS)
    if found < _SHORTEST_CYCLE_NS:
        raise section.wrong(key, "expected 1ms or more")
    return found


def _positive(section: Section, key: str, default: int) -> int:
    found = section.duration_ns(key, default)
    if found <= 0:
        raise section.wrong(key, "expected more than 0")
    return found


def _constant(section: Section) -> CurveMaker:
    amount = section.amount("amount")
    return lambda _: Constant(amount)


def _ramp(section: Section) -> CurveMaker:
    curve = Ramp(section.amount("from"), section.amount("to"), _positive(section, "over", 60 * _SECOND_NS))
    return lambda _: curve


def _leak(section: Section) -> CurveMaker:
    curve = Leak(section.amount("from"), section.amount("rate", 2**20), section.optional_amount("most"))
    return lambda _: curve


def _sawtooth(section: Section) -> CurveMaker:
    low, high = section.amount("low"), section.amount("high")
    period_ns = _cycle(section, "period")
    return lambda chance: Sawtooth(low, high, period_ns, chance.randrange(period_ns))


def _burst(section: Section) -> CurveMaker:
    base, peak = section.amount("base"), section.amount("peak")
    every_ns, for_ns = _cycle(section, "every"), _positive(section, "for", 5 * _SECOND_NS)
    if for_ns >= every_ns:
        raise section.wrong("for", "expected less than `every`")
    return lambda chance: Burst(base, peak, every_ns, for_ns, chance.randrange(every_ns))


def _csv(section: Section) -> CurveMaker:
    path = section.file.directory / section.name("file")
    column = section.text("column", "1")
    try:
        rows = list(csv.reader(io.StringIO(_text_of(path), newline="")))
    except (InputError, csv.Error) as error:
        raise section.wrong("file", str(error)) from error
    if not rows or not rows[0]:
        raise section.wrong("file", f"{path}: is empty, expected lines of seconds and amounts")
    head = rows[0] if rows and not _is_number(rows[0][0]) else None
    index = _column(section, head, column)
    points: list[tuple[int, int]] = []
    for number, row in enumerate(rows[1:] if head else rows, 2 if head else 1):
        try:
            points.append((round(float(row[0]) * _SECOND_NS), int(row[index])))
        except (ValueError, IndexError, OverflowError) as error:
            line = shortened(",".join(row))
            raise section.wrong("file", f"{path}:{number}: `{line}`, expected seconds and whole numbers") from error
    return _points(section, "file", points)


def _column(section: Section, head: list[str] | None, column: str) -> int:
    if head is not None and column in head:
        return head.index(column)
    if column.isdigit() and int(column) > 0:
        return int(column)
    known = ", ".join(head or ["a number"])
    raise section.wrong("column", f"is `{shortened(column)}`, expected one of {shortened(known)}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_of(path: Path) -> str:
    try:
        return read_given(path, LARGEST_CSV).decode()
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 at byte {error.start}") from error


def _recording(section: Section) -> CurveMaker:
    """What a pod used while it was recorded, from its first look on."""
    path, name = section.file.directory / section.name("file"), section.name("pod")
    measure = section.choice("measure", ("memory", "disk", "processes"), "memory")
    points: list[tuple[int, int]] = []
    first_ns = None
    names = set()
    for entry in _looks(section, path):
        for pod in entry.snapshot.pods:
            names.add(str(pod))
            usage = entry.snapshot.usages.get(pod.uid)
            if name not in (pod.name, str(pod)) or usage is None:
                continue
            found = {"memory": usage.working_set, "disk": usage.ephemeral_storage_bytes, "processes": usage.processes}
            amount = found[measure]
            if amount is not None:
                first_ns = entry.at.monotonic_ns if first_ns is None else first_ns
                points.append((entry.at.monotonic_ns - first_ns, amount))
    if not points:
        raise section.wrong(
            "pod", f"`{shortened(name)}` is not in {path}, there are {shortened(', '.join(sorted(names)))}"
        )
    return _points(section, "file", points)


def _looks(section: Section, path: Path) -> Iterator[TapedLook]:
    try:
        yield from (entry for entry in RecordingReader(path).entries() if isinstance(entry, TapedLook))
    except InputError as error:
        raise section.wrong("file", str(error)) from error


def _listed(section: Section) -> CurveMaker:
    points = [(each.duration_ns("at"), each.amount("amount")) for each in section.sections("points")]
    return _points(section, "points", points)


def _points(section: Section, key: str, points: list[tuple[int, int]]) -> CurveMaker:
    kept = [point for index, point in enumerate(points) if index == 0 or point[0] != points[index - 1][0]]
    ages = [age for age, _ in kept]
    if not kept or ages != sorted(ages) or ages[0] < 0 or any(amount < 0 for _, amount in kept):
        raise section.wrong(key, "expected points in order of time, with amounts of at least 0")
    curve = Points(ages, [amount for _, amount in kept])
    return lambda _: curve


_KINDS: dict[str, Callable[[Section], CurveMaker]] = {
    "constant": _constant,
    "ramp": _ramp,
    "sawtooth": _sawtooth,
    "leak": _leak,
    "burst": _burst,
    "points": _listed,
    "csv": _csv,
    "recording": _recording,
}
