"""What a job's status may say, and what it may not take back. A check holds only where its fields have changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import validate_known_metadata_update
from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, invalid, required
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE
from jettison.engine.numbers.strconv import atoi, quote
from jettison.errors import InputError

Json = dict[str, Any]

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_FINAL: Final = ("Failed", "Complete", "FailureTarget")
_FINISHED: Final = ("Complete", "Failed")


def is_condition_true(status: Json, kind: str) -> bool:
    """Whether a job's status says so."""
    return any(each["type"] == kind and each["status"] == "True" for each in status.get("conditions") or ())


def _is_finished(status: Json) -> bool:
    return any(is_condition_true(status, kind) for kind in _FINISHED)


def count_indexes(text: str, completions: int) -> int:
    """How many indexes `0-2,5` names. Raises InputError."""
    total, last = 0, None
    for part in text.split(",") if text else ():
        first, end = _interval(part, completions)
        if last is not None and last >= first:
            raise InputError(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def _interval(text: str, completions: int) -> tuple[int, int]:
    parts = text.split("-")
    if len(parts) > 2:
        rule = "an index interval can have at most two parts separated by '-'"
        raise InputError(f"the fragment {quote(text)} violates the requirement that {rule}")
    numbers = []
    for part in parts:
        try:
            numbers.append(atoi(part))
        except InputError as error:
            raise InputError(f"cannot convert string to integer for index: {quote(part)}") from error
        if numbers[-1] >= completions:
            raise InputError(f"too large index: {quote(part)}")
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise InputError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _intervals(text: str, completions: int) -> Iterator[tuple[int, int]]:
    """Those that can be read; what is wrong with the others is said elsewhere."""
    for part in text.split(",") if text else ():
        try:
            yield _interval(part, completions)
        except InputError:
            continue


class _Change:
    """A job before and after a write of its status."""

    def __init__(self, new: Json, old: Json) -> None:
        self.spec: Json = new["spec"]
        self.new: Json = new["status"]
        self.old: Json = old["status"]
        self.is_finished = _is_finished(self.new)
        self.becomes_finished = self.is_finished != _is_finished(self.old)

    def has(self, kind: str) -> bool:
        return is_condition_true(self.new, kind)

    def had(self, kind: str) -> bool:
        return is_condition_true(self.old, kind)

    def changes(self, *kinds: str) -> bool:
        """Whether one of these conditions becomes true, or is no longer."""
        return any(self.has(kind) != self.had(kind) for kind in kinds)

    def differs(self, *keys: str) -> bool:
        return any(self.new.get(key) != self.old.get(key) for key in keys)


def validate_job_status(new: Json, old: Json) -> Iterator[Mistake]:
    """A changed one."""
    yield from validate_known_metadata_update(new["metadata"], old["metadata"])
    change = _Change(new, old)
    for key in _COUNTS:
        if change.new.get(key, 0) < 0:
            yield invalid(f"status.{key}", change.new[key], NOT_NEGATIVE)
    yield from _validate_uncounted(change.new.get("uncountedTerminatedPods") or {})
    yield from _validate_completion(change)
    yield from _validate_finished(change)
    yield from _validate_indexes(change)
    yield from _validate_criteria(change)
    yield from _validate_steps(change)


def _conditions(why: str) -> Mistake:
    return Mistake("status.conditions", "FieldValueInvalid", f"Invalid value: {why}")


def _validate_uncounted(uncounted: Json) -> Iterator[Mistake]:
    seen: set[str] = set()
    for key in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(key) or ()):
            where = f"status.uncountedTerminatedPods.{key}[{index}]"
            if not uid:
                yield invalid(where, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(where, uid)
            seen.add(uid)


def _validate_completion(change: _Change) -> Iterator[Mistake]:
    is_complete, moment = change.has("Complete"), change.new.get("completionTime")
    if change.changes("Complete", "Failed") and is_complete and change.has("Failed"):
        yield _conditions("cannot set Complete=True and Failed=true conditions")
    if change.changes("Complete", "FailureTarget") and is_complete and change.has("FailureTarget"):
        yield _conditions("cannot set Complete=True and FailureTarget=true conditions")
    if change.changes("Complete") or change.differs("completionTime"):
        if moment and not is_complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            yield invalid("status.completionTime", moment, why)
        if not moment and is_complete:
            yield required("status.completionTime", "completionTime is required for Complete jobs")
    start = change.new.get("startTime")
    if change.differs("startTime", "completionTime") and start and moment and moment < start:
        yield invalid("status.completionTime", moment, "must be equal to or after `startTime`")


def _validate_finished(change: _Change) -> Iterator[Mistake]:
    status, spec = change.new, change.spec
    becomes_failed = change.changes("Failed") or change.differs("failedIndexes")
    if becomes_failed and change.has("Failed") and not change.has("FailureTarget"):
        yield _conditions("cannot set Failed=True condition without the FailureTarget=true condition")
    becomes_complete = change.changes("Complete", "SuccessCriteriaMet")
    if becomes_complete and change.has("Complete") and not change.has("SuccessCriteriaMet"):
        yield _conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if not change.is_finished:
        return
    if (change.becomes_finished or change.differs("active")) and status.get("active", 0) > 0:
        yield invalid("status.active", status["active"], "active>0 is invalid for finished job")
    is_empty = spec.get("suspend") is True and spec.get("completions") == 0
    if (change.becomes_finished or change.differs("startTime")) and not is_empty and not status.get("startTime"):
        yield required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if (change.becomes_finished or change.differs("uncountedTerminatedPods")) and any(uncounted.values()):
        shown = {key.capitalize(): uncounted.get(key) for key in ("succeeded", "failed")}
        yield invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job")


def _validate_indexes(change: _Change) -> Iterator[Mistake]:
    status, spec = change.new, change.spec
    completions, completed, failed = (
        spec.get("completions"),
        status.get("completedIndexes", ""),
        status.get("failedIndexes"),
    )
    if change.differs("completedIndexes") and completions is not None:
        yield from _validate_format("completedIndexes", completed, completions)
    if change.differs("failedIndexes") and completions is not None and "backoffLimitPerIndex" in spec:
        yield from _validate_format("failedIndexes", failed or "", completions)
    if change.differs("completedIndexes") and completed and spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", completed, why)
    if change.differs("failedIndexes") and "backoffLimitPerIndex" not in spec and failed is not None:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, why)
    if change.differs("failedIndexes", "completedIndexes") and completions is not None and failed is not None:
        others = list(_intervals(completed, completions))
        overlaps = (
            max(first, start)
            for first, end in _intervals(failed, completions)
            for start, stop in others
            if start <= end and first <= stop
        )
        if (index := min(overlaps, default=None)) is not None:
            why = f"failedIndexes and completedIndexes overlap at index: {index}"
            yield invalid("status.failedIndexes", failed, why)


