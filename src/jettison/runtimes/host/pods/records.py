"""What is remembered of a pod across the agent's own death: values that are written as JSON and read back.

The rule for all of them: a record says what may have been done, never more. It is written before a process is let go,
before a signal is sent and before anything is removed, so that its reader knows at least as much as the agent that
died.

A record is a pod's life (`engine.lifecycle.state`) with what only this host knows of it: the document, the boot, and
the main process of each container. Times ending in `monotonic_ns` count from the boot that the pod's record names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Protocol, cast

import msgspec
from msgspec import Meta, Raw

from jettison.clock import Instant
from jettison.engine.lifecycle.rules import PAUSES, ContainerRules, Pauses, PodRules, every_container
from jettison.engine.lifecycle.state import ContainerLife, Ending, FinishedRun, PodLife, RunState, Trouble, Verdict
from jettison.engine.pods.pod import Pod
from jettison.errors import ManifestError
from jettison.runtimes.containers import BOX_ID
from jettison.runtimes.host.processes.processes import Identity
from jettison.runtimes.machine.order_records import OrderRecord
from jettison.values import frozen

# The numbers of a record are acted on, and a damaged one must be recognised as such: a signal to process -1 would go to
# every process of the machine.
_Pid = Annotated[int, Meta(ge=1, le=2**22)]
_Count = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
_Code = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_Number = Annotated[int, Meta(ge=-(2**62), le=2**62)]

# From so many bytes on a document is kept as text, and from so many containers on what was said of each.
_LARGE, _FEW = 16_384, 4


@frozen
class RunRecord:
    """A run that is over."""

    run: _Count
    exit_code: _Code | None
    reason: str = ""
    message: str = ""
    started_ns: _Number | None = None
    finished_ns: _Number | None = None


@frozen
class BoxRecord:
    """A container of a container runtime, by the name that it has there."""

    id: Annotated[str, Meta(pattern=rf"^{BOX_ID}\Z")]
    stop_signal: Annotated[int, Meta(ge=1, le=64)] = 15
    # What its cgroup is called inside the pod's; empty in records of before, where it was the id.
    cgroup: Annotated[str, Meta(pattern="^([A-Za-z0-9][A-Za-z0-9._-]{0,191})?$")] = ""


@frozen
class ContainerRecord:
    """One container and its latest run. While `starting` there may be a process anywhere between fork and exec."""

    name: str
    state: RunState = "waiting"
    # Counted from 0, so also the number of restarts. -1: never started.
    run: _Count = -1
    pid: _Pid | None = None
    start_ticks: _Number | None = None
    # When this run was begun, and when it ended.
    begun_monotonic_ns: _Number | None = None
    ended_monotonic_ns: _Number | None = None
    started_ns: _Number | None = None
    finished_ns: _Number | None = None
    exit_code: _Code | None = None
    reason: str = ""
    message: str = ""
    # Seconds between `finished_ns` and the next start.
    back_off: _Count = 0
    # Its startup probe has succeeded, or there is none.
    is_started: bool = False
    # Killed in order to be started again, whatever its exit code is: a probe failed.
    is_doomed: bool = False
    # When it was sent SIGTERM; written after the signal.
    told_monotonic_ns: _Number | None = None
    # The run before this one. None for most of all containers, and in what was written before this was.
    last: RunRecord | None = None
    # Until when it may take its time. None in what an older version has written.
    until_monotonic_ns: _Number | None = None
    # None for a process of this host.
    box: BoxRecord | None = None

    @property
    def identity(self) -> Identity | None:
        """Of its main process."""
        return None if self.pid is None or self.start_ticks is None else (self.pid, self.start_ticks)


@frozen
class EndingRecord:
    """The pod is on its way out: evicted when there is an order, of its own accord when not."""

    grace_seconds: _Number
    # 0 in what an older version of this program has written.
    began_monotonic_ns: _Number = 0
    until_monotonic_ns: _Number = 0
    order: OrderRecord | None = None
    # Not all that there is to say about this eviction is in the journal yet.
    is_untold: bool = False
    is_at_once: bool = False
    # It was active for longer than its document allows.
    is_overdue: bool = False
    # Its regular containers have ended for good.
    is_natural: bool = False


@frozen
class PodRecord:
    """Everything about a pod that is not written elsewhere."""

    uid: str
    document: Mapping[str, Any]
    origin: str = ""
    # Process ids and instants of birth begin anew with every boot.
    boot_id: str = ""
    created_ns: _Number = 0
    started_ns: _Number | None = None
    started_monotonic_ns: _Number | None = None
    containers: tuple[ContainerRecord, ...] = ()
    # All init containers have done their work once; it is not repeated.
    is_initialized: bool = False
    # Once it has ended and is cleaned up, it is forgotten.
    is_unwanted: bool = False
    ending: EndingRecord | None = None
    verdict: Verdict | None = None
    is_cleaned: bool = False
    # It runs in containers of a container runtime, and not as processes of this host.
    is_boxed: bool = False
    # In a network of its own.
    addresses: tuple[str, ...] = ()


class Held(Protocol):
    """A container of this host, as far as a record speaks of it."""

    @property
    def identity(self) -> Identity | None:
        """Of its main process."""

    @property
    def box(self) -> BoxRecord | None:
        """As a container runtime knows it."""


class PodRecorder:
    """Makes the records of one pod, which can only be written. Of 32 containers an event changes a few: what was said
    of the others is kept as text, and so is a large document. To make and encode all of it took 0.2 ms with each event.
    """

    __slots__ = ("_document", "_kept", "_kept_ending", "first")

    def __init__(self, first: PodRecord) -> None:
        # The parts that the life does not know.
        self.first = first
        self._document = _written_once(first.document)
        self._kept: dict[str, tuple[ContainerLife, Identity | None, BoxRecord | None, Raw]] = {}
        self._kept_ending: tuple[Ending, Raw] | None = None

    def change(self, *, document: Mapping[str, Any] | None = None, is_boxed: bool | None = None) -> None:
        """What is given."""
        if document is not None:
            self.first = replace(self.first, document=document)
            self._document = _written_once(document)
        if is_boxed is not None:
            self.first = replace(self.first, is_boxed=is_boxed)

    def record(self, life: PodLife, held: Mapping[str, Held], addresses: tuple[str, ...] = ()) -> PodRecord:
        """Of this life. `held` is what runs, by container. Raises ManifestError."""
        first = self.first
        return PodRecord(
            first.uid,
            self._document,
            first.origin,
            first.boot_id,
            first.created_ns,
            life.started_ns,
            life.started_monotonic_ns,
            cast("tuple[ContainerRecord, ...]", tuple(self._containers(life, held))),
            life.is_initialized,
            life.is_unwanted,
            None if life.ending is None else self._ending(life.ending),
            life.verdict,
            life.is_cleaned,
            first.is_boxed,
            addresses,
        )

    def _containers(self, life: PodLife, held: Mapping[str, Held]) -> list[ContainerRecord | Raw]:
        # A pod of few containers has little to be spared, and an idle one keeps no text.
        if len(life.containers) <= _FEW:
            return [_container_record(each, held.get(each.name)) for each in life.containers]
        texts = list[ContainerRecord | Raw]()
        for each in life.containers:
            one, known = held.get(each.name), self._kept.get(each.name)
            identity, box = (None, None) if one is None else (one.identity, one.box)
            if known is None or known[0] is not each or known[1] is not identity or known[2] is not box:
                text = Raw(encode(_container_record(each, one), self.first.uid))
                known = self._kept[each.name] = (each, identity, box, text)
            texts.append(known[3])
        return texts

    def _ending(self, ending: Ending) -> EndingRecord:
        if self._kept_ending is None or self._kept_ending[0] is not ending:
            self._kept_ending = ending, Raw(encode(_ending_record(ending), self.first.uid))
        return cast("EndingRecord", self._kept_ending[1])


def encode(value: object, uid: str) -> bytes:
    """A record of this pod, or a part of it, as JSON. Raises ManifestError."""
    try:
        return msgspec.json.encode(value)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ManifestError(f"pod `{uid}` cannot be written as JSON: {error}") from error


def _written_once(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A large one as the text that is written: to encode 256 KiB takes 0.1 ms."""
    try:
        text = msgspec.json.encode(document)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return document  # what writes it says so
    return document if len(text) < _LARGE else cast("Mapping[str, Any]", Raw(text))


