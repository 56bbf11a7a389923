"""The rules by which a container's record goes from one run to the next. Pure: records in, records out."""

from __future__ import annotations

from dataclasses import replace

from jettison import events
from jettison.clock import Instant
from jettison.runtimes.host.pods.records import ContainerRecord, RunRecord
from jettison.runtimes.host.specs.spec import ContainerSpec, RestartPolicy

SECOND_NS = 10**9

FIRST_BACK_OFF = 10
LONGEST_BACK_OFF = 300
FORGIVEN_NS = 600 * SECOND_NS
"""Whoever has run so long since its last start begins anew."""

UNKNOWN_EXIT = 137
START_ERROR = 128


def begun(record: ContainerRecord, now: Instant) -> ContainerRecord:
    """The next run is about to start."""
    return ContainerRecord(
        record.name,
        "starting",
        record.run + 1,
        begun_monotonic_ns=now.monotonic_ns,
        back_off=record.back_off,
        last=_last(record),
    )


def _last(record: ContainerRecord) -> RunRecord | None:
    """A start that came to nothing leaves a record that waits, and the run before that is still the last."""
    if record.state != "terminated":
        return record.last
    return RunRecord(record.run, record.exit_code, record.reason, record.message, record.started_ns, record.finished_ns)


def running(record: ContainerRecord, now: Instant, *, is_started: bool) -> ContainerRecord:
    """Its program runs."""
    return replace(record, state="running", started_ns=now.wall_ns, is_started=is_started)


def ended(record: ContainerRecord, now: Instant, exit_code: int | None, *, oom_kills: int = 0) -> ContainerRecord:
    """Its main process is gone; an exit code of None means that nobody could see how."""
    if exit_code is None:
        reason = "ContainerStatusUnknown"
        message = "The container could not be located when the pod was terminated"
        return _terminated(record, now, UNKNOWN_EXIT, reason, message)
    if exit_code != 0 and oom_kills:
        return _terminated(record, now, exit_code, "OOMKilled")
    return _terminated(record, now, exit_code, "Error" if exit_code else "Completed")


def found_again(record: ContainerRecord, now: Instant, *, lives: bool, is_started: bool) -> ContainerRecord:
    """What the record of an agent that died comes to: SIGKILL may fall between the birth of a process and `running`."""
    if lives:
        return record if record.state == "running" else running(record, now, is_started=is_started)
    if record.state == "starting" and record.pid is None:
        # Nothing foreign has run: the number of the run is free again.
        return replace(record, state="waiting", run=record.run - 1)
    return ended(record, now, None) if record.state in ("starting", "running") else record


def not_started(record: ContainerRecord, now: Instant, why: str) -> ContainerRecord:
    """There is no process, and why."""
    return _terminated(record, now, START_ERROR, events.NOT_STARTED, why)


def _terminated(
    record: ContainerRecord, now: Instant, exit_code: int, reason: str, message: str = ""
) -> ContainerRecord:
    return replace(
        record,
        state="terminated",
        pid=None,
        start_ticks=None,
        finished_ns=now.wall_ns,
        ended_monotonic_ns=now.monotonic_ns,
        exit_code=exit_code,
        reason=reason,
        message=message,
        back_off=_back_off(record, now),
    )


def _back_off(record: ContainerRecord, now: Instant) -> int:
    """0, 10, 20, 40 … 300 seconds. The first restart comes at once, as with the kubelet."""
    begun_ns = record.begun_monotonic_ns
    if record.run == 0 or (begun_ns is not None and now.monotonic_ns - begun_ns > FORGIVEN_NS):
        return 0
    return min(2 * record.back_off, LONGEST_BACK_OFF) if record.back_off else FIRST_BACK_OFF


def is_to_restart(spec: ContainerSpec, record: ContainerRecord, policy: RestartPolicy) -> bool:
    """Whether a container that has ended is started again."""
    if spec.is_sidecar:
        return True
    if policy is RestartPolicy.NEVER:
        return False
    if record.is_doomed or record.exit_code != 0:
        return True
    return policy is RestartPolicy.ALWAYS and not spec.is_init


def due_ns(record: ContainerRecord, now_ns: int) -> int:
    """When the next run may start, on the monotonic clock. What ended at an unknown time waits for nothing."""
    ended_ns = record.ended_monotonic_ns
    return now_ns if ended_ns is None else ended_ns + record.back_off * SECOND_NS
