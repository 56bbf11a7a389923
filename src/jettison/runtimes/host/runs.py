"""The rules by which a container's record goes from one run to the next. Pure: records in, records out."""

from __future__ import annotations

from dataclasses import replace

from jettison import events
from jettison.runtimes.host.records import ContainerRecord, RunRecord
from jettison.runtimes.host.spec import ContainerSpec, RestartPolicy

SECOND_NS = 10**9

FIRST_BACK_OFF = 10
LONGEST_BACK_OFF = 300
FORGIVEN_NS = 600 * SECOND_NS
"""Whoever has run so long since its last start begins anew."""

UNKNOWN_EXIT = 137
START_ERROR = 128


def begun(record: ContainerRecord, now_ns: int) -> ContainerRecord:
    """The next run is about to start."""
    return ContainerRecord(
        record.name,
        "starting",
        record.run + 1,
        created_ns=now_ns,
        back_off=record.back_off,
        last=_last(record),
    )


def _last(record: ContainerRecord) -> RunRecord | None:
    """A start that came to nothing leaves a record that waits, and the run before that is still the last."""
    if record.state != "terminated":
        return record.last
    return RunRecord(record.run, record.exit_code, record.reason, record.message, record.started_ns, record.finished_ns)


def running(record: ContainerRecord, now_ns: int, *, is_started: bool) -> ContainerRecord:
    """Its program runs."""
    return replace(record, state="running", started_ns=now_ns, is_started=is_started)


def ended(record: ContainerRecord, now_ns: int, exit_code: int | None, *, oom_kills: int = 0) -> ContainerRecord:
    """Its main process is gone; an exit code of None means that nobody could see how."""
    if exit_code is None:
        reason = "ContainerStatusUnknown"
        message = "The container could not be located when the pod was terminated"
        return _terminated(record, now_ns, UNKNOWN_EXIT, reason, message)
    if exit_code != 0 and oom_kills:
        return _terminated(record, now_ns, exit_code, "OOMKilled")
    return _terminated(record, now_ns, exit_code, "Error" if exit_code else "Completed")


def found_again(record: ContainerRecord, now_ns: int, *, lives: bool, is_started: bool) -> ContainerRecord:
    """What the record of an agent that died comes to: SIGKILL may fall between the birth of a process and `running`."""
    if lives:
        return record if record.state == "running" else running(record, now_ns, is_started=is_started)
    if record.state == "starting" and record.pid is None:
        # Nothing foreign has run: the number of the run is free again.
        return replace(record, state="waiting", run=record.run - 1)
    return ended(record, now_ns, None) if record.state in ("starting", "running") else record


def not_started(record: ContainerRecord, now_ns: int, why: str) -> ContainerRecord:
    """There is no process, and why."""
    return _terminated(record, now_ns, START_ERROR, events.NOT_STARTED, why)


def _terminated(
    record: ContainerRecord, now_ns: int, exit_code: int, reason: str, message: str = ""
) -> ContainerRecord:
    return replace(
        record,
        state="terminated",
        pid=None,
        start_ticks=None,
        finished_ns=now_ns,
        exit_code=exit_code,
        reason=reason,
        message=message,
        back_off=_back_off(record, now_ns),
    )


def _back_off(record: ContainerRecord, now_ns: int) -> int:
    """0, 10, 20, 40 … 300 seconds. The first restart comes at once, as with the kubelet."""
    if record.run == 0 or now_ns - record.created_ns > FORGIVEN_NS:
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
    """When the next run may start. A clock that was set back does not keep anybody waiting."""
    finished_ns = record.finished_ns or 0
    return now_ns if now_ns < finished_ns else finished_ns + record.back_off * SECOND_NS