def life_of(
    record: PodRecord, pod: Pod, rules: PodRules, trouble: Trouble | None = None, pauses: Pauses = PAUSES
) -> PodLife:
    """The life that the record speaks of. What of it still exists is to be found out."""
    # A pod that is refused has no containers; what it had under an older version of this program is removed.
    known = {} if trouble is not None else {each.name: each for each in record.containers}
    return PodLife(
        pod,
        rules,
        tuple(_container_life(each, known.get(each.name)) for each in every_container(rules)),
        record.started_ns,
        record.started_monotonic_ns,
        record.is_initialized,
        record.is_unwanted,
        None if record.ending is None else _ending(record.ending, pod),
        record.verdict,
        record.is_cleaned,
        trouble=trouble,
        pauses=pauses,
    )


def _container_life(rules: ContainerRules, record: ContainerRecord | None) -> ContainerLife:
    if record is None:
        return ContainerLife(rules)
    last = record.last
    return ContainerLife(
        rules,
        record.state,
        record.run,
        record.begun_monotonic_ns,
        record.ended_monotonic_ns,
        record.started_ns,
        record.finished_ns,
        record.exit_code,
        record.reason,
        record.message,
        record.back_off,
        record.is_started,
        record.is_doomed,
        record.told_monotonic_ns,
        record.until_monotonic_ns,
        None
        if last is None
        else FinishedRun(last.run, last.exit_code, last.reason, last.message, last.started_ns, last.finished_ns),
    )