def _validate_format(key: str, text: str, completions: int) -> Iterator[Mistake]:
    try:
        count_indexes(text, completions)
    except InputError as error:
        yield invalid(f"status.{key}", text, f"error parsing {key}: {error}")


def _validate_criteria(change: _Change) -> Iterator[Mistake]:
    status = change.new
    terminating, ready = status.get("terminating", 0), status.get("ready")
    if (change.becomes_finished or change.differs("terminating")) and change.is_finished and terminating > 0:
        yield invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")
    if change.differs("ready", "active") and ready is not None and ready > status.get("active", 0):
        yield invalid("status.ready", ready, "cannot set more ready pods than active")
    if change.has("SuccessCriteriaMet"):
        if change.has("Failed"):
            yield _conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
        if change.has("FailureTarget"):
            yield _conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    elif change.spec.get("successPolicy") is not None and change.has("Complete"):
        yield _conditions("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _validate_steps(change: _Change) -> Iterator[Mistake]:
    """What is never taken back."""
    new, old, spec = change.new, change.old, change.spec
    for kind in _FINAL:
        if change.had(kind) and not change.has(kind):
            yield _conditions(f"cannot disable the terminal {kind}=True condition")
    if new.get("failed", 0) < old.get("failed", 0):
        yield invalid("status.failed", new.get("failed", 0), "cannot decrease the failed counter")
    is_scaled = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if new.get("succeeded", 0) < old.get("succeeded", 0) and not is_scaled:
        yield invalid("status.succeeded", new.get("succeeded", 0), "cannot decrease the succeeded counter")
    if new.get("completionTime") and old.get("completionTime") and change.differs("completionTime"):
        yield invalid("status.completionTime", new["completionTime"], "field is immutable")
    is_resumed = change.had("Suspended") and any(
        each["type"] == "Suspended" and each["status"] == "False" for each in new.get("conditions") or ()
    )
    if change.differs("startTime") and old.get("startTime") and not is_resumed and not spec.get("suspend"):
        yield invalid("status.startTime", new.get("startTime"), "field is immutable for unsuspended job once set")
    if change.had("SuccessCriteriaMet") and not change.has("SuccessCriteriaMet"):
        yield _conditions("cannot disable the SuccessCriteriaMet=True condition")
    if change.had("Complete") and not change.had("SuccessCriteriaMet") and change.has("SuccessCriteriaMet"):
        yield _conditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
