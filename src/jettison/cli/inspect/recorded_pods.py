"""The pods of a node: as its agent tells them, or from the records that it left when it is down.

Only the agent may change records, so an odd record is skipped here and left for the agent to report. For a container
with a process on record, this module looks up whether the process is alive: while no agent runs, nothing records that
it ended, or that its program started.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jettison.agent.http.pod_statuses import pod_list
from jettison.agent.pods.readmission import prospect_text
from jettison.agent.pods.sources import ORIGIN
from jettison.cli.inspect.watched_node import WatchedNode
from jettison.clock import Instant, SystemClock
from jettison.engine.lifecycle.events import Found, FoundContainer
from jettison.engine.lifecycle.life import advance
from jettison.engine.lifecycle.state import PodLife, Verdict
from jettison.errors import InputError, ManifestError, ObservationError
from jettison.manifests.files.decoding import bounded, decode
from jettison.manifests.files.plain_files import LARGEST_STATE, read_plain
from jettison.manifests.pods import pod_from
from jettison.runtimes.host.pods import reports
from jettison.runtimes.host.pods.records import ContainerRecord, PodRecord, life_of
from jettison.runtimes.host.settings import checked_uid
from jettison.runtimes.host.specs.spec import ImageOffer, Refusal, read_spec
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.proc import boot_id
from jettison.runtimes.linux.processes import read_process
from jettison.runtimes.protocol import PodManifest, PodStatus
from jettison.values import frozen

_DECODER = msgspec.json.Decoder(PodRecord)


def read_records(directory: Path) -> list[PodRecord]:
    """All that can be understood, oldest first."""
    try:
        paths = [path for path in directory.iterdir() if path.suffix == ".json"]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ObservationError(f"cannot read `{directory}`: {reason(error)}") from error
    found = (_read(path) for path in paths)
    return sorted((each for each in found if each is not None), key=lambda each: (each.created_ns, each.uid))


def read_record(directory: Path, uid: str) -> PodRecord | None:
    """Of one pod; None when there is none (any more)."""
    return _read(directory / f"{checked_uid(uid)}.json")


def recorded_statuses(directory: Path) -> Iterator[PodStatus]:
    """As the agent would tell them."""
    for record in read_records(directory):
        try:
            yield recorded_status(record)
        except ManifestError:
            continue


def prospect(record: PodRecord, *, readmits: bool) -> str:
    """When and how the pod comes back; empty for one that lives, or of which its owner in an API decides."""
    if record.verdict is None or ORIGIN not in ((record.document.get("metadata") or {}).get("annotations") or {}):
        return ""
    try:
        status = recorded_status(record)
    except ManifestError:
        return ""
    began_ns, ending = record.started_monotonic_ns, record.ending
    lasted_ns = 0 if began_ns is None or ending is None else max(ending.began_monotonic_ns - began_ns, 0)
    return prospect_text(status, readmits=readmits, lasted_ns=lasted_ns)


def recorded_status(record: PodRecord) -> PodStatus:
    """As the agent would tell it; ready is what runs and has no probe that would have to be asked."""
    document = record.document
    manifest = PodManifest(pod_from(document, record.uid), document, record.origin)
    if record.verdict is not None and not record.containers:
        return _without_containers(manifest, record.verdict)
    spec = read_spec(manifest, ImageOffer(allows_privileged=True) if record.is_boxed else None)
    if isinstance(spec, Refusal):
        return reports.pod_status(manifest, life_of(record, manifest.pod, spec.spec, spec.trouble))
    return reports.pod_status(manifest, _after_the_agent(record, life_of(record, manifest.pod, spec)))


def _without_containers(manifest: PodManifest, verdict: Verdict) -> PodStatus:
    return PodStatus(manifest.pod, verdict.phase, verdict.reason, verdict.message, document=manifest.document)


def _after_the_agent(record: PodRecord, before: PodLife) -> PodLife:
    """What the next agent would make of it, but for what that one would do."""
    is_same_boot = record.boot_id == boot_id()
    lives = {each.name: is_same_boot and _lives(each) for each in record.containers}
    born = {each.name for each in record.containers if each.identity is not None}
    found = tuple(
        FoundContainer(each.name, lives.get(each.name, False), each.name in born, has_remains=False)
        for each in before.containers
    )
    life, _ = advance(before, Found(Instant.of(SystemClock()), found))
    # Without a back-off for what ended meanwhile: no agent is there to start it again.
    ended = {each.name for each in before.containers if each.state != "terminated"}
    containers = (
        each._replace(back_off=0) if each.state == "terminated" and each.name in ended else each
        for each in life.containers
    )
    # Nor does the passing of time end what runs.
    return life._replace(containers=tuple(containers), ending=before.ending, verdict=before.verdict)


def _lives(container: ContainerRecord) -> bool:
    if container.pid is None or container.start_ticks is None:
        return False
    process = read_process(container.pid)
    return process is not None and process.start_ticks == container.start_ticks and not process.is_zombie


def _read(path: Path) -> PodRecord | None:
    """A record is appended to the file as a line; the last whole one counts, and half of one may be behind it."""
    try:
        lines = read_plain(path, LARGEST_STATE).rstrip(b"\n").split(b"\n")
    except (FileNotFoundError, ManifestError):
        return None
    except OSError as error:
        raise ObservationError(f"cannot read `{path}`: {reason(error)}") from error
    return next((record for line in reversed(lines) if (record := _decode(line)) is not None), None)


def _decode(line: bytes) -> PodRecord | None:
    try:
        record = decode(_DECODER, bounded(line, "record"), "record")
        checked_uid(record.uid)
    except InputError:
        return None
    return record


Document = dict[str, Any]


@frozen
class KnownPods:
    """Sorted by namespace and name. `note` says so when the agent did not answer."""

    items: list[Document]
    note: str = ""


def known_pods(node: WatchedNode) -> KnownPods:
    """All of them, ended ones included."""
    try:
        return KnownPods(_sorted(node.ask("/pods")["items"]))
    except ObservationError as failure:
        # Through JSON and back, so that it is in every respect what the agent would have sent.
        recorded = msgspec.json.decode(msgspec.json.encode(pod_list(recorded_statuses(node.records))))
        return KnownPods(_sorted(recorded["items"]), f"{failure}: this is what its records say")


def _sorted(items: list[Document]) -> list[Document]:
    return sorted(items, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))