def _ending(record: EndingRecord, pod: Pod) -> Ending:
    return Ending(
        record.grace_seconds,
        record.began_monotonic_ns,
        record.until_monotonic_ns,
        None if record.order is None else record.order.eviction(pod, is_at_once=record.is_at_once),
        record.began_monotonic_ns,
        record.is_untold,
        record.is_at_once,
        record.is_overdue,
        record.is_natural,
    )


def _container_record(life: ContainerLife, held: Held | None) -> ContainerRecord:
    identity, box = (None, None) if held is None or life.state == "terminated" else (held.identity, held.box)
    pid, start_ticks = (None, None) if identity is None else identity
    last = life.last
    return ContainerRecord(
        life.name,
        life.state,
        life.run,
        pid,
        start_ticks,
        life.begun_monotonic_ns,
        life.ended_monotonic_ns,
        life.started_ns,
        life.finished_ns,
        life.exit_code,
        life.reason,
        life.message,
        life.back_off,
        life.is_started,
        life.is_doomed,
        life.told_monotonic_ns,
        None
        if last is None
        else RunRecord(last.run, last.exit_code, last.reason, last.message, last.started_ns, last.finished_ns),
        life.until_monotonic_ns,
        box,
    )


def _ending_record(ending: Ending) -> EndingRecord:
    return EndingRecord(
        ending.grace_seconds,
        ending.began_monotonic_ns,
        ending.until_monotonic_ns,
        None if ending.order is None else OrderRecord.of(ending.order),
        ending.is_untold,
        ending.is_at_once,
        ending.is_overdue,
        ending.is_natural,
    )


def in_this_boot(record: PodRecord, boot: str, now: Instant) -> PodRecord:
    """The record with times that can be compared with ours.

    Within one boot they can be as they are. After another one, and where an older version of this program has written
    none, they follow from the wall clock, as far as that can be believed.
    """
    is_same = bool(boot) and record.boot_id == boot

    def since(wall_ns: int | None, monotonic_ns: int | None) -> int | None:
        if is_same and monotonic_ns is not None:
            return min(monotonic_ns, now.monotonic_ns)
        return None if wall_ns is None else now.monotonic_ns - now.age_ns(wall_ns, is_same_boot=is_same)

    ending = record.ending
    if ending is not None and not (is_same and ending.until_monotonic_ns):
        # Of what another boot has seen nothing has survived, and there is nothing to be waited for.
        until_ns = now.monotonic_ns + (ending.grace_seconds * 10**9 if is_same else 0)
        ending = replace(ending, began_monotonic_ns=now.monotonic_ns, until_monotonic_ns=until_ns)
    return replace(
        record,
        boot_id=boot,
        started_monotonic_ns=since(record.started_ns, record.started_monotonic_ns),
        containers=tuple(
            replace(
                each,
                begun_monotonic_ns=since(each.started_ns, each.begun_monotonic_ns),
                ended_monotonic_ns=since(each.finished_ns, each.ended_monotonic_ns),
            )
            for each in record.containers
        ),
        ending=ending,
    )
